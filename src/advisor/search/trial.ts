/** Replays limits and measures them against a goal. */
import { replay, replayAll } from "../replay/replay.ts";
import type { ReplayResult } from "../replay/result.ts";
import { requestCounts, type Timelines } from "../replay/timelines.ts";
import { otherInstants } from "../replay/recording.ts";
import { compiledLimit } from "../../strategies/compiled-limit.ts";
import { type Limit, type LimitInput, parseLimits } from "../../strategies/index.ts";
import type { Candidate, Estimate, Goal } from "./goal.ts";
import { deniedKeyShare, deniedShare, type KeyOutcome, resamples, typicalDeniedKey, worstBurst } from "./interval.ts";
import { mostPerSecond, mostPerWindow } from "./families.ts";
import { type SizeTail, tailOf } from "./tail.ts";

/** The traffic of an advice. */
export interface Traffic {
  readonly timelines: Timelines;
  /** The requests of each key. */
  readonly requestsOfKey: Uint32Array;
  /** All requests that limits like these decide, of keys in the timelines or not; null if unknown. */
  readonly allRequests: number | null;
  /** When recording began. For samples, this can be later than the start of the period. */
  readonly recordedFromMs: number;
  readonly tail: SizeTail;
  /** The number of keys with at least 10 requests. */
  readonly activeKeys: number;
}

/** Keys with fewer requests are hardly ever denied, and may be most of the keys. */
export const leastActive = 10;
/** Limits with longer windows hardly depend on the instant within a second. */
const longestUncertainMs = 60_000;

export function trafficOf(timelines: Timelines): Traffic {
  const { firstRow, keys, source } = timelines;
  const requestsOfKey = requestCounts(timelines);
  const { requests, oneKeyIn, otherLimitsArrivals } = source;
  // The number of requests that other limits decided is known for the sampled keys only, so it is scaled up.
  const allRequests = requests === null ? null : requests - oneKeyIn * otherLimitsArrivals;
  let firstMs = source.toMs;
  for (const key of keys.keys()) firstMs = Math.min(firstMs, timelines.atMs[firstRow[key] ?? 0] ?? firstMs);
  const recordedFromMs = Math.max(source.fromMs, firstMs);
  const tail = tailOf(requestsOfKey, resamples);
  const activeKeys = requestsOfKey.filter((own) => own >= leastActive).length;
  return { timelines, requestsOfKey, allRequests, recordedFromMs, tail, activeKeys };
}

const burstOf = (timelines: Timelines, { admittedPerSecond, limits }: ReplayResult): Estimate =>
  worstBurst(timelines, admittedPerSecond, Math.min(...limits.map(mostPerSecond)));

/** The intervals of what a replay decided. */
export interface Estimates extends Pick<
  Candidate,
  "deniedShare" | "deniedKeyShare" | "deniedActiveKeyShare" | "worstBurst"
> {
  /** The upper end of `deniedShare`, assuming that keys outside the sample are like those in it. */
  readonly highOfSuchKeys: number;
}

const noShare: Estimate = { value: 0, low: 0, high: 0 };

