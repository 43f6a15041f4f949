/** Replays limits and measures them against a goal. */
import { replay, replayAll } from "../replay/replay.ts";
import type { ReplayResult } from "../replay/result.ts";
import type { Timelines } from "../replay/timelines.ts";
import { otherInstants } from "../replay/recording.ts";
import { compiledLimit } from "../../strategies/compiled-limit.ts";
import type { Limit, LimitInput } from "../../strategies/index.ts";
import type { Candidate, Estimate, Goal } from "./goal.ts";
import {
  deniedKeyShare,
  deniedShare,
  type KeyCounts,
  type KeyOutcome,
  resamples,
  type ShareEstimate,
  typicalDeniedKey,
  worstBurst,
} from "./interval.ts";
import { type Judgement, limitsOf, mostPerSecond, mostPerWindow, type Trial } from "./families.ts";
import { type SizeTail, tailOf } from "./tail.ts";

/** The traffic of an advice. */
export interface Traffic {
  readonly timelines: Timelines;
  /** The requests of each key. */
  readonly requestsOfKey: Uint32Array;
  /** All requests that limits like these decide, of keys in the timelines or not; null if unknown. */
  readonly allRequests: number | null;
  /** When recording began: samples may have begun within the period. */
  readonly recordedFromMs: number;
  readonly tail: SizeTail;
  /** The number of keys with at least 10 requests. */
  readonly activeKeys: number;
}

/** Keys with fewer requests are hardly ever denied, and may be most of the keys. */
export const leastActive = 10;
/** Limits with longer windows hardly depend on the instant within a second. */
const longestUncertainMs = 60_000;

/** A limit that was replayed. */
export interface TriedLimit extends Trial {
  readonly written: LimitInput;
  readonly result: ReplayResult;
}

/** A limit whose intervals are known. */
export interface JudgedLimit extends Judgement {
  readonly candidate: Candidate;
  readonly isNear: boolean;
  /** The upper end of the goal's share. */
  readonly high: number;
  /** The upper end of the goal's share, if keys outside the sample are like those in it. */
  readonly highOfSuchKeys: number;
}

export function trafficOf(timelines: Timelines): Traffic {
  const { firstRow, keys, source } = timelines;
  const requestsOfKey = Uint32Array.from(keys, (_, key) => (firstRow[key + 1] ?? 0) - (firstRow[key] ?? 0));
  const { requests, oneKeyIn, otherLimitsArrivals } = source;
  // The requests that other limits decide are known for the sampled keys only.
  const allRequests = requests === null ? null : requests - oneKeyIn * otherLimitsArrivals;
  let firstMs = source.toMs;
  for (const key of keys.keys()) firstMs = Math.min(firstMs, timelines.atMs[firstRow[key] ?? 0] ?? firstMs);
  const recordedFromMs = Math.max(source.fromMs, firstMs);
  const tail = tailOf(requestsOfKey, resamples);
  const activeKeys = requestsOfKey.filter((own) => own >= leastActive).length;
  return { timelines, requestsOfKey, allRequests, recordedFromMs, tail, activeKeys };
}

const mostOfKeyPerSecond = ({ limits }: ReplayResult): number => Math.min(...limits.map(mostPerSecond));

const countsOf = ({ requestsOfKey }: Traffic, denied: Uint32Array): KeyCounts => ({
  requests: requestsOfKey,
  denied,
});

/** The intervals of what a replay decided. */
export type Estimates = Pick<Candidate, "deniedKeyShare" | "deniedActiveKeyShare" | "worstBurst"> & {
  readonly deniedShare: ShareEstimate;
};

