/** Decides sampled traffic in several ways, and finds the keys for which the ways differ most. */
import type { Estimate } from "../../../advisor/search/goal.ts";
import { deniedKeyShare, deniedShare } from "../../../advisor/search/interval.ts";
import type { Samples } from "../../../advisor/replay/read-samples.ts";
import { replay, scaled } from "../../../advisor/replay/replay.ts";
import {
  addToStep,
  arrivalSteps,
  type DeniedKey,
  type ReplayOptions,
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
import type { TimeRange } from "../parts/plot-data.ts";

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
   * Only the arrivals of this key in its last complete minutes are compared, including those that other limits decided.
   * Absent: all keys of the policy, in the whole period.
   */
  readonly key?: string;
  /** Until when all arrivals are known. Default: the end of the period. */
  readonly knownUntilMs?: number;
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
  { deciders, key, knownUntilMs }: ComparisonRequest,
): Generator<number, Comparison> {
  const timelines =
    key === undefined ? samples.timelines : lastMinutesOf(samples.withOtherLimits, key, knownUntilMs ?? Infinity);
  const { fromMs, toMs } = timelines.source;
  const steps = {
    stepMs: minuteMs * Math.ceil(Math.max(1, toMs - fromMs) / mostSteps / minuteMs),
    countedFromMs: key === undefined ? 0 : fromMs,
  };
  const decided: DecidedByKey[] = [];
  for (const [index, decider] of deciders.entries()) {
    const shares = [index / deciders.length, (index + 1) / deciders.length] as const;
    decided.push(yield* scaled(decide(timelines, decider, steps), shares));
  }
  const requests = requestCounts(timelines).map((count, index) =>
    key === undefined ? count : count - earlierRows(timelines, index, fromMs),
  );
  const all = requests.reduce((sum, count) => sum + count, 0);
  const deniedOfKey = decided.map((each) => each.deniedOfKey);
  const [then, now] = deniedOfKey.toReversed();
  const difference = (index: number): number => Math.abs((then?.[index] ?? 0) - (now?.[index] ?? 0));
  const differing = [...timelines.keys.keys()].filter((index) => difference(index) > 0);
  const affected = differing.toSorted((one, other) => difference(other) - difference(one)).slice(0, mostListed);
  return {
    source: timelines.source,
    requests: all,
    keys: timelines.keys.length,
    results: decided.map((each) => ({ ...each.traffic, ...sharesOf(timelines, requests, each.deniedOfKey) })),
    affected: affected.map((index) => ({
      key: timelines.keys[index] ?? "",
      requests: requests[index] ?? 0,
      shareOfRequests: (requests[index] ?? 0) / all,
      denied: deniedOfKey.map((denied) => denied[index] ?? 0),
    })),
    affectedKeys: differing.length,
  };
}

interface DecidedByKey {
  readonly traffic: Pick<DecidedTraffic, "denials" | "longestDeniedMs" | "retrying">;
  readonly deniedOfKey: Uint32Array;
}

/** Arrivals before `countedFromMs` are decided, so that the limits have their usage, but not counted. */
type Steps = Required<Pick<ReplayOptions, "stepMs" | "countedFromMs">>;

function* decide(timelines: Timelines, decider: Decider, steps: Steps): Generator<number, DecidedByKey> {
  if (decider.kind !== "limits") return counted(timelines, decider.kind, steps);
  const sets = [decider.limits];
  const [once] = yield* scaled(replay(timelines, sets, steps), [0, 0.5]);
  const [again] = yield* scaled(replay(timelines, sets, { ...steps, retry: "obey" }), [0.5, 1]);
  if (once === undefined || again?.retries == null) throw new Error("expected a result for each");
  const { longestDeniedMs, deniedOfKey } = once;
  const { abandoned, longestWaitMs } = again.retries;
  const shown = ({ denials }: ReplayResult): StepCounts => shownSteps(denials, steps, timelines.source.toMs);
  const denials = shown(once);
  const retrying = { denied: again.denied, denials: shown(again), abandoned, longestWaitMs };
  return { traffic: { denials, longestDeniedMs, retrying }, deniedOfKey };
}

/** The steps from `countedFromMs` to the end of the period. */
function shownSteps({ startMs, stepMs, counts }: StepCounts, { countedFromMs }: Steps, toMs: number): StepCounts {
  const first = Math.max(0, Math.floor((countedFromMs - startMs) / stepMs));
  const end = Math.ceil((toMs - startMs) / stepMs);
  return { startMs: startMs + first * stepMs, stepMs, counts: counts.slice(first, end) };
}

/** Counts decisions that need no replay. */
function counted(timelines: Timelines, kind: Exclude<Decider["kind"], "limits">, shown: Steps): DecidedByKey {
  const isDenied = arrivalOutcomes.map(
    (outcome) => kind === "all-denied" || (kind === "recorded" && isDeniedOutcome(outcome)),
  );
  const deniedOfKey = new Uint32Array(timelines.keys.length);
  const steps = arrivalSteps(timelines, shown.stepMs);
  const denials = { ...steps, counts: new Float64Array(steps.counts.length) };
  for (const key of timelines.keys.keys()) {
    const end = timelines.firstRow[key + 1] ?? 0;
    const first = (timelines.firstRow[key] ?? 0) + earlierRows(timelines, key, shown.countedFromMs);
    for (let row = first; row < end; row++) {
      if (isDenied[timelines.outcome[row] ?? 0] !== true) continue;
      deniedOfKey[key] = (deniedOfKey[key] ?? 0) + 1;
      addToStep(denials, timelines.atMs[row] ?? 0, 1);
    }
  }
  return {
    traffic: { denials: shownSteps(denials, shown, timelines.source.toMs), longestDeniedMs: null, retrying: null },
    deniedOfKey,
  };
}

/** The number of rows of a key before an instant. */
function earlierRows({ firstRow, atMs }: Timelines, key: number, beforeMs: number): number {
  const [from = 0, to = 0] = [firstRow[key], firstRow[key + 1]];
  const found = atMs.subarray(from, to).findIndex((at) => at >= beforeMs);
  return found === -1 ? to - from : found;
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

const mostMinutesOfKey = 10;

/**
 * The timelines of one key, which need no estimate; without rows if the key is not in them. Their period is the last
 * complete minutes with requests of the key. Rows before it say how much of the limits is used.
 */
function lastMinutesOf(timelines: Timelines, key: string, knownUntilMs: number): Timelines {
  const { source } = timelines;
  const index = timelines.keys.indexOf(key);
  const own = timelines.atMs.subarray(timelines.firstRow[index] ?? 0, timelines.firstRow[index + 1] ?? 0);
  const endMs = Math.min(source.toMs, knownUntilMs);
  const period = lastMinutes(own, { fromMs: source.fromMs, toMs: endMs });
  const builder = new TimelinesBuilder();
  if (index !== -1) builder.addKey(timelines, index, period.toMs);
  return builder.finish({ ...source, ...period, oneKeyIn: 1, requests: builder.arrivals });
}

/** The whole period if it has no complete minute with an arrival. */
function lastMinutes(atMs: Float64Array, period: TimeRange): TimeRange {
  const firstMs = Math.ceil(period.fromMs / minuteMs) * minuteMs;
  const endMs = Math.floor(period.toMs / minuteMs) * minuteMs;
  const last = atMs.findLast((at) => at >= firstMs && at < endMs);
  if (last === undefined) return period;
  const toMs = Math.floor(last / minuteMs) * minuteMs + minuteMs;
  return { fromMs: Math.max(firstMs, toMs - mostMinutesOfKey * minuteMs), toMs };
}
