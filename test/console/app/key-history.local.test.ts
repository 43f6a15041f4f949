/** The history on the page of a key, in a browser: an operator records a key, and its requests appear. */
import { describe, expect, it } from "vitest";
import { hasBrowser } from "./browser.ts";
import { consoleSite } from "./console-site.ts";
import { button, find, keysOf } from "./keys-page.ts";
import { axeViolations } from "./page-checks.ts";

describe.skipIf(!hasBrowser)("the history of a key in a browser", () => {
  const site = consoleSite();

  it.for([
    [1280, "light"],
    [1280, "dark"],
    [390, "light"],
    [390, "dark"],
  ] as const)("at a width of %i px, %s, an operator records a key and sees its requests", async ([width, theme]) => {
    const address = `198.51.100.${width === 390 ? 1 : 2}${theme === "dark" ? 1 : 2}`;
    const page = await site.open("keys?policy=api", { theme, width });
    await find(page, address);
    const history = page.getByRole("region", { name: "Requests of this key" });
    await button(history, "Record this key for an hour").click();
    await history.getByText("Recording until").waitFor();
    await expect
      .poll(async () => {
        await keysOf(site).statuses(address, 1);
        return history.getByRole("img").getAttribute("aria-label");
      })
      .toMatch(/Allowed [1-9]/);
    expect(await axeViolations(page)).toEqual([]);
    await history.scrollIntoViewIfNeeded();
    await page.screenshot({ path: `/tmp/hist-${width}-${theme}.png`, fullPage: true });
    await button(history, "Stop").click();
    await button(history, "Record this key for an hour").waitFor();
  });
});
