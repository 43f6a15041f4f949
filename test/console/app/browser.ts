/**
 * Chromium, and pages that record their problems: an error in the console, an uncaught error, a violation of the
 * content security policy, a failed request, or a request to another host.
 */
import { join } from "node:path";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { findChromium } from "./chromium.ts";

const found = findChromium();

/** Tests are skipped without Chromium: `describe.skipIf(!hasBrowser)`. */
export const hasBrowser = found !== null;

/**
 * Where tests keep a screenshot of each page in its last state, and `npm run screenshots` keeps its own. Git ignores
 * this folder.
 */
export const screenshotFolder = join(import.meta.dirname, "../../../dist/screenshots");

const flags = [
  "--no-sandbox",
  "--disable-dev-shm-usage",
  "--use-angle=swiftshader",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-default-apps",
  "--disable-domain-reliability",
  "--disable-sync",
  "--no-first-run",
  "--no-pings",
  // Requests to any other host fail, including those of the browser itself.
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost, EXCLUDE 127.0.0.1",
];

/** @throws Error without Chromium */
export async function launchBrowser(): Promise<Browser> {
  if (found === null) throw new Error("expected chromium in PATH, or Linux on x64 and the packages of test/tools");
  const { executablePath, env } = await found.program();
  return chromium.launch({ executablePath, args: flags, env: { ...process.env, ...env } });
}

export interface PageOptions {
  /** Default: 1280 px. */
  readonly width?: number;
  /** Default: 800 px. */
  readonly height?: number;
  readonly theme?: "light" | "dark";
  readonly reducedMotion?: boolean;
  readonly forcedColors?: boolean;
  /** Whether the device is a phone with a touch screen. */
  readonly isPhone?: boolean;
}

const patienceMs = 15_000;

/** Sets the locale, because `navigator.language` without LANG is `en-US@posix`, which `Intl` rejects. */
const contextOptions = (options: PageOptions): BrowserContextOptions => ({
  locale: "en-US",
  timezoneId: "UTC",
  viewport: { width: options.width ?? 1_280, height: options.height ?? 800 },
  colorScheme: options.theme ?? "light",
  reducedMotion: options.reducedMotion === true ? "reduce" : "no-preference",
  forcedColors: options.forcedColors === true ? "active" : "none",
  ...(options.isPhone === true && { hasTouch: true, isMobile: true }),
});

export interface OpenedPage {
  readonly page: Page;
  /** One line for each problem. Lines are added while the page is open. */
  readonly problems: readonly string[];
}

/** Opens an empty page in its own context, with an empty storage. */
export async function openPage(browser: Browser, options: PageOptions = {}): Promise<OpenedPage> {
  const context = await browser.newContext(contextOptions(options));
  const page = await context.newPage();
  page.setDefaultTimeout(patienceMs);
  return { page, problems: await watchProblems(page) };
}

async function watchProblems(page: Page): Promise<readonly string[]> {
  const problems: string[] = [];
  await page.exposeFunction("reportCspViolation", (text: string) =>
    problems.push(`violation of the content security policy: ${text}`),
  );
  await page.addInitScript(
    `addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI, sourceFile }) =>
      reportCspViolation(violatedDirective + " blocks " + blockedURI + " in " + sourceFile));`,
  );
  page.on("console", (message) => {
    const { url } = message.location();
    if (message.type() === "error") problems.push(`console: ${message.text()} (${url})`);
  });
  page.on("pageerror", (error) => problems.push(`uncaught: ${error.stack ?? error.message}`));
  page.on("request", (request) => {
    const { protocol, hostname } = new URL(request.url());
    const isLocal = hostname === "localhost" || hostname.endsWith(".localhost");
    if (/^(?:https?|wss?):$/.test(protocol) && !isLocal) problems.push(`request to another host: ${request.url()}`);
  });
  page.on("requestfailed", (request) => {
    const reason = request.failure()?.errorText ?? "";
    // The page itself aborts requests that it no longer needs.
    if (reason !== "net::ERR_ABORTED") problems.push(`failed: ${request.method()} ${request.url()} ${reason}`);
  });
  return problems;
}
