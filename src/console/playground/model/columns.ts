/**
 * The rows of a run as columns: typed arrays that grow, which the web worker hands over without copies. Also finds rows by
 * their instant, outcome and key.
 */
import { type LaneRun, outcome } from "./scenario.ts";

type ColumnName = "atMs" | "key" | "cost" | "outcome" | "remaining" | "waitMs" | "deniedBy" | "arrival" | "retry";

export type RunColumns = Pick<LaneRun, ColumnName>;

type RunRow = Readonly<Record<ColumnName, number>>;

interface ColumnWriter {
  write(index: number, row: RunRow): void;
  /** The columns, cut to the greatest index. */
  finish(): RunColumns;
}

/** @param expectedRows the columns grow beyond it */
export function columnWriter(expectedRows: number): ColumnWriter {
  let capacity = Math.max(1, expectedRows);
  let columns = emptyColumns(capacity);
  let rows = 0;
  return {
    write(index, row) {
      if (index === capacity) {
        capacity *= 2;
        columns = resized(columns, rows, capacity);
      }
      // A loop over the names would be slow.
      columns.atMs[index] = row.atMs;
      columns.key[index] = row.key;
      columns.cost[index] = row.cost;
      columns.outcome[index] = row.outcome;
      columns.remaining[index] = row.remaining;
      columns.waitMs[index] = row.waitMs;
      columns.deniedBy[index] = row.deniedBy;
      columns.arrival[index] = row.arrival;
      columns.retry[index] = row.retry;
      rows = Math.max(rows, index + 1);
    },
    finish: () => (rows === capacity ? columns : resized(columns, rows, rows)),
  };
}

const emptyColumns = (length: number): RunColumns => ({
  atMs: new Float64Array(length),
  key: new Uint32Array(length),
  cost: new Float64Array(length),
  outcome: new Uint8Array(length),
  remaining: new Float64Array(length),
  waitMs: new Float64Array(length),
  deniedBy: new Uint16Array(length),
  arrival: new Uint32Array(length),
  retry: new Uint8Array(length),
});

function resized(columns: RunColumns, rows: number, length: number): RunColumns {
  const next = emptyColumns(length);
  for (const [name, column] of Object.entries(next)) {
    column.set(Reflect.get(columns, name).subarray(0, rows));
  }
  return next;
}

/** The memory of a run, which a message can hand over. */
export const buffersOf = (run: LaneRun): ArrayBuffer[] =>
  Object.values(run).flatMap((value: unknown) =>
    ArrayBuffer.isView(value) && value.buffer instanceof ArrayBuffer ? [value.buffer] : [],
  );

/** The rows that are included, sorted by key. Those of one key keep their order. */
export function rowsByKey(keys: Uint32Array, isIncluded: (row: number) => boolean): Uint32Array {
  const { length } = keys;
  const starts = new Uint32Array(keys.reduce((most, key) => Math.max(most, key), 0) + 2);
  for (let row = 0; row < length; row++) {
    const next = (keys[row] ?? 0) + 1;
    if (isIncluded(row)) starts[next] = (starts[next] ?? 0) + 1;
  }
  for (let key = 1; key < starts.length; key++) {
    starts[key] = (starts[key] ?? 0) + (starts[key - 1] ?? 0);
  }
  const rows = new Uint32Array(starts.at(-1) ?? 0);
  for (let row = 0; row < length; row++) {
    if (!isIncluded(row)) continue;
    const key = keys[row] ?? 0;
    const place = starts[key] ?? 0;
    rows[place] = row;
    starts[key] = place + 1;
  }
  return rows;
}

/** The first row at or after this instant; the number of rows if there is none. */
export function firstRowAt({ atMs }: Pick<LaneRun, "atMs">, ms: number): number {
  let [low, high] = [0, atMs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((atMs[middle] ?? 0) < ms) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The denial nearest to an instant, at most `reachMs` away; -1 if there is none. */
export function nearestDenial(run: LaneRun, ms: number, reachMs: number): number {
  let nearest = -1;
  let distance = Infinity;
  const end = firstRowAt(run, ms + reachMs);
  for (let row = firstRowAt(run, ms - reachMs); row < end; row++) {
    if (run.outcome[row] !== outcome.denied) continue;
    const own = Math.abs((run.atMs[row] ?? 0) - ms);
    if (own >= distance) continue;
    [nearest, distance] = [row, own];
  }
  return nearest;
}

/** The next denial from a row in a direction; -1 if there is none. */
export function nextDenial(run: LaneRun, row: number, step: 1 | -1): number {
  for (let next = row + step; next >= 0 && next < run.outcome.length; next += step) {
    if (run.outcome[next] === outcome.denied) return next;
  }
  return -1;
}
