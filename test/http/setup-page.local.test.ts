/** The setup page in a browser: on a narrow screen, in light and in dark, and under its Content Security Policy. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasBrowser, launchBrowser, openPage } from "../console/app/browser.ts";
import { axeViolations, horizontalOverflow } from "../console/app/page-checks.ts";
import { startWorkerd, type Workerd } from "../tools/workerd.ts";

describe.skipIf(!hasBrowser)("the setup page in Chromium, skipped unless it is installed", () => {
  const folder = mkdtempSync(join(tmpdir(), "headgate-setup-"));
  let headgate: Workerd;
  let browser: Browser;
  beforeAll(async () => {
    headgate = await startWorkerd(folder, { ORIGIN: "", LIMITS: "" }, { hasControlPlane: true });
    browser = await launchBrowser();
  });
  afterAll(async () => {
    await Promise.all([browser.close(), headgate.close()]);
    rmSync(folder, { recursive: true });
  });

  it.each(["light", "dark"] as const)(
    "in %s, the page has no violations, no errors and no overflow, and its style applies",
    async (theme) => {
      const { page, problems } = await openPage(browser, { width: 320, theme });
      await page.goto(`http://localhost:${headgate.url.port}/`);
      await page.getByRole("heading", { level: 1, name: "Headgate runs with demo limits" }).waitFor();
      expect(await axeViolations(page)).toEqual([]);
      expect(await horizontalOverflow(page)).toBe(0);
      const border = await page
        .locator("pre")
        .first()
        .evaluate((pre) => pre.clientTop);
      expect(border).toBe(1);
      expect(problems).toEqual([]);
      await page.context().close();
    },
  );
});
