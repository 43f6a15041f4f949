/** The history on the page of a key, in a browser: an operator records a key, and its requests appear. */
import { describe, expect, it } from "vitest";
import { hasBrowser } from "./browser.ts";
import { consoleSite } from "./console-site.ts";
import { button, find, keysOf } from "./keys-page.ts";
import { axeViolations, horizontalOverflow } from "./page-checks.ts";

describe.skipIf(!hasBrowser)("the history of a key in a browser", () => {
  const site = consoleSite({ sample: "off" });

  it.each([
    [1_280, "light", "198.51.100.1"],
    [390, "dark", "198.51.100.2"],
  ] as const)(
    "an operator records a key, sees its requests, and stops, at %i px, %s",
    async (width, theme, address) => {
      const page = await site.open("keys?policy=api", { theme, width });
      await find(page, address);
      const history = page.getByRole("region", { name: "Requests of this key" });
      await history.getByText("Requests of this key are not recorded").waitFor();
      await button(history, "Record this key for an hour").click();
      await history.getByText("Recording until").waitFor();
      await expect
        .poll(async () => {
          await keysOf(site).statuses(address, 1);
          return history.getByRole("img").getAttribute("aria-label");
        })
        .toMatch(/[1-9]\d* requests? since \d\d:\d\d/);
      expect(await axeViolations(page)).toEqual([]);
      expect(await horizontalOverflow(page)).toBe(0);
      await button(history, "Stop").click();
      await history.getByText("while it was recorded").waitFor();
      await button(history, "Record this key for an hour").waitFor();
    },
  );

  it("the totals of a key say that the plot shows requests per minute, and its range stays as its requests grow older", async () => {
    const page = await site.open("keys?policy=api");
    const minuteMs = 60_000;
    let ageMs = 14 * minuteMs;
    await page.route(/\/history\?/, async (route) => {
      const nowMs = Date.now();
      const at = (agoMs: number): string => new Date(nowMs - agoMs).toISOString();
      const points = [{ at: at(ageMs), outcomes: { allowed: 3, denied: 1 } }];
      const sample = { from: at(1_440 * minuteMs), coverage: 1 };
      const span = { from: sample.from, to: at(0), stepMs: minuteMs, points };
      await route.fulfill({ json: { policy: "api", id: "k", sample, recordings: [], recording: null, ...span } });
    });
    await find(page, "198.51.100.34");
    const requests = page.getByRole("region", { name: "Requests of this key" });
    await requests.getByText(/^requests since .+; the plot shows requests per minute$/).waitFor();
    const pressed = requests.getByRole("button", { pressed: true });
    expect(await pressed.textContent()).toBe("15 min");
    ageMs = 17 * minuteMs;
    await requests.getByText("No request in the last 15 minutes.").waitFor();
    expect(await pressed.textContent()).toBe("15 min");
  });
});
