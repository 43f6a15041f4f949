/** The views of the console: their names in tests, and how to open and await them. */
import type { Locator, Page } from "playwright-core";
import { expect } from "vitest";

export const views = ["Overview", "Keys", "Policies", "Advisor", "Live", "Denied", "Audit", "Playground"] as const;

export type View = (typeof views)[number];

/** Relative to the URL of the console. */
export const pathOf = (view: View): string => (view === "Overview" ? "" : view.toLowerCase());

export const link = (page: Page, view: View): Locator =>
  page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: view, exact: true });

/** Resolves when the page shows the view and its data have arrived. */
export async function shown(page: Page, view: View): Promise<void> {
  await page.getByRole("heading", { level: 1, name: view, exact: true }).waitFor();
  await expect.poll(() => page.title()).toBe(`${view} – Headgate`);
  expect(await link(page, view).getAttribute("aria-current")).toBe("page");
  await expect.poll(() => page.getByText(/^Loading /).count()).toBe(0);
}
