/** The harness of tests in a browser finds each kind of problem in a page that has this problem. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasBrowser, launchBrowser, type OpenedPage, openPage } from "./browser.ts";
import {
  axeViolations,
  colorsOf,
  focusOrder,
  heapBytes,
  horizontalOverflow,
  observePerformance,
} from "./page-checks.ts";

const policy = "default-src 'none'; script-src 'self'; connect-src *; img-src data:";

/** Serves the text of the query as the page's body, or as a script. */
const server = createServer(({ url = "" }, response) => {
  const { pathname, searchParams } = new URL(url, "http://localhost");
  const isScript = pathname === "/script";
  response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
  response.setHeader("content-security-policy", policy);
  const text = searchParams.get("text") ?? "";
  const icon = `<link rel="icon" href="data:," />`;
  response.end(isScript ? text : `<!doctype html><html lang="en">${icon}<title>t</title>${text}`);
});

describe.skipIf(!hasBrowser)("pages in Chromium, skipped unless it is installed", () => {
  let browser: Browser;
  let origin = "";
  beforeAll(async () => {
    server.listen(0);
    origin = `http://localhost:${(server.address() as AddressInfo).port}`;
    browser = await launchBrowser();
  });
  afterAll(async () => {
    await browser.close();
    server.close();
  });

  const script = (text: string): string => `<script src="${origin}/script?text=${encodeURIComponent(text)}"></script>`;
  const open = async (body: string): Promise<OpenedPage> => {
    const opened = await openPage(browser, { width: 320 });
    await opened.page.goto(`${origin}/?text=${encodeURIComponent(body)}`);
    return opened;
  };

  it.each([
    ["an error in the console", script("console.error('broken')"), /^console: broken/],
    ["an uncaught error", script("throw new Error('broken')"), /^uncaught: Error: broken/],
    ["an inline script", "<script>document.title = 'x'</script>", /^violation .+ script-src-elem/],
    [
      "a request to another host",
      script("fetch('https://headgate.example/x').catch(() => {})"),
      /^request to another host: https:\/\/headgate\.example\/x/,
    ],
    [
      "a request that fails",
      script("fetch('http://localhost:1/').catch(() => {})"),
      /^failed: GET http:\/\/localhost:1\//,
    ],
  ])("the harness reports %s as a problem of the page", async (_, body, problem) => {
    const { page, problems } = await open(body);
    await expect.poll(() => problems.join("\n")).toMatch(new RegExp(problem, "m"));
    await page.context().close();
  });

  it("a page without faults has no problems, no violations and no overflow, and its language is English", async () => {
    const body = "<main><h1>Title</h1><button>Go</button></main>";
    const { page, problems } = await open(body);
    expect(await axeViolations(page)).toEqual([]);
    expect(await horizontalOverflow(page)).toBe(0);
    expect(await page.evaluate("navigator.language")).toBe("en-US");
    // Without fonts, text has no width.
    const box = await page.getByRole("heading").boundingBox();
    expect(box?.height).toBeGreaterThan(10);
    expect(await page.getByText("Go").isVisible()).toBe(true);
    expect(problems).toEqual([]);
    await page.context().close();
  });

  it("axe reports an image without a text alternative, and a wide element overflows a narrow page", async () => {
    const { page } = await open(`<main><h1>Title</h1><img width="500"></main>`);
    expect((await axeViolations(page)).join("\n")).toMatch(/^image-alt \(critical\) img/m);
    expect(await horizontalOverflow(page)).toBeGreaterThan(100);
    await page.context().close();
  });

  it("a canvas with a line has more colors than a blank one", async () => {
    const draw = script(`document.querySelector("#drawn").getContext("2d").fillRect(9, 9, 9, 9)`);
    const { page } = await open(`<canvas id="drawn"></canvas><canvas id="blank"></canvas>${draw}`);
    expect(await colorsOf(page.locator("#drawn"))).toBe(2);
    expect(await colorsOf(page.locator("#blank"))).toBe(1);
    await page.context().close();
  });

  it("the focus order names each element, and the measured performance includes layout shifts, long tasks and memory", async () => {
    const { page } = await openPage(browser);
    const performance = await observePerformance(page);
    const body = `<p></p><a href="#x">Link</a><input aria-label="Name"><button>Go</button>`;
    await page.goto(`${origin}/?text=${encodeURIComponent(body)}`);
    const before = await heapBytes(page);
    // Only elements that were already drawn can shift.
    await page.evaluate(`new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))`);
    await page.evaluate(`void setTimeout(() => {
      for (const end = Date.now() + 120; Date.now() < end; );
      globalThis.kept = new Array(2e6).fill(0.5);
      document.querySelector("p").style.height = "400px";
    })`);
    await expect.poll(async () => (await performance()).layoutShift).toBeGreaterThan(0);
    await expect.poll(async () => (await performance()).longTasks.length).toBeGreaterThan(0);
    expect((await heapBytes(page)) - before).toBeGreaterThan(8_000_000);
    expect(await focusOrder(page, 3)).toEqual(['link "Link"', 'textbox "Name"', 'button "Go"']);
    await page.context().close();
  });
});
