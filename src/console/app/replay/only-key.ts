/** The part of timelines that belongs to one key. */
import type { Timelines } from "../../../advisor/replay/timelines.ts";

/** Without rows if the key is not in the timelines. */
export function onlyKey(timelines: Timelines, key: string): Timelines {
  const { keys, firstRow, atMs, cost, outcome, reservations, source } = timelines;
  const index = keys.indexOf(key);
  const [from, to] = index === -1 ? [0, 0] : [firstRow[index] ?? 0, firstRow[index + 1] ?? 0];
  const own = [...reservations].filter(([row]) => row >= from && row < to);
  return {
    keys: index === -1 ? [] : [key],
    firstRow: Uint32Array.from(index === -1 ? [0] : [0, to - from]),
    atMs: atMs.slice(from, to),
    cost: cost.slice(from, to),
    outcome: outcome.slice(from, to),
    reservations: new Map(own.map(([row, each]) => [row - from, each])),
    // The traffic of one key is known completely.
    source: { ...source, oneKeyIn: 1, requests: to - from },
  };
}
