/**
 * The counts of a lane: allowed and denied requests, denials by limit and key, and the worst burst, for comparison with the
 * documented bound.
 */
import { type Columns, outcome, rowsByKey } from "./columns.ts";
import type { LaneLimit } from "./lanes.ts";

const mostListedKeys = 100;

/** How the requests of one key were decided. */
export interface KeySummary {
  readonly key: number;
  readonly allowed: number;
  readonly denied: number;
  /** Denials by each limit. Several limits may deny the same request. */
  readonly deniedByLimit: readonly number[];
}

export type LaneSummary = ReturnType<typeof summaryOf>;

export function summaryOf(rows: Columns, limits: readonly LaneLimit[], runsMs: number) {
  const counts = countsByKey(rows, limits.length);
  const denied = counts.filter((each) => each.denied > 0);
  const sum = (number: (each: KeySummary) => number): number => counts.reduce((total, each) => total + number(each), 0);
  let [delayed, longestWaitMs] = [0, 0];
  for (let row = 0; row < rows.outcome.length; row++) {
    if (rows.outcome[row] !== outcome.delayed) continue;
    delayed++;
    longestWaitMs = Math.max(longestWaitMs, rows.waitMs[row] ?? 0);
  }
  const allowedRows = rowsByKey(rows.key, (row) => rows.outcome[row] !== outcome.denied);
  return {
    allowed: sum((each) => each.allowed),
    denied: sum((each) => each.denied),
    /** The number of allowed requests that wait in a queue. */
    delayed,
    /** The longest wait in a queue. */
    longestWaitMs,
    deniedByLimit: limits.map((_, index) => sum((each) => each.deniedByLimit[index] ?? 0)),
    /** How many keys were denied at least once. */
    deniedKeys: denied.length,
    /** The most denied first. */
    topDenied: denied.toSorted((a, b) => b.denied - a.denied).slice(0, mostListedKeys),
    /** The worst burst of each limit; null if nothing was allowed. */
    worstBursts: limits.map(({ windowMs, holdsSlots, strategy }) => {
      const burst = worstBurst(rows, allowedRows, holdsSlots ? Math.min(windowMs, runsMs) : windowMs);
      if (burst === null) return null;
      const hasWindows = strategy === "fixed-window" && limits.length === 1;
      return { ...burst, unitsByWindow: hasWindows ? unitsByWindow(rows, burst.rows) : [] };
    }),
  };
}

/** The counts of each key, in the order of the keys' first requests. */
function countsByKey(rows: Columns, limits: number): readonly KeySummary[] {
  const counts = new Map<number, { key: number; allowed: number; denied: number; deniedByLimit: number[] }>();
  for (let row = 0; row < rows.key.length; row++) {
    const key = rows.key[row] ?? 0;
    let own = counts.get(key);
    if (own === undefined) {
      own = { key, allowed: 0, denied: 0, deniedByLimit: Array.from({ length: limits }, () => 0) };
      counts.set(key, own);
    }
    if (rows.outcome[row] !== outcome.denied) {
      own.allowed++;
      continue;
    }
    own.denied++;
    const deniedBy = rows.deniedBy[row] ?? 0;
    for (let limit = 0; limit < limits; limit++) {
      if (deniedBy & (1 << limit)) own.deniedByLimit[limit] = (own.deniedByLimit[limit] ?? 0) + 1;
    }
  }
  return [...counts.values()];
}

export type WorstBurst = NonNullable<LaneSummary["worstBursts"][number]>;

/**
 * The most units that one key was allowed within any window of length `spanMs`; null if nothing was allowed. Two
 * requests exactly one span apart are never in the same window. For slots, the span is how long a request holds one,
 * and the result is the most units held at one instant.
 * @param allowedRows sorted by key; the rows of one key are in order of time
 */
function worstBurst(columns: Columns, allowedRows: Uint32Array, spanMs: number) {
  const at = (index: number): number => columns.atMs[allowedRows[index] ?? 0] ?? 0;
  const keyOf = (index: number): number => columns.key[allowedRows[index] ?? 0] ?? 0;
  const costOf = (index: number): number => columns.cost[allowedRows[index] ?? 0] ?? 0;
  let [most, mostFrom, mostTo, units, from] = [0, 0, 0, 0, 0];
  for (let to = 0; to < allowedRows.length; to++) {
    // A slot that is held for 0 ms is free at once.
    while (from < to && (keyOf(from) !== keyOf(to) || at(from) + spanMs <= at(to))) {
      units -= costOf(from++);
    }
    units += costOf(to);
    if (units > most) [most, mostFrom, mostTo] = [units, from, to];
  }
  if (most === 0) return null;
  const fromMs = at(mostFrom);
  return {
    units: most,
    key: keyOf(mostTo),
    /** The allowed requests of the key. */
    rows: allowedRows.slice(mostFrom, mostTo + 1),
    /** The window begins here, counted from the start of the run, and ends before `toMs`. */
    fromMs,
    toMs: fromMs + spanMs,
    /** The time between the first and the last request of the burst. It is shorter than the window. */
    lengthMs: at(mostTo) - fromMs,
  };
}

/** The units in each fixed window, in order of time. */
function unitsByWindow({ cost, remaining }: Columns, rows: Uint32Array): readonly number[] {
  const units: number[] = [];
  let before = NaN;
  for (const row of rows) {
    const [own = 0, left = 0] = [cost[row], remaining[row]];
    // In the same window, each allowed request reduces the remaining units by its cost. Otherwise a new window began.
    if (left !== before - own) units.push(0);
    units.push((units.pop() ?? 0) + own);
    before = left;
  }
  return units;
}
