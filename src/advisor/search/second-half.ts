/**
 * Chooses a limit on the first half of a recording, and measures it on the second half, which is not used for the
 * choice. Intervals assume that later traffic is like the recorded one. Only later traffic shows whether this is true.
 */
import { replay } from "../replay/replay.ts";
import { type Timelines, TimelinesBuilder } from "../replay/timelines.ts";
import type { Limit } from "../../strategies/index.ts";
import type { Advice, Goal, Recommendation } from "./goal.ts";
import { advise } from "./advise.ts";

/** The decisions of a limit in the second half. The counters continue from the first half. */
export interface SecondHalf {
  /** When the half begins. */
  readonly fromMs: number;
  readonly requests: number;
  readonly denied: number;
  readonly keys: number;
  readonly deniedKeys: number;
  /** The most requests of all keys that reach the origin within one second. */
  readonly worstBurst: number;
  readonly meetsGoal: boolean;
}

/**
 * Why the limit was chosen from the whole recording: a half is too short, or the advice for the first half is not a
 * limit per key.
 */
export type WholeCause = "too-short" | Exclude<Recommendation["kind"], "recommended">;

export interface CheckedAdvice {
  readonly advice: Advice;
  /** The part of the recording from which the limit was chosen. */
  readonly chosenFrom: Timelines;
  /** Null: the limit was chosen from the whole recording. */
  readonly secondHalf: SecondHalf | null;
  /** Null when the recording was divided, or no check was wanted. */
  readonly wholeCause: WholeCause | null;
}

const leastHalfMs = 3_600_000;
/** Each half needs this many requests. */
const leastRequests = 500;

/**
 * Recommends limits for the first half if that is enough for a recommendation, else for the whole. Yields the share that is done,
 * from 0 to 1.
 */
export function* adviseAndCheck(timelines: Timelines, goal: Goal): Generator<number, CheckedAdvice> {
  const fromMs = middleOf(timelines);
  if (fromMs === null) return yield* adviseWhole(timelines, goal, "too-short");
  const chosenFrom = until(timelines, fromMs);
  const advice = yield* advise(chosenFrom, goal);
  const { recommendation, candidates } = advice;
  if (recommendation.kind !== "recommended") {
    return yield* adviseWhole(timelines, goal, recommendation.kind);
  }
  const limits = candidates[recommendation.candidate]?.limits ?? [];
  const secondHalf = yield* measured(timelines, goal, limits, fromMs);
  return { advice, chosenFrom, secondHalf, wholeCause: null };
}

/** Recommends limits for the whole recording, without a check. */
export function* adviseWhole(
  timelines: Timelines,
  goal: Goal,
  wholeCause: WholeCause | null = null,
): Generator<number, CheckedAdvice> {
  const advice = yield* advise(timelines, goal);
  return { advice, chosenFrom: timelines, secondHalf: null, wholeCause };
}

/** The middle of the period; null if a half is too short, or has too few requests, to say much. */
function middleOf({ atMs, source }: Timelines): number | null {
  const { fromMs, toMs } = source;
  const middleMs = Math.floor((fromMs + toMs) / 2);
  if (middleMs - fromMs < leastHalfMs) return null;
  let early = 0;
  for (const instantMs of atMs) if (instantMs < middleMs) early++;
  return Math.min(early, atMs.length - early) < leastRequests ? null : middleMs;
}

/** The arrivals before an instant. */
export function until(timelines: Timelines, untilMs: number): Timelines {
  const { source } = timelines;
  const builder = new TimelinesBuilder();
  for (const index of timelines.keys.keys()) builder.addKey(timelines, index, untilMs);
  // The number of all requests in a part of the period is unknown for a sample.
  const requests = source.oneKeyIn === 1 ? builder.arrivals : null;
  return builder.finish({ ...source, toMs: untilMs, requests });
}

/** Replays the whole, so that the counters of the first half go on in the second. */
function* measured(
  timelines: Timelines,
  goal: Goal,
  limits: readonly Limit[],
  fromMs: number,
): Generator<number, SecondHalf> {
  const [result] = yield* replay(timelines, [limits], { keepsDecisions: true });
  const allowed = result?.allowed;
  if (result === undefined || allowed == null) throw new Error("expected the decisions of a replay");
  const { keys, firstRow, atMs } = timelines;
  const counts = { requests: 0, denied: 0, keys: 0, deniedKeys: 0 };
  for (let key = 0; key < keys.length; key++) {
    let [requests, denied] = [0, 0];
    for (let row = (firstRow[key + 1] ?? 0) - 1; row >= (firstRow[key] ?? 0); row--) {
      if ((atMs[row] ?? 0) < fromMs) break;
      requests++;
      denied += 1 - (allowed[row] ?? 1);
    }
    counts.requests += requests;
    counts.denied += denied;
    counts.keys += Math.sign(requests);
    counts.deniedKeys += Math.sign(denied);
  }
  const { startsMs, counts: perSecond } = result.admittedPerSecond;
  let worstBurst = 0;
  for (const [index, count] of perSecond.entries()) {
    if ((startsMs[index] ?? 0) >= fromMs) worstBurst = Math.max(worstBurst, count);
  }
  const half = { fromMs, ...counts, worstBurst };
  return { ...half, meetsGoal: isMet(goal, half) };
}

function isMet(goal: Goal, half: Omit<SecondHalf, "meetsGoal">): boolean {
  switch (goal.kind) {
    case "denied-requests":
      return half.denied <= goal.mostShare * half.requests;
    case "denied-keys":
      return half.deniedKeys <= goal.mostShare * half.keys;
    case "origin-rate":
      return half.worstBurst <= goal.mostPerSecond;
    case "key-rate":
      return true;
    default:
      return goal satisfies never;
  }
}
