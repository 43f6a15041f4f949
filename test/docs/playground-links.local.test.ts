/** The links to the playground in the reference of strategies: each opens the example of its section, with the same decisions. */
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { referenceExamples } from "../../src/console/playground/model/presets.ts";
import { hasBrowser } from "../console/browser.ts";
import { consoleSite } from "../console/console-site.ts";
import { localPlayground } from "./page-rules.ts";
import { readPage } from "./pages.ts";

const { links, headings, tables } = readPage("docs/reference/strategies.md");
const queries = links.flatMap((link) =>
  link.startsWith(`${localPlayground}?`) ? [link.slice(localPlayground.length + 1)] : [],
);

/** The first example of a section: its decisions and what remained, in order. */
function decisionsOf(section: string): string[] {
  const { text } = headings.find(({ slug }) => slug === section) ?? { text: "" };
  const table = tables.find(({ heading, columns }) => heading === text && columns[0] === "at");
  const column = (name: string): number => table?.columns.indexOf(name) ?? -1;
  return (table?.rows ?? []).map(
    (row) => `${row[column("decision")] ?? ""} ${row[column("remaining")] ?? ""}`,
  );
}

/** In the playground all requests take 3 s. In the example of the page, a request states when it ends. */
const slots = ["allowed 1", "allowed 0", "denied 0", "allowed 0", "denied 0", "allowed 0"];

const expectedDecisions = (section: string): string[] =>
  section === "concurrency" ? slots : decisionsOf(section);

/** The same columns of the lane with the limits as written. */
async function shownDecisions(page: Page): Promise<string[]> {
  const lane = page.getByRole("article").first();
  await lane.getByRole("button", { name: "Show as table" }).click();
  const header = await lane.getByRole("columnheader").allInnerTexts();
  const rows = await lane.locator("tbody tr").all();
  return Promise.all(
    rows.map(async (row) => {
      const cells = await row.getByRole("cell").allInnerTexts();
      return `${cells[header.indexOf("Decision")] ?? ""} ${cells[header.indexOf("Remaining")] ?? ""}`;
    }),
  );
}

it("each section links its own example", () => {
  expect(queries).toEqual(Object.values(referenceExamples));
});

describe.skipIf(!hasBrowser)("the playground in Chromium, skipped unless it is installed", () => {
  const site = consoleSite();

  it.each(Object.keys(referenceExamples))(
    "the link of the section %s shows its example",
    async (section) => {
      const query = referenceExamples[section] ?? "";
      const page = await site.open(`playground?${query}`, {
        token: null,
        allowed: [/status of 401/],
      });
      await page.getByText("decided by the engine").waitFor({ timeout: 60_000 });
      expect(await page.getByRole("alert").filter({ hasText: "not valid" }).count()).toBe(0);
      const shown = await shownDecisions(page);
      expect(shown.length).toBeGreaterThan(4);
      expect(shown).toEqual(expectedDecisions(section).slice(0, shown.length));
    },
  );
});
