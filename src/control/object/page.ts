/**
 * Keyset pagination: a page continues after the last item of the previous one, so changes in between repeat and skip
 * nothing.
 */
import type { Page } from "../protocol.ts";

const mostPerPage = 500;

export const pageSize = (limit: number): number => Math.min(mostPerPage, Math.max(1, Math.trunc(limit) || 1));

/** @param found the items of the page and, unless it is the last page, one more */
export function pageOf<Item>(found: readonly Item[], size: number, cursorOf: (item: Item) => string): Page<Item> {
  const items = found.slice(0, size);
  const last = items.at(-1);
  return { items, cursor: found.length > size && last !== undefined ? cursorOf(last) : null };
}
