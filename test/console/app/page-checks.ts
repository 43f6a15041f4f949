/** Reads from a page what its users perceive: accessibility, drawn plots, overflow, focus order and performance. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import type { Locator, Page } from "playwright-core";

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const axeOptions = {
  runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
  resultTypes: ["violations"],
};

/** The violations that axe finds now, one line for each element. */
export async function axeViolations(page: Page): Promise<string[]> {
  // The content security policy blocks scripts in tags, but not code that the debugger runs.
  await page.evaluate(`globalThis.axe ?? (() => { ${axeSource} })()`);
  const { violations } = await page.evaluate<AxeResults>(`axe.run(document, ${JSON.stringify(axeOptions)})`);
  return violations.flatMap(({ id, impact, nodes }) =>
    nodes.map(
      ({ target, failureSummary }) => `${id} (${impact ?? "unrated"}) ${target.join(" ")}: ${failureSummary ?? ""}`,
    ),
  );
}

/** The number of colors of a canvas, at most 16. A blank canvas has one color, which may be transparent. */
export const colorsOf = (canvas: Locator): Promise<number> =>
  canvas.evaluate((element) => {
    const { width, height } = element;
    const { data } = element.getContext("2d").getImageData(0, 0, width, height);
    const colors = new Set<number>();
    for (const color of new Uint32Array(data.buffer)) {
      colors.add(color);
      if (colors.size === 16) break;
    }
    return colors.size;
  });

/** The number of pixels by which the page is wider than its viewport, so that it scrolls sideways. */
export const horizontalOverflow = (page: Page): Promise<number> =>
  page.locator("html").evaluate((html) => html.scrollWidth - html.clientWidth);

/**
 * Presses Tab the given number of times, and returns the role and name of each element that gets the focus, such as
 * `link "Overview"`.
 */
export async function focusOrder(page: Page, steps: number): Promise<string[]> {
  const order: string[] = [];
  for (let step = 0; step < steps; step++) {
    // oxlint-disable no-await-in-loop -- each step starts where the previous one ended
    await page.keyboard.press("Tab");
    order.push(await focused(page));
    // oxlint-disable-end
  }
  return order;
}

/** Role and name of the focused element, such as `button "Sign in"`; empty if no element has the focus. */
export async function focused(page: Page): Promise<string> {
  const element = page.locator("*:focus");
  if ((await element.count()) === 0) return "";
  const [line = ""] = (await element.ariaSnapshot()).split("\n");
  // YAML puts a line in quotation marks if its name contains a colon.
  const [, described = ""] = /^- '?([\w-]+(?: "(?:[^"\\]|\\.)*")?(?: \[[^\]]*\])*)/.exec(line) ?? [];
  return described;
}

/** Totals since the page was loaded. */
export interface PagePerformance {
  /** The sum of all layout shifts that no input explains: https://web.dev/articles/cls */
  readonly layoutShift: number;
  /** The length of each task of more than 50 ms, in milliseconds. */
  readonly longTasks: readonly number[];
}

/** Call this before the page is loaded. */
export async function observePerformance(page: Page): Promise<() => Promise<PagePerformance>> {
  await page.addInitScript(`
    globalThis.observed = { layoutShift: 0, longTasks: [] };
    new PerformanceObserver((list) => {
      for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) observed.layoutShift += value;
    }).observe({ type: "layout-shift", buffered: true });
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) observed.longTasks.push(duration);
    }).observe({ type: "longtask", buffered: true });
  `);
  return () => page.evaluate<PagePerformance>("observed");
}

/** The JavaScript heap in use after a garbage collection, in bytes. */
export async function heapBytes(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  try {
    await session.send("HeapProfiler.collectGarbage");
    const { usedSize } = await session.send("Runtime.getHeapUsage");
    return usedSize;
  } finally {
    await session.detach();
  }
}
