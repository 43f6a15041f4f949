/**
 * Times in whole seconds, as most servers log them. The instant within the second is unknown, so each request gets a
 * random one. It depends only on the request's key, its second and its place in the second. Replays at other instants
 * show how much the result depends on this choice.
 */
import { randomAt } from "./random.ts";
import type { Timelines } from "./timelines.ts";

const secondMs = 1_000;
const seed = 22;

/** Spreads the requests of each key over their seconds. Equal timelines give equal instants. */
export function spreadOverSeconds(timelines: Timelines): Timelines {
  const spread = withinSeconds(timelines, ({ key, second, place }) =>
    Math.floor(secondMs * randomAt(seed + key, second, place)),
  );
  return { ...spread, source: { ...timelines.source, hasWholeSeconds: true } };
}

/**
 * The same requests at four other choices of instants: all at the start of their second, in even intervals, and two in
 * which neighbouring windows come as close together as their seconds allow. For the last two, the requests of every
 * other window move to the ends of their seconds, and the rest to the starts.
 */
export function otherInstants(timelines: Timelines, windowMs: number): Timelines[] {
  const span = Math.max(1, Math.round(windowMs / secondMs));
  const inTurn =
    (turn: number): Offset =>
    ({ second }) =>
      Math.floor(second / span) % 2 === turn ? secondMs - 1 : 0;
  const even: Offset = ({ place, count }) => Math.floor((secondMs * (place + 0.5)) / count);
  return [() => 0, even, inTurn(0), inTurn(1)].map((offset) => withinSeconds(timelines, offset));
}

/** One of the requests of a key in a second. */
interface Placed {
  readonly key: number;
  /** The second, counted from 1970. */
  readonly second: number;
  /** The request's position among the key's requests in the second, from 0 to `count - 1`. */
  readonly place: number;
  readonly count: number;
}
type Offset = (placed: Placed) => number;

/** Moves each request to an instant of its second. */
function withinSeconds(timelines: Timelines, offset: Offset): Timelines {
  const { keys, firstRow, atMs } = timelines;
  const moved = atMs.slice();
  for (const key of keys.keys()) {
    const end = firstRow[key + 1] ?? 0;
    for (let from = firstRow[key] ?? 0; from < end;) {
      const second = Math.floor((atMs[from] ?? 0) / secondMs);
      let to = from;
      while (to < end && Math.floor((atMs[to] ?? 0) / secondMs) === second) to++;
      for (let row = from; row < to; row++) {
        const placed = { key, second, place: row - from, count: to - from };
        moved[row] = second * secondMs + offset(placed);
      }
      moved.subarray(from, to).sort();
      from = to;
    }
  }
  return { ...timelines, atMs: moved };
}
