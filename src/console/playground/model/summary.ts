/** The counts of a lane: what was allowed and denied, by which limit, and which keys were denied most. */
import { burstParts } from "./burst-windows.ts";
import { type RunColumns } from "./columns.ts";
import { type KeySummary, type LaneLimit, type LaneSummary, outcome } from "./scenario.ts";
import { worstBurst } from "./worst-burst.ts";

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
