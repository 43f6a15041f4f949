/** The rows of the list of denials: entries of the log of one clock minute that differ only in time are joined into one row. */
import type { DenialPage, DenialView } from "../../../admin/wire.ts";
import { countOf } from "../parts/text.ts";

/** Entries of one key, policy, reason, limits and clock minute. Entries that cross minutes are rows of their own. */
export interface DenialRow {
  /** The newest first. */
  readonly entries: readonly DenialView[];
  /** The described entry: the found one, else the first. */
  readonly described: DenialView;
  readonly isFound: boolean;
  readonly count: number;
  readonly at: string;
  readonly lastAt: string;
  readonly colos: readonly string[];
}

const minuteMs = 60_000;
const minuteStartMs = (at: string): number => Math.floor(Date.parse(at) / minuteMs) * minuteMs;

/** @param denials the newest first */
export function joinedRows(denials: readonly DenialView[], found: DenialView | null): readonly DenialRow[] {
  const rows = new Map<string, DenialView[]>();
  for (const denial of denials) {
    const { policy, id, outcome, reason, limits, at, lastAt } = denial;
    const minutes = [at, lastAt].map(minuteStartMs);
    const kind = [policy, id, outcome, reason, ...minutes, ...limits.map(({ name }) => name)].join(" ");
    const row = rows.get(kind);
    if (row === undefined) rows.set(kind, [denial]);
    else row.push(denial);
  }
  return [...rows.values()].map((entries) => rowOf(entries, found));
}

/** The shown part of a page of the log, and where the pages before and after it begin. */
export interface ListPage {
  readonly denials: readonly DenialView[];
  /** The cursor of the older denials; null if there are none. */
  readonly older: string | null;
  /** The instant from which the newer denials are; null if there are none. */
  readonly newerFrom: string | null;
}

/**
 * Leaves the incomplete minutes at both ends to the pages there, so that no row is divided between pages. A page with a
 * single minute, or whose found denial is in the incomplete minute, is not cut there.
 */
export function listPageOf(
  { denials, next, hasNewer }: Pick<DenialPage, "denials" | "next" | "hasNewer">,
  found: DenialView | null,
): ListPage {
  const keeps = (part: readonly DenialView[], all: readonly DenialView[]): boolean =>
    part.length > 0 && (isIn(found, part) || !isIn(found, all));
  let [shown, older] = [denials, next];
  let newerFrom = hasNewer === true ? (denials[0]?.lastAt ?? null) : null;
  if (newerFrom !== null) {
    const endMs = Math.max(...denials.map(({ at }) => minuteStartMs(at)));
    const before = shown.filter(({ lastAt }) => Date.parse(lastAt) < endMs);
    if (keeps(before, shown)) [shown, newerFrom] = [before, new Date(endMs).toISOString()];
  }
  const last = denials.at(-1);
  if (older !== null && last !== undefined) {
    const startMs = minuteStartMs(last.lastAt) + minuteMs;
    const after = shown.filter(({ lastAt }) => Date.parse(lastAt) >= startMs);
    if (keeps(after, shown)) [shown, older] = [after, `${startMs}-0`];
  }
  return { denials: shown, older, newerFrom };
}

const isIn = (found: DenialView | null, entries: readonly DenialView[]): boolean =>
  found !== null && entries.some((each) => entryKeyOf(each) === entryKeyOf(found));

function rowOf(entries: readonly DenialView[], found: DenialView | null): DenialRow {
  const [newest] = entries;
  const oldest = entries.reduce((first, each) => (each.at < first.at ? each : first));
  const own = found === null ? undefined : entries.find((each) => entryKeyOf(each) === entryKeyOf(found));
  return {
    entries,
    described: own ?? oldest,
    isFound: own !== undefined,
    count: entries.reduce((sum, { count }) => sum + count, 0),
    at: oldest.at,
    lastAt: newest?.lastAt ?? oldest.lastAt,
    colos: [...new Set(entries.map(({ colo }) => colo).filter((colo) => colo !== ""))].toSorted(),
  };
}

const entryKeyOf = ({ instance, policy, at }: DenialView): string => `${instance} ${policy} ${at}`;

/** Stays the same while newer and older entries join. */
export const rowKeyOf = ({ described, isFound, lastAt }: DenialRow): string =>
  isFound ? "found" : `${entryKeyOf(described)} ${lastAt}`;

/** How many denials the shown rows have, and whether the log has others. */
export function extentText(shown: readonly DenialRow[], hasOlder: boolean, hasNewer: boolean): string {
  const count = countOf(
    shown.reduce((sum, row) => sum + row.count, 0),
    "denial",
  );
  if (hasNewer) return `${count}; ${hasOlder ? "older and newer" : "newer"} ones are not shown.`;
  return hasOlder ? `The newest ${count}; older ones follow.` : `${count}.`;
}

/** At most this many rows: the first ones, or those around the found one. */
export function shownRows(rows: readonly DenialRow[], most: number): readonly DenialRow[] {
  const middle = rows.findIndex(({ isFound }) => isFound) - Math.floor(most / 2);
  const start = Math.max(0, Math.min(middle, rows.length - most));
  return rows.slice(start, start + most);
}
