/** The shortest test of the console: the link of `npm start` signs in, and every view opens without an error. */
import { describe, expect, it } from "vitest";
import { hasBrowser } from "./browser.ts";
import { consoleSite } from "./console-site.ts";
import { axeViolations, horizontalOverflow } from "./page-checks.ts";
import { link, shown, views } from "./views.ts";

describe.skipIf(!hasBrowser)("the console in Chromium, skipped unless it is installed", () => {
  const site = consoleSite();

  it("the link that npm start prints signs in, and every view opens on a narrow screen without errors, violations or overflow", async () => {
    const { printedLink } = site.worker;
    const page = await site.open(printedLink, { token: null, width: 320, theme: "dark" });
    for (const view of views) {
      // oxlint-disable no-await-in-loop
      await link(page, view).click();
      await shown(page, view);
      expect(await axeViolations(page)).toEqual([]);
      expect(await horizontalOverflow(page)).toBe(0);
      // oxlint-enable no-await-in-loop
    }
  });
});