/** @param unseen what a denied key is like, in case that the replay denies none */
export function estimatesOf(traffic: Traffic, result: ReplayResult, unseen?: KeyOutcome): Estimates {
  const { timelines, requestsOfKey, allRequests, tail, activeKeys } = traffic;
  const { oneKeyIn, lostArrivals } = timelines.source;
  const burst = burstOf(timelines, result);
  if (cannotDeny(traffic, result)) {
    const deniedActiveKeyShare = activeKeys === 0 ? null : noShare;
    return {
      deniedShare: noShare,
      highOfSuchKeys: 0,
      deniedKeyShare: noShare,
      deniedActiveKeyShare,
      worstBurst: burst,
    };
  }
  const sharesOf = (denied: Uint32Array) => {
    const terms = { oneKeyIn, allRequests, lostArrivals, unseen, tail };
    const { highOfSuchKeys, ...share } = deniedShare({ requests: requestsOfKey, denied }, terms);
    return {
      deniedShare: share,
      highOfSuchKeys,
      deniedKeyShare: keyShare(traffic, denied, 0),
      deniedActiveKeyShare: activeKeys === 0 ? null : keyShare(traffic, denied, leastActive),
    };
  };
  const own = sharesOf(result.deniedOfKey);
  const [fewest = own, most = own] = denialsAtOtherInstants(timelines, result).map(sharesOf);
  const { deniedActiveKeyShare: active } = own;
  return {
    deniedShare: spanOf(own.deniedShare, fewest.deniedShare, most.deniedShare),
    highOfSuchKeys: most.highOfSuchKeys,
    deniedKeyShare: spanOf(own.deniedKeyShare, fewest.deniedKeyShare, most.deniedKeyShare),
    deniedActiveKeyShare:
      active === null ? null : spanOf(active, fewest.deniedActiveKeyShare, most.deniedActiveKeyShare),
    worstBurst: burst,
  };
}

const spanOf = ({ value, low, high }: Estimate, fewest: Estimate | null, most: Estimate | null): Estimate => ({
  value,
  low: fewest?.low ?? low,
  high: most?.high ?? high,
});

/** A key with this many times the requests of all keys is so large that it cannot belong to this traffic. */
const beyondAll = 1_000;

function cannotDeny({ timelines, allRequests }: Traffic, { limits, requests }: ReplayResult): boolean {
  const { oneKeyIn, lostArrivals } = timelines.source;
  const all = Math.max(allRequests ?? 0, oneKeyIn * requests) + lostArrivals;
  const mostCost = timelines.cost.reduce((most, cost) => Math.max(most, cost), 1);
  const most = beyondAll * all * mostCost;
  return limits.every((limit) => compiledLimit(limit).capacity >= most);
}

/** Among the keys with at least `least` requests, the share that has a denial. */
function keyShare({ requestsOfKey, timelines }: Traffic, denied: Uint32Array, least: number): Estimate {
  let [keys, deniedKeys] = [0, 0];
  for (let key = 0; key < denied.length; key++) {
    if ((requestsOfKey[key] ?? 0) < least) continue;
    keys++;
    if ((denied[key] ?? 0) > 0) deniedKeys++;
  }
  return deniedKeyShare(keys, deniedKeys, timelines.source);
}

const isUncertain = ({ source }: Timelines, { limits }: ReplayResult): boolean =>
  source.hasWholeSeconds === true && limits.some(({ windowMs }) => windowMs < longestUncertainMs);

/**
 * For traffic of which only the second of each request is known. Returns, for each key, how many requests are denied at
 * every tried choice of instants, and how many are denied at any of them. Limits with longer windows hardly depend on
 * the instant.
 */
function denialsAtOtherInstants(timelines: Timelines, result: ReplayResult): Uint32Array[] {
  const { limits, deniedOfKey } = result;
  if (!isUncertain(timelines, result)) return [];
  const moved = limits.flatMap(({ windowMs }) => otherInstants(timelines, windowMs));
  const allowed = moved.map(
    (each) => replayAll(each, [limits], { keepsDecisions: true })[0]?.allowed ?? new Uint8Array(),
  );
  const { keys, firstRow } = timelines;
  const fewest = deniedOfKey.slice();
  const most = new Uint32Array(keys.length);
  for (const key of keys.keys()) {
    let always = 0;
    for (let row = firstRow[key] ?? 0; row < (firstRow[key + 1] ?? 0); row++) {
      const times = allowed.reduce((sum, each) => sum + (each[row] ?? 0), 0);
      if (times === 0) always++;
      if (times < allowed.length) most[key] = (most[key] ?? 0) + 1;
    }
    fewest[key] = Math.min(fewest[key] ?? 0, always);
    most[key] = Math.max(most[key] ?? 0, deniedOfKey[key] ?? 0);
  }
  return [fewest, most];
}

