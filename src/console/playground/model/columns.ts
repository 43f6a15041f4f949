/** The rows of a run as columns that grow: typed arrays, which the web worker hands over without copies. */
import type { LaneRun } from "./scenario.ts";

type ColumnName = "atMs" | "key" | "cost" | "outcome" | "remaining" | "waitMs" | "deniedBy" | "arrival" | "retry";

export type RunColumns = Pick<LaneRun, ColumnName>;

export type RunRow = Readonly<Record<ColumnName, number>>;

export interface ColumnWriter {
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
