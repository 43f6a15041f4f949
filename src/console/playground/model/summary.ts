/**
 * The counts of a lane: allowed and denied requests, denials by limit and key, and the worst burst, for comparison with the
 * documented bound.
 */
import { type RunColumns, rowsByKey } from "./columns.ts";
import {
  type KeySummary,
  type LaneLimit,
  type LaneSummary,
  outcome,
  type LaneRun,
  type WorstBurst,
} from "./scenario.ts";

const mostListedKeys = 100;

interface KeyCounts {
  readonly key: number;
  allowed: number;
  denied: number;
  readonly deniedByLimit: number[];
}

export function summaryOf(rows: RunColumns & { readonly runsMs: number }, limits: readonly LaneLimit[]): LaneSummary {
  const counts = countsByKey(rows, limits.length);
  const denied = counts.filter((each) => each.denied > 0);
  const sum = (number: (each: KeySummary) => number): number => counts.reduce((total, each) => total + number(each), 0);
  let [delayed, longestWaitMs, allowedUnits] = [0, 0, 0];
  for (let row = 0; row < rows.cost.length; row++) {
    if (rows.outcome[row] === outcome.delayed) {
      delayed++;
      longestWaitMs = Math.max(longestWaitMs, rows.waitMs[row] ?? 0);
    }
    if (rows.outcome[row] !== outcome.denied) allowedUnits += rows.cost[row] ?? 0;
  }
  return {
    allowed: sum((each) => each.allowed),
    denied: sum((each) => each.denied),
    delayed,
    longestWaitMs,
    allowedUnits,
    deniedByLimit: limits.map((_, index) => sum((each) => each.deniedByLimit[index] ?? 0)),
    deniedKeys: denied.length,
    topDenied: denied.toSorted((a, b) => b.denied - a.denied).slice(0, mostListedKeys),
    worstBursts: limits.map((limit) => {
      const burst = worstBurst(rows, limit);
      return burst && { ...burst, ...burstParts(rows, limits, burst) };
    }),
  };
}

/** In the order in which the keys come first. */
function countsByKey(rows: RunColumns, limits: number): readonly KeySummary[] {
  const counts = new Map<number, KeyCounts>();
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

type DecidedRows = Pick<LaneRun, "atMs" | "key" | "cost" | "outcome" | "runsMs">;
type FoundBurst = Omit<WorstBurst, "requests" | "unitsByWindow">;

/**
 * The worst burst for a limit; null if nothing was allowed. Two requests exactly one window apart are never in the same
 * window. For slots, it is the most that one key held at one instant.
 */
function worstBurst(run: DecidedRows, limit: LaneLimit): FoundBurst | null {
  const { windowMs, holdsSlots } = limit;
  const spanMs = holdsSlots ? Math.min(windowMs, run.runsMs) : windowMs;
  // Rows of one key follow one another in `rows`, in order of time.
  const rows = rowsByKey(run.key, (row) => run.outcome[row] !== outcome.denied);
  const at = (index: number): number => run.atMs[rows[index] ?? 0] ?? 0;
  const keyOf = (index: number): number => run.key[rows[index] ?? 0] ?? 0;
  const costOf = (index: number): number => run.cost[rows[index] ?? 0] ?? 0;
  let [most, mostFrom, mostTo, units, from] = [0, 0, 0, 0, 0];
  for (let to = 0; to < rows.length; to++) {
    // A slot of no duration is free at once.
    while (from < to && (keyOf(from) !== keyOf(to) || at(from) + spanMs <= at(to))) {
      units -= costOf(from++);
    }
    units += costOf(to);
    if (units > most) [most, mostFrom, mostTo] = [units, from, to];
  }
  if (most === 0) return null;
  const [firstRow = 0, lastRow = 0] = [rows[mostFrom], rows[mostTo]];
  const fromMs = at(mostFrom);
  const toMs = fromMs + spanMs;
  return { units: most, key: keyOf(mostTo), firstRow, lastRow, fromMs, toMs };
}

type BurstRows = Pick<LaneRun, "key" | "cost" | "outcome" | "remaining">;
type BurstParts = Pick<WorstBurst, "requests" | "unitsByWindow">;

function burstParts(
  rows: BurstRows,
  [limit, ...others]: readonly LaneLimit[],
  { key, firstRow, lastRow }: Pick<WorstBurst, "key" | "firstRow" | "lastRow">,
): BurstParts {
  const hasWindows = limit?.strategy === "fixed-window" && others.length === 0;
  const unitsByWindow: number[] = [];
  let [requests, remaining] = [0, NaN];
  for (let row = firstRow; row <= lastRow; row++) {
    if (rows.key[row] !== key || rows.outcome[row] === outcome.denied) continue;
    const [cost = 0, left = 0] = [rows.cost[row], rows.remaining[row]];
    // Within a window, each allowed request leaves less by its cost.
    if (left !== remaining - cost) unitsByWindow.push(0);
    unitsByWindow.push((unitsByWindow.pop() ?? 0) + cost);
    remaining = left;
    requests++;
  }
  return { requests, unitsByWindow: hasWindows ? unitsByWindow : [] };
}