/** The intervals of a replay's shares and of its worst burst. */
export function estimatesOf(traffic: Traffic, result: ReplayResult, unseen?: KeyOutcome): Estimates {
  const { timelines, allRequests, tail } = traffic;
  const { oneKeyIn, lostArrivals } = timelines.source;
  const terms = { oneKeyIn, allRequests, lostArrivals, unseen, tail };
  const sharesOf = (denied: Uint32Array) => ({
    deniedShare: deniedShare(countsOf(traffic, denied), terms),
    deniedKeyShare: keyShare(traffic, denied, 0),
    deniedActiveKeyShare: traffic.activeKeys === 0 ? null : keyShare(traffic, denied, leastActive),
  });
  const shares = sharesOf(result.deniedOfKey);
  const [fewest, most] = denialsAtOtherInstants(timelines, result).map(sharesOf);
  if (fewest !== undefined && most !== undefined) {
    shares.deniedShare = {
      ...spanOf(shares.deniedShare, fewest.deniedShare, most.deniedShare),
      highOfSuchKeys: most.deniedShare.highOfSuchKeys,
    };
    shares.deniedKeyShare = spanOf(shares.deniedKeyShare, fewest.deniedKeyShare, most.deniedKeyShare);
    if (shares.deniedActiveKeyShare !== null) {
      shares.deniedActiveKeyShare = spanOf(
        shares.deniedActiveKeyShare,
        fewest.deniedActiveKeyShare,
        most.deniedActiveKeyShare,
      );
    }
  }
  if (cannotDeny(traffic, result)) {
    shares.deniedShare = { value: 0, low: 0, high: 0, highOfSuchKeys: 0 };
    shares.deniedKeyShare = { value: 0, low: 0, high: 0 };
    if (shares.deniedActiveKeyShare !== null) shares.deniedActiveKeyShare = shares.deniedKeyShare;
  }
  return {
    ...shares,
    worstBurst: worstBurst(timelines, result.admittedPerSecond, mostOfKeyPerSecond(result)),
  };
}

/** A key that sends this many times the requests of all keys together is not like these. */
const beyondAll = 1_000;

function cannotDeny({ timelines, allRequests }: Traffic, { limits, requests }: ReplayResult): boolean {
  const { oneKeyIn, lostArrivals } = timelines.source;
  const all = Math.max(allRequests ?? 0, oneKeyIn * requests) + lostArrivals;
  const mostCost = timelines.cost.reduce((most, cost) => Math.max(most, cost), 1);
  const most = beyondAll * all * mostCost;
  return limits.every((limit) => compiledLimit(limit).capacity >= most);
}

const spanOf = (own: Estimate, fewest: Estimate | null, most: Estimate | null): Estimate => ({
  value: own.value,
  low: fewest?.low ?? own.low,
  high: most?.high ?? own.high,
});

/** Among the keys with at least `least` requests, the share that has a denial. */
function keyShare({ requestsOfKey, timelines }: Traffic, denied: Uint32Array, least: number) {
  let [keys, deniedKeys] = [0, 0];
  for (let key = 0; key < denied.length; key++) {
    if ((requestsOfKey[key] ?? 0) < least) continue;
    keys++;
    if ((denied[key] ?? 0) > 0) deniedKeys++;
  }
  return deniedKeyShare(keys, deniedKeys, { oneKeyIn: timelines.source.oneKeyIn });
}

const isUncertain = ({ source }: Timelines, { limits }: ReplayResult): boolean =>
  source.hasWholeSeconds === true && limits.some(({ windowMs }) => windowMs < longestUncertainMs);

/**
 * Where only the second of each request is known: for each key, the requests that are denied at all of some other instants of
 * these seconds, and those that are denied at any of them. Limits with longer windows hardly depend on the instant.
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

/** How a limit for an origin is searched: its recorded worst burst meets the goal, or the whole interval does. */
export type Bound = "value" | "high";

/** Replays the limits, and yields the share that is done. */
export function* tryLimits(
  { timelines }: Traffic,
  goal: Goal,
  limits: readonly LimitInput[],
  bound: Bound = "high",
): Generator<number, readonly TriedLimit[]> {
  const sets = limits.map((written) => limitsOf([written]));
  const results = yield* replay(timelines, sets);
  return results.flatMap((result, index) => {
    const written = limits[index];
    return written === undefined ? [] : [{ written, result, isNear: isNear(timelines, goal, result, bound) }];
  });
}

