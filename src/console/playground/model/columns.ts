/** The rows of a run as columns that grow: typed arrays, which the web worker hands over without copies. */
import type { LaneRun } from "./scenario.ts";

type ColumnName =
  | "atMs"
  | "key"
  | "cost"
  | "outcome"
  | "remaining"
  | "waitMs"
  | "deniedBy"
  | "arrival"
  | "retry";

export type RunColumns = Pick<LaneRun, ColumnName>;

export type RunRow = Readonly<Record<ColumnName, number>>;

export interface ColumnWriter {
  readonly rows: number;
  add(row: RunRow): void;
  /** The columns, cut to the rows. */
  finish(): RunColumns;
}

/** @param expectedRows the columns grow beyond it */
export function columnWriter(expectedRows: number): ColumnWriter {
  let capacity = Math.max(1, expectedRows);
  let columns = emptyColumns(capacity);
  let rows = 0;
  return {
    get rows() {
      return rows;
    },
    add(row) {
      if (rows === capacity) {
        capacity *= 2;
        columns = resized(columns, rows, capacity);
      }
      // A loop over the names would be slow.
      columns.atMs[rows] = row.atMs;
      columns.key[rows] = row.key;
      columns.cost[rows] = row.cost;
      columns.outcome[rows] = row.outcome;
      columns.remaining[rows] = row.remaining;
      columns.waitMs[rows] = row.waitMs;
      columns.deniedBy[rows] = row.deniedBy;
      columns.arrival[rows] = row.arrival;
      columns.retry[rows] = row.retry;
      rows++;
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
