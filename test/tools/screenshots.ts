/**
 * `npm run screenshots`: starts a local Worker with traffic, and takes a screenshot of every view of the console in the
 * light and the dark theme. --write also updates the screenshots in the documentation.
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import type { Browser, Page } from "playwright-core";
import { CommandError, parseCommandLine, runCommand } from "../../src/cli/command.ts";
import { hasBrowser, launchBrowser, openPage, screenshotFolder } from "../console/app/browser.ts";
import { type ConsoleWorker, startConsoleWorker, tokens } from "../console/app/console-worker.ts";
import { positiveInteger } from "./options.ts";
import { operatorChanges, sendTraffic, shopPolicies } from "./screenshots/demo.ts";

const documentationFolder = "docs/images";
const mostDocumentedBytes = 200_000;

const values = parseCommandLine({
  seconds: {
    type: "string",
    default: "180",
    value: "number",
    about: "How long the traffic lasts before the first screenshot.",
  },
  write: { type: "boolean", default: false, about: `Update ${documentationFolder}.` },
});

interface Shot {
  readonly name: string;
  /** Relative to the URL of the console. */
  readonly view: string;
  readonly width?: number;
  readonly height?: number;
  /** The summary of a disclosure element to open. */
  readonly disclosure?: string;
  readonly isDocumented?: boolean;
  /** Whether the page is open during the traffic, because it shows only what it has received live. */
  readonly isLive?: boolean;
}

interface OpenShot {
  readonly shot: Shot;
  readonly theme: Theme;
  readonly page: Page;
  readonly problems: readonly string[];
}

const themes = ["light", "dark"] as const;
type Theme = (typeof themes)[number];

const narrow = { width: 320, height: 720 };

const goal = "deny at most 1 key in 10";
const advisorView = `advisor?${new URLSearchParams({ policy: "api", goal }).toString()}`;

const shotsOf = (keyId: string): readonly Shot[] => [
  { name: "overview", view: "", isDocumented: true, isLive: true },
  // The preview image of the template, in the format of Cloudflare's gallery: 16:9.
  { name: "preview", view: "", height: 720, isDocumented: true, isLive: true },
  { name: "overview-narrow", view: "", ...narrow },
  { name: "keys", view: "keys?policy=login" },
  { name: "keys-narrow", view: "keys?policy=login", ...narrow },
  {
    name: "key",
    view: `keys?policy=login&id=${keyId}`,
    disclosure: "Show the arithmetic",
    isDocumented: true,
  },
  { name: "policies", view: "policies" },
  { name: "advisor", view: advisorView, height: 1_100, isDocumented: true },
  { name: "advisor-narrow", view: advisorView, ...narrow },
  { name: "live", view: "live", isLive: true },
  { name: "audit", view: "audit" },
  { name: "playground", view: "playground", height: 900, isDocumented: true },
];

await runCommand(takeScreenshots);

async function takeScreenshots(): Promise<void> {
  const seconds = positiveInteger("seconds", values.seconds, 3_600);
  if (!hasBrowser) throw new CommandError("expected chromium in PATH, or Linux on x64");
  const [worker, browser] = await Promise.all([startConsoleWorker({ policies: shopPolicies }), launchBrowser()]);
  let isOver = false;
  const traffic = sendTraffic(worker, () => isOver);
  try {
    await takeAll(browser, worker, seconds);
  } finally {
    isOver = true;
    await traffic;
    await Promise.all([browser.close(), worker.close()]);
  }
}

/** The operator's changes are spread over the time of the traffic, while a page shows the statistics. */
async function operate(worker: ConsoleWorker, seconds: number): Promise<void> {
  for (const change of operatorChanges) {
    // oxlint-disable no-await-in-loop
    await setTimeout((1_000 * seconds) / (operatorChanges.length + 1));
    await change(worker);
    // oxlint-enable no-await-in-loop
  }
  await setTimeout((1_000 * seconds) / (operatorChanges.length + 1));
}

async function takeAll(browser: Browser, worker: ConsoleWorker, seconds: number): Promise<void> {
  rmSync(screenshotFolder, { recursive: true, force: true });
  mkdirSync(screenshotFolder, { recursive: true });
  const open = (shot: Shot, theme: Theme): Promise<OpenShot> => openShot(browser, worker, shot, theme);
  const live = shotsOf("").filter(({ isLive = false }) => isLive);
  const opened = await Promise.all(live.flatMap((shot) => themes.map((theme) => open(shot, theme))));
  await operate(worker, seconds);
  for (const each of opened) await take(each);
  const { body } = await worker.api("GET", "/top?policy=login&by=denied");
  const [mostDenied] = (body as { keys: { id: string }[] }).keys;
  const others = shotsOf(mostDenied?.id ?? "").filter(({ isLive = false }) => !isLive);
  // Takes the pages one at a time, so that each page's plots get the processor.
  for (const shot of others) for (const theme of themes) await take(await open(shot, theme));
}

async function openShot(browser: Browser, { consoleUrl }: ConsoleWorker, shot: Shot, theme: Theme): Promise<OpenShot> {
  const { view, width = 1_280, height = 800 } = shot;
  const { page, problems } = await openPage(browser, { width, height, theme });
  await page.goto(new URL(`${view}#token=${tokens.operator}`, consoleUrl).href);
  return { shot, theme, page, problems };
}

async function take({ shot, theme, page, problems }: OpenShot): Promise<void> {
  const { name, disclosure, isDocumented = false } = shot;
  await untilComplete(page);
  if (disclosure !== undefined) await page.getByText(disclosure).click();
  const image = await page.screenshot({ animations: "disabled" });
  await page.context().close();
  if (problems.length > 0) throw new CommandError([name, ...problems].join("\n"));
  save(`console-${name}-${theme}.png`, image, isDocumented);
}

/** Waits until everything that the view reads has arrived. Statistics arrive every second. */
async function untilComplete(page: Page): Promise<void> {
  await page.getByRole("heading", { level: 1 }).waitFor();
  // oxlint-disable-next-line no-await-in-loop
  while ((await page.getByText(/^(?:Loading|Replaying the traffic) /).count()) > 0) await setTimeout(100);
  await setTimeout(3_000);
}

function save(name: string, image: Buffer, isDocumented: boolean): void {
  const files = [join(screenshotFolder, name)];
  if (values.write && isDocumented) {
    if (image.length > mostDocumentedBytes) {
      throw new CommandError(`${name}: expected at most ${mostDocumentedBytes} bytes, got ${image.length}`);
    }
    mkdirSync(documentationFolder, { recursive: true });
    files.push(join(documentationFolder, name));
  }
  for (const file of files) writeFileSync(file, image);
  console.log(`${files.join(", ")}  ${Math.round(image.length / 1_000)} kB`);
}
