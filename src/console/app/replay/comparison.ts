/** The vocabulary of comparisons: the same sampled traffic, decided in several ways. */
import type { Estimate } from "../../../advisor/search/advice.ts";
import type { StepCounts } from "../../../advisor/replay/result.ts";
import type { TimelinesSource } from "../../../advisor/replay/timelines.ts";
import type { Limit } from "../../../strategies/index.ts";

/** How the arrivals are decided. */
export type Decider =
  /** By a replay under these limits. */
  | { readonly kind: "limits"; readonly limits: readonly Limit[] }
  /** As the samples recorded it. Denials of a dry run count. */
  | { readonly kind: "recorded" }
  | { readonly kind: "all-allowed" }
  | { readonly kind: "all-denied" };

export interface ComparisonRequest {
  readonly deciders: readonly Decider[];
  /** Only this key. Its arrivals that other limits decided are included. Absent for the policy. */
  readonly key?: string;
}

/** The decisions of one decider. */
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
  /** When clients send denied requests again after `Retry-After`; null for a decider without limits. */
  readonly retrying: RetryingTraffic | null;
}

export interface RetryingTraffic {
  /** Arrivals that are denied when they first come. */
  readonly denied: number;
  /** By step of time, with the denials of retries. */
  readonly denials: StepCounts;
  /** Requests that are never admitted. */
  readonly abandoned: number;
  /** The longest time from the first denial of a request to its admission. */
  readonly longestWaitMs: number;
}

/** A key that the deciders treat differently. */
export interface AffectedKey {
  readonly key: string;
  readonly requests: number;
  /** Its share of all requests in the timelines. */
  readonly shareOfRequests: number;
  /** Its denials, by decider. */
  readonly denied: readonly number[];
}

export interface Comparison {
  readonly source: TimelinesSource;
  /** Arrivals in the timelines. */
  readonly requests: number;
  readonly keys: number;
  /** In the order of the deciders. */
  readonly results: readonly DecidedTraffic[];
  /** The keys with the greatest difference between the last two deciders first; at most 10. */
  readonly affected: readonly AffectedKey[];
  /** The number of keys with such a difference. */
  readonly affectedKeys: number;
}
