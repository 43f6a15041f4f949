/** The rows of the list of denials: entries of the log that differ only in time are joined, so that one client is one row. */
import type { DenialView } from "../../../admin/wire.ts";

/** Entries of one key, policy, reason and limits, with pauses of at most a minute. */
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

const longestPauseMs = 60_000;

/** @param denials the newest first */
export function joinedRows(denials: readonly DenialView[], found: DenialView | null): readonly DenialRow[] {
  const rows: DenialView[][] = [];
  /** The last row of each kind of denial, which older entries may continue. */
  const last = new Map<string, DenialView[]>();
  for (const denial of denials) {
    const { policy, id, outcome, reason, limits } = denial;
    const kind = [policy, id, outcome, reason, ...limits.map(({ name }) => name)].join(" ");
    const row = last.get(kind);
    if (row !== undefined && startMs(row) - Date.parse(denial.lastAt) <= longestPauseMs) row.push(denial);
    else {
      const next = [denial];
      rows.push(next);
      last.set(kind, next);
    }
  }
  return rows.map((entries) => rowOf(entries, found));
}

const startMs = (entries: readonly DenialView[]): number => Math.min(...entries.map(({ at }) => Date.parse(at)));

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

/** At most this many rows: the first ones, or those around the found one. */
export function shownRows(rows: readonly DenialRow[], most: number): readonly DenialRow[] {
  const middle = rows.findIndex(({ isFound }) => isFound) - Math.floor(most / 2);
  const start = Math.max(0, Math.min(middle, rows.length - most));
  return rows.slice(start, start + most);
}
