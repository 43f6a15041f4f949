/** The most units that a lane allowed one key within any window of a limit, for comparison with the documented bound. */
import { rowsByKey } from "./rows-by-key.ts";
import { type LaneLimit, type LaneRun, outcome, type WorstBurst } from "./scenario.ts";

export type DecidedRows = Pick<LaneRun, "atMs" | "key" | "cost" | "outcome" | "runsMs">;
type FoundBurst = Omit<WorstBurst, "requests" | "unitsByWindow">;

/**
 * The worst burst for a limit; null if nothing was allowed. Two requests exactly one window apart are never in the same
 * window. For slots, it is the most that one key held at one instant.
 */
export function worstBurst(run: DecidedRows, limit: LaneLimit): FoundBurst | null {
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
