/**
 * The fixture of tests in a browser: one local Worker and one browser for the tests of a file.
 *
 *     describe.skipIf(!hasBrowser)("keys in a browser", () => {
 *       const site = consoleSite();              // starts before the first test of the block, and ends after the last
 *       it("an operator finds a denied key", async () => {
 *         await site.worker.request("192.0.2.1", "/api/orders");              // traffic of a client address
 *         const page = await site.open("keys", { theme: "dark", width: 320 }); // signed in, inside the console
 *         await page.getByRole("heading", { name: "Keys" }).waitFor();
 *         expect(await axeViolations(page)).toEqual([]);
 *       });
 *     });
 *
 * `open` fails the test at its end if the page had an error in the console, an uncaught error, a violation of the
 * content security policy, a failed request, or a request to another host. The option `allowed` lists those problems
 * that the test provokes. Each `open` is a browser context with its own storage. Use different addresses in each test,
 * because the tests of a file share counters. Wait with `locator.waitFor()`, `page.waitForURL()` or `expect.poll()`.
 * `page-checks.ts` has checks of accessibility, plots, overflow, focus and performance. Screenshots of finished tests
 * are in `dist/screenshots/tests`.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { launchBrowser, openPage, type PageOptions, screenshotFolder } from "./browser.ts";
import { type ConsoleWorker, type ConsoleWorkerOptions, startConsoleWorker, tokens } from "./console-worker.ts";

export interface OpenOptions extends PageOptions {
  /** Null opens the page signed out. Default: the token of the operator with all rights. */
  readonly token?: string | null;
  /** Problems that the test provokes, such as `/status of 401/`. */
  readonly allowed?: readonly RegExp[];
}

export interface ConsoleSite {
  readonly browser: Browser;
  readonly worker: ConsoleWorker;
  /** Opens a view by its URL relative to the console's, such as `keys?policy=api`. */
  readonly open: (view?: string, options?: OpenOptions) => Promise<Page>;
}

export function consoleSite(workerOptions: ConsoleWorkerOptions = {}): ConsoleSite {
  let worker: ConsoleWorker;
  let browser: Browser;
  beforeAll(async () => {
    [worker, browser] = await Promise.all([startConsoleWorker(workerOptions), launchBrowser()]);
  });
  afterAll(async () => {
    await Promise.all([worker.close(), browser.close()]);
  });
  return {
    get browser() {
      return browser;
    },
    get worker() {
      return worker;
    },
    open: async (view = "", { token = tokens.operator, allowed = [], ...options } = {}) => {
      const page = await openTestPage(browser, options, allowed);
      const fragment = token === null ? "" : `#token=${token}`;
      await page.goto(new URL(view + fragment, worker.consoleUrl).href);
      return page;
    },
  };
}

/** At the end of the test, closes the page and fails on problems that are not allowed. */
async function openTestPage(browser: Browser, options: PageOptions, allowed: readonly RegExp[]): Promise<Page> {
  const { page, problems } = await openPage(browser, options);
  const title = expect.getState().currentTestName ?? "test";
  onTestFinished(async () => {
    await keepScreenshot(page, title);
    await page.context().close();
    const unexpected = problems.filter((text) => !allowed.some((pattern) => pattern.test(text)));
    expect(unexpected).toEqual([]);
  });
  return page;
}

async function keepScreenshot(page: Page, title: string): Promise<void> {
  if (page.isClosed()) return;
  const folder = join(screenshotFolder, "tests");
  mkdirSync(folder, { recursive: true });
  const name = title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  await page.screenshot({ path: join(folder, `${name.slice(0, 120)}.png`) });
}
