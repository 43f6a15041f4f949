/**
 * The playground in a browser: its examples, what its lanes explain, logs, links, and the static page opened from a
 * file.
 */
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { parseConfig } from "../../../src/policy/vars/config.ts";
import { referenceExamples } from "../playground/reference-examples.ts";
import { buildPlayground } from "../../../src/cli/console-build.ts";
import { readConfiguration } from "../../docs/configuration-blocks.ts";
import { hasBrowser, launchBrowser, openPage, type PageOptions } from "./browser.ts";
import { decisionsOf, runOf, scenarioOf } from "../playground/runs.ts";
import { axeViolations, horizontalOverflow, observePerformance } from "./page-checks.ts";
import { done, follow, headline, lane, lanes, plotBox, shownTexts, tableDecisions } from "./playground-page.ts";

const edgeBurst =
  "limit=100/1m+fixed-window+align=clock&traffic=bursts&size=200&within=2s&first=59s&every=5m&length=130s";

describe.skipIf(!hasBrowser)("the playground in Chromium, skipped unless it is installed", () => {
  let browser: Browser;
  let file = "";
  beforeAll(async () => {
    const [path, launched] = await Promise.all([buildPlayground(), launchBrowser()]);
    browser = launched;
    file = pathToFileURL(path).href;
  });
  afterAll(() => browser.close());

  /** Opens an empty page. The test fails at its end if the page had problems. */
  const empty = async (options: PageOptions = {}): Promise<Page> => {
    const { page, problems } = await openPage(browser, options);
    onTestFinished(async () => {
      await page.context().close();
      expect(problems, "problems of the page").toEqual([]);
    });
    return page;
  };
  const open = async (query = "", options: PageOptions = {}): Promise<Page> => {
    const page = await empty(options);
    await page.goto(query === "" ? file : `${file}?${query}`);
    return page;
  };

  it("the page opened from a file shows that a fixed window allows 200 requests at its edge, and a sliding log 100", async () => {
    const page = await empty();
    const performance = await observePerformance(page);
    await page.goto(file);
    await done(page);
    expect(await headline(page)).toBe(
      "Fixed window: 200 requests passed within 2 s, twice the limit of 100 per minute: 100 at the end of one window and 100 at the start of the next. Its bound is 2L = 200. Sliding log: at most 100 in any minute.",
    );
    const counts = async (name: string) => await lane(page, name).locator(".pg-counts").innerText();
    expect(await counts("Fixed window as written")).toMatch(/^200 allowed\s+0 denied$/);
    expect(await counts("Sliding log")).toMatch(/^100 allowed\s+100 denied$/);
    const picture = lane(page, "Sliding log").getByRole("img");
    expect(await picture.getAttribute("aria-label")).toBe(
      "Sliding log: 100 requests allowed, 100 denied; worst burst 100 per minute, documented bound 100 per minute",
    );
    // Lanes arrive one after the other, without moving what is in view.
    expect((await performance()).layoutShift).toBeLessThan(0.01);
  });

  it("moving the time cursor explains the client in every lane at that instant, and the pointer draws a line in all lanes at its instant", async () => {
    const page = await open(edgeBurst);
    await done(page);
    const time = page.getByRole("slider", { name: "Time", exact: true });
    await time.focus();
    await page.keyboard.press("End");
    await expect
      .poll(() => lane(page, "Sliding log").locator(".pg-readout").innerText())
      .toMatch(/^2:1\d.*: 0 used, 100 remaining\. 0 of 100 in the last minute/);
    const box = await plotBox(lane(page, "Sliding log"));
    const x = (seconds: number): number => box.x + (seconds / 130) * box.width;
    await page.mouse.move(x(20), box.y + box.height - 10);
    await page.mouse.down();
    await page.mouse.move(x(90), box.y + box.height - 10, { steps: 5 });
    await page.mouse.up();
    await expect
      .poll(() => lane(page, "Sliding log").locator(".pg-readout").innerText())
      .toMatch(/: 100 used, 0 remaining\. 100 of 100 in the last minute/);
    await expect
      .poll(() =>
        lane(page, /^Fixed window/)
          .locator(".pg-readout")
          .innerText(),
      )
      .toMatch(/: 100 used, 0 remaining\..*the next request fits in/);
    expect(await time.getAttribute("aria-valuetext")).toMatch(/^1:(?:29|30)/);
    await page.mouse.move(x(45), box.y + 20);
    const lines = page.locator(".u-cursor-x");
    const areAtPointer = () =>
      lines.evaluateAll((all, at) => all.map((line) => Math.abs(line.getBoundingClientRect().left - at) < 2), x(45));
    const everyLane = Array.from({ length: await lanes(page).count() }, () => true);
    await expect.poll(areAtPointer).toEqual(everyLane);
  });

  it("denials can be explained by keyboard and by pointer, with the requests that cause them and the time when they clear", async () => {
    const page = await open(edgeBurst);
    await done(page);
    const log = lane(page, "Sliding log");
    const text = (): Promise<string> => log.locator(".pg-readout").innerText();
    await log.getByRole("button", { name: "Explain a denial" }).focus();
    await page.keyboard.press("Enter");
    await expect
      .poll(text)
      .toMatch(
        /^Denied at 1:00\n.*100 of 100 in the last minute.*Cause: 100 earlier requests, marked, from 0:59 to 0:59\.99\. It fits at 1:59\./s,
      );
    await page.keyboard.press("Enter");
    await expect.poll(text).toMatch(/^Denied at 1:00\.01\n/);
    await expect.poll(() => log.locator(".pg-denial, .pg-clears").count()).toBe(2);
    const other = lane(page, "Sliding buckets");
    const box = await plotBox(other);
    await page.mouse.move(box.x + (60.5 / 130) * box.width, box.y + 70);
    await expect.poll(() => other.locator(".pg-readout").innerText()).toMatch(/^Denied at 1:0/);
    await expect.poll(() => log.locator(".pg-readout").innerText()).toMatch(/^Point at a denial/);
  });

  it("the worst burst of a lane is marked, can be zoomed to, and can be made as bad as the documented bound", async () => {
    const page = await open("limit=10/1m+fixed-window+align=clock&traffic=steady&rate=5/1m");
    await done(page);
    const first = lane(page, /as written/);
    await first.getByRole("button", { name: "Find the worst burst" }).click();
    const text = first.locator(".pg-worst-text");
    expect(await text.innerText()).toMatch(/^5 in 48 s, from 0:00 on\. .*bound is 2L = 20\./);
    await expect.poll(() => first.locator(".pg-worst-bars").count()).toBe(1);
    await first.getByRole("button", { name: "Zoom to it" }).click();
    await expect.poll(() => page.url()).toMatch(/[?&]from=0s&to=1m/);
    await page.getByRole("button", { name: "Whole run" }).click();
    await first.getByRole("button", { name: "Try the worst traffic" }).last().click();
    await expect
      .poll(() => headline(page))
      .toMatch(/^Fixed window: 20 requests passed within 1 ms, twice the limit of 10 per minute: 10 at/);
  });

  it("a typed limit says where its windows start, and a click shows the burst at their edge", async () => {
    const page = await open(edgeBurst);
    await done(page);
    const limits = page.getByLabel("Limits, one per line");
    await limits.fill("100/minute fixed-window");
    await expect
      .poll(() => headline(page))
      .toMatch(/^Fixed window: at most 100 in any minute\. Its bound is 2L = 200, which/);
    const first = lane(page, /as written/);
    await first.getByRole("button", { name: "Try the worst traffic" }).waitFor();
    await page.getByText("A window starts with the first request of a client").waitFor();
    await page.getByRole("button", { name: "Use align=clock" }).click();
    expect(await limits.inputValue()).toBe("100/minute fixed-window align=clock");
    await expect.poll(() => headline(page)).toMatch(/^Fixed window: 200 requests passed within 2 s/);
    await first.getByRole("button", { name: "Try the worst traffic" }).waitFor({ state: "hidden" });
  });

  it("invalid limits name what is accepted and mark the last result as that of earlier limits, and several limits are decided together", async () => {
    const page = await open(edgeBurst);
    await done(page);
    const limits = page.getByLabel("Limits, one per line");
    await limits.fill("100 parsecs");
    await page.getByText(/^limit: expected limits such as "10\/minute".*got "100 parsecs"/).waitFor();
    expect(await limits.getAttribute("aria-invalid")).toBe("true");
    await page.getByLabel("Clients", { exact: true }).fill("2");
    await page.getByText("Not valid: Limits, one per line. The results are those").waitFor();
    // Other fields still take effect, with the last valid limits.
    await expect.poll(() => headline(page)).toMatch(/^Fixed window: 124 requests/);
    await lane(page, "Fixed window last valid limits").waitFor();
    expect(await page.locator(".pg-results > .pg-old").count()).toBe(1);
    const copies = page.getByRole("region", { name: "Copy", exact: true }).getByRole("button");
    expect(await copies.evaluateAll((all) => all.map((each) => each.matches(":disabled")))).toEqual([true, true]);
    await page.getByLabel("Clients", { exact: true }).fill("1");
    await limits.fill("100/minute\n10/second sliding-log");
    await expect.poll(() => lane(page, "As written").locator(".pg-gauge").count()).toBe(2);
    await expect.poll(() => page.url()).toMatch(/limit=100\/minute&limit=10\/second\+sliding-log&/);
    expect(await page.locator(".pg-old").count()).toBe(0);
    expect(await copies.first().isEnabled()).toBe(true);
    expect(await page.locator("pre").innerText()).toContain(
      '{ limit = 10, window = "second", strategy = "sliding-log" }',
    );
  });

  it("clients that ignore Retry-After send more requests than clients that wait for it", async () => {
    const page = await open(
      "limit=60/1m+fixed-window&traffic=bursts&size=90&within=10s&every=10m&length=4m&retry=ignore&attempts=10",
    );
    await done(page);
    const denied = async (): Promise<number> =>
      Number(
        (
          await lane(page, /as written/)
            .locator(".pg-counts b")
            .nth(1)
            .innerText()
        ).replaceAll(",", ""),
      );
    const ignoring = await denied();
    await page.getByLabel("Denied clients").selectOption({ label: "Retry after Retry-After" });
    await expect.poll(denied).toBeLessThan(ignoring / 3);
    await expect.poll(() => page.url()).toMatch(/retry=obey/);
  });

  it("a pasted log of two formats shows which limit would deny whom, and the lines that cannot be read", async () => {
    const page = await open("limit=2/1m&limit=1/1s&traffic=log");
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.getByText("Paste an access log, or choose a file, to run it.").waitFor();
    const common = Array.from(
      { length: 4 },
      (_, second) => `203.0.113.7 - - [05/Jan/2026:12:00:0${second} +0000] "GET / HTTP/1.1" 200 512`,
    );
    const json = ["0.0", "0.5"].map((at) => `{"time":"2026-01-05T12:00:1${at}Z","ip":"203.0.113.8"}`);
    const text = [...common, "not a request", ...json].join("\n");
    await page.getByRole("textbox", { name: "Access log" }).fill(text);
    await done(page);
    await page.getByText("6 lines read, 1 unreadable.").waitFor();
    await page.getByText("Unreadable lines").click();
    await page.getByText(/^Line 5: expected/).waitFor();
    const rows = page.getByRole("region", { name: "Denied clients" }).getByRole("row");
    const cells = await Promise.all((await rows.all()).map((row) => row.innerText()));
    expect(cells.map((row) => row.split(/\s+/).slice(0, 3).join(" "))).toEqual([
      "Client Denied Allowed",
      "203.0.113.7 2 2",
      "203.0.113.8 1 1",
    ]);
    const box = page.getByRole("textbox", { name: "Access log" });
    await box.fill("not a request\nnor this");
    await page.getByText("0 lines read, 2 unreadable.").waitFor();
    await page.getByText(/^Line 2: expected/).waitFor();
    await page.getByText(/^the log: expected/).waitFor();
    expect(await lanes(page).count()).toBe(0);
    const long = common.join("\n").padEnd(30_000);
    await box.fill(long);
    await page.getByText("4 lines read, 0 unreadable.").waitFor();
    const time = page.getByRole("slider", { name: "Time", exact: true });
    await time.focus();
    await page.keyboard.press("End");
    const readout = lanes(page).first().locator(".pg-readout");
    await expect.poll(() => readout.innerText()).toMatch(/^12:00:0/);
    await page.evaluate(`navigator.clipboard.writeText(${JSON.stringify(json.join("\n"))})`);
    await box.focus();
    await page.keyboard.press("Control+A");
    await page.keyboard.press("Control+V");
    await page.getByText("2 lines read, 0 unreadable.").waitFor();
    await expect.poll(() => readout.innerText()).toMatch(/^Point at a denial/);
    expect(await time.getAttribute("aria-valuetext")).toBe("not chosen");
    await page.getByRole("button", { name: "Clear" }).click();
    await page.locator("input[type=file]").setInputFiles({
      name: "access.log",
      mimeType: "text/plain",
      buffer: Buffer.from(common.join("\n")),
    });
    await page.getByText("4 lines read, 0 unreadable.").waitFor();
    const dropped = await page.evaluateHandle(
      `(() => {
        const files = new DataTransfer();
        files.items.add(new File([${JSON.stringify(json.join("\n"))}], "access.log"));
        return files;
      })()`,
    );
    await page.getByRole("textbox", { name: "Access log" }).dispatchEvent("drop", { dataTransfer: dropped });
    await page.getByText("2 lines read, 0 unreadable.").waitFor();
    await page.getByText("Times are in UTC.").waitFor();
    expect(page.url()).not.toContain("203.0.113");
  });

  it("the limits can be copied as a valid configuration, and the link shows the same scenario again", async () => {
    const page = await open("limit=100/1m+token-bucket+burst=30&limit=1000/1d&traffic=poisson&rate=90/1m&seed=7");
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await done(page);
    const copied = async (label: string): Promise<string> => {
      await page.getByRole("button", { name: label }).click();
      await page.getByText("Copied", { exact: true }).first().waitFor();
      return page.evaluate<string>("navigator.clipboard.readText()");
    };
    const toml = await copied("Copy as wrangler.toml");
    const { vars, problems } = readConfiguration({ text: toml });
    expect(problems).toEqual([]);
    const { policies } = parseConfig({ KEY_SECRET: "a secret", ...vars });
    expect(policies[0]?.limits).toMatchObject([
      { strategy: "token-bucket", limit: 100, windowMs: 60_000, burst: 30 },
      { strategy: "sliding-window-counter", limit: 1_000, windowMs: 86_400_000 },
    ]);
    await page.getByRole("checkbox", { name: "Leaky bucket" }).uncheck();
    await page.getByRole("button", { name: "Zoom in" }).click();
    await expect.poll(() => page.url()).toMatch(/show=.*from=/);
    const before = await shownTexts(page);
    const url = page.url();
    await page.reload();
    await done(page);
    expect(await shownTexts(page)).toEqual(before);
    expect(page.url()).toBe(url);
  });

  it("each example is an entry of the browser history, and a link with invalid fields names them and keeps the valid ones", async () => {
    const page = await open("limit=nonsense&traffic=steady&rate=7/1s&cursor=soon&unknown=1");
    await done(page);
    const problems = page.getByRole("alert").filter({ hasText: "Parts of the link are not valid" });
    expect(await problems.getByRole("listitem").allInnerTexts()).toHaveLength(3);
    expect(await page.getByLabel("Rate", { exact: true }).inputValue()).toBe("7/1s");
    await page.getByRole("button", { name: "Two limits together" }).click();
    await expect.poll(() => lane(page, "As written").locator(".pg-gauge").count()).toBe(2);
    await page.getByText("a request needs both").waitFor();
    expect(await problems.count()).toBe(0);
    await page.goBack();
    await expect.poll(() => page.getByLabel("Rate", { exact: true }).inputValue()).toBe("7/1s");
  });

  it("the examples of the reference open one after the other, and their tables show the engine's decisions", async () => {
    const page = await open();
    const shown = lane(page, /as written|As written/).first();
    for (const query of Object.values(referenceExamples)) {
      // oxlint-disable no-await-in-loop -- one page shows all examples
      await follow(page, query);
      const expected = decisionsOf(runOf(scenarioOf(query)));
      await expect.poll(() => tableDecisions(shown)).toEqual(expected);
      // oxlint-enable no-await-in-loop
    }
    expect(await page.getByRole("alert").filter({ hasText: "not valid" }).count()).toBe(0);
  });

  it("100,000 requests run with a progress bar, can be cancelled, and complete when they are run again", async () => {
    const page = await open("limit=1000/1m&traffic=poisson&rate=1000/1s&length=100s&keys=50");
    await page.getByRole("progressbar", { name: "Progress of the run" }).waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByText("Cancelled.").waitFor();
    await page.getByRole("button", { name: "Run again" }).click();
    await done(page);
    await page.getByText(/^(?:99|100|101),\d{3} requests, decided/).waitFor();
    const table = lane(page, "Sliding log");
    await table.getByRole("button", { name: "Show as table" }).click();
    expect(await table.getByRole("row").count()).toBe(101);
    await table.getByRole("button", { name: "Next page" }).click();
    await table.getByText(/^101–200 of/).waitFor();
  });

  it("a web worker that cannot start is reported with its reason", async () => {
    const page = await empty();
    await page.addInitScript("Worker = class { constructor() { throw new Error('blocked here'); } }");
    await page.goto(file);
    await page.getByText("The web worker that runs the requests failed. blocked here").waitFor();
    await page.getByRole("button", { name: "Try again" }).waitFor();
  });

  it.each([320, 1_920])(
    "the playground at %i px has no violations and no overflow in both themes, and draws every lane",
    async (width) => {
      const page = await open(`${edgeBurst}&keys=3&runs=1s&cursor=61s&worst=written`, {
        width,
        reducedMotion: true,
      });
      await done(page);
      await page.getByRole("button", { name: "Explain a denial" }).last().click();
      await lanes(page).last().getByRole("button", { name: "Show as table" }).click();
      expect(await lanes(page).count()).toBe(7);
      // The sticky time axis would cover buttons that are scrolled under it.
      await page.evaluate("scrollTo(0, 0)");
      expect(await axeViolations(page)).toEqual([]);
      await page.emulateMedia({ colorScheme: "dark" });
      await done(page);
      expect(await axeViolations(page)).toEqual([]);
      expect(await horizontalOverflow(page)).toBe(0);
    },
  );
});
