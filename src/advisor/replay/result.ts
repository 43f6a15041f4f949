/** The result of a replay: what a set of limits would have decided. */
import type { Limit } from "../../strategies/index.ts";

/**
 * How clients react to a denial. `none`: not at all, the arrivals are those of the timelines. `obey`: they send the request
 * again after `Retry-After`, until it is admitted or they give up.
 */
export type RetryBehavior = "none" | "obey";

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
  /** Denials by plot step, those of retries included. */
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
  /** Default: `none`. */
  readonly retry?: RetryBehavior;
  /** The step of `admitted` and `denials`, in milliseconds. Default: a step of which the period has about 240. */
  readonly stepMs?: number;
  /** Whether the decision of each row is kept. Default: false. */
  readonly keepsDecisions?: boolean;
  /** Whether even keys that cannot be denied are decided. The result is the same, only later. Default: false. */
  readonly decidesEveryKey?: boolean;
}
