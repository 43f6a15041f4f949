/** The overview in a browser: traffic appears within seconds, the plot and its table agree, and changes are marks. */
import type { Locator, Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { hasBrowser } from "./browser.ts";
import { addSecondOperator, called, newestEntry, second } from "./changes.ts";
import { consoleSite } from "./console-site.ts";
import { tokens } from "./console-worker.ts";
import { axeViolations, colorsOf, focusOrder, horizontalOverflow, observePerformance } from "./page-checks.ts";
import { boundsMs, point } from "./statistics.ts";
import { link, shown } from "./views.ts";

const patience = { timeout: 30_000, interval: 250 };

const tile = (page: Page, title: string): Locator =>
  page
    .locator(".tiles div")
    .filter({ has: page.getByText(title, { exact: true }) })
    .locator("dd")
    .first();

const countOf = async (locator: Locator): Promise<number> => Number((await locator.innerText()).replaceAll(",", ""));

const rowOf = (page: Page, policy: string): Locator =>
  page.getByRole("row").filter({ has: page.getByRole("link", { name: policy, exact: true }) });

const sumOf = (cells: readonly string[]): number =>
  cells.reduce((sum, cell) => sum + Number(cell.replaceAll(",", "")), 0);

describe.skipIf(!hasBrowser)("the overview in Chromium, skipped unless it is installed", () => {
  const site = consoleSite();

  /**
   * Isolates send their counts only with requests, so this sends requests without a policy until the count has arrived.
   */
  const arrived = (counted: Locator, expected: (count: number) => boolean): Promise<void> =>
    expect
      .poll(async () => {
        await site.worker.request("192.0.2.99", "/without-policy");
        return expected(await countOf(counted));
      }, patience)
      .toBe(true);

  /** The policy `login` allows an address three requests. */
  const denyLogins = async (address: string, denials: number): Promise<void> => {
    for (let sent = 0; sent < 3 + denials; sent++) {
      // oxlint-disable-next-line no-await-in-loop -- the first three requests are allowed
      expect(await site.worker.request(address, "/login")).toBe(sent < 3 ? 200 : 429);
    }
  };

  it("traffic appears in the totals, the plot, its table, the policies and the denied keys", async () => {
    const page = await site.open("?span=1h&policy=login");
    await shown(page, "Overview");
    const before = await countOf(tile(page, "Denied"));
    await denyLogins("192.0.2.1", 7);
    await arrived(tile(page, "Denied"), (count) => count === before + 7);
    expect(await colorsOf(page.locator(".plot canvas"))).toBeGreaterThan(4);
    await page.getByRole("figure").getByText("Show as table").click();
    const table = page.getByRole("region", { name: "Requests per minute of policy login" });
    await expect.poll(async () => sumOf(await table.locator("td:nth-child(3)").allInnerTexts())).toBe(before + 7);
    expect(await rowOf(page, "login").first().getByRole("cell").nth(3).innerText()).toBe(String(before + 7));
    const top = page.getByRole("region", { name: "Top denied keys of login" });
    await expect.poll(() => top.getByRole("row").count(), patience).toBeGreaterThan(1);
    expect(await axeViolations(page)).toEqual([]);
    await top.getByRole("link").first().click();
    await page.waitForURL(/\/keys\?policy=login&id=/);
  });

  it("the first sentence says how many requests are denied, by which policy and which key, with links", async () => {
    const page = await site.open("?span=1h");
    await shown(page, "Overview");
    await denyLogins("192.0.2.21", 40);
    const sentence = page.locator(".headline");
    const denied = async (): Promise<string> => {
      await site.worker.request("192.0.2.99", "/without-policy");
      return sentence.innerText();
    };
    // Each request counts once, although two policies decide a login.
    const pattern =
      /^\d+(\.\d)? % of \d+ requests denied from \d\d:\d\d to \d\d:\d\d\. login denies most: \d+ \(\d+(\.\d)? % of its requests\), since \d\d:\d\d\. \d+(\.\d)? % of these denials have the key 192\.0\.2\.21\.$/;
    await expect.poll(denied, patience).toMatch(pattern);
    // The tiles and the keys state the period in the same words.
    const [period = ""] = /from \d\d:\d\d to \d\d:\d\d/.exec(await sentence.innerText()) ?? [];
    const [, start = ""] = period.split(" ");
    for (const place of [".tiles-row .hint", ".top-denied .hint"]) {
      // oxlint-disable-next-line no-await-in-loop -- two short texts
      expect(await page.locator(place).innerText()).toMatch(new RegExp(`^From ${start} to \\d\\d:\\d\\d\\.`));
    }
    const { pathname } = new URL(site.worker.consoleUrl);
    const linked = async (name: RegExp): Promise<string> =>
      new URL((await sentence.getByRole("link", { name }).getAttribute("href")) ?? "", site.worker.consoleUrl).href
        .replace(new URL(site.worker.consoleUrl).origin, "")
        .replace(pathname, "");
    expect(await linked(/requests denied$/)).toMatch(/^denied\?from=\d{13}&to=\d{13}$/);
    expect(await linked(/^login$/)).toBe("policies?name=login");
    expect(await linked(/^192\.0\.2\.21$/)).toMatch(/^keys\?policy=login&id=/);
  });

  it("without denials, the first sentence says so", async () => {
    const page = await site.open("?span=1h&policy=api");
    await expect
      .poll(() => page.locator(".headline").innerText(), patience)
      .toMatch(/^No request was (denied|decided) by api from \d\d:\d\d to \d\d:\d\d/);
  });

  it("a click on a time and a drag over a range open what was denied then, and the table has the same links", async () => {
    const opened = (page: Page): Promise<void> => page.waitForURL(/\/denied\?from=\d{13}&to=\d{13}&policy=login$/);
    const range = (page: Page): number => {
      const { searchParams } = new URL(page.url());
      return Number(searchParams.get("to")) - Number(searchParams.get("from"));
    };
    const page = await site.open("?span=1h&policy=login");
    const plot = page.locator(".plot .u-over");
    const loaded = (): Promise<void> => page.locator(".headline").filter({ hasNotText: "Loading" }).waitFor();
    await loaded();
    await plot.click();
    await opened(page);
    expect(range(page)).toBe(60_000);
    await page.goBack();
    await loaded();
    const box = await plot.boundingBox();
    if (box === null) throw new Error("the plot is not shown");
    const y = box.y + box.height / 2;
    await page.mouse.move(box.x + box.width / 4, y);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width / 2, y, { steps: 5 });
    await page.mouse.up();
    await opened(page);
    // A quarter of an hour and a little, because the span is one hour.
    expect(range(page)).toBeGreaterThan(14 * 60_000);
    expect(range(page)).toBeLessThan(16 * 60_000);
    await page.goBack();
    await loaded();
    await page.getByRole("figure").getByText("Show as table").click();
    await page.locator(".plot-table a").first().click();
    await opened(page);
  });

  it("any span of the kept time can be chosen, and is in the URL", async () => {
    const page = await site.open("?policy=login");
    await page.getByRole("button", { name: "From … to …" }).click();
    await page.getByLabel("From").fill("2026-01-02T03:00");
    await page.getByLabel("to", { exact: true }).fill("2026-01-02T01:00");
    await page.getByRole("button", { name: "Show", exact: true }).click();
    await page.getByText("The end must be after the beginning.").waitFor();
    expect(await axeViolations(page)).toEqual([]);
    const day = new Date(Date.now() - 48 * 3_600_000).toISOString().slice(0, 10);
    await page.getByLabel("From").fill(`${day}T01:00`);
    await page.getByLabel("to", { exact: true }).fill(`${day}T04:00`);
    await page.getByRole("button", { name: "Show", exact: true }).click();
    // Minutes are kept for a day, hours for 90.
    await page.getByText("Requests per hour of policy login").waitFor();
    await page.getByText(/^No request was decided by login from /).waitFor();
    expect(await page.getByText(/No traffic yet|so far|not over yet/).count()).toBe(0);
    const { searchParams } = new URL(page.url());
    expect(Number(searchParams.get("to")) - Number(searchParams.get("from"))).toBe(3 * 3_600_000);
    await page.getByRole("button", { name: "1 h", exact: true }).click();
    await page.getByText("Requests per minute of policy login").waitFor();
    expect(new URL(page.url()).search).toBe("?policy=login&span=1h");
  });

  it("the live span keeps its samples while other views are open, until sign-out, and a dry run shows what it would deny", async () => {
    const page = await site.open("keys?policy=search");
    let samples = 0;
    page.on("response", (response) => {
      if (new URL(response.url()).searchParams.get("step") === "1m") samples += 1;
    });
    for (let sent = 0; sent < 6; sent++) {
      // oxlint-disable-next-line no-await-in-loop -- the limit is 2
      expect(await site.worker.request("192.0.2.2", "/search")).toBe(200);
    }
    await expect.poll(() => samples, patience).toBeGreaterThan(4);
    const rowsOfPlot = async (): Promise<number> => {
      await page.getByRole("figure").getByText("Show as table").click();
      const rows = page.locator(".plot-table tbody tr");
      await rows.first().waitFor();
      return rows.count();
    };
    await link(page, "Overview").click();
    await page.getByRole("heading", { name: "Latency of decisions" }).waitFor();
    // Without samples, at most five whole minutes and the current one would be known.
    expect(await rowsOfPlot()).toBeGreaterThan(6);
    await page.getByRole("combobox", { name: "Policy" }).selectOption("search");
    await arrived(tile(page, "Would be denied"), (count) => count === 4);
    expect(await countOf(tile(page, "Allowed"))).toBe(6);
    await page.locator(".plot-legend").getByText("Would be denied (dry run)").waitFor();
    await page.getByRole("heading", { name: "Top keys that would be denied of search" }).waitFor();
    await page.getByRole("columnheader", { name: "Would be denied" }).last().waitFor();
    expect(await colorsOf(page.locator(".plot canvas"))).toBeGreaterThan(4);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Admin token").fill(tokens.operator);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "Latency of decisions" }).waitFor();
    expect(await rowsOfPlot()).toBeLessThanOrEqual(6);
  });

  it("a change of rules appears as a mark, whose text appears on focus and which links to the audit log", async () => {
    const page = await site.open("", { width: 1_920, theme: "dark" });
    await shown(page, "Overview");
    await denyLogins("192.0.2.3", 1);
    await site.worker.api("POST", "/rules", {
      body: { policy: "login", kind: "block", key: ["192.0.2.3"], for: "10m", note: "ticket 12" },
    });
    const mark = page
      .getByRole("list", { name: "Changes of rules" })
      .getByRole("link", { name: /operator blocked key .*ticket 12/ });
    await mark.waitFor();
    await page
      .locator(".mark-label")
      .getByText(/^Blocked \((192\.0\.2\.3|.{8}…)\) by operator$/)
      .waitFor();
    const text = page.locator(".mark-text").filter({ hasText: "ticket 12" });
    expect(await text.isVisible()).toBe(false);
    await page.locator(".headline a").last().focus();
    await page.keyboard.press("Tab");
    expect(await page.locator("*:focus").getAttribute("aria-label")).toMatch(/ticket 12/);
    expect(await text.isVisible()).toBe(true);
    expect(await axeViolations(page)).toEqual([]);
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/audit\?seq=\d+/);
  });

  it("a rollback by another operator is one message and one mark, whatever the number of rules that it changes", async () => {
    const { worker } = site;
    await addSecondOperator(worker);
    const to = (await newestEntry(worker))?.seq ?? 0;
    const patch = (body: object) => called(worker, "PATCH", "/policies/api", body, second.token);
    await patch({ mode: "dry-run", limits: "9/hour" });
    const page = await site.open();
    await page.getByRole("list", { name: "Changes of rules" }).getByRole("link").first().waitFor();
    await called(worker, "POST", "/rollback", { to }, second.token);
    const state = to === 0 ? "before the first change" : `after entry ${to}`;
    await page.getByLabel("Messages").getByText(`second rolled back to the state ${state}`).waitFor();
    expect(
      await page
        .getByLabel("Messages")
        .getByText(/rolled back/)
        .count(),
    ).toBe(1);
    await expect.poll(() => page.locator(".mark-text p").filter({ hasText: "rolled back" }).count()).toBe(1);
  });

  it("the URL contains the span and the policy, except for the default span", async () => {
    const page = await site.open("?span=24h&policy=api");
    await page.getByText("Requests per 15 min of policy api").waitFor();
    await page.getByRole("button", { name: "90 d" }).click();
    await page.getByText("Requests per day (UTC) of policy api").waitFor();
    await page.getByRole("combobox", { name: "Policy" }).selectOption("login");
    await page.getByText("Requests per day (UTC) of policy login").waitFor();
    expect(new URL(page.url()).search).toBe("?span=90d&policy=login");
    await page.getByRole("button", { name: "Live" }).click();
    await page.getByText("Requests per second of policy login").waitFor();
    expect(new URL(page.url()).search).toBe("?policy=login");
  });

  it("while the connection is lost, the last numbers stay, nothing is called healthy and the plot has a gap, until it returns", async () => {
    const page = await site.open("?policy=login", { allowed: [/ERR_INTERNET_DISCONNECTED/] });
    await shown(page, "Overview");
    await denyLogins("192.0.2.4", 2);
    await arrived(tile(page, "Denied"), (count) => count >= 2);
    await page.getByText(/Healthy: /).waitFor();
    await page.context().setOffline(true);
    const banner = page.getByText(/^No answer from admin\.localhost:\d+ since \d\d:\d\d:\d\d\. The numbers/);
    await banner.waitFor();
    const before = await countOf(tile(page, "Denied"));
    expect(before).toBeGreaterThanOrEqual(2);
    expect(await page.getByText(/Healthy: /).count()).toBe(0);
    expect(await axeViolations(page)).toEqual([]);
    // Without a cursor, the legend shows the values at the end of the plot.
    await expect.poll(() => page.locator(".plot-legend b").allInnerTexts()).toEqual(["–", "–"]);
    await denyLogins("192.0.2.5", 3);
    await page.context().setOffline(false);
    await arrived(tile(page, "Denied"), (count) => count >= before + 3);
    expect(await banner.isVisible()).toBe(false);
    await page.getByText(/Healthy: /).waitFor();
  });

  it("at no time do the listed keys have more denials than their policy, and their sum is that of the policy", async () => {
    const page = await site.open("?policy=login");
    await shown(page, "Overview");
    await denyLogins("192.0.2.7", 3);
    // One evaluation reads one state of the page.
    const sums = (): Promise<readonly [denied: number, listed: number]> =>
      page.evaluate(`(() => {
        const own = [...document.querySelectorAll('[aria-label="Policies"] tbody tr')]
          .find((row) => row.cells[0].textContent === "login");
        const keys = document.querySelectorAll('[aria-label="Top denied keys of login"] td.number');
        const countIn = (cell) => Number(cell.textContent.replaceAll(",", ""));
        return [countIn(own.cells[3]), [...keys].reduce((sum, cell) => sum + countIn(cell), 0)];
      })()`);
    await expect.poll(async () => (await sums())[0], patience).toBeGreaterThan(2);
    for (let round = 0; round < 20; round++) {
      // oxlint-disable no-await-in-loop -- each round looks at a later state
      await site.worker.request("192.0.2.7", "/login");
      const [denied, listed] = await sums();
      expect(listed).toBe(denied);
      await page.waitForTimeout(200);
      // oxlint-enable no-await-in-loop
    }
  });

  it("the first denied key can be reached with a few presses of Tab", async () => {
    await denyLogins("192.0.2.6", 1);
    const page = await site.open("?policy=login");
    const keys = page.locator(".top-denied a.id");
    await expect.poll(() => keys.count(), patience).toBeGreaterThan(0);
    await page.getByRole("button", { name: "Sign out" }).focus();
    expect(await focusOrder(page, 1)).toEqual(['link "Skip to the top denied keys"']);
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    expect(await keys.first().evaluate((element) => element.matches(":focus"))).toBe(true);
  });

  it("the first numbers are read while the token is checked", async () => {
    const page = await site.open("policies");
    await shown(page, "Policies");
    const reads: string[] = [];
    page.on("request", (request) => {
      if (request.url().includes("/api/stats?")) reads.push(request.url());
    });
    await page.route(/\/api\/operator$/, async (route) => {
      await expect.poll(() => reads.length, patience).toBeGreaterThan(0);
      await route.continue();
    });
    await page.goto(site.worker.consoleUrl);
    await page.locator(".headline").filter({ hasNotText: "Loading" }).waitFor();
    // Each read of the overview has the counts and the keys, also the first one.
    expect(reads.filter((url) => new URL(url).searchParams.get("top") !== "10")).toEqual([]);
  });

  it("the arrival of numbers shifts no element, and a narrow screen has no overflow", async () => {
    const page = await site.open("policies", { width: 320 });
    const performance = await observePerformance(page);
    await shown(page, "Policies");
    await page.goto(site.worker.consoleUrl);
    await shown(page, "Overview");
    await page.getByRole("heading", { name: "Latency of decisions" }).waitFor();
    expect((await performance()).layoutShift).toBeLessThan(0.02);
    expect(await horizontalOverflow(page)).toBe(0);
    // Every number of a policy is on the screen.
    const frame = page.getByRole("region", { name: "Policies" });
    expect(await frame.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)).toBe(0);
  });

  it("at 390 px, the denied keys and their columns are not cut off, and an address has one line", async () => {
    await denyLogins("198.51.100.233", 4);
    const page = await site.open("?policy=login", { width: 390 });
    const keys = page.getByRole("region", { name: "Top denied keys of login" });
    const key = keys.getByRole("link", { name: "198.51.100.233" });
    await key.waitFor();
    expect(await keys.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)).toBe(0);
    expect(await key.evaluate((element) => element.getClientRects().length)).toBe(1);
  });

  it("the plot is drawn in a browser with an invalid language", async () => {
    const page = await site.open("policies");
    // The tab keeps the token once it is accepted.
    await shown(page, "Policies");
    await page.addInitScript(
      `Object.defineProperty(navigator, "language", { value: "en-US@posix", configurable: true })`,
    );
    await page.goto(site.worker.consoleUrl);
    await shown(page, "Overview");
    expect(await colorsOf(page.locator(".plot canvas"))).toBeGreaterThan(2);
  });

  it("90 days of 50 policies are read in a few thousand points, and each policy has its sum", async () => {
    const stepMs = 24 * 3_600_000;
    const steps = 90;
    const page = await site.open();
    await shown(page, "Overview");
    await page.route(/\/api\/stats\?.*step=1440m/, async (route) => {
      const toMs = Math.ceil(Date.now() / stepMs) * stepMs;
      const points = Array.from({ length: steps * 50 }, (_, index) =>
        point(toMs - stepMs * (steps - Math.floor(index / 50)), `policy-${index % 50}`, {
          outcomes: { allowed: 10, denied: index % 50 },
          latency: [[1, 10]],
        }),
      );
      await route.fulfill({
        json: {
          from: new Date(toMs - steps * stepMs).toISOString(),
          to: new Date(toMs).toISOString(),
          stepMs,
          latencyBoundsMs: boundsMs,
          points,
          originFailures: [],
          requests: [],
          denialRuns: [],
          top: null,
        },
      });
    });
    await page.getByRole("button", { name: "90 d" }).click();
    const rows = page.getByRole("region", { name: "Policies" }).getByRole("row");
    await expect.poll(() => rows.count(), patience).toBe(1 + 3 + 50);
    // The policies with the most denials come first.
    expect(await rows.nth(1).getByRole("cell").allInnerTexts()).toContain("4,410");
  });
});