/** Whether the best estimate meets the goal. */
function isNear(timelines: Timelines, goal: Goal, result: ReplayResult, bound: Bound = "high"): boolean {
  switch (goal.kind) {
    case "denied-requests":
      return result.denied <= goal.mostShare * result.requests;
    case "denied-keys":
      return result.deniedKeys <= goal.mostShare * result.keys;
    case "key-rate":
      return isBound(result, goal.most, goal.windowMs);
    case "origin-rate": {
      const { admittedPerSecond } = result;
      const burst = worstBurst(timelines, admittedPerSecond, mostOfKeyPerSecond(result));
      return burst[bound] <= goal.mostPerSecond;
    }
    default:
      return false;
  }
}

/** Whether the bound of a strategy ensures the rate, for any traffic. */
const isBound = ({ limits }: ReplayResult, most: number, windowMs: number): boolean =>
  limits.some((limit) => limit.windowMs === windowMs && mostPerWindow(limit) <= most);

/** A candidate as it may be for limits that were written elsewhere. */
export type MeasuredLimits = Omit<Candidate, "written">;

interface Measured extends Pick<JudgedLimit, "high" | "highOfSuchKeys"> {
  readonly limits: MeasuredLimits;
}

/** Computes the intervals of a replay. */
function measured(
  traffic: Traffic,
  goal: Goal,
  { result, isNear: near }: Pick<TriedLimit, "result" | "isNear">,
  stricter: TriedLimit | undefined,
): Measured {
  const unseen = stricter === undefined ? undefined : typicalDeniedKey(countsOf(traffic, stricter.result.deniedOfKey));
  const estimates = estimatesOf(traffic, result, unseen);
  const { highOfSuchKeys, ...ofRequests } = estimates.deniedShare;
  const isOfKeys = goal.kind === "denied-keys";
  const { tail } = traffic;
  const { high } = isOfKeys ? estimates.deniedKeyShare : ofRequests;
  const meetsShare = (mostShare: number): boolean => high <= mostShare && (isOfKeys || !(tail.isHeavy || tail.isOfFew));
  const meetsGoal =
    "mostShare" in goal
      ? meetsShare(goal.mostShare)
      : goal.kind === "origin-rate"
        ? estimates.worstBurst.high <= goal.mostPerSecond
        : near;
  const limits = {
    strategy: result.limits[0]?.strategy ?? "",
    limits: result.limits,
    result,
    deniedShare: ofRequests,
    deniedKeyShare: estimates.deniedKeyShare,
    deniedActiveKeyShare: estimates.deniedActiveKeyShare,
    worstBurst: estimates.worstBurst,
    meetsGoal,
  };
  return { limits, high, highOfSuchKeys: isOfKeys ? high : highOfSuchKeys };
}

/**
 * Computes the intervals of a limit.
 * @param stricter a stricter limit, whose denials show what a denied key is like
 */
export function judged(traffic: Traffic, goal: Goal, tried: TriedLimit, stricter: TriedLimit | undefined): JudgedLimit {
  const { limits, ...highs } = measured(traffic, goal, tried, stricter);
  const candidate = { ...limits, written: [tried.written] };
  const { meetsGoal } = candidate;
  const isLast = tried.result.denied === 0 && !isUncertain(traffic.timelines, tried.result);
  return { candidate, meetsGoal, isNear: tried.isNear, isLast, ...highs };
}

/** Replays limits that are no candidates, such as those in effect. Yields the share that is done, from 0 to 1. */
export function* measureLimits(
  timelines: Timelines,
  goal: Goal,
  limits: readonly Limit[],
): Generator<number, MeasuredLimits> {
  const [result] = yield* replay(timelines, [limits]);
  if (result === undefined) throw new Error("expected the result of one set of limits");
  const tried = { result, isNear: isNear(timelines, goal, result) };
  return measured(trafficOf(timelines), goal, tried, undefined).limits;
}