/** A limit that was replayed. */
export interface TriedLimit extends Pick<Candidate, "written" | "result"> {
  /** Whether the best estimate meets the goal. */
  readonly isNear: boolean;
}

/**
 * Which estimate of an origin's worst burst must meet the goal: the recorded value, or the upper end of its interval.
 */
export type Bound = "value" | "high";

/** Replays the limits, and yields the share that is done. */
export function* tryLimits(
  { timelines }: Traffic,
  goal: Goal,
  limits: readonly LimitInput[],
  bound: Bound = "high",
): Generator<number, readonly TriedLimit[]> {
  const sets = limits.map((written) => parseLimits([written]));
  const results = yield* replay(timelines, sets);
  return results.flatMap((result, index) => {
    const isNear = isNearGoal(timelines, goal, result, bound);
    return { written: limits.slice(index, index + 1), result, isNear };
  });
}

function isNearGoal(timelines: Timelines, goal: Goal, result: ReplayResult, bound: Bound): boolean {
  switch (goal.kind) {
    case "denied-requests":
      return result.denied <= goal.mostShare * result.requests;
    case "denied-keys":
      return result.deniedKeys <= goal.mostShare * result.keys;
    case "key-rate":
      // The bound of a strategy ensures the rate, for any traffic.
      return result.limits.some((limit) => limit.windowMs === goal.windowMs && mostPerWindow(limit) <= goal.most);
    case "origin-rate":
      return burstOf(timelines, result)[bound] <= goal.mostPerSecond;
    default:
      return goal satisfies never;
  }
}

/** A limit whose intervals are known. */
export interface JudgedLimit {
  readonly candidate: Candidate;
  readonly isNear: boolean;
  /** Whether all more generous limits have the same result. */
  readonly isLast: boolean;
  /** The upper end of the goal's share. */
  readonly high: number;
  /** The upper end of the goal's share, assuming that keys outside the sample are like those in it. */
  readonly highOfSuchKeys: number;
}

/**
 * Computes the intervals of a limit.
 * @param stricter a stricter limit, whose denials show what a denied key is like
 */
export function judged(traffic: Traffic, goal: Goal, tried: TriedLimit, stricter?: TriedLimit): JudgedLimit {
  const { timelines, requestsOfKey, tail } = traffic;
  const { written, result, isNear } = tried;
  const unseen =
    stricter === undefined
      ? undefined
      : typicalDeniedKey({ requests: requestsOfKey, denied: stricter.result.deniedOfKey });
  const { highOfSuchKeys, ...estimates } = estimatesOf(traffic, result, unseen);
  const isOfKeys = goal.kind === "denied-keys";
  const { high } = isOfKeys ? estimates.deniedKeyShare : estimates.deniedShare;
  const meetsShare = (mostShare: number): boolean => high <= mostShare && (isOfKeys || !(tail.isHeavy || tail.isOfFew));
  const meetsGoal =
    "mostShare" in goal
      ? meetsShare(goal.mostShare)
      : goal.kind === "origin-rate"
        ? estimates.worstBurst.high <= goal.mostPerSecond
        : isNear;
  const { limits } = result;
  const strategy = limits[0]?.strategy ?? "";
  return {
    candidate: { strategy, limits, written, result, ...estimates, meetsGoal },
    isNear,
    isLast: result.denied === 0 && !isUncertain(timelines, result),
    high,
    highOfSuchKeys: isOfKeys ? high : highOfSuchKeys,
  };
}

/** Replays limits that are no candidates, such as those in effect. Yields the share that is done, from 0 to 1. */
export function* measureLimits(
  timelines: Timelines,
  goal: Goal,
  limits: readonly Limit[],
): Generator<number, Omit<Candidate, "written">> {
  const [result] = yield* replay(timelines, [limits]);
  if (result === undefined) throw new Error("expected the result of one set of limits");
  const isNear = isNearGoal(timelines, goal, result, "high");
  return judged(trafficOf(timelines), goal, { written: [], result, isNear }).candidate;
}
