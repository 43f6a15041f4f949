/** Replays limits and measures them against a goal. */
import { replay } from "../replay/replay.ts";
import type { ReplayResult } from "../replay/result.ts";
import type { Timelines } from "../replay/timelines.ts";
import type { Limit, LimitInput } from "../strategies/index.ts";
import type { Candidate, Estimate, Goal } from "./advice.ts";
import { worstBurst } from "./burst.ts";
import { limitsOf, mostPerSecond, mostPerWindow } from "./families.ts";
import {
  deniedKeyShare,
  deniedShare,
  type KeyCounts,
  type KeyOutcome,
  type ShareEstimate,
  typicalDeniedKey,
} from "./interval.ts";
import type { Judgement, Trial } from "./search.ts";

/** The traffic of an advice. */
export interface Traffic {
  readonly timelines: Timelines;
  /** The requests of each key. */
  readonly requestsOfKey: Uint32Array;
  /** All requests that limits like these decide, of keys in the timelines or not; null if unknown. */
  readonly allRequests: number | null;
  /** When recording began: samples may have begun within the period. */
  readonly recordedFromMs: number;
}

/** A limit that was replayed. */
export interface TriedLimit extends Trial {
  readonly written: LimitInput;
  readonly result: ReplayResult;
}

/** A limit whose intervals are known. */
export interface JudgedLimit extends Judgement {
  readonly candidate: Candidate;
  readonly isNear: boolean;
  /** The upper end of the goal's share, if keys outside the sample are like those in it. */
  readonly high: number;
  readonly accountsForAll: boolean;
}

export function trafficOf(timelines: Timelines): Traffic {
  const { firstRow, keys, source } = timelines;
  const requestsOfKey = Uint32Array.from(
    keys,
    (_, key) => (firstRow[key + 1] ?? 0) - (firstRow[key] ?? 0),
  );
  const { requests, oneKeyIn, otherLimitsArrivals } = source;
  // The requests that other limits decide are known for the sampled keys only.
  const allRequests = requests === null ? null : requests - oneKeyIn * otherLimitsArrivals;
  let firstMs = source.toMs;
  for (const key of keys.keys())
    firstMs = Math.min(firstMs, timelines.atMs[firstRow[key] ?? 0] ?? firstMs);
  const recordedFromMs = Math.max(source.fromMs, firstMs);
  return { timelines, requestsOfKey, allRequests, recordedFromMs };
}

const mostOfKeyPerSecond = ({ limits }: ReplayResult): number =>
  Math.min(...limits.map(mostPerSecond));

const countsOf = ({ requestsOfKey }: Traffic, { deniedOfKey }: ReplayResult): KeyCounts => ({
  requests: requestsOfKey,
  denied: deniedOfKey,
});

/** The intervals of a replay's shares and of its worst burst. */
export function estimatesOf(
  traffic: Traffic,
  result: ReplayResult,
  unseen?: KeyOutcome,
): { deniedShare: ShareEstimate; deniedKeyShare: Estimate; worstBurst: Estimate } {
  const { timelines, allRequests } = traffic;
  const { oneKeyIn, lostArrivals } = timelines.source;
  const terms = { oneKeyIn, allRequests, lostArrivals, unseen };
  return {
    deniedShare: deniedShare(countsOf(traffic, result), terms),
    deniedKeyShare: deniedKeyShare(result.keys, result.deniedKeys, { oneKeyIn }),
    worstBurst: worstBurst(timelines, result.admittedPerSecond, mostOfKeyPerSecond(result)),
  };
}

/** Replays the limits, and yields the share that is done. */
export function* tryLimits(
  { timelines }: Traffic,
  goal: Goal,
  limits: readonly LimitInput[],
): Generator<number, readonly TriedLimit[]> {
  const sets = limits.map((written) => limitsOf([written]));
  const results = yield* replay(timelines, sets);
  return results.flatMap((result, index) => {
    const written = limits[index];
    return written === undefined
      ? []
      : [{ written, result, isNear: isNear(timelines, goal, result) }];
  });
}

/** Whether the best estimate meets the goal. */
function isNear(timelines: Timelines, goal: Goal, result: ReplayResult): boolean {
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
      // Complete timelines have the busiest second itself. Its interval is for other keys, which a replay cannot protect.
      const most = timelines.source.oneKeyIn === 1 ? burst.value : burst.high;
      return most <= goal.mostPerSecond;
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

interface Measured {
  readonly limits: MeasuredLimits;
  readonly high: number;
  readonly accountsForAll: boolean;
}

/** Computes the intervals of a replay. */
function measured(
  traffic: Traffic,
  goal: Goal,
  { result, isNear: near }: Pick<TriedLimit, "result" | "isNear">,
  stricter: TriedLimit | undefined,
): Measured {
  const unseen =
    stricter === undefined ? undefined : typicalDeniedKey(countsOf(traffic, stricter.result));
  const estimates = estimatesOf(traffic, result, unseen);
  const { highOfSuchKeys, accountsForAll, ...ofRequests } = estimates.deniedShare;
  const high = goal.kind === "denied-keys" ? estimates.deniedKeyShare.high : highOfSuchKeys;
  const meetsGoal =
    "mostShare" in goal
      ? high <= goal.mostShare && (accountsForAll || goal.kind === "denied-keys")
      : near;
  const limits = {
    strategy: result.limits[0]?.strategy ?? "",
    limits: result.limits,
    result,
    deniedShare: ofRequests,
    deniedKeyShare: estimates.deniedKeyShare,
    worstBurst: estimates.worstBurst,
    meetsGoal,
  };
  return { limits, high, accountsForAll };
}

/**
 * Computes the intervals of a limit.
 * @param stricter a stricter limit, whose denials show what a denied key is like
 */
export function judged(
  traffic: Traffic,
  goal: Goal,
  tried: TriedLimit,
  stricter: TriedLimit | undefined,
): JudgedLimit {
  const { limits, high, accountsForAll } = measured(traffic, goal, tried, stricter);
  const candidate = { ...limits, written: [tried.written] };
  const { meetsGoal } = candidate;
  const isLast = tried.result.denied === 0;
  return { candidate, meetsGoal, isNear: tried.isNear, isLast, high, accountsForAll };
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
