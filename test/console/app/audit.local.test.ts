/** The view "Audit" in a browser: undo, rollback, and a history that grows while it is shown. */
import type { Locator, Page } from "playwright-core";
import { beforeAll, describe, expect, it } from "vitest";
import type { RuleView } from "../../../src/admin/wire.ts";
import { hasBrowser } from "./browser.ts";
import { addSecondOperator, called, newestEntry, rulesOf, second } from "./changes.ts";
import { consoleSite } from "./console-site.ts";
import { tokens } from "./console-worker.ts";
import { countRows, generateLog } from "./long-audit.ts";
import { axeViolations, horizontalOverflow } from "./page-checks.ts";

/** Each test has its own policy. */
const names = ["undone", "back", "meanwhile", "growing", "many", "links"];
const policies = names.map((name) => ({
  name,
  match: { path: `/${name}` },
  key: ["ip"],
  limits: "2/hour",
}));

const button = (within: Page | Locator, name: string): Locator => within.getByRole("button", { name, exact: true });
const entryWith = (page: Page, text: string | RegExp): Locator =>
  page.getByRole("list", { name: "Audit entries" }).locator(":scope > li").filter({ hasText: text });
const undoButton = (page: Page, text: string): Locator =>
  page.getByLabel("Messages").getByRole("button", { name: `Undo: ${text}` });

