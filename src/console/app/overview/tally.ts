/**
 * The counts of one policy as one vector: each outcome, decisions near a limit, and the buckets of the latency histogram. The
 * same loop adds or subtracts all of them.
 */
import type { Outcome, StatisticsPoint } from "../api/answers.ts";

export type Tally = Float64Array;

const outcomes = [
  "allowed",
  "exempt",
  "denied",
  "banned",
  "blocked",
  "dry-run-denied",
  "fallback-local",
  "fallback-open",
  "fallback-closed",
] as const satisfies readonly Outcome[];

const nearLimitAt = outcomes.length;
const firstBucketAt = nearLimitAt + 1;

/** @param bounds the number of bounds of the latency histogram */
export const newTally = (bounds: number): Tally => new Float64Array(firstBucketAt + bounds + 1);

/** Adds the counts of a point to a tally. Plain loops, because a long span has thousands of points. */
export function addPoint(sum: Tally, point: StatisticsPoint): void {
  for (let at = 0; at < nearLimitAt; at++) {
    const outcome = outcomes[at];
    const count = outcome === undefined ? 0 : (point.outcomes[outcome] ?? 0);
    sum[at] = (sum[at] ?? 0) + count;
  }
  sum[nearLimitAt] = (sum[nearLimitAt] ?? 0) + point.nearLimit;
  for (const [bucket, decisions] of point.latency) {
    const at = firstBucketAt + bucket;
    if (at < sum.length) sum[at] = (sum[at] ?? 0) + decisions;
  }
}

export function addTally(sum: Tally, added: Tally): void {
  for (let at = 0; at < sum.length; at++) sum[at] = (sum[at] ?? 0) + (added[at] ?? 0);
}

/** The numbers that operators ask for. */
export interface Numbers {
  /** Requests that passed: also exempt ones, and those that a policy in dry run would have denied. */
  readonly allowed: number;
  /** Denied by a limit, a ban or a block. */
  readonly denied: number;
  /** Would have been denied, but the policy is in dry run. They are part of `allowed`. */
  readonly dryRunDenied: number;
  /** Decided by `onError`. Statistics do not say how `onError = "local"` decided. */
  readonly fallback: number;
  readonly nearLimit: number;
  readonly decisions: number;
}

/** The indexes are those of `outcomes`. */
export function numbersOf(tally: Tally): Numbers {
  const at = (index: number): number => tally[index] ?? 0;
  const dryRunDenied = at(5);
  const allowed = at(0) + at(1) + dryRunDenied;
  const denied = at(2) + at(3) + at(4);
  const fallback = at(6) + at(7) + at(8);
  const nearLimit = at(nearLimitAt);
  const decisions = allowed + denied + fallback;
  return { allowed, denied, dryRunDenied, fallback, nearLimit, decisions };
}

/** The decisions of each bucket of the latency histogram; the last bucket has no bound. */
export const latenciesOf = (tally: Tally): Float64Array => tally.subarray(firstBucketAt);

/**
 * The upper bound of the bucket in which this share of the decisions is complete: an upper bound of the percentile. Infinity
 * for the last bucket; null without decisions.
 */
export function percentile(buckets: Float64Array, boundsMs: readonly number[], share: number): number | null {
  const total = buckets.reduce((sum, decisions) => sum + decisions, 0);
  if (total === 0) return null;
  let decisions = 0;
  for (const [bucket, own] of buckets.entries()) {
    decisions += own;
    if (decisions >= share * total) return boundsMs[bucket] ?? Number.POSITIVE_INFINITY;
  }
  return Number.POSITIVE_INFINITY;
}
