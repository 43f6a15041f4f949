/** The result of a replay: what a set of limits would have decided, counted by seconds and by steps of a plot. */
import { requestCounts, type Timelines } from "./timelines.ts";
import type { Limit } from "../../strategies/index.ts";

/** Counts of equal steps. Step `n` begins at `startMs + n * stepMs`. */
export interface StepCounts {
  readonly startMs: number;
  readonly stepMs: number;
  readonly counts: Float64Array;
}

/** Counts of seconds. Only seconds with a request are listed, so that a log of a year takes no more memory than its lines. */
export interface SecondCounts {
  /** The beginning of each second, in order of time. */
  readonly startsMs: Float64Array;
  readonly counts: Float64Array;
}

/**
 * The most units that a limit admitted to one key within any span of its window, by their actual costs. For a calendar
 * window: within any span of its longest period. For slots: the most that one key held at one instant.
 */
export interface MostAdmitted {
  /** The name of the limit. */
  readonly limit: string;
  readonly windowMs: number;
  readonly units: number;
  /** Index in the keys of the timelines; null when nothing was admitted. */
  readonly key: number | null;
}

/** Requests that clients sent again after a denial. */
export interface RetryCounts {
  /** At most 10 for each request, and at most 100,000 for each key. */
  readonly sent: number;
  readonly denied: number;
  /** Requests that were never admitted. */
  readonly abandoned: number;
  /** The longest time from the first denial of a request to its admission, in milliseconds. */
  readonly longestWaitMs: number;
}

export interface ReplayResult {
  readonly limits: readonly Limit[];
  /** Arrivals of the timelines. */
  readonly requests: number;
  /** Arrivals that were denied when they first came. */
  readonly denied: number;
  /** Keys in the timelines. */
  readonly keys: number;
  /** Keys with at least one denial. */
  readonly deniedKeys: number;
  /**
   * The longest time for which a key was denied, in milliseconds: from a denial to the next admission, or to the end of the last
   * denial's wait if that is earlier. The wait for a slot is 1 s, as `Retry-After` states it. A cost that never fits has no wait.
   */
  readonly longestDeniedMs: number;
  /** One for each limit, in their order. */
  readonly mostAdmitted: readonly MostAdmitted[];
  /**
   * Requests of all keys that the limits let through to the origin in each second. The greatest number is the worst
   * burst. Requests that a queue delays count when they leave it.
   */
  readonly admittedPerSecond: SecondCounts;
  /** Requests that the limits admitted, by plot step. Steps after the end of the period are left out. */
  readonly admitted: StepCounts;
  /** Denials by plot step, including denials of retries. */
  readonly denials: StepCounts;
  /** Arrivals of each key that were denied when they first came. */
  readonly deniedOfKey: Uint32Array;
  /** The longest time for which each key was denied, in milliseconds. */
  readonly longestDeniedMsOfKey: Float64Array;
  /** 1 for each row of the timelines that was allowed when it first came; null unless `keepsDecisions`. */
  readonly allowed: Uint8Array | null;
  /** Null when clients do not retry. */
  readonly retries: RetryCounts | null;
}

export interface ReplayOptions {
  /**
   * How clients react to a denial. `none`, the default: they do not react, so all arrivals are in the timelines.
   * `obey`: they send the request again after `Retry-After`, until it is admitted or they give up.
   */
  readonly retry?: "none" | "obey";
  /** The step of `admitted` and `denials`, in milliseconds. Default: the period has about 240 steps. */
  readonly stepMs?: number;
  /**
   * Earlier arrivals are decided, but not counted in `denied`, `deniedOfKey`, the longest times and `retries`. So the
   * limits have their usage when the counts begin. Default: all arrivals are counted.
   */
  readonly countedFromMs?: number;
  /** Whether the decision of each row is kept. Default: false. */
  readonly keepsDecisions?: boolean;
  /** Whether keys that cannot be denied are decided too. This is slower and gives the same result. Default: false. */
  readonly decidesEveryKey?: boolean;
}

/** Counts of the arrivals in each second that has one. */
export interface ArrivalSeconds {
  /** The beginning of each second, in order of time. */
  readonly startsMs: Float64Array;
  readonly counts: Float64Array;
  /** For each row, the index of its second in `startsMs`. */
  readonly ofRow: Uint32Array;
}

export const secondMs = 1_000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
/** More would not be visible in a plot. */
const mostDefaultSteps = 300;
const mostSteps = 100_000;
const defaultStepsMs: readonly number[] = [
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * secondMs),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * minuteMs),
  ...[1, 2, 3, 6, 12].map((hours) => hours * hourMs),
];

