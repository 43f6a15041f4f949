/** Changes of keys while other operators change the same keys, and while the connection is lost. */
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { hasBrowser } from "./browser.ts";
import { consoleSite } from "./console-site.ts";
import { tokens } from "./console-worker.ts";
import { button, find, keysOf, messages, rulesIn } from "./keys-page.ts";
import { axeViolations, focused, horizontalOverflow } from "./page-checks.ts";

const offline = /^failed: |ERR_FAILED|ERR_INTERNET_DISCONNECTED/;

describe.skipIf(!hasBrowser)("changes of keys in Chromium, skipped unless it is installed", () => {
  const site = consoleSite();
  const { idOf, rulesOf } = keysOf(site);

  it("a change by another operator appears in an open dialog, which keeps the typed text and is confirmed only after the operator accepts the newer state", async () => {
    const page = await site.open("keys?policy=api");
    await find(page, "198.51.100.10");
    await button(page, "Block …").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Note for the audit log").fill("half a sent");
    const body = { policy: "api", key: "198.51.100.10", kind: "allow", note: "customer" };
    await site.worker.api("POST", "/rules", { body });
    await dialog.getByText(/operator allowed key .+ without charge \(customer\)/).waitFor();
    await dialog.getByText("allow without charge, from the rule of operator").waitFor();
    expect(await dialog.getByLabel("Note for the audit log").inputValue()).toBe("half a sent");
    expect(await axeViolations(page)).toEqual([]);
    expect(await button(dialog, "Block the key").isDisabled()).toBe(true);
    await confirmAgain(page, "Block the key");
  });

  /**
   * Another operator changes the rule just before the page sends its own change, so that the page's change is refused.
   */
  const confirmTooLate = async (
    page: Page,
    { id, confirm, note }: { id: string; confirm: string; note: string },
  ): Promise<void> => {
    const dialog = page.getByRole("dialog");
    // The page reads nothing until its own change is answered, as when both operators confirm at the same time.
    const reads = /api\/(?:audit|rules\?|keys\/explain)/;
    const { promise: answered, resolve: release } = Promise.withResolvers<unknown>();
    await page.route(reads, async (route) => {
      await answered;
      await route.continue();
    });
    const [rule] = await rulesOf(id);
    const etag = `"${rule?.revision}"`;
    await site.worker.api("PUT", `/rules/${rule?.id}`, { body: { kind: "block", note }, etag });
    const refused = page.waitForResponse((response) => response.status() === 412);
    await button(dialog, confirm).click();
    release(await refused);
    await dialog.getByRole("alert").getByText(`(${note}). Your change was not made.`).waitFor();
    expect(await focused(page)).toMatch(/^alert/);
    expect(await button(dialog, confirm).isDisabled()).toBe(true);
    await page.unroute(reads);
  };

  /** Confirms the change to the newer state, which the dialog shows. */
  const confirmAgain = async (page: Page, confirm: string): Promise<void> => {
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Make this change to the newer state, which is shown above").check();
    await button(dialog, confirm).click();
    await dialog.waitFor({ state: "hidden" });
  };

  it("a block, a new end and a removal are refused after another operator's change, show this change, and are sent again only when the operator accepts the newer state", async () => {
    const id = await idOf("198.51.100.11");
    const body = { policy: "api", id, kind: "block", note: "first" };
    await site.worker.api("POST", "/rules", { body });
    const page = await site.open(`keys?policy=api&id=${id}`, { allowed: [/status of 412/] });
    await rulesIn(page).getByText("first").waitFor();
    await button(page, "Block …").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Note for the audit log").fill("mine");
    await dialog.getByText(/replaces the rule of operator/).waitFor();
    await confirmTooLate(page, { id, confirm: "Block the key", note: "second" });
    expect(await dialog.getByLabel("Note for the audit log").inputValue()).toBe("mine");
    await confirmAgain(page, "Block the key");
    expect(await rulesOf(id)).toMatchObject([{ note: "mine" }]);
    // A dialog on an older state would show the operator's own change as a newer one.
    await rulesIn(page).getByText("mine").waitFor();

    await button(page, "Extend: block").click();
    await dialog.getByLabel("For how long").selectOption("1 day");
    await confirmTooLate(page, { id, confirm: "Change the end", note: "third" });
    expect(await dialog.getByLabel("For how long").inputValue()).toBe("1d");
    await confirmAgain(page, "Change the end");
    expect(await rulesOf(id)).toMatchObject([{ note: "third", expiresAt: expect.any(String) }]);
    await rulesIn(page).getByText("when it is removed").waitFor({ state: "hidden" });

    await button(page, "Remove: block").click();
    await confirmTooLate(page, { id, confirm: "Remove the rule", note: "fourth" });
    expect(await rulesOf(id)).toMatchObject([{ note: "fourth" }]);
    await confirmAgain(page, "Remove the rule");
    expect(await rulesOf(id)).toEqual([]);
  });

  it.each([
    { width: 1_280, height: 720, theme: "light", address: "198.51.100.31" },
    { width: 390, height: 844, theme: "dark", address: "198.51.100.32" },
  ] as const)(
    "at $width x $height in the theme $theme, a refused change shows its reason beside the buttons, in view, and a second click sends nothing",
    async ({ address, ...options }) => {
      const id = await idOf(address);
      const body = { policy: "api", id, kind: "block", note: "first" };
      await site.worker.api("POST", "/rules", { body });
      const page = await site.open(`keys?policy=api&id=${id}`, { ...options, allowed: [/status of 412/] });
      await rulesIn(page).getByText("first").waitFor();
      await button(page, "Extend: block").click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("For how long").selectOption("7 days");
      await confirmTooLate(page, { id, confirm: "Change the end", note: "second" });
      const accepted = dialog.getByLabel("Make this change to the newer state, which is shown above");
      await accepted.waitFor();
      const isInView = await page.evaluate<boolean>(`(() => {
        const alert = document.querySelector("dialog [role=alert]");
        const { left, top, width, height } = alert.getBoundingClientRect();
        const shown = document.elementFromPoint(left + width / 2, top + height / 2);
        return height > 0 && top >= 0 && top + height <= innerHeight && alert.contains(shown);
      })()`);
      expect(isInView).toBe(true);
      expect(await axeViolations(page)).toEqual([]);
      expect(await horizontalOverflow(page)).toBe(0);
      await button(dialog, "Change the end").click({ force: true });
      await page.keyboard.press("Enter");
      expect(await rulesOf(id)).toMatchObject([{ note: "second", expiresAt: null }]);
      await confirmAgain(page, "Change the end");
      expect(await rulesOf(id)).toMatchObject([{ note: "second", expiresAt: expect.any(String) }]);
    },
  );

  it("a rule that another operator has removed in the meantime gets no new end", async () => {
    const id = await idOf("198.51.100.18");
    const body = { policy: "api", id, kind: "allow", note: "customer" };
    const { body: made } = await site.worker.api("POST", "/rules", { body });
    const page = await site.open(`keys?policy=api&id=${id}`);
    await button(page, "Extend: allow without charge").click();
    const dialog = page.getByRole("dialog");
    const path = `/rules/${(made as { id: string }).id}`;
    await site.worker.api("DELETE", path, { etag: "*" });
    await dialog.getByText(/^operator removed the rule “allow without charge”/).waitFor();
    await dialog.getByText("The rule no longer exists.").waitFor();
    expect(await button(dialog, "Change the end").isDisabled()).toBe(true);
  });

  it("a dialog survives a lost connection, and sending again creates no second rule", async () => {
    const page = await site.open("keys?policy=api", { allowed: [offline] });
    await find(page, "198.51.100.12");
    const id = await idOf("198.51.100.12");
    await button(page, "Boost …").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Note for the audit log").fill("ticket 7");
    await page.context().setOffline(true);
    await button(dialog, "Boost the key").click();
    await dialog.getByText("The Worker cannot be reached.").waitFor();
    await page.context().setOffline(false);
    // Now the request arrives, but its response is lost.
    const keys: (string | undefined)[] = [];
    await page.route(/api\/rules$/, async (route) => {
      keys.push(route.request().headers()["idempotency-key"]);
      // Only the browser resolves the host of the console.
      await route.fetch({ url: route.request().url().replace("admin.localhost", "localhost") });
      await route.abort();
    });
    await button(dialog, "Boost the key").click();
    await expect.poll(() => keys.length).toBe(2);
    await dialog.getByText("The Worker cannot be reached.").waitFor();
    expect(await dialog.getByLabel("Note for the audit log").inputValue()).toBe("ticket 7");
    // The dialog shows the rule that the lost attempt created, and still repeats that attempt.
    await dialog.getByText(/replaces the rule of operator/).waitFor();
    await page.unroute(/api\/rules$/);
    const sent = page.waitForRequest((request) => request.method() !== "GET" && /api\/rules/.test(request.url()));
    await button(dialog, "Boost the key").click();
    expect((await sent).headers()["idempotency-key"]).toBe(keys[0]);
    expect(new Set(keys).size).toBe(1);
    await messages(page).getByText("Boosted ip=198.51.100.12 2x for 10 min").waitFor();
    expect(await rulesOf(id)).toMatchObject([{ kind: "limits", revision: 1, note: "ticket 7" }]);
    // An undo that fails can be repeated.
    await page.context().setOffline(true);
    await button(messages(page), "Undo").click();
    await messages(page).getByText("The Worker cannot be reached.").waitFor();
    await page.context().setOffline(false);
    await button(messages(page), "Undo").click();
    await page.getByText("No rule.").waitFor();
    await expect.poll(() => button(messages(page), /^Undo:/).count()).toBe(0);
  });

  it("when a dialog was closed while it was sending, its failure appears as a message, which the next operator of the tab does not see", async () => {
    const page = await site.open("keys?policy=api", { allowed: [/status of 503/] });
    await find(page, "198.51.100.19");
    const { promise: closed, resolve: release } = Promise.withResolvers<unknown>();
    const detail = "The control plane does not answer.";
    await page.route(/api\/rules$/, async (route) => {
      await closed;
      await route.fulfill({ status: 503, json: { title: "", status: 503, detail } });
    });
    const dialog = page.getByRole("dialog");
    const note = dialog.getByLabel("Note for the audit log");
    await button(page, "Block …").click();
    await note.fill("first");
    const sent = page.waitForRequest(/api\/rules$/);
    await button(dialog, "Block the key").click();
    await sent;
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });
    release(null);
    await messages(page).getByText(detail).waitFor();
    await page.unroute(/api\/rules$/);
    await button(page, "Block …").click();
    await note.fill("second");
    await button(dialog, "Block the key").click();
    await messages(page).getByText("Blocked ip=198.51.100.19").waitFor();
    await button(page, "Sign out").click();
    await page.getByLabel("Admin token").fill(tokens.reader);
    await button(page, "Sign in").click();
    await page.getByText("Your token can only read.").waitFor();
    expect(await messages(page).innerText()).toBe("");
  });
});