describe.skipIf(!hasBrowser)("the audit in Chromium, skipped unless it is installed", () => {
  const site = consoleSite({ policies });
  beforeAll(() => addSecondOperator(site.worker));
  const rules = (policy: string): Promise<string[]> => rulesOf(site.worker, policy);
  const seqNow = async (): Promise<number> => (await newestEntry(site.worker))?.seq ?? 0;

  it("a created, a changed and a removed rule are undone one by one, each with its effect, and each undo can be undone", async () => {
    const { worker } = site;
    const rule = { policy: "undone", kind: "block", key: "192.0.2.7", for: "1d", note: "Abuse" };
    const removed = await called<RuleView>(worker, "POST", "/rules", rule);
    await called(worker, "PATCH", "/policies/undone", { mode: "dry-run", for: "1d" });
    const before = await rules("undone");
    await called(worker, "DELETE", `/rules/${removed.id}`);
    await called(worker, "PATCH", "/policies/undone", { mode: "off" });
    await called(worker, "POST", "/rules", { ...rule, kind: "allow", key: "192.0.2.8" });
    const after = await rules("undone");
    const page = await site.open("audit?policy=undone");
    for (const [text, now, then] of [
      ["without charge for 1 d (Abuse).", /^allow without charge, until/, "2 per hour, from the configuration"],
      ["set the mode of policy undone to off.", "mode off, without an end", /^mode dry-run, until/],
      ["removed the rule “block”", "2 per hour, from the configuration", /^block, until/],
    ] as const) {
      // oxlint-disable no-await-in-loop
      const entry = entryWith(page, text).last();
      await entry.getByRole("button", { name: /^Undo entry/ }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("definition").getByText(now).waitFor();
      await dialog.getByRole("definition").getByText(then).waitFor();
      await button(dialog, "Undo the change").click();
      await dialog.waitFor({ state: "hidden" });
      await entry.getByText(/^Cannot be undone by itself: entry \d+ /).waitFor();
      // The entry of the undo appears at once, and names the entry that it undoes.
      const seq = await entry.getByRole("link", { name: /^Entry \d+$/ }).textContent();
      await entryWith(page, `This undoes ${seq?.toLowerCase()}: operator `).waitFor();
      // oxlint-enable no-await-in-loop
    }
    expect(await rules("undone")).toEqual(before);
    expect(after).not.toEqual(before);
    await undoButton(page, "Undid entry").first().click();
    await expect.poll(() => rules("undone")).toHaveLength(1);
  });

  it("a rollback shows which rules it removes, restores and changes, makes exactly these changes, and can be undone", async () => {
    const { worker } = site;
    const rule = { policy: "back", kind: "block", key: "192.0.2.7", for: "1d", note: "Abuse" };
    const removed = await called<RuleView>(worker, "POST", "/rules", rule);
    await called(worker, "PATCH", "/policies/back", { limits: "9/hour", note: "More" });
    const to = await seqNow();
    const then = await rules("back");
    await called(worker, "DELETE", `/rules/${removed.id}`);
    await called(worker, "PATCH", "/policies/back", { limits: "1/hour", mode: "off" });
    const now = await rules("back");
    const page = await site.open("audit");
    await button(page, `Roll back to here: entry ${to}`).click();
    await expect.poll(() => page.url()).toMatch(new RegExp(`to=${to}$`));
    await page.reload();
    const dialog = page.getByRole("dialog", { name: `Roll back to the state after entry ${to}` });
    const effect = dialog.getByRole("region", { name: "Effect" });
    await effect.getByText("Concerns policy back, with rules of 1 key").waitFor();
    const texts = await effect.getByRole("listitem").allTextContents();
    expect(texts).toEqual([
      "policy back: mode off, without an end",
      expect.stringMatching(/^key \S+ of policy back: block, until /),
      "policy back: limits 1/hour, without an end → limits 9/hour, without an end",
    ]);
    expect(await axeViolations(page)).toEqual([]);
    await button(dialog, "Roll back").click();
    await dialog.waitFor({ state: "hidden" });
    expect(await rules("back")).toEqual(then);
    // All changes of the rollback are one entry, which can be undone as a whole.
    const entry = entryWith(page, `operator (by token) rolled back to the state after entry ${to}.`);
    await entry.waitFor();
    await entry.getByText("3 changes", { exact: true }).click();
    expect(await entry.getByRole("listitem").count()).toBe(3);
    expect(await axeViolations(page)).toEqual([]);
    await entry.getByRole("button", { name: /^Undo the rollback/ }).click();
    await button(page.getByRole("dialog"), "Roll back").click();
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    expect(await rules("back")).toEqual(now);
    await undoButton(page, "Rolled back").first().click();
    await expect.poll(() => rules("back")).toEqual(then);
  });

  it("a long rollback shows its progress in the dialog, which closes when the rollback has ended", async () => {
    const { worker } = site;
    const to = await seqNow();
    await called(worker, "PATCH", "/policies/links", { limits: "8/hour" });
    const page = await site.open(`audit?to=${to}`);
    const running = { startedAt: "now", total: 12_000, examined: 900 };
    let state = "running";
    await page.route(/\/api\/rollback$/, (route) => {
      const rollback = { ...running, state };
      const isRead = route.request().method() === "GET";
      return route.fulfill({ json: isRead ? { rollback } : rollback });
    });
    const dialog = page.getByRole("dialog");
    await button(dialog, "Roll back").click();
    await dialog.getByRole("status").getByText("900 of 12,000 rules").waitFor();
    expect(await axeViolations(page)).toEqual([]);
    state = "done";
    await dialog.waitFor({ state: "hidden" });
    await undoButton(page, "Rolled back").waitFor();
  });

  it("a change by another operator appears in an open rollback, and undoing the rollback shows later changes before removing them", async () => {
    const { worker } = site;
    const to = await seqNow();
    await called(worker, "PATCH", "/policies/meanwhile", { mode: "off" });
    const page = await site.open(`audit?to=${to}`);
    const dialog = page.getByRole("dialog");
    await dialog.getByText("policy meanwhile: mode off").waitFor();
    await called(worker, "PATCH", "/policies/meanwhile", { limits: "9/hour" }, second.token);
    await dialog.getByText("second set the limits of policy meanwhile to 9/hour").waitFor();
    await dialog.getByText("policy meanwhile: limits 9/hour, without an end").waitFor();
    expect(await button(dialog, "Roll back").isDisabled()).toBe(true);
    await dialog.getByLabel("Make this change to the newer state, which is shown above").check();
    await button(dialog, "Roll back").click();
    await dialog.waitFor({ state: "hidden" });
    expect(await rules("meanwhile")).toEqual([]);
    await called(worker, "PATCH", "/policies/meanwhile", { mode: "dry-run" }, second.token);
    await undoButton(page, "Rolled back").click();
    // The rollback of the rollback also concerns a later change, so it is shown and not yet made.
    await page
      .getByRole("dialog")
      .getByText(/policy meanwhile: mode dry-run/)
      .waitFor();
    expect(await rules("meanwhile")).toHaveLength(1);
  });

  it("new entries appear at the top, and those of other operators wait behind a button while an entry is read", async () => {
    const { worker } = site;
    await called(worker, "PATCH", "/policies/growing", { mode: "off" });
    const page = await site.open("audit?policy=growing");
    await entryWith(page, "set the mode of policy growing to off").waitFor();
    await called(worker, "PATCH", "/policies/growing", { mode: "dry-run" });
    await entryWith(page, "set the mode of policy growing to dry-run").waitFor();
    const first = entryWith(page, "set the mode of policy growing to off");
    await first.getByText("Before and after").click();
    const place = await first.boundingBox();
    await called(worker, "PATCH", "/policies/growing", { limits: "7/hour" }, second.token);
    await button(page, "1 new entry").waitFor();
    expect(await first.boundingBox()).toEqual(place);
    expect(await entryWith(page, "7/hour").count()).toBe(0);
    expect(await axeViolations(page)).toEqual([]);
    await button(page, "1 new entry").click();
    await entryWith(page, "7/hour").waitFor();
    const newest = entryWith(page, "7/hour");
    await newest.getByText("The newest entry: the rules are as it left them.").waitFor();
    expect(await newest.getByRole("button", { name: /^Roll back/ }).count()).toBe(0);
  });

  it("older entries load page by page, a link loads all entries down to its own, and filters are in the address", async () => {
    const { worker } = site;
    await called(worker, "PATCH", "/policies/many", { mode: "off", note: "The first of many" });
    const seq = await seqNow();
    for (let count = 0; count < 110; count++) {
      // oxlint-disable-next-line no-await-in-loop -- the control plane numbers them in this order
      await called(worker, "PATCH", "/policies/many", { limits: `${count + 1}/hour` });
    }
    const page = await site.open("audit?policy=many");
    await entryWith(page, "110/hour").waitFor();
    expect(await entryWith(page, "The first of many").count()).toBe(0);
    await button(page, "Older entries").click();
    await entryWith(page, "The first of many").waitFor();
    await page.goto(`${worker.consoleUrl}audit?seq=${seq}`);
    const named = entryWith(page, "The first of many");
    await expect.poll(() => named.getAttribute("aria-current")).toBe("true");
    await expect.poll(() => named.evaluate((element) => element.matches(":focus"))).toBe(true);
    expect(await named.getByText("+ off").isVisible()).toBe(false);
    expect(await named.getByRole("definition").allTextContents()).toContain(" off");
    await page.getByText(/^(?:Filters apply to the|The audit log has) 1\d\d entries/).waitFor();
    await page.getByLabel("Action").selectOption("set the mode");
    await expect.poll(() => page.url()).toMatch(/action=set\+the\+mode/);
    await page.getByLabel("Policy", { exact: true }).selectOption("many");
    await expect
      .poll(() => entryWith(page, /./).allInnerTexts())
      .toEqual([expect.stringContaining("set the mode of policy many to off (The first of many)")]);
    await button(page, "Clear the filter").click();
    await expect.poll(() => entryWith(page, /./).count()).toBeGreaterThan(100);
  });

  it("a link to an old entry among thousands, and each later change, draws only a few entries", async () => {
    const page = await site.open("audit");
    await page.getByRole("heading", { level: 1, name: "Audit" }).waitFor();
    const log = await generateLog(page, 5_000);
    const drawn = await countRows(page);
    await page.goto(`${site.worker.consoleUrl}audit?seq=2`);
    const named = entryWith(page, /^Entry 2,/);
    await expect.poll(() => named.evaluate((element) => element.matches(":focus"))).toBe(true);
    expect(log.reads).toBeLessThanOrEqual(28);
    expect(await entryWith(page, /./).count()).toBeLessThanOrEqual(200);
    expect(await drawn()).toBeLessThanOrEqual(400);
    const before = await drawn();
    log.newest += 1;
    await button(page, "1 new entry").waitFor();
    expect(await drawn()).toBe(before);
    await button(page, "1 new entry").click();
    await entryWith(page, /^Entry 5001,/).waitFor();
    expect(await drawn()).toBeLessThanOrEqual(before + 200);
  });

  it("in a log of 100,000 entries, links, older entries and a rollback need few requests and draw a small page", async () => {
    const page = await site.open("audit");
    await page.getByRole("heading", { level: 1, name: "Audit" }).waitFor();
    const log = await generateLog(page, 100_000);
    await page.goto(`${site.worker.consoleUrl}audit?seq=2`);
    const named = entryWith(page, /^Entry 2,/);
    await expect.poll(() => named.evaluate((element) => element.matches(":focus"))).toBe(true);
    expect(log.reads).toBeLessThanOrEqual(4);
    expect(await entryWith(page, /./).count()).toBe(51);
    expect(await page.getByRole("button", { name: /^Undo entry|^Roll back/ }).count()).toBe(0);
    expect(await axeViolations(page)).toEqual([]);
    await page.getByRole("link", { name: "Newer entries" }).click();
    await entryWith(page, /^Entry 100,/).waitFor();
    await page.getByRole("link", { name: "Show the newest entries" }).click();
    await entryWith(page, /^Entry 99901,/).waitFor();
    for (let oldest = 99_901; oldest > 99_500; oldest -= 100) {
      // oxlint-disable no-await-in-loop
      const last = entryWith(page, new RegExp(`^Entry ${oldest},`));
      await last.scrollIntoViewIfNeeded();
      await button(page, "Older entries").click();
      await entryWith(page, new RegExp(`^Entry ${oldest - 100},`)).waitFor();
      expect(await entryWith(page, /./).count()).toBeLessThanOrEqual(200);
      // The entries that the operator read stay in the viewport.
      const top = await last.evaluate((row) => row.getBoundingClientRect().top);
      expect(top).toBeGreaterThan(0);
      expect(top).toBeLessThan(page.viewportSize()?.height ?? 0);
      // oxlint-enable no-await-in-loop
    }
    await button(page, "Newer entries").click();
    await entryWith(page, /^Entry 99700,/).waitFor();
    expect(await axeViolations(page)).toEqual([]);
    const { reads } = log;
    await page.goto(`${site.worker.consoleUrl}audit?to=0`);
    await page.getByRole("dialog").getByText("The log has more than 5,000 newer").waitFor();
    expect(log.reads).toBeLessThanOrEqual(reads + 3);
  });

  it("a reset states why it cannot be undone, its links lead to the policy and the key, and a read-only operator sees no buttons", async () => {
    const { worker } = site;
    const body = { policy: "links", key: "192.0.2.7" };
    const { id } = await called<{ id: string }>(worker, "POST", "/keys/explain", body);
    await called(worker, "DELETE", `/keys/links/${id}/usage`);
    const page = await site.open(`audit?policy=links&key=${id}`);
    const entry = entryWith(page, `reset the usage of key ${id.slice(0, 8)}… of policy links`);
    await entry.getByText("Cannot be undone by itself: a reset forgets the usage").waitFor();
    expect(await entry.getByRole("link", { name: /^Key/ }).getAttribute("href")).toBe(`./keys?policy=links&id=${id}`);
    await entry.getByRole("link", { name: "Policy links" }).click();
    await page.getByRole("heading", { level: 1, name: "Policy links" }).waitFor();
    const reader = await site.open("audit?policy=links", { token: tokens.reader });
    await entryWith(reader, "reset the usage").waitFor();
    const list = reader.getByRole("list", { name: "Audit entries" });
    expect(await list.getByRole("button").count()).toBe(0);
  });

  it.each([
    ["light", 320],
    ["dark", 1_280],
  ] as const)(
    "audit entries and the preview of a rollback have no violations and no overflow, in the theme %s at %i px",
    async (theme, width) => {
      await called(site.worker, "PATCH", "/policies/links", { mode: "off", note: theme });
      const page = await site.open(`audit?seq=${await seqNow()}`, { theme, width });
      await entryWith(page, `(${theme})`).waitFor();
      const { height = 0 } = (await page.locator(".entry:not([aria-current])").first().boundingBox()) ?? {};
      expect(height).toBeLessThanOrEqual(width > 1_000 ? 80 : 200);
      expect(await axeViolations(page)).toEqual([]);
      expect(await horizontalOverflow(page)).toBe(0);
      await page
        .getByRole("button", { name: /^Roll back to here/ })
        .last()
        .click();
      await page
        .getByRole("dialog")
        .getByText(/^Concerns/)
        .waitFor();
      expect(await axeViolations(page)).toEqual([]);
      expect(await horizontalOverflow(page)).toBe(0);
    },
  );
});
