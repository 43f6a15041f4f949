/** The part of a long list of entries that the page shows, so that the page stays small. */
import type { AuditEntry } from "../api/answers.ts";

/** The most entries that the page shows at once. */
export const mostShownEntries = 200;
/** By how many entries the part moves. */
const step = 100;

type EntryRows = readonly AuditEntry[];

export interface EntryWindow {
  readonly rows: EntryRows;
  /** How many entries of the list are newer, or older, than those shown. */
  readonly newer: number;
  readonly older: number;
}

/**
 * @param list the newest first
 * @param first the seq of the newest entry to show; null for the newest of the list
 */
export function entryWindow(list: EntryRows, first: number | null): EntryWindow {
  const found = first === null ? 0 : list.findIndex(({ seq }) => seq <= first);
  const newer = found === -1 ? Math.max(0, list.length - step) : found;
  const rows = list.slice(newer, newer + mostShownEntries);
  return { rows, newer, older: list.length - newer - rows.length };
}

/** The next part, which keeps some of the entries shown. */
export const olderFirst = ({ rows }: Pick<EntryWindow, "rows">, first: number | null): number | null =>
  rows.length < mostShownEntries ? first : (rows[step]?.seq ?? first);

export const newerFirst = (list: EntryRows, { newer }: EntryWindow): number | null =>
  newer <= step ? null : (list[newer - step]?.seq ?? null);

/** The part around an entry; the present part if it has the entry, or if no part has it. */
export function firstAround(list: EntryRows, first: number | null, named: number): number | null {
  const index = list.findIndex(({ seq }) => seq === named);
  const { newer, rows } = entryWindow(list, first);
  if (index === -1 || (index >= newer && index < newer + rows.length)) return first;
  return list[Math.max(0, index - step / 2)]?.seq ?? first;
}
