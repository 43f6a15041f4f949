/** The view "Denied" in a browser: an operator finds out why a visitor was denied, by the address and by the instance. */
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, it } from "vitest";
import { hasBrowser } from "./browser.ts";
import { consoleSite } from "./console-site.ts";
import { axeViolations, horizontalOverflow } from "./page-checks.ts";
import { shown } from "./views.ts";

const patience = { timeout: 60_000, interval: 500 };

describe.skipIf(!hasBrowser)("the log of denials in Chromium, skipped unless it is installed", () => {
  const site = consoleSite();
  // Isolates report often when a rule exists.
  beforeAll(async () => {
    const body = { policy: "login", kind: "block", key: ["192.0.2.200"], for: "1h", note: "x" };
    expect(await site.worker.api("POST", "/rules", { body })).toMatchObject({ status: 201 });
  });

  /** Sends requests of an address until one is denied. Returns the instance of the problem response. */
  async function deniedInstance(address: string): Promise<string> {
    let instance = "";
    await expect
      .poll(async () => {
        const headers = { "cf-connecting-ip": address };
        const response = await fetch(new URL("/login", site.worker.siteUrl), { headers });
        const text = await response.text();
        instance = /"instance":"(urn:uuid:[^"]+)"/.exec(text)?.[1] ?? "";
        return instance;
      }, patience)
      .not.toBe("");
    return instance;
  }

  /** The page repeats the search until the log has the denial. */
  async function find(page: Page, text: string): Promise<void> {
    await page.getByRole("searchbox", { name: /^Address, API key/ }).fill(text);
    await page.getByRole("button", { name: "Find" }).click();
    await page.getByText("Denied by").waitFor({ timeout: patience.timeout });
  }

  it("an address is enough to find out why it was denied, and the answer links to its key", async () => {
    await deniedInstance("192.0.2.31");
    const page = await site.open("denied");
    await shown(page, "Denied");
    await find(page, "192.0.2.31");
    expect(await page.locator(".answer").innerText()).toMatch(
      /Denied by \w+ at \d\d:\d\d:\d\d \(.+ ago\): \d+ of \d+ per \w+ used.* of this key by/,
    );
    expect(page.url()).not.toContain("192.0.2.31");
    expect(await axeViolations(page)).toEqual([]);
    await page.getByRole("heading", { name: "Denials of this key" }).waitFor();
    await expect.poll(() => page.locator("tbody tr").count(), patience).toBeGreaterThan(0);
    const keys = new Set(await page.locator("tbody a.id").allInnerTexts());
    expect(keys.size).toBe(1);
    await page.getByRole("searchbox", { name: /^Address, API key/ }).fill("");
    await page.getByRole("button", { name: "Find" }).click();
    await page.getByRole("heading", { name: "Denials", exact: true }).waitFor();
    expect(await page.locator(".answer").count()).toBe(0);
    await page.getByRole("link", { name: "Denials of this key", exact: true }).first().click();
    await page.locator(".answer").waitFor();
    await page.getByRole("heading", { name: "Denials of this key" }).waitFor();
    await page.getByRole("link", { name: "Show the key" }).click();
    await page.waitForURL(/\/keys\?policy=\w+&id=/);
  });

  it("a search for a time marks its row in the list around it, and Back and a reload restore the answer", async () => {
    await deniedInstance("192.0.2.34");
    const page = await site.open("denied");
    await find(page, "192.0.2.34");
    await page.getByLabel("When").selectOption("10 min ago");
    const answer = page.locator(".answer");
    await answer.getByText(/^The nearest denial is .* after the asked time\./).waitFor();
    const { searchParams } = new URL(page.url());
    const at = searchParams.get("at") ?? "";
    expect(Date.now() - Date.parse(at)).toBeGreaterThan(590_000);
    await page.getByRole("heading", { name: /^Denials of this key around/ }).waitFor();
    const marked = page.locator("tr[aria-current]");
    await marked.waitFor();
    expect(await marked.getByText("found").count()).toBe(1);
    const cause = (await marked.locator("td[data-title=Why]").innerText()).trim();
    expect(await answer.innerText()).toContain(cause);
    expect(await axeViolations(page)).toEqual([]);
    const others = new URL(page.url());
    others.searchParams.set("cursor", `${Date.now() + 60_000}-0`);
    await page.goto(others.href);
    await answer.getByText(/^The nearest denial is/).waitFor();
    const search = page.waitForRequest(/denials\/search$/);
    await page.getByRole("link", { name: "Newer denials" }).click();
    await page.waitForURL(/newer=/);
    await search;
    expect(new URL(page.url()).searchParams.get("at")).toBe(at);
    expect(await page.getByLabel("When").inputValue()).toBe(at);
    expect(await answer.innerText()).toContain(cause);
    await page.goBack();
    await page.goBack();
    const isRestored = async (): Promise<void> => {
      await answer.getByText(/^The nearest denial is .* after the asked time\./).waitFor();
      expect(await answer.innerText()).toContain(cause);
      await expect.poll(() => page.getByLabel("When").inputValue()).toBe(at);
      await marked.waitFor();
    };
    await page.getByRole("link", { name: "Show the key" }).click();
    await page.waitForURL(/\/keys\?/);
    await page.goBack();
    await isRestored();
    await page.reload();
    await isRestored();
    await page.goBack();
    await page.getByRole("heading", { name: "Denials of this key", exact: true }).waitFor();
    expect(await page.getByLabel("When").inputValue()).toBe("");
    expect(await answer.innerText()).toMatch(/^Denied by/);
    await find(page, (searchParams.get("id") ?? "").slice(0, 8));
    expect(new URL(page.url()).searchParams.get("id")).toBe(searchParams.get("id"));
  });

  it("the instance of a problem response finds its denial, also by the address of the page", async () => {
    const instance = await deniedInstance("192.0.2.32");
    const page = await site.open("denied", { width: 320, theme: "dark" });
    await shown(page, "Denied");
    await find(page, instance);
    expect(new URL(page.url()).searchParams.get("instance")).toBe(instance);
    await page.reload();
    await page.getByText("Denied by").waitFor();
    expect(await horizontalOverflow(page)).toBe(0);
    expect(await axeViolations(page)).toEqual([]);
  });

  it("the list has the denials of a policy and a period, and each row links to its key", async () => {
    await deniedInstance("192.0.2.33");
    const page = await site.open("denied?policy=login");
    const rows = page.getByRole("row").filter({ has: page.getByRole("link", { name: "login", exact: true }) });
    await expect.poll(() => rows.count(), patience).toBeGreaterThan(0);
    await rows.getByText("ip=192.0.2.33").first().waitFor();
    expect(await rows.first().locator("a.id").getAttribute("href")).toMatch(/^\.\/keys\?policy=login&id=/);
    const past = await site.open(`denied?from=${Date.UTC(2026, 0, 1)}&to=2026-01-02T00:00:00Z`);
    await past.getByText("No denial in this time.").waitFor();
    await past.getByRole("link", { name: "Show all times", exact: true }).click();
    await past.getByRole("row").nth(1).waitFor();
  });

  it("the list begins with 20 rows, and shows more on demand", async () => {
    const addresses = Array.from({ length: 24 }, (_, index) => `192.0.2.${100 + index}`);
    await Promise.all(addresses.map(deniedInstance));
    const page = await site.open("denied?policy=login", { width: 390 });
    const rows = page.locator("tbody tr");
    await expect.poll(() => rows.count(), patience).toBe(20);
    await page.getByRole("button", { name: "Show more" }).click();
    await expect.poll(() => rows.count(), patience).toBeGreaterThan(20);
    expect(await horizontalOverflow(page)).toBe(0);
  });

  it("a text that fits no policy's key shows why, and an unknown instance shows that the log does not have it", async () => {
    const page = await site.open("denied", { allowed: [/status of 422/] });
    await page.getByRole("searchbox", { name: /^Address, API key/ }).fill("no address");
    await page.getByRole("button", { name: "Find" }).click();
    await page.getByRole("alert").filter({ hasText: "expected a key that fits" }).waitFor();
    await page.getByRole("searchbox", { name: /^Address, API key/ }).fill(`urn:uuid:${crypto.randomUUID()}`);
    await page.getByRole("button", { name: "Find" }).click();
    await page.getByText(/The log has no such denial yet\..* looks again until/).waitFor();
    await page.getByLabel("When").selectOption("10 min ago");
    await page.getByText("The log has no such denial. The log has").waitFor();
    await page.getByRole("button", { name: "Look again" }).waitFor();
    expect(await page.getByRole("table").count()).toBe(0);
  });
});
