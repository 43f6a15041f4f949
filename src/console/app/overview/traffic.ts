/** The traffic of a span of time by policy: totals for the table, and one value for each step for the plot. */
import type { Statistics } from "../api/answers.ts";
import type { TimeRange } from "../parts/plot-data.ts";
import { addPoint, addTally, newTally, type Numbers, numbersOf, type Tally } from "./tally.ts";

export type Line = "allowed" | "denied" | "dryRunDenied" | "fallback";

export const lines: readonly Line[] = ["allowed", "denied", "dryRunDenied", "fallback"];

/** Null where nothing is known. */
export type Values = (number | null)[];

export interface PolicyTraffic {
  readonly total: Tally;
  /** A value for each of the traffic's times. */
  readonly lines: Readonly<Record<Line, Values>>;
}

export interface CountedTraffic {
  readonly fromMs: number;
  readonly toMs: number;
  /** The length of the steps whose counts are the values; null when the values are counts per second. */
  readonly stepMs: number | null;
  /** When each step begins, or each rate was read. */
  readonly times: readonly number[];
  /** Times that have one rate, or none. */
  readonly longSteps: readonly TimeRange[];
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

/** Adds up the points by policy, in one pass. */
export function trafficOf(statistics: Statistics): CountedTraffic {
  const { from, to, stepMs, latencyBoundsMs: boundsMs, points, originFailures } = statistics;
  const fromMs = Date.parse(from);
  const toMs = Date.parse(to);
  const steps = Math.max(0, Math.round((toMs - fromMs) / stepMs));
  const policies = new Map<string, PolicyTraffic>();
  const counts = newTally(boundsMs.length);
  // The points of one step follow each other.
  let at = "";
  let step = 0;
  for (const point of points) {
    if (point.at !== at) {
      ({ at } = point);
      step = Math.round((Date.parse(at) - fromMs) / stepMs);
    }
    const traffic = policies.get(point.policy) ?? newPolicyTraffic(boundsMs.length, steps);
    policies.set(point.policy, traffic);
    counts.fill(0);
    addPoint(counts, point);
    addTally(traffic.total, counts);
    if (step < steps) addToLines(traffic, step, numbersOf(counts));
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

function addToLines(traffic: PolicyTraffic, step: number, numbers: Numbers): void {
  for (const line of lines) {
    const values = traffic.lines[line];
    values[step] = (values[step] ?? 0) + numbers[line];
  }
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
