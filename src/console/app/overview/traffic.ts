/** The traffic of a span of time by policy: totals for the table, and one value for each step for the plot. */
import type { OutcomeName, StatisticsView, StatisticsPointView } from "../../../admin/wire.ts";
import type { PlotData } from "../parts/plot-data.ts";

/**
 * The counts of one policy as one vector: each outcome, decisions near a limit, and the buckets of the latency histogram. The
 * same loop adds or subtracts all of them.
 */
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
] as const satisfies readonly OutcomeName[];

const nearLimitAt = outcomes.length;
const firstBucketAt = nearLimitAt + 1;

export const newTally = (bounds: number): Tally => new Float64Array(firstBucketAt + bounds + 1);

/** @param bounds the number of bounds of the latency histogram */
export function tallyOf(point: StatisticsPointView, bounds: number): Tally {
  const tally = newTally(bounds);
  for (const [at, outcome] of outcomes.entries()) tally[at] = point.outcomes[outcome] ?? 0;
  tally[nearLimitAt] = point.nearLimit;
  for (const [bucket, decisions] of point.latency) {
    const at = firstBucketAt + bucket;
    if (at < tally.length) tally[at] = (tally[at] ?? 0) + decisions;
  }
  return tally;
}

export function addTally(sum: Tally, added: ArrayLike<number>): void {
  for (let at = 0; at < sum.length; at++) sum[at] = (sum[at] ?? 0) + (added[at] ?? 0);
}

/** The numbers that operators ask for. The indexes are those of `outcomes`. */
export function numbersOf(tally: Tally) {
  const at = (index: number): number => tally[index] ?? 0;
  /** Would have been denied, but the policy is in dry run. They are part of `allowed`. */
  const dryRunDenied = at(5);
  /** Requests that passed, including exempt ones and those that a policy in dry run would have denied. */
  const allowed = at(0) + at(1) + dryRunDenied;
  /** Denied by a limit, a ban or a block. */
  const denied = at(2) + at(3) + at(4);
  /** Decided by `onError`. Statistics do not say how `onError = "local"` decided. */
  const fallback = at(6) + at(7) + at(8);
  return {
    allowed,
    denied,
    dryRunDenied,
    fallback,
    nearLimit: at(nearLimitAt),
    decisions: allowed + denied + fallback,
  };
}

export type Numbers = Readonly<ReturnType<typeof numbersOf>>;

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

export const lines = ["allowed", "denied", "dryRunDenied", "fallback"] as const;
export type Line = (typeof lines)[number];

/** Null where the value is unknown. */
type Values = (number | null)[];

export interface PolicyTraffic {
  readonly total: Tally;
  /** A value for each of the traffic's times. */
  readonly lines: Readonly<Record<Line, Values>>;
}

/** Values are counts of steps, or counts per second when `stepMs` is null. */
export interface CountedTraffic extends Omit<PlotData, "series"> {
  readonly boundsMs: readonly number[];
  readonly policies: ReadonlyMap<string, PolicyTraffic>;
  /** Requests of all policies that the origin did not answer. */
  readonly originFailures: number;
}

export function newPolicyTraffic(bounds: number, steps: number): PolicyTraffic {
  const zeros = (): Values => Array.from<number>({ length: steps }).fill(0);
  return {
    total: newTally(bounds),
    lines: { allowed: zeros(), denied: zeros(), dryRunDenied: zeros(), fallback: zeros() },
  };
}

/** Adds up the points by policy. */
export function trafficOf(statistics: StatisticsView): CountedTraffic {
  const { from, to, stepMs, latencyBoundsMs: boundsMs, points, originFailures } = statistics;
  const fromMs = Date.parse(from);
  const toMs = Date.parse(to);
  const steps = Math.max(0, Math.round((toMs - fromMs) / stepMs));
  const policies = new Map<string, PolicyTraffic>();
  for (const point of points) {
    const step = Math.round((Date.parse(point.at) - fromMs) / stepMs);
    const traffic = policies.get(point.policy) ?? newPolicyTraffic(boundsMs.length, steps);
    policies.set(point.policy, traffic);
    const counts = tallyOf(point, boundsMs.length);
    addTally(traffic.total, counts);
    const numbers = numbersOf(counts);
    for (const line of step < steps ? lines : []) {
      const values = traffic.lines[line];
      values[step] = (values[step] ?? 0) + numbers[line];
    }
  }
  return {
    fromMs,
    toMs,
    stepMs,
    times: Array.from({ length: steps }, (_, index) => fromMs + index * stepMs),
    longSteps: [],
    boundsMs,
    policies,
    originFailures: originFailures.reduce((sum, { count }) => sum + count, 0),
  };
}

/** The traffic of one policy, or the sum of all when the policy is null. */
export function trafficOfPolicy(traffic: CountedTraffic, policy: string | null): PolicyTraffic {
  const sum = newPolicyTraffic(traffic.boundsMs.length, traffic.times.length);
  const chosen = policy === null ? traffic.policies.values() : [traffic.policies.get(policy)];
  for (const each of chosen) {
    if (each === undefined) continue;
    addTally(sum.total, each.total);
    for (const line of lines) addValues(sum.lines[line], each.lines[line]);
  }
  return sum;
}

/** A value that is unknown for one policy is unknown for all. */
function addValues(sum: Values, added: Values): void {
  for (let index = 0; index < sum.length; index++) {
    const before = sum[index] ?? null;
    const value = added[index] ?? null;
    sum[index] = before === null || value === null ? null : before + value;
  }
}