const known = new WeakMap<Timelines, ArrivalSeconds>();

/** The result is kept as long as the timelines are. */
export function arrivalSeconds(timelines: Timelines): ArrivalSeconds {
  const kept = known.get(timelines) ?? countSeconds(timelines.atMs);
  known.set(timelines, kept);
  return kept;
}

function countSeconds(atMs: Float64Array): ArrivalSeconds {
  const seconds = atMs.map((instantMs) => Math.floor(instantMs / secondMs));
  const startsMs = distinct(seconds);
  const ofRow = new Uint32Array(atMs.length);
  const counts = new Float64Array(startsMs.length);
  const indexes = new Map<number, number>();
  for (let index = 0; index < startsMs.length; index++) indexes.set(startsMs[index] ?? 0, index);
  for (let row = 0; row < seconds.length; row++) {
    const isSame = row > 0 && seconds[row] === seconds[row - 1];
    const index = isSame ? (ofRow[row - 1] ?? 0) : (indexes.get(seconds[row] ?? 0) ?? 0);
    ofRow[row] = index;
    counts[index] = (counts[index] ?? 0) + 1;
  }
  return { startsMs: startsMs.map((start) => start * secondMs), counts, ofRow };
}

/** The distinct values, in order. A log can span years: an array of all its seconds could be larger than memory. */
const distinct = (seconds: Float64Array): Float64Array => Float64Array.from(new Set(seconds)).toSorted();

/**
 * The arrivals of each plot step. The steps cover the period of the source, and arrivals outside of it.
 * @param writtenStepMs by default a step of which the period has at most 300
 * @throws RangeError if the step is invalid
 */
export function arrivalSteps(timelines: Timelines, writtenStepMs: number | undefined): StepCounts {
  const { source, atMs } = timelines;
  const { startsMs } = arrivalSeconds(timelines);
  const fromMs = Math.min(source.fromMs, startsMs[0] ?? Infinity);
  const toMs = Math.max(source.toMs, (startsMs.at(-1) ?? -Infinity) + secondMs - 1);
  const stepMs = writtenStepMs ?? defaultStepMs(toMs - fromMs);
  const startMs = Math.floor(fromMs / stepMs) * stepMs;
  const length = Math.floor((toMs - startMs) / stepMs) + 1;
  if (!Number.isSafeInteger(stepMs) || stepMs <= 0 || length > mostSteps) {
    const accepted = `an integer of at least 1 of which the period has at most ${mostSteps}`;
    throw new RangeError(`stepMs must be ${accepted}, not ${String(stepMs)}`);
  }
  const steps = { startMs, stepMs, counts: new Float64Array(length) };
  for (let row = 0; row < atMs.length; row++) addToStep(steps, atMs[row] ?? 0, 1);
  return steps;
}

function defaultStepMs(periodMs: number): number {
  const least = periodMs / mostDefaultSteps;
  return defaultStepsMs.find((stepMs) => stepMs >= least) ?? Math.max(1, Math.ceil(least / dayMs)) * dayMs;
}

/** An instant outside of the steps is left out. */
export function addToStep(steps: StepCounts, atMs: number, count: number): void {
  const { startMs, stepMs, counts } = steps;
  const step = Math.floor((atMs - startMs) / stepMs);
  if (step >= 0 && step < counts.length) counts[step] = (counts[step] ?? 0) + count;
}

/** A key that limits would deny. */
export interface DeniedKey {
  readonly key: string;
  readonly requests: number;
  /** Its share of all requests in the timelines. */
  readonly shareOfRequests: number;
  readonly denied: number;
  readonly longestDeniedMs: number;
}

/** The keys with the most denials. */
export function deniedMost(
  timelines: Timelines,
  { requests: all, deniedOfKey, longestDeniedMsOfKey }: ReplayResult,
  most: number,
): DeniedKey[] {
  const requests = requestCounts(timelines);
  const denied = [...deniedOfKey.keys()].filter((key) => (deniedOfKey[key] ?? 0) > 0);
  return denied
    .toSorted((a, b) => (deniedOfKey[b] ?? 0) - (deniedOfKey[a] ?? 0))
    .slice(0, most)
    .map((key) => ({
      key: timelines.keys[key] ?? "",
      requests: requests[key] ?? 0,
      shareOfRequests: (requests[key] ?? 0) / all,
      denied: deniedOfKey[key] ?? 0,
      longestDeniedMs: longestDeniedMsOfKey[key] ?? 0,
    }));
}
