/** The frame of the console: signing in, navigation, a lost connection, the keyboard, and themes, in every view. */
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { referenceExamples } from "../playground/reference-examples.ts";
import { hasBrowser } from "./browser.ts";
import { consoleSite } from "./console-site.ts";
import { allOperators, tokens } from "./console-worker.ts";
import {
  axeViolations,
  focused,
  focusOrder,
  heapBytes,
  horizontalOverflow,
  observePerformance,
} from "./page-checks.ts";
import { link, pathOf, shown, views } from "./views.ts";

const paste = async (page: Page, token: string): Promise<void> => {
  await page.getByLabel("Admin token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
};

const refused = /status of 401/;

describe.skipIf(!hasBrowser)("the console in Chromium, skipped unless it is installed", () => {
  const site = consoleSite({ adminPath: "/ops/limits" });
  // Gives every view content: denied keys, a rule, and statistics.
  beforeAll(async () => {
    const { request, api } = site.worker;
    const rule = { policy: "api", kind: "allow", key: ["192.0.2.2"], for: "1h", note: "A test" };
    expect((await api("POST", "/rules", { body: rule })).status).toBe(201);
    await Promise.all(Array.from({ length: 9 }, () => request("192.0.2.1", "/api/orders")));
    const readTop = async (): Promise<void> => {
      // While an operator reads the statistics, isolates report every second.
      await api("GET", "/stats");
      const { body } = await api("GET", "/top?policy=api&by=denied");
      expect(body).toMatchObject({ keys: [{ count: 4 }] });
    };
    await vi.waitFor(readTop, { timeout: 20_000, interval: 200 });
  });

  it("a link with a token signs in for its tab only, and the token is removed from the address", async () => {
    const page = await site.open("audit?limit=5", { allowed: [refused] });
    await shown(page, "Audit");
    expect(page.url()).toBe(`${site.worker.consoleUrl}audit?limit=5`);
    await page.evaluate(`location.hash = "token=not-a-token-of-anybody"`);
    await page.getByText("You are still operator.").waitFor();
    await page.reload();
    await shown(page, "Audit");
    const other = await page.context().newPage();
    await other.goto(page.url());
    await other.getByLabel("Admin token").waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.reload();
    await page.getByLabel("Admin token").waitFor();
  });

  it("a wrong token is refused with the reason, and a valid one then opens the view in the address", async () => {
    const page = await site.open("policies", { token: null, allowed: [refused] });
    await paste(page, "not-a-token-of-anybody");
    await expect.poll(() => page.getByRole("alert").textContent()).toMatch(/token/i);
    expect(await axeViolations(page)).toEqual([]);
    await paste(page, tokens.reader);
    await shown(page, "Policies");
    await page.getByRole("banner").getByText("reader").waitFor();
  });

  it("when the token in a link is refused, the console asks for another token", async () => {
    const page = await site.open("", { token: "not-a-token-of-anybody", allowed: [refused] });
    await expect.poll(() => page.getByRole("alert").textContent()).toMatch(/token/i);
    expect(page.url()).toBe(site.worker.consoleUrl);
  });

  it.each(["Control", "Shift"] as const)(
    "a link that is clicked with the %s key opens signed in, and the token is in no address",
    async (key) => {
      const page = await site.open("audit");
      await shown(page, "Audit");
      const opened = page.context().waitForEvent("page");
      await link(page, "Keys").click({ modifiers: [key] });
      const other = await opened;
      await shown(other, "Keys");
      await other.getByRole("banner").getByText("operator").waitFor();
      await expect.poll(() => other.url()).toBe(`${site.worker.consoleUrl}keys?policy=api`);
      await shown(page, "Audit");
    },
  );

  it("a link that is clicked with the middle button opens signed in", async () => {
    const page = await site.open("audit");
    await shown(page, "Audit");
    const opened = page.context().waitForEvent("page");
    await link(page, "Keys").click({ button: "middle" });
    await shown(await opened, "Keys");
    expect(page.context().pages()).toHaveLength(2);
  });

  it("an operator types the token without a click, because its field has the focus", async () => {
    const page = await site.open("keys", { token: null, allowed: [refused] });
    await page.getByLabel("Admin token").waitFor();
    await expect.poll(() => focused(page)).toMatch(/^textbox "Admin token"/);
    await page.keyboard.type(tokens.operator);
    await page.keyboard.press("Enter");
    await shown(page, "Keys");
  });

  it.each(["no-such-view", "keys/of/a/folder"])(
    "the unknown path %s is a page that leads to the overview",
    async (path) => {
      const page = await site.open(path, { allowed: [/status of 404/] });
      await page.getByRole("heading", { level: 1, name: "Page not found" }).waitFor();
      expect(await axeViolations(page)).toEqual([]);
      await page.getByRole("main").getByRole("link", { name: "overview" }).click();
      await shown(page, "Overview");
    },
  );

  it("the playground opens without a token", async () => {
    const example = `playground?${referenceExamples["fixed-window"] ?? ""}`;
    const page = await site.open(example, { token: null, allowed: [refused] });
    const calls: string[] = [];
    page.on("request", (request) => calls.push(request.url()));
    await shown(page, "Playground");
    await page.getByText(/^5 requests, decided by the engine/).waitFor();
    expect(await axeViolations(page)).toEqual([]);
    expect(calls.filter((url) => url.includes("/api/"))).toEqual([]);
    await page.getByRole("link", { name: "Sign in" }).click();
    await page.getByLabel("Admin token").waitFor();
  });

  it("links, back and forward change the view without reloading the page", async () => {
    const page = await site.open();
    await page.evaluate("document.isTheSame = true");
    for (const view of ["Keys", "Audit", "Live"] as const) {
      // oxlint-disable-next-line no-await-in-loop
      await link(page, view).click();
      // oxlint-disable-next-line no-await-in-loop
      await shown(page, view);
    }
    await page.goBack();
    await shown(page, "Audit");
    await page.goBack();
    await shown(page, "Keys");
    await page.goForward();
    await shown(page, "Audit");
    expect(await page.evaluate("document.isTheSame")).toBe(true);
  });

  it("an operator skips or follows the navigation with the keyboard alone, and sees where the focus is", async () => {
    const page = await site.open();
    await shown(page, "Overview");
    expect(await focusOrder(page, 1 + views.length)).toEqual([
      'link "Skip to the content"',
      ...views.map((view) => `link "${view}"`),
    ]);
    const outline = "getComputedStyle(document.activeElement).outlineStyle";
    expect(await page.evaluate(outline)).not.toBe("none");
    await link(page, "Keys").focus();
    await page.keyboard.press("Enter");
    await shown(page, "Keys");
    expect(await focused(page)).toBe('link "Keys"');
    await page.reload();
    await shown(page, "Keys");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    expect(await page.evaluate("document.activeElement.id")).toBe("view");
  });

  it("when the connection or the Worker fails, the page says so, keeps what it shows, and recovers automatically", async () => {
    const page = await site.open("policies", { allowed: [/ERR_INTERNET_DISCONNECTED/] });
    await shown(page, "Policies");
    const banner = page.getByRole("status").filter({ hasText: "No answer from" });
    await page.context().setOffline(true);
    await banner.waitFor();
    expect(await axeViolations(page)).toEqual([]);
    await page.context().setOffline(false);
    await banner.waitFor({ state: "hidden" });
    await page.route(/\/api\//, (route) => route.fulfill({ body: "<p>Sign in to this network" }));
    const old = page.getByRole("status").filter({ hasText: "the last answers received" });
    await old.waitFor();
    expect(await axeViolations(page)).toEqual([]);
    await page.unroute(/\/api\//);
    await old.waitFor({ state: "hidden" });
    await shown(page, "Policies");
  });

  it("while the server does not answer, the page of a key does not state whether it has room", async () => {
    const page = await site.open("keys?policy=api", { allowed: [/ERR_INTERNET_DISCONNECTED/] });
    await page.getByRole("region", { name: "Most denied", exact: true }).getByRole("link").first().click();
    const outcome = page.locator(".outcome");
    await outcome.filter({ hasText: /^(Allowed|Denied)/ }).waitFor();
    await page.context().setOffline(true);
    await outcome.filter({ hasText: /^The state of the key is not known since \d\d:\d\d:\d\d\.$/ }).waitFor();
    expect(await axeViolations(page)).toEqual([]);
    await page.context().setOffline(false);
    await outcome.filter({ hasText: /^(Allowed|Denied)/ }).waitFor();
  });

  it.each(views)(
    "the view %s has no accessibility violations and no overflow, from 320 to 1,920 px, in both themes",
    async (view) => {
      const page = await site.open(pathOf(view), { width: 320 });
      await shown(page, view);
      for (const width of [320, 1_920]) {
        for (const colorScheme of ["light", "dark"] as const) {
          // oxlint-disable no-await-in-loop
          await page.setViewportSize({ width, height: 800 });
          await page.emulateMedia({ colorScheme });
          expect([width, colorScheme, await horizontalOverflow(page), ...(await axeViolations(page))]).toEqual([
            width,
            colorScheme,
            0,
          ]);
          // oxlint-enable no-await-in-loop
        }
      }
    },
  );

  it("colors follow the theme, and nothing moves when the operator prefers reduced motion", async () => {
    const page = await site.open("", { theme: "light", reducedMotion: true });
    await shown(page, "Overview");
    const background = (): Promise<string> =>
      page.evaluate<string>("getComputedStyle(document.documentElement).backgroundColor");
    const light = await background();
    await page.emulateMedia({ colorScheme: "dark" });
    expect(await background()).not.toBe(light);
    const moving = `document.getAnimations().filter(({ effect }) => effect.getComputedTiming().duration > 1).length`;
    expect(await page.evaluate(moving)).toBe(0);
    await page.emulateMedia({ forcedColors: "active" });
    expect(await axeViolations(page)).toEqual([]);
  });

  it("no view shifts its content while it loads", async () => {
    const page = await site.open();
    await shown(page, "Overview");
    const performance = await observePerformance(page);
    for (const view of views) {
      // oxlint-disable no-await-in-loop
      await page.goto(new URL(pathOf(view), site.worker.consoleUrl).href);
      await shown(page, view);
      const { layoutShift } = await performance();
      // The bound of a good page: https://web.dev/articles/cls
      expect({ view, isCalm: layoutShift < 0.1 }).toEqual({ view, isCalm: true });
      // oxlint-enable no-await-in-loop
    }
  });

  it("closed views keep no memory", async () => {
    const page = await site.open();
    // The last view is Audit, which is small and runs nothing in the background.
    const visitAll = async (times: number): Promise<void> => {
      for (const view of [...Array.from({ length: times }, () => views).flat(), "Audit"] as const) {
        // oxlint-disable no-await-in-loop
        await link(page, view).click();
        await shown(page, view);
        // oxlint-enable no-await-in-loop
      }
    };
    // The first visits compile functions and fill bounded caches.
    await visitAll(3);
    const before = await heapBytes(page);
    await visitAll(2);
    expect((await heapBytes(page)) - before).toBeLessThan(700_000);
  });

  it("after its token is revoked, an open console says so and stops calling, and continues with another token", async () => {
    const page = await site.open("audit", { allowed: [refused] });
    // The tab keeps a token once it is accepted, so an earlier reload would sign out.
    await shown(page, "Audit");
    await page.clock.install();
    await page.reload();
    await shown(page, "Audit");
    await site.worker.setTokens([{ name: "newcomer", token: "the-token-of-the-newcomer", may: ["read"] }]);
    let calls = 0;
    page.on("request", () => calls++);
    const banner = page.getByRole("status").filter({ hasText: "not accepted any more" });
    await page.clock.runFor(10_000);
    await banner.waitFor();
    expect(await axeViolations(page)).toEqual([]);
    // Each refused call counts against the address, and too many would lock out everyone behind this address.
    calls = 0;
    await page.clock.runFor(120_000);
    expect(calls).toBe(0);
    await page.getByRole("button", { name: "Sign in again" }).click();
    await paste(page, "the-token-of-the-newcomer");
    await shown(page, "Audit");
    await site.worker.setTokens(allOperators);
  });
});
