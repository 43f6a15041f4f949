/** Limits of a recording: the instants within whole seconds, and the demand beyond limits that were in force. */
import { randomAt } from "./clients.ts";
import { arrivalOutcomes, isDeniedOutcome, type Timelines } from "./timelines.ts";

const secondMs = 1_000;
const seed = 22;

/**
 * Spreads the requests of each key over their seconds. Most servers log times in whole seconds, so that the instant within
 * the second is unknown. Each request gets a random one, which depends only on its key, its second and its place in the
 * second. Replays at other instants show how much the result depends on this choice.
 */
export function spreadOverSeconds(timelines: Timelines): Timelines {
  const spread = withinSeconds(timelines, ({ key, second, place }) =>
    Math.floor(secondMs * randomAt(seed + key, second, place)),
  );
  return { ...spread, source: { ...timelines.source, hasWholeSeconds: true } };
}

/**
 * The same requests at four other choices of instants within their seconds. The first puts all at the start of the
 * second, the second at even intervals. The other two bring neighbouring windows as close together as possible: the
 * requests of every second window move to the ends of their seconds, and all others to the starts.
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

/** With a smaller share of denials, the recorded traffic is nearly the same as without limits. */
const leastDenied = 0.01;

const percent = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 2 });
const whole = new Intl.NumberFormat("en-US");

export function trafficNotes(timelines: Timelines): string[] {
  const { atMs, source } = timelines;
  const denied = deniedArrivals(timelines);
  const notes: string[] = [];
  if (denied > 0 && denied >= leastDenied * atMs.length) {
    notes.push(
      `Limits were in force: ${deniedText(denied, atMs.length)} denied (status 429), so the recording shows what was left after limits, not the demand. Clients that slow down after a denial would send more without it: the true denials and bursts are then greater than shown, and a recommended limit is too strict. Clients that retry have sent requests that would not come under a more generous limit: its true denials are then fewer than shown.`,
    );
  }
  if (source.hasWholeSeconds === true) {
    notes.push(
      "The times are whole seconds, so each request is replayed at a random instant of its second. Limits with windows below a minute depend on these instants: npm run advise widens their intervals to the best and the worst case. Log milliseconds to choose such limits.",
    );
  }
  return notes;
}

function deniedText(denied: number, requests: number): string {
  if (requests === 1) return "the only request was";
  const share = `(${percent.format((100 * denied) / requests)} %)`;
  return `${whole.format(denied)} of these ${whole.format(requests)} requests ${share} ${denied === 1 ? "was" : "were"}`;
}

/** Requests that limits denied when they were recorded. Dry runs deny nothing. */
export function deniedArrivals({ outcome }: Pick<Timelines, "outcome">): number {
  const isDenied = arrivalOutcomes.map((name) => name !== "dry-run-denied" && isDeniedOutcome(name));
  let denied = 0;
  for (const each of outcome) if (isDenied[each] === true) denied++;
  return denied;
}
