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
});
