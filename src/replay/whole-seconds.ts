/**
 * Times in whole seconds, as most servers log them. The instant within the second is unknown, so each request gets a random one
 * that depends on its key and second alone. Other instants show how much the result depends on this.
 */
import { randomAt } from "./random.ts";
import type { Timelines } from "./timelines.ts";

const secondMs = 1_000;
const seed = 22;

/** Spreads the requests of each key over their seconds. Equal timelines give equal instants. */
export function spreadOverSeconds(timelines: Timelines): Timelines {
  const { keys, firstRow, atMs } = timelines;
  const spread = atMs.slice();
  for (const key of keys.keys()) {
    const end = firstRow[key + 1] ?? 0;
    for (let from = firstRow[key] ?? 0; from < end;) {
      const startMs = atMs[from] ?? 0;
      let to = from;
      for (; to < end && atMs[to] === startMs; to++) {
        spread[to] =
          startMs + Math.floor(secondMs * randomAt(seed + key, startMs / secondMs, to - from));
      }
      spread.subarray(from, to).sort();
      from = to;
    }
  }
  return { ...timelines, atMs: spread, source: { ...timelines.source, hasWholeSeconds: true } };
}

/**
 * The requests at other instants of the same seconds: all at the start of it, and spans of the window in turn moved to the ends
 * and to the starts of their seconds, so that two spans come as close together as they can.
 */
export function otherInstants(timelines: Timelines, windowMs: number): Timelines[] {
  const span = secondMs * Math.max(1, Math.round(windowMs / secondMs));
  const atStart = (atMs: number): number => atMs - (atMs % secondMs);
  const inTurn = (turn: number) => (atMs: number) =>
    atStart(atMs) + (Math.floor(atMs / span) % 2 === turn ? secondMs - 1 : 0);
  return [atStart, inTurn(0), inTurn(1)].map((move) => ({
    ...timelines,
    atMs: timelines.atMs.map(move),
  }));
}
