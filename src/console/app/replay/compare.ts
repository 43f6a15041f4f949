/** Decides sampled traffic in several ways, and finds the keys for which the ways differ most. */
import type { Estimate } from "../../../advisor/search/goal.ts";
import { deniedKeyShare, deniedShare } from "../../../advisor/search/interval.ts";
import type { Samples } from "../../../advisor/replay/read-samples.ts";
import { replay, scaled } from "../../../advisor/replay/replay.ts";
import {
  addToStep,
  arrivalSteps,
  type DeniedKey,
  type ReplayResult,
  type RetryCounts,
  type StepCounts,
} from "../../../advisor/replay/result.ts";
import {
  arrivalOutcomes,
  isDeniedOutcome,
  requestCounts,
  type Timelines,
  TimelinesBuilder,
  type TimelinesSource,
} from "../../../advisor/replay/timelines.ts";
import type { Limit } from "../../../strategies/index.ts";

export type Decider =
  /** The engine decides under these limits. */
  | { readonly kind: "limits"; readonly limits: readonly Limit[] }
  /** The decisions are those that the samples recorded. Would-be denials of a dry run count as denials. */
  | { readonly kind: "recorded" }
  | { readonly kind: "all-allowed" }
  | { readonly kind: "all-denied" };

export interface ComparisonRequest {
  readonly deciders: readonly Decider[];
  /**
   * Only the arrivals of this key are compared, including those that other limits decided. Absent: all keys of the
   * policy.
   */
  readonly key?: string;
}

/** The result if clients send denied requests again after `Retry-After`. `denials` includes the denials of retries. */
export type RetryingTraffic = Pick<ReplayResult, "denied" | "denials"> &
  Pick<RetryCounts, "abandoned" | "longestWaitMs">;

export interface DecidedTraffic {
  /** Arrivals that are denied when they first come. */
  readonly denied: number;
  readonly deniedShare: Estimate;
  /** Keys with at least one denial. */
  readonly deniedKeys: number;
  readonly deniedKeyShare: Estimate;
  /** By step of time. */
  readonly denials: StepCounts;
  /** The longest time for which a key is denied; null when it is not known. */
  readonly longestDeniedMs: number | null;
  /** Null for a decider without limits. */
  readonly retrying: RetryingTraffic | null;
}

/** A key that the deciders treat differently, with its denials by decider. */
export interface AffectedKey extends Pick<DeniedKey, "key" | "requests" | "shareOfRequests"> {
  readonly denied: readonly number[];
}

export interface Comparison {
  readonly source: TimelinesSource;
  readonly requests: number;
  readonly keys: number;
  /** One result for each decider, in the same order. */
  readonly results: readonly DecidedTraffic[];
  /** At most 10 keys, first those whose denials differ most between the last two deciders. */
  readonly affected: readonly AffectedKey[];
  /** The number of keys whose denials differ between the last two deciders. */
  readonly affectedKeys: number;
}

const minuteMs = 60_000;
/** A plot in a dialog has room for about this many steps. */
const mostSteps = 144;
const mostListed = 10;

/** Yields the share that is done, from 0 to 1. A caller that stops taking it cancels the comparison. */
export function* compare(
  samples: Pick<Samples, "timelines" | "withOtherLimits">,
  { deciders, key }: ComparisonRequest,
): Generator<number, Comparison> {
  const timelines = key === undefined ? samples.timelines : onlyKey(samples.withOtherLimits, key);
  const { fromMs, toMs } = timelines.source;
  const stepMs = minuteMs * Math.ceil(Math.max(1, toMs - fromMs) / mostSteps / minuteMs);
  const decided: DecidedByKey[] = [];
  for (const [index, decider] of deciders.entries()) {
    const shares = [index / deciders.length, (index + 1) / deciders.length] as const;
    decided.push(yield* scaled(decide(timelines, decider, stepMs), shares));
  }
  const requests = requestCounts(timelines);
  const deniedOfKey = decided.map((each) => each.deniedOfKey);
  const [then, now] = deniedOfKey.toReversed();
  const difference = (index: number): number => Math.abs((then?.[index] ?? 0) - (now?.[index] ?? 0));
  const differing = [...timelines.keys.keys()].filter((index) => difference(index) > 0);
  const affected = differing.toSorted((one, other) => difference(other) - difference(one)).slice(0, mostListed);
  return {
    source: timelines.source,
    requests: timelines.atMs.length,
    keys: timelines.keys.length,
    results: decided.map((each) => ({ ...each.traffic, ...sharesOf(timelines, requests, each.deniedOfKey) })),
    affected: affected.map((index) => ({
      key: timelines.keys[index] ?? "",
      requests: requests[index] ?? 0,
      shareOfRequests: (requests[index] ?? 0) / timelines.atMs.length,
      denied: deniedOfKey.map((denied) => denied[index] ?? 0),
    })),
    affectedKeys: differing.length,
  };
}

