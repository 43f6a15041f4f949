/** The advisor's vocabulary: a goal, the candidates that were replayed for it, and a recommendation. */
import type { Limit, LimitInput } from "../../strategies/index.ts";
import type { ReplayResult } from "../replay/result.ts";
import type { TimelinesSource } from "../replay/timelines.ts";

export type Goal =
  /** Deny at most this share of requests. */
  | { readonly kind: "denied-requests"; readonly mostShare: number }
  /** Deny at most this share of keys. */
  | { readonly kind: "denied-keys"; readonly mostShare: number }
  /** Never admit more than this many requests of one key within a window. */
  | { readonly kind: "key-rate"; readonly most: number; readonly windowMs: number }
  /** Never admit more than this many requests of all keys within a second. */
  | { readonly kind: "origin-rate"; readonly mostPerSecond: number };

/** A value with its 95 % confidence interval. */
export interface Estimate {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

export interface Candidate {
  readonly strategy: string;
  readonly limits: readonly Limit[];
  /** As written in a policy. */
  readonly written: readonly LimitInput[];
  readonly result: ReplayResult;
  /** The share of requests that are denied. */
  readonly deniedShare: Estimate;
  /** The share of keys with a denial. */
  readonly deniedKeyShare: Estimate;
  /**
   * The share of denied keys among those with at least 10 requests; null without such keys. Keys with fewer requests
   * are hardly ever denied.
   */
  readonly deniedActiveKeyShare: Estimate | null;
  /** The most requests of all keys that reach the origin within one second. */
  readonly worstBurst: Estimate;
  /**
   * Whether the goal is met with 95 % confidence, if keys outside the sample are like those in it. A goal for the rate of a key
   * is met when the bound of the strategy ensures it.
   */
  readonly meetsGoal: boolean;
}

/** A key that the recommended limits would deny most. */
export interface Outlier {
  readonly key: string;
  readonly requests: number;
  /** Its share of all requests in the timelines. */
  readonly shareOfRequests: number;
  readonly denied: number;
  readonly longestDeniedMs: number;
}

export type Recommendation =
  /** A candidate meets the goal. */
  | { readonly kind: "recommended"; readonly candidate: number; readonly reason: string }
  /** One limit for all keys denies fewer requests than any limit for each key. It is `Advice.global`. */
  | { readonly kind: "global"; readonly reason: string }
  /** The traffic meets the goal without a limit. */
  | { readonly kind: "unneeded"; readonly reason: string }
  /** There is too little data. `forMs`: how much longer to record; null when it cannot be estimated. */
  | { readonly kind: "wait"; readonly forMs: number | null; readonly reason: string };

export interface Advice {
  readonly goal: Goal;
  /** The strictest first, by strategy and window. */
  readonly candidates: readonly Candidate[];
  readonly recommendation: Recommendation;
  /** One limit for all keys, if the goal is a rate at an origin; else null. */
  readonly global: Candidate | null;
  /** Sentences about the shares of this traffic. */
  readonly notes: readonly string[];
  /** Under the recommended or closest candidate, the most denied first. */
  readonly outliers: readonly Outlier[];
  readonly source: TimelinesSource;
}
