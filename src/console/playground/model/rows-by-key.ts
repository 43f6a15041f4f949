/** Groups rows by their keys: a counting sort. */

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
