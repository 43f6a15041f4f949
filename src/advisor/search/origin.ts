/**
 * The alternatives to a limit for each key where an origin is protected: no limit at all, and one limit for all keys together,
 * which keeps the rate for any number of keys.
 */
import { replay } from "../replay/replay.ts";
import { arrivalSeconds } from "../replay/result.ts";
import type { Timelines } from "../replay/timelines.ts";
import { formatDuration, parseLimits } from "../../strategies/index.ts";
import type { Candidate, Estimate, Goal } from "./goal.ts";
import { worstBurst } from "./interval.ts";
import { estimatesOf, type Traffic } from "./trial.ts";

/**
 * Up to this rate a sliding log is used, which stores the time of each unit. Buckets take the same memory for any
 * limit.
 */
const mostUnitsOfLog = 1_000;
/** A year. If a sample has very few of all requests, the window would be longer than a limit can have. */
const longestWindowMs = 365 * 86_400_000;

export type OriginGoal = Goal & { readonly kind: "origin-rate" };

/**
 * A limit per key is still preferred if it denies less than this share of the keys, and at most `mostRequests` times as
 * many requests as one limit for all keys.
 */
const fewKeys = 0.1;
const mostRequests = 2;

/**
 * Whether a limit per key is better than one limit for all keys: it denies fewer requests, or it denies few of the keys and not
 * many more requests. One limit for all keys denies clients that send little because of a few that send much.
 */
export function isBetter(perKey: Candidate, global: Candidate): boolean {
  const [denied, deniedByGlobal] = [perKey.deniedShare.value, global.deniedShare.value];
  const isOfFew = perKey.deniedKeyShare.value < fewKeys * global.deniedKeyShare.value;
  return denied < deniedByGlobal || (isOfFew && denied <= mostRequests * deniedByGlobal);
}

/**
 * Whether more keys send in one second than requests may reach the origin. No limit per key can then ensure the rate.
 */
export function isCrowded({ timelines }: Traffic, mostPerSecond: number): boolean {
  const { keys, firstRow, atMs, source } = timelines;
  const keysOfSecond = new Map<number, number>();
  for (const key of keys.keys()) {
    let last = Number.NaN;
    for (let row = firstRow[key] ?? 0; row < (firstRow[key + 1] ?? 0); row++) {
      const second = Math.floor((atMs[row] ?? 0) / 1_000);
      if (second === last) continue;
      last = second;
      const count = 1 + (keysOfSecond.get(second) ?? 0);
      if (count * source.oneKeyIn > mostPerSecond) return true;
      keysOfSecond.set(second, count);
    }
  }
  return false;
}

/** The most requests of all keys that arrive within one second. */
export const unlimitedBurst = ({ timelines }: Traffic): Estimate =>
  worstBurst(timelines, arrivalSeconds(timelines), Infinity);

/**
 * Replays one limit for all keys, and counts its denials by key. If only one in n requests is in the timelines, all
 * keys send in one second as many requests as these keys send in n seconds. So the limit is replayed with a window of n
 * seconds. A sample of one key in 16 often has 5 % more or fewer than 1/16 of the requests, so n is computed from the
 * number of requests where that is known.
 */
export function* replayGlobal(traffic: Traffic, mostPerSecond: number): Generator<number, Candidate> {
  const { timelines, allRequests } = traffic;
  const { oneKeyIn } = timelines.source;
  const strategy = mostPerSecond <= mostUnitsOfLog ? "sliding-log" : "sliding-buckets";
  const written = { limit: mostPerSecond, window: "1s", strategy };
  const ratio = allRequests === null ? oneKeyIn : allRequests / timelines.atMs.length;
  const windowMs = oneKeyIn === 1 ? 1_000 : Math.min(longestWindowMs, Math.round(1_000 * Math.max(1, ratio)));
  const replayed = parseLimits([{ ...written, window: formatDuration(windowMs) }]);
  const { together, rows } = asOneKey(timelines);
  const [result] = yield* replay(together, [replayed], { keepsDecisions: true });
  if (result?.allowed == null) throw new Error("expected the decisions of one set of limits");
  const { allowed } = result;
  const deniedOfKey = new Uint32Array(timelines.keys.length);
  const keyOf = keysOfRows(timelines);
  for (const [place, row] of rows.entries()) {
    const key = keyOf[row] ?? 0;
    if (allowed[place] === 0) deniedOfKey[key] = (deniedOfKey[key] ?? 0) + 1;
  }
  const limits = parseLimits([written]);
  const byKey = {
    ...result,
    limits,
    allowed: null,
    deniedOfKey,
    keys: deniedOfKey.length,
    deniedKeys: deniedOfKey.filter((denied) => denied > 0).length,
    longestDeniedMsOfKey: new Float64Array(deniedOfKey.length),
  };
  const { highOfSuchKeys: _, ...estimates } = estimatesOf(traffic, byKey);
  const { value, low } = unlimitedBurst(traffic);
  const atMost = (burst: number): number => Math.min(mostPerSecond, burst);
  return {
    strategy,
    limits,
    written: [written],
    result: byKey,
    ...estimates,
    worstBurst: { value: atMost(value), low: atMost(low), high: mostPerSecond },
    meetsGoal: true,
  };
}

/**
 * The arrivals of all keys in order of time, as if one key had sent them. `rows`: the row of each arrival in the
 * timelines.
 */
function asOneKey(timelines: Timelines): { together: Timelines; rows: Uint32Array } {
  const { atMs, cost, outcome, source } = timelines;
  const rows = Uint32Array.from(atMs.keys()).toSorted((a, b) => (atMs[a] ?? 0) - (atMs[b] ?? 0) || a - b);
  const together = {
    keys: ["global"],
    firstRow: Uint32Array.of(0, rows.length),
    atMs: Float64Array.from(rows, (row) => atMs[row] ?? 0),
    cost: Float64Array.from(rows, (row) => cost[row] ?? 0),
    outcome: Uint8Array.from(rows, (row) => outcome[row] ?? 0),
    reservations: new Map(),
    source,
  };
  return { together, rows };
}

function keysOfRows({ keys, firstRow, atMs }: Timelines): Uint32Array {
  const keyOf = new Uint32Array(atMs.length);
  for (const key of keys.keys()) keyOf.fill(key, firstRow[key], firstRow[key + 1]);
  return keyOf;
}
