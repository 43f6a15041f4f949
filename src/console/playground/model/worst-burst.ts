/** The most units that a lane allowed one key within any window of a limit, for comparison with the documented bound. */
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
  const rows = allowedRowsByKey(run);
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

/** The rows of allowed requests, sorted by key: a counting sort. */
function allowedRowsByKey({ key: keys, outcome: outcomes }: DecidedRows): Uint32Array {
  const length = keys.length;
  const starts = new Uint32Array(keys.reduce((most, key) => Math.max(most, key), 0) + 2);
  for (let row = 0; row < length; row++) {
    const next = (keys[row] ?? 0) + 1;
    if (outcomes[row] !== outcome.denied) starts[next] = (starts[next] ?? 0) + 1;
  }
  for (let key = 1; key < starts.length; key++) {
    starts[key] = (starts[key] ?? 0) + (starts[key - 1] ?? 0);
  }
  const rows = new Uint32Array(starts.at(-1) ?? 0);
  for (let row = 0; row < length; row++) {
    if (outcomes[row] === outcome.denied) continue;
    const key = keys[row] ?? 0;
    const place = starts[key] ?? 0;
    rows[place] = row;
    starts[key] = place + 1;
  }
  return rows;
}