interface DecidedByKey {
  readonly traffic: Pick<DecidedTraffic, "denials" | "longestDeniedMs" | "retrying">;
  readonly deniedOfKey: Uint32Array;
}

function* decide(timelines: Timelines, decider: Decider, stepMs: number): Generator<number, DecidedByKey> {
  if (decider.kind !== "limits") return counted(timelines, decider.kind, stepMs);
  const sets = [decider.limits];
  const [once] = yield* scaled(replay(timelines, sets, { stepMs }), [0, 0.5]);
  const [again] = yield* scaled(replay(timelines, sets, { stepMs, retry: "obey" }), [0.5, 1]);
  if (once === undefined || again?.retries == null) throw new Error("expected a result for each");
  const { denials, longestDeniedMs, deniedOfKey } = once;
  const { abandoned, longestWaitMs } = again.retries;
  const retrying = { denied: again.denied, denials: again.denials, abandoned, longestWaitMs };
  return { traffic: { denials, longestDeniedMs, retrying }, deniedOfKey };
}

/** Counts decisions that need no replay. */
function counted(timelines: Timelines, kind: Exclude<Decider["kind"], "limits">, stepMs: number): DecidedByKey {
  const isDenied = arrivalOutcomes.map(
    (outcome) => kind === "all-denied" || (kind === "recorded" && isDeniedOutcome(outcome)),
  );
  const deniedOfKey = new Uint32Array(timelines.keys.length);
  const steps = arrivalSteps(timelines, stepMs);
  const denials = { ...steps, counts: new Float64Array(steps.counts.length) };
  for (const key of timelines.keys.keys()) {
    const end = timelines.firstRow[key + 1] ?? 0;
    for (let row = timelines.firstRow[key] ?? 0; row < end; row++) {
      if (isDenied[timelines.outcome[row] ?? 0] !== true) continue;
      deniedOfKey[key] = (deniedOfKey[key] ?? 0) + 1;
      addToStep(denials, timelines.atMs[row] ?? 0, 1);
    }
  }
  return { traffic: { denials, longestDeniedMs: null, retrying: null }, deniedOfKey };
}

function sharesOf({ keys, source }: Timelines, requests: Uint32Array, denied: Uint32Array) {
  const { oneKeyIn, requests: allRequests, lostArrivals } = source;
  const deniedKeys = denied.filter((count) => count > 0).length;
  const { value, low, high } = deniedShare({ requests, denied }, { oneKeyIn, allRequests, lostArrivals });
  return {
    denied: denied.reduce((sum, count) => sum + count, 0),
    deniedShare: { value, low, high },
    deniedKeys,
    deniedKeyShare: deniedKeyShare(keys.length, deniedKeys, { oneKeyIn }),
  };
}

/** The timelines of one key, which need no estimate; without rows if the key is not in them. */
function onlyKey(timelines: Timelines, key: string): Timelines {
  const builder = new TimelinesBuilder();
  const index = timelines.keys.indexOf(key);
  if (index !== -1) builder.addKey(timelines, index);
  return builder.finish({ ...timelines.source, oneKeyIn: 1, requests: builder.arrivals });
}
