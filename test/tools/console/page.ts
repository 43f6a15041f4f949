/**
 * Pages of the console for measurements: signed in, each in its own browser, on a Worker with 50 policies under load.
 */
import { setTimeout } from "node:timers/promises";
import type { Browser, Page } from "playwright-core";
import { CommandError } from "../../../src/cli/command.ts";
import { openPage } from "../../console/app/browser.ts";
import { type ConsoleWorker, tokens } from "../../console/app/console-worker.ts";
import { observePerformance, type PagePerformance } from "../../console/app/page-checks.ts";

export const policyCount = 50;

export const manyPolicies: readonly object[] = Array.from({ length: policyCount }, (_, index) => ({
  name: `policy-${index}`,
  match: { path: `/${index}/*` },
  key: ["ip"],
  limits: "3/10s",
}));

/** The load: each policy decides about one request a second, and denies most requests. */
const everyMs = 20;
const clients = 10;

/** Sends requests to the policies in turn, until `isOver` returns true. */
export async function sendLoad({ request }: ConsoleWorker, isOver: () => boolean): Promise<void> {
  const startedMs = performance.now();
  for (let sent = 0; !isOver(); sent++) {
    const address = `192.0.2.${1 + (Math.floor(sent / policyCount) % clients)}`;
    // oxlint-disable no-await-in-loop -- one request at a time leaves the processor to the browser
    await request(address, `/${sent % policyCount}/items`);
    await setTimeout(Math.max(0, (sent + 1) * everyMs - (performance.now() - startedMs)));
    // oxlint-enable no-await-in-loop
  }
}

export interface MeasuredSite {
  readonly worker: ConsoleWorker;
  readonly browser: Browser;
}

/** A measured value and whether it meets its target. */
export interface Figure {
  readonly name: string;
  readonly text: string;
  readonly isMet: boolean;
}

export interface MeasuredPage {
  readonly page: Page;
  readonly performance: () => Promise<PagePerformance>;
  /** @throws CommandError when the page had a problem, which makes its figures invalid */
  readonly close: () => Promise<void>;
}

/**
 * Opens a view in a new browser context.
 * @param view relative to the URL of the console
 * @param script runs before the page's own scripts
 */
export async function openMeasured(
  { browser, worker: { consoleUrl } }: MeasuredSite,
  view: string,
  script = "",
): Promise<MeasuredPage> {
  const { page, problems } = await openPage(browser);
  const performance = await observePerformance(page);
  if (script !== "") await page.addInitScript(script);
  await page.goto(new URL(`${view}#token=${tokens.operator}`, consoleUrl).href);
  return {
    page,
    performance,
    close: async () => {
      await page.context().close();
      if (problems.length > 0) throw new CommandError([view, ...problems].join("\n"));
    },
  };
}

/** For example "2, longest 61 ms". */
export const tasksText = (longTasks: readonly number[]): string =>
  longTasks.length === 0 ? "none" : `${longTasks.length}, longest ${Math.max(...longTasks).toFixed(0)} ms`;

const patienceMs = 60_000;

/**
 * Resolves when the expression is true in the page. Playwright's own wait evaluates strings as code, which the page
 * forbids.
 */
export async function untilTrue(page: Page, expression: string): Promise<void> {
  const endMs = performance.now() + patienceMs;
  // oxlint-disable no-await-in-loop
  while (!(await page.evaluate<boolean>(expression))) {
    if (performance.now() > endMs) throw new CommandError(`${expression} did not become true`);
    await setTimeout(20);
  }
  // oxlint-enable no-await-in-loop
}
