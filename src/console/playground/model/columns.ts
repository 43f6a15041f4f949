/**
 * The rows of a run as columns: typed arrays, which the web worker hands over without copies. Also finds rows by their instant,
 * outcome and key.
 */

/** The numbers that `Columns.outcome` contains. */
export const outcome = { allowed: 0, denied: 1, delayed: 2 } as const;

/** The wait of a request that never fits. */
export const neverMs = Infinity;

/** Columns of equal length, one row for each request. */
export type Columns = Readonly<ReturnType<typeof emptyColumns>>;

export const emptyColumns = (length: number) => ({
  /** From the start of the run. */
  atMs: new Float64Array(length),
  /** Index in the names of keys. */
  key: new Uint32Array(length),
  cost: new Float64Array(length),
  /** A value of `outcome`. A delayed request is allowed and waits in a queue. */
  outcome: new Uint8Array(length),
  /** The least remaining units of any limit, after the decision. */
  remaining: new Float64Array(length),
  /** Denied: until the request fits, or `neverMs`. Delayed: how long it waits. Allowed: 0. */
  waitMs: new Float64Array(length),
  /** Bit `n` is set if limit `n` denied the request. */
  deniedBy: new Uint16Array(length),
  /** The row of `Arrivals` from which the request comes. */
  arrival: new Uint32Array(length),
  /** 0 for a first request, `n` for its nth retry. */
  retry: new Uint8Array(length),
});

/** Copies the first rows, so that the memory of all columns can be freed. */
export function firstRows(columns: Columns, rows: number): Columns {
  if (rows === columns.atMs.length) return columns;
  const first = emptyColumns(rows);
  for (const [name, column] of Object.entries(first)) column.set(Reflect.get(columns, name).subarray(0, rows));
  return first;
}

/** The buffers of a run, which a message can transfer. */
export const buffersOf = (run: Columns): ArrayBuffer[] =>
  Object.values(run).flatMap((value: unknown) =>
    ArrayBuffer.isView(value) && value.buffer instanceof ArrayBuffer ? [value.buffer] : [],
  );

/** The included rows, sorted by key. The rows of one key keep their order. */
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
export function firstRowAt({ atMs }: Pick<Columns, "atMs">, ms: number): number {
  let [low, high] = [0, atMs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((atMs[middle] ?? 0) < ms) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The denial nearest to an instant, at most `reachMs` away; -1 if there is none. */
export function nearestDenial(run: Columns, ms: number, reachMs: number): number {
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
export function nextDenial(run: Columns, row: number, step: 1 | -1): number {
  for (let next = row + step; next >= 0 && next < run.outcome.length; next += step) {
    if (run.outcome[next] === outcome.denied) return next;
  }
  return -1;
}
