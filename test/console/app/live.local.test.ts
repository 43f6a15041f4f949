/**
 * The view "Live" in a browser: denials arrive, can be paused and filtered, and a lost connection is restored
 * automatically.
 */
import type { Locator, Page } from "playwright-core";
import { beforeAll, describe, expect, it } from "vitest";
import { hasBrowser } from "./browser.ts";
import { consoleSite } from "./console-site.ts";
import { allOperators } from "./console-worker.ts";
import { axeViolations, horizontalOverflow } from "./page-checks.ts";
import { shown } from "./views.ts";

const patience = { timeout: 60_000, interval: 250 };

const rowsOf = (page: Page, policy: string): Locator =>
  page.getByRole("row").filter({ has: page.getByRole("link", { name: policy, exact: true }) });

/** The number of denials that the shown rows of a policy count. */
async function denialsOf(page: Page, policy: string): Promise<number> {
  const cells = rowsOf(page, policy).locator('td[data-title="Denials"]');
  return (await cells.allInnerTexts()).reduce((sum, text) => sum + Number(text.replaceAll(",", "")), 0);
}

describe.skipIf(!hasBrowser)("the tail in Chromium, skipped unless it is installed", () => {
  const site = consoleSite();
  // Isolates report often when a rule exists.
  beforeAll(async () => {
    const body = { policy: "login", kind: "block", key: ["192.0.2.200"], for: "1h", note: "x" };
    expect(await site.worker.api("POST", "/rules", { body })).toMatchObject({ status: 201 });
  });

  const open = async (query = "", options = {}): Promise<Page> => {
    const page = await site.open(`live${query}`, options);
    await shown(page, "Live");
    await page.getByText("Connected", { exact: true }).waitFor();
    return page;
  };

  /** Sends requests beyond the limits of both policies, until the condition is met. */
  const denyUntil = (address: string, isMet: () => Promise<boolean>): Promise<void> =>
    expect
      .poll(async () => {
        for (const path of ["/api/x", "/login", "/login"]) {
          // oxlint-disable-next-line no-await-in-loop -- in the order of a client
          await site.worker.request(address, path);
        }
        return isMet();
      }, patience)
      .toBe(true);

  it("a denial appears with its policy and limit, and links to its key", async () => {
    const page = await open();
    await denyUntil("192.0.2.11", async () => (await rowsOf(page, "login").count()) > 0);
    const row = rowsOf(page, "login").filter({ hasText: "ip=192.0.2.11" });
    await row.waitFor();
    expect(await row.locator('td[data-title="Outcome"]').innerText()).toBe("denied");
    expect(await row.locator('td[data-title="Limits"]').innerText()).toMatch(/login/);
    expect(await axeViolations(page)).toEqual([]);
    await row.locator("a.id").click();
    await page.waitForURL(/\/keys\?policy=login&id=/);
  });

  it("denials wait while the tail is paused, and are shown when it resumes", async () => {
    const page = await open("", { width: 320, theme: "dark" });
    await denyUntil("192.0.2.12", async () => (await rowsOf(page, "login").count()) > 0);
    await page.getByRole("button", { name: "Pause" }).click();
    const resume = page.getByRole("button", { name: /^Resume/ });
    await resume.waitFor();
    const shownDenials = async (): Promise<number> => (await denialsOf(page, "login")) + (await denialsOf(page, "api"));
    const before = await shownDenials();
    const waiting = async (): Promise<number> => Number(/\d+/.exec(await resume.innerText())?.[0] ?? 0);
    await denyUntil("192.0.2.12", async () => (await waiting()) >= 3);
    expect(await shownDenials()).toBe(before);
    expect(await horizontalOverflow(page)).toBe(0);
    const added = await waiting();
    await resume.click();
    await expect.poll(shownDenials).toBeGreaterThanOrEqual(before + added);
  });

  it("a key that is denied again and again has one row, whose count rises, and the key denied last for the first time is on top", async () => {
    const page = await open("?policy=login");
    await denyUntil("192.0.2.15", async () => (await denialsOf(page, "login")) >= 4);
    const ids = await rowsOf(page, "login").locator("a.id").allInnerTexts();
    expect(new Set(ids).size).toBe(ids.length);
    expect(await page.getByRole("columnheader", { name: "First denied" }).getAttribute("aria-sort")).toBe("descending");
    const times = await rowsOf(page, "login").locator('td[data-title="First denied"]').allInnerTexts();
    expect(times).toEqual(times.toSorted().toReversed());
  });

  it.each([
    ["a phone", true],
    ["a narrow window", false],
  ])("on %s, every control and link of the view is at least 44 pixels wide and high", async (_, isPhone) => {
    const page = await open("", { width: 390, height: 844, isPhone });
    await denyUntil(isPhone ? "192.0.2.16" : "192.0.2.17", async () => (await denialsOf(page, "login")) > 0);
    const sizes = await page.locator(".live :is(button, select, input, td a)").evaluateAll((targets) =>
      targets.map((target) => {
        const { width, height } = target.getBoundingClientRect();
        return Math.min(width, height);
      }),
    );
    expect(sizes.length).toBeGreaterThan(5);
    expect(Math.min(...sizes)).toBeGreaterThanOrEqual(44);
    expect(await horizontalOverflow(page)).toBe(0);
    expect(await axeViolations(page)).toEqual([]);
  });

  it("a filter in the URL hides all other denials", async () => {
    const page = await open("?policy=api");
    await denyUntil("192.0.2.13", async () => (await rowsOf(page, "api").count()) > 0);
    expect(await rowsOf(page, "login").count()).toBe(0);
    const href = await rowsOf(page, "api").first().locator("a.id").getAttribute("href");
    const id = new URLSearchParams(href?.split("?")[1]).get("id") ?? "";
    await page.getByRole("searchbox", { name: "Id of the key" }).fill("no such key");
    await page.getByText("none matches the filter").waitFor();
    await page.getByRole("searchbox", { name: "Id of the key" }).fill(id.slice(0, 8));
    await denyUntil("192.0.2.23", async () => {
      await site.worker.request("192.0.2.13", "/api/x");
      return (await denialsOf(page, "api")) > 3;
    });
    expect(new URL(page.url()).searchParams.get("id")).toBe(id.slice(0, 8));
    const links = await rowsOf(page, "api").locator("a.id").all();
    const hrefs = await Promise.all(links.map((link) => link.getAttribute("href")));
    expect(new Set(hrefs)).toEqual(new Set([href]));
  });

  it("the tail reconnects with a new ticket after its connection is lost", async () => {
    const page = await site.open("policies");
    const tickets = new Set<string>();
    await page.routeWebSocket(/\/api\/tail/, (socket) => {
      tickets.add(new URL(socket.url()).searchParams.get("ticket") ?? "");
      if (tickets.size === 1) void socket.close({ code: 1_012 });
      else socket.connectToServer();
    });
    await page.getByRole("navigation").getByRole("link", { name: "Live" }).click();
    await page.getByText("Connected", { exact: true }).waitFor();
    await denyUntil("192.0.2.14", async () => (await rowsOf(page, "login").count()) > 0);
    expect(tickets.size).toBe(2);
  });

  it("an operator who may not read sees why the tail is refused", async () => {
    const token = "the-token-of-the-writer";
    await site.worker.setTokens([...allOperators, { name: "writer", token, may: ["write"] }]);
    const page = await site.open("live", { token, allowed: [/status of 403/] });
    await page.getByRole("main").getByRole("button", { name: "Try again" }).waitFor();
    expect(await page.getByText("Connected", { exact: true }).count()).toBe(0);
  });
});
