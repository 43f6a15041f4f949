/** Acts as an operator in the view "Keys" for its tests: finds a key, reads its page, and sends its traffic. */
import type { Locator, Page } from "playwright-core";
import { expect } from "vitest";
import type { ConsoleSite } from "./console-site.ts";

interface RuleAnswer {
  readonly id: string;
  readonly revision: number;
  readonly kind: string;
  readonly note: string | null;
  readonly expiresAt: string | null;
  readonly limits?: unknown;
}

export const button = (place: Page | Locator, name: string | RegExp): Locator => place.getByRole("button", { name });

/** Traffic of client addresses to the policy `api`, and the rules of such keys. */
export function keysOf(site: ConsoleSite) {
  const statuses = async (address: string, count: number): Promise<number[]> => {
    const seen: number[] = [];
    // oxlint-disable-next-line no-await-in-loop -- the requests of one client come one after another
    for (let each = 0; each < count; each++) seen.push(await site.worker.request(address, "/api/x"));
    return seen;
  };

  const idOf = async (address: string): Promise<string> => {
    const body = { policy: "api", key: address };
    const answer = await site.worker.api("POST", "/keys/explain", { body });
    return (answer.body as { id: string }).id;
  };

  const rulesOf = async (id: string): Promise<readonly RuleAnswer[]> => {
    const answer = await site.worker.api("GET", `/rules?policy=api&id=${id}`);
    return (answer.body as { rules: readonly RuleAnswer[] }).rules;
  };

  return { statuses, idOf, rulesOf };
}

/** Opens the page of a key with the form, so that the page knows the plain key. */
export const find = async (page: Page, address: string): Promise<void> => {
  await page.getByLabel("ip", { exact: true }).fill(address);
  await button(page, "Explain").click();
  await page.getByRole("heading", { name: `Key ip=${address}` }).waitFor();
  await page.getByRole("region", { name: "Explanation" }).waitFor();
};

export const explanationOf = (page: Page): Locator => page.getByRole("region", { name: "Explanation" });
/** Resolves when the sentence at the top matches. */
export const explains = async (page: Page, text: RegExp): Promise<void> => {
  const sentence = explanationOf(page).getByRole("paragraph").first();
  await expect.poll(() => sentence.textContent()).toMatch(text);
};

export const rulesIn = (page: Page): Locator => page.getByRole("region", { name: "Rules of this key" }).first();
export const messages = (page: Page): Locator => page.getByRole("region", { name: "Messages" });
