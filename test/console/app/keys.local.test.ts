/** An operator finds a limited key, reads why, changes its rules and undoes the changes, with real traffic. */
import type { Locator } from "playwright-core";
import { describe, expect, it } from "vitest";
import { hasBrowser } from "./browser.ts";
import { sampledArrivals } from "./changes.ts";
import { consoleSite } from "./console-site.ts";
import { tokens } from "./console-worker.ts";
import { button, explains, explanationOf, find, keysOf, messages, rulesIn } from "./keys-page.ts";
import { axeViolations, focused, horizontalOverflow } from "./page-checks.ts";

describe.skipIf(!hasBrowser)("keys in Chromium, skipped unless it is installed", () => {
  const site = consoleSite();
  const { statuses, idOf, rulesOf } = keysOf(site);

  it("a greedy visitor is in the list, and its page says why it is denied, with the arithmetic and the deciding step", async () => {
    await statuses("198.51.100.1", 9);
    const page = await site.open("keys?policy=api");
    const denied = page.getByRole("region", { name: "Most denied", exact: true });
    // Isolates send their counts only with later requests.
    await expect
      .poll(async () => {
        await statuses("198.51.100.1", 1);
        return denied.getByRole("link").count();
      })
      .toBeGreaterThan(0);
    const row = denied.getByRole("row").filter({ hasText: "ip=198.51.100.1" });
    await expect.poll(() => row.textContent()).toMatch(/^ip=198\.51\.100\.1\d+$/);
    await row.getByRole("link").click();
    const explanation = explanationOf(page);
    await explains(page, /^Denied for another .+: the limit api is exceeded\. 5 of 5 in the last 10 minutes/);
    await page.getByText("Show the arithmetic").click();
    await expect
      .poll(() => explanation.getByRole("row").nth(1).textContent())
      .toMatch(/^api5 per 10 minsliding window counter505in .+in .+$/);
    await page.getByText("Which rule decides").click();
    await explanation.getByText("Limits of the configuration: decides").waitFor();
    await page.getByText("Full explanation").click();
    await explanation.getByText("14. limits of the configuration").waitFor();
    expect(page.url()).toMatch(/\/keys\?policy=api&id=[\w-]{43}$/);
    expect(await axeViolations(page)).toEqual([]);
  });

  it("at localhost, lists show plain keys with one call for all of a policy, and the switch in the header hides them in all views", async () => {
    await statuses("198.51.100.2", 7);
    const page = await site.open("keys?policy=api");
    const revealed: string[] = [];
    page.on("request", (request) => {
      if (request.url().includes("/keys/reveal")) revealed.push(request.postData() ?? "");
    });
    const id = await idOf("198.51.100.2");
    const shownKeys = page.locator(`a[href*="${id}"]`);
    // Isolates send their counts only with later requests.
    await expect
      .poll(
        async () => {
          await statuses("198.51.100.2", 1);
          return shownKeys.allInnerTexts();
        },
        { timeout: 30_000 },
      )
      .toContain("ip=198.51.100.2");
    const ids = revealed.flatMap((body) => (JSON.parse(body) as { ids: string[] }).ids);
    expect(ids).toContain(id);
    const count = revealed.length;
    await page.waitForResponse(/api\/top/);
    await page.waitForResponse(/api\/top/);
    expect(revealed.slice(count).join()).not.toContain(id);
    await page.getByRole("checkbox", { name: "Plain keys" }).uncheck();
    await expect.poll(() => shownKeys.allInnerTexts()).toContain(`${id.slice(0, 8)}…`);
    await page.reload();
    await shownKeys.first().waitFor();
    expect(await page.getByRole("checkbox", { name: "Plain keys" }).isChecked()).toBe(false);
    expect(await shownKeys.first().innerText()).toBe(`${id.slice(0, 8)}…`);
    await page.getByRole("checkbox", { name: "Plain keys" }).check();
    await expect.poll(() => shownKeys.first().innerText()).toBe("ip=198.51.100.2");
    const reader = await site.open("keys?policy=api", { token: tokens.reader });
    await reader.locator(`a[href*="${id}"]`).first().waitFor();
    expect(await reader.getByRole("checkbox", { name: "Plain keys" }).count()).toBe(0);
  });

  it.each([
    [390, 844],
    [1_280, 720],
  ])("at %i x %i px, the message with Undo covers neither the new rule nor the header", async (width, height) => {
    const page = await site.open("keys?policy=api", { width, height });
    await find(page, `198.51.100.${width % 200}`);
    const boxOf = async (element: Locator) => (await element.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
    const isClear = async (element: Locator): Promise<boolean> => {
      const { x, y, width: own, height: high } = await boxOf(element);
      const boxes = await Promise.all((await page.locator(".toast").all()).map(boxOf));
      return boxes.every((box) => {
        const isBeside = box.x + box.width <= x || box.x >= x + own;
        return isBeside || box.y + box.height <= y || box.y >= y + high;
      });
    };
    for (const [action, rule] of [
      ["Allow without charge", "allow without charge"],
      ["Boost", "limits 10/10m"],
    ] as const) {
      await button(page, `${action} …`).click();
      const dialog = page.getByRole("dialog");
      await dialog.locator("button[type=submit]").click();
      await dialog.waitFor({ state: "hidden" });
      const row = rulesIn(page).locator("tr").filter({ hasText: rule });
      await row.waitFor();
      await messages(page).getByRole("button", { name: /^Undo/ }).first().waitFor();
      await expect
        .poll(async () => {
          const { y, height: high } = await boxOf(row);
          return y >= 0 && y + high <= height && (await isClear(row)) && (await isClear(page.locator("header.top")));
        })
        .toBe(true);
    }
  });

  it("a boost takes effect at the next decision, counts down, and Undo ends it", async () => {
    expect(await statuses("198.51.100.3", 6)).toEqual([200, 200, 200, 200, 200, 429]);
    const page = await site.open("keys?policy=api");
    await find(page, "198.51.100.3");
    const id = await idOf("198.51.100.3");
    await expect.poll(() => sampledArrivals(site.worker, "api", id), { timeout: 30_000 }).toBe(6);
    await button(page, "Boost …").click();
    const dialog = page.getByRole("dialog", { name: "Boost the key" });
    await dialog.getByLabel("10x").check();
    await dialog.getByText(/^From .+: 6 requests\. Then: 0 denied\. Now: 1\.$/).waitFor();
    const effect = dialog.getByRole("region", { name: "Effect" });
    await expect
      .poll(() => effect.textContent())
      .toMatch(
        /^ConcernsKey ip=198\.51\.100\.3 of policy api.*Now5 per 10 min, from the configurationThen, until \d\d:\d\d:\d\d50 per 10 min \(10x\)After that5 per 10 min, from the configuration/,
      );
    expect(await axeViolations(page)).toEqual([]);
    await button(dialog, "Boost the key").click();
    await messages(page).getByText("Boosted ip=198.51.100.3 10x for 10 min").waitFor();
    await rulesIn(page)
      .getByText(/^limits 50\/10m, .+ \(10x\)$/)
      .waitFor();
    await page.getByText(/limits 10x \(rule /).waitFor({ state: "attached" });
    const { body: audit } = await site.worker.api("GET", "/audit?limit=1");
    expect(audit).toMatchObject({ entries: [{ action: "create", after: { factor: 10 } }] });
    // The deny cache may repeat a denial for one second.
    await expect.poll(() => statuses("198.51.100.3", 1)).toEqual([200]);
    expect(await statuses("198.51.100.3", 2)).toEqual([200, 200]);
    await explains(page, /^Allowed: every limit has room\. 8 of 50/);
    const left = rulesIn(page).getByText(/^9 min \d+ s left$/);
    const first = await left.textContent();
    await expect.poll(() => left.textContent()).not.toBe(first);
    const [rule] = await rulesOf(id);
    expect(rule?.limits).toEqual([{ limit: 50, window: "10m", strategy: "sliding-window-counter" }]);
    await button(messages(page), "Undo").click();
    await page.getByText("No rule. The key has the limits of its policy.").waitFor();
    await explains(page, /^Denied for another/);
    expect(await statuses("198.51.100.3", 1)).toEqual([429]);
  });

  it("a second boost replaces the first, and undoing the second restores the first for its remaining time", async () => {
    const page = await site.open("keys?policy=api");
    await find(page, "198.51.100.4");
    const id = await idOf("198.51.100.4");
    const body = { policy: "api", id, kind: "limits", limits: "20/10m", for: "5m", note: "import" };
    await site.worker.api("POST", "/rules", { body });
    await rulesIn(page).getByText("limits 20/10m").waitFor();
    const [before] = await rulesOf(id);
    await button(page, "Boost …").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Other", { exact: true }).check();
    await dialog.getByLabel("Other limits").fill("31/10");
    await dialog.getByText(/^limits\.window: expected a duration/).waitFor();
    expect(await button(dialog, "Boost the key").isDisabled()).toBe(true);
    await dialog.getByLabel("Other limits").fill("31/10m");
    await dialog.getByText(/This replaces the rule of operator: limits 20\/10m, which ends in/).waitFor();
    await button(dialog, "Boost the key").click();
    await rulesIn(page)
      .getByText(/limits 31\/10m/)
      .waitFor();
    expect(await rulesOf(id)).toHaveLength(1);
    await button(messages(page), "Undo").click();
    await rulesIn(page).getByText("limits 20/10m").waitFor();
    const { revision: _, ...restored } = (await rulesOf(id))[0] ?? { revision: 0 };
    expect(restored).toMatchObject({ id: before?.id, note: "import" });
    expect(Reflect.get(restored, "expiresAt")).toBe(Reflect.get(before ?? {}, "expiresAt"));
  });

  it("a boost leaves limits without an end in place and takes precedence over them", async () => {
    const page = await site.open("keys?policy=api");
    await find(page, "198.51.100.5");
    const id = await idOf("198.51.100.5");
    const body = { policy: "api", id, kind: "limits", limits: "20/10m" };
    await site.worker.api("POST", "/rules", { body });
    await rulesIn(page).getByText("limits 20/10m").waitFor();
    await button(page, "Boost …").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("limits 20/10m, from the rule of operator, without an end").waitFor();
    await dialog.getByText("40 per 10 min (2x)", { exact: true }).waitFor();
    await button(dialog, "Boost the key").click();
    await expect.poll(async () => (await rulesOf(id)).length).toBe(2);
    await explains(page, /0 of 40/);
  });

  it("a block needs a note, the next request is denied with 403, and removing its rule ends the block", async () => {
    const page = await site.open("keys?policy=api");
    await find(page, "198.51.100.6");
    await button(page, "Block …").click();
    const dialog = page.getByRole("dialog", { name: "Block the key" });
    const note = dialog.getByLabel("Note for the audit log");
    await button(dialog, "Block the key").click();
    expect(await note.evaluate((input) => input.matches(":invalid"))).toBe(true);
    expect(await rulesOf(await idOf("198.51.100.6"))).toEqual([]);
    await note.fill("scraper");
    await button(dialog, "Block the key").click();
    await messages(page).getByText("Blocked ip=198.51.100.6 for 1 h").waitFor();
    expect(await statuses("198.51.100.6", 1)).toEqual([403]);
    await explains(page, /^Denied: a rule blocks the key/);
    await rulesIn(page).getByText("scraper").waitFor();
    await button(page, "Remove: block").click();
    await button(page.getByRole("dialog"), "Remove the rule").click();
    await page.getByText("No rule.").waitFor();
    // For up to a second, the isolate repeats the denial from memory.
    await expect.poll(() => statuses("198.51.100.6", 1)).toEqual([200]);
    const removed = messages(page).getByText("Removed from ip=198.51.100.6: block");
    await removed.waitFor();
    await button(messages(page), "Undo: Removed from ip=198.51.100.6: block").click();
    await rulesIn(page).getByText("scraper").waitFor();
    // The restored rule keeps the plain key, which this tab knows.
    const id = await idOf("198.51.100.6");
    const { body: revealed } = await site.worker.api("GET", `/rules?id=${id}&reveal=true`);
    expect(revealed).toMatchObject({ rules: [{ key: "ip=198.51.100.6" }] });
    expect(await statuses("198.51.100.6", 1)).toEqual([403]);
  });

  it("an allowlisted key is not charged, and the form for a boost says that a boost would have no effect", async () => {
    expect(await statuses("198.51.100.7", 6)).toContain(429);
    const page = await site.open("keys?policy=api");
    await find(page, "198.51.100.7");
    await button(page, "Allow without charge …").click();
    await button(page.getByRole("dialog"), "Allow the key without charge").click();
    await explains(page, /^Allowed, not charged: a rule allows the key/);
    // For up to a second, the isolate repeats the denial from memory.
    await expect.poll(() => statuses("198.51.100.7", 1)).toEqual([200]);
    expect(await statuses("198.51.100.7", 7)).toEqual(Array(7).fill(200));
    await button(page, "Boost …").click();
    await page
      .getByRole("dialog")
      .getByText(/A rule allows this key without charge/)
      .waitFor();
  });

  it("Reset usage says that it cannot be undone, and resets the counters of the key", async () => {
    expect(await statuses("198.51.100.8", 6)).toContain(429);
    const page = await site.open("keys?policy=api");
    await find(page, "198.51.100.8");
    await button(page, "Reset usage …").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("This cannot be undone: the counters are forgotten.").waitFor();
    await dialog.getByText("5 of 5 used").waitFor();
    await button(dialog, "Reset the usage").click();
    await explains(page, /0 of 5/);
    await expect.poll(() => statuses("198.51.100.8", 1)).toEqual([200]);
  });

  it("Extend sets another end, and Undo restores the previous end", async () => {
    const id = await idOf("198.51.100.9");
    const body = { policy: "api", id, kind: "limits", limits: "20/10m", for: "10m" };
    await site.worker.api("POST", "/rules", { body });
    const page = await site.open(`keys?policy=api&id=${id}`);
    await button(page, "Extend: limits 20/10m").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("For how long").selectOption("1 day");
    await button(dialog, "Change the end").click();
    await rulesIn(page)
      .getByText(/^23 h 59 min left$/)
      .waitFor();
    await button(messages(page), "Undo").click();
    await rulesIn(page)
      .getByText(/^9 min \d+ s left$/)
      .waitFor();
  });

  it("an operator who may only read sees the explanation and no actions", async () => {
    const id = await idOf("198.51.100.13");
    const body = { policy: "api", id, kind: "allow" };
    await site.worker.api("POST", "/rules", { body });
    const page = await site.open(`keys?policy=api&id=${id}`, { token: tokens.reader });
    await rulesIn(page).getByText("allow without charge").waitFor();
    await page.getByText("Your token can only read.").waitFor();
    await page.getByText("This page has only the id of the key").waitFor();
    expect(await button(page, /Boost|Block|Allow|Reset|Remove|Extend|plain key/).count()).toBe(0);
  });

  it("while lists show no plain keys, revealing the id of a key shows its plain key", async () => {
    await statuses("198.51.100.14", 6);
    const id = await idOf("198.51.100.14");
    const page = await site.open(`keys?policy=api&id=${id}`);
    await page.getByRole("checkbox", { name: "Plain keys" }).uncheck();
    await page.getByRole("heading", { name: `Key ${id.slice(0, 8)}…` }).waitFor();
    // Isolates send the key only after the first requests.
    await expect
      .poll(
        async () => {
          await statuses("198.51.100.14", 1);
          return (await site.worker.api("POST", "/keys/reveal", { body: { policy: "api", id } })).status;
        },
        { timeout: 30_000 },
      )
      .toBe(200);
    await button(page, "Show the plain key").click();
    await page.getByRole("heading", { name: "Key ip=198.51.100.14" }).waitFor();
    await expect.poll(() => page.getByText("only the id of the key").count()).toBe(0);
  });

  it("revealing a key without a recorded plain key says why in its place, without a message and an audit entry", async () => {
    const id = await idOf("198.51.100.31");
    const page = await site.open(`keys?policy=api&id=${id}`);
    await button(page, "Show the plain key").click();
    await page.getByText(/^The plain key is not recorded\. Plain keys are recorded only for/).waitFor();
    expect(await messages(page).locator(".toast").count()).toBe(0);
    const { body } = await site.worker.api("GET", "/audit?limit=50");
    const { entries } = body as { entries: readonly { action: string; keyId: string }[] };
    expect(entries.filter(({ action, keyId }) => action === "reveal" && keyId === id)).toEqual([]);
  });

  it("a typed address of a network is named by the network on its page and in its dialogs", async () => {
    const page = await site.open("keys?policy=api");
    await page.getByLabel("ip", { exact: true }).fill("2001:db8:bad::7");
    await button(page, "Explain").click();
    await page.getByRole("heading", { name: "Key ip=2001:db8:bad:0::/64" }).waitFor();
    await button(page, "Boost …").click();
    await page.getByRole("dialog").getByText("ip=2001:db8:bad:0::/64").waitFor();
  });

  it("a message with Undo closes when the page of another key is opened", async () => {
    const page = await site.open("keys?policy=api");
    await find(page, "198.51.100.32");
    await button(page, "Allow without charge …").click();
    await button(page.getByRole("dialog"), "Allow the key without charge").click();
    const undo = messages(page).getByRole("button", { name: /^Undo/ });
    await undo.waitFor();
    await page.getByRole("link", { name: "All keys of api" }).click();
    await page.getByLabel("ip", { exact: true }).waitFor();
    expect(await undo.count()).toBe(1);
    await find(page, "198.51.100.33");
    expect(await undo.count()).toBe(0);
  });

  it("an operator finds a key and boosts it with the keyboard alone", async () => {
    await statuses("198.51.100.15", 6);
    const page = await site.open("keys?policy=api");
    const tabTo = async (name: string): Promise<void> => {
      for (let steps = 0; steps < 40; steps++) {
        // oxlint-disable no-await-in-loop -- each step starts where the previous one ended
        await page.keyboard.press("Tab");
        if ((await focused(page)) === name) return;
        // oxlint-disable-end
      }
      throw new Error(`expected ${name} in the order of the focus`);
    };
    await page.getByLabel("ip", { exact: true }).waitFor();
    await tabTo('textbox "ip"');
    await page.keyboard.type("198.51.100.15");
    await page.keyboard.press("Enter");
    await button(page, "Boost …").waitFor();
    await expect.poll(() => focused(page)).toBe('heading "Key ip=198.51.100.15" [level=2]');
    await tabTo('button "Boost …"');
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await expect.poll(() => focused(page)).toMatch(/^radio "2x"/);
    await page.keyboard.press("ArrowRight");
    await page.getByRole("dialog").getByText("25 per 10 min (5x)", { exact: true }).waitFor();
    await page.keyboard.press("Enter");
    await messages(page).getByText("Boosted ip=198.51.100.15 5x").waitFor();
    await expect.poll(() => statuses("198.51.100.15", 1)).toEqual([200]);
    await expect.poll(() => focused(page)).toBe('button "Boost …"');
  });

  it.each(["light", "dark"] as const)(
    "with the %s theme and 320 px, the page of a key and its dialogs have no overflow and no violations",
    async (theme) => {
      const address = theme === "light" ? "198.51.100.16" : "198.51.100.17";
      await statuses(address, 6);
      const page = await site.open("keys?policy=api", { theme, width: 320 });
      await page.getByRole("table").first().waitFor();
      expect(await axeViolations(page)).toEqual([]);
      expect(await horizontalOverflow(page)).toBe(0);
      await find(page, address);
      await page.getByText("Show the arithmetic").click();
      await page.getByText("Full explanation").click();
      expect(await axeViolations(page)).toEqual([]);
      expect(await horizontalOverflow(page)).toBe(0);
      await button(page, "Boost …").click();
      await page.getByText("After that").waitFor();
      expect(await axeViolations(page)).toEqual([]);
      expect(await horizontalOverflow(page)).toBe(0);
    },
  );
});
