/** Reads the page of the playground for its tests, and opens queries on the page. */
import type { Locator, Page } from "playwright-core";
import { expect } from "vitest";
import { colorsOf } from "./page-checks.ts";

export const lane = (page: Page, name: string | RegExp): Locator => page.getByRole("article", { name });

export const lanes = (page: Page): Locator => page.getByRole("article");

/** Resolves when the run is complete and all its lanes are drawn. */
export async function done(page: Page): Promise<void> {
  // 100,000 requests take long on a busy machine.
  await page.getByText("decided by the engine").waitFor({ timeout: 60_000 });
  await expect.poll(() => undrawn(page)).toBe(0);
}

/** The number of lanes with an empty canvas. */
const undrawn = async (page: Page): Promise<number> => {
  const colors = await Promise.all((await page.getByRole("article").locator("[role=img] canvas").all()).map(colorsOf));
  return colors.filter((count) => count < 3).length;
};

/** The position of a lane's plot on the screen, for the pointer. */
export async function plotBox(shown: Locator) {
  const plot = shown.getByRole("img");
  await plot.scrollIntoViewIfNeeded();
  const box = await plot.boundingBox();
  if (box === null) throw new Error("expected a plot");
  return box;
}

export const headline = (page: Page): Promise<string> => page.locator(".pg-headline").innerText();

/** Opens the query without reloading the page, as the back button does. */
export const follow = (page: Page, query: string): Promise<void> =>
  page.evaluate<void>(
    `history.pushState(null, "", ${JSON.stringify(`?${query}`)}); dispatchEvent(new PopStateEvent("popstate"))`,
  );

/** The decisions in the table of a lane, and the units that remained after each. */
export async function tableDecisions(shown: Locator): Promise<string[]> {
  const open = shown.getByRole("button", { name: "Show as table" });
  if ((await open.getAttribute("aria-expanded")) === "false") await open.click();
  const header = await shown.getByRole("columnheader").allInnerTexts();
  const cells = await shown.locator("tbody td").allInnerTexts();
  const columns = ["Decision", "Remaining"].map((title) => header.indexOf(title));
  return Array.from({ length: cells.length / header.length }, (_, row) =>
    columns.map((column) => cells[row * header.length + column] ?? "").join(" "),
  );
}

/** The numbers and settings that the page shows. */
export const shownTexts = async (page: Page): Promise<string[]> => [
  await headline(page),
  ...(await page.locator(".pg-counts, .pg-tick").allInnerTexts()),
];
