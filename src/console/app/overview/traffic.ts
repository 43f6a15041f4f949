/**
 * The traffic of a span of time: the decisions of each policy, and the requests of all. A request counts once, however many
 * policies decide it.
 */
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
  /** Allowed and denied requests, in the form of a policy's decisions. */
  readonly requests: PolicyTraffic;
  /** Requests before this instant are not all known; null when all are. */
  readonly unknownUntilMs: number | null;
  /** The totals begin here: before `fromMs` for live traffic, which is counted by whole minutes. */
  readonly countedFromMs: number;
  /** When each policy was first counted and denied, and requests under `requestsName`. Without those that are not known. */
  readonly firsts: ReadonlyMap<string, FirstTimes>;
  /** The latest denials of each policy without a pause of more than five minutes. They may begin before the span. */
  readonly denialRuns: ReadonlyMap<string, DenialRun>;
  /** Requests of all policies that the origin did not answer. */
  readonly originFailures: number;
}

interface FirstTimes {
  readonly atMs: number;
  readonly deniedAtMs: number | null;
}

interface DenialRun {
  readonly sinceMs: number;
  readonly lastMs: number;
}

export const denialRunsOf = ({ denialRuns }: StatisticsView): CountedTraffic["denialRuns"] =>
  new Map(
    denialRuns.map(({ policy, since, last }) => [policy, { sinceMs: Date.parse(since), lastMs: Date.parse(last) }]),
  );

export const firstsOf = ({ firstCounts = [] }: StatisticsView): CountedTraffic["firsts"] =>
  new Map(
    firstCounts.map(({ policy, at, deniedAt }) => [
      policy ?? requestsName,
      { atMs: Date.parse(at), deniedAtMs: deniedAt === null ? null : Date.parse(deniedAt) },
    ]),
  );

export function newPolicyTraffic(bounds: number, steps: number): PolicyTraffic {
  const zeros = (): Values => Array.from<number>({ length: steps }).fill(0);
  return {
    total: newTally(bounds),
    lines: { allowed: zeros(), denied: zeros(), dryRunDenied: zeros(), fallback: zeros() },
  };
}

/** Stands for the requests of all policies among the names of policies, none of which is empty. */
export const requestsName = "";

/** The points of the policies, and those of requests under `requestsName`, from when on all requests are known. */
export function countedPoints(statistics: StatisticsView): readonly StatisticsPointView[] {
  const { points, requests } = statistics;
  const knownFromMs = unknownUntil(statistics) ?? 0;
  const known = requests.filter(({ at }) => Date.parse(at) >= knownFromMs);
  return [
    ...points,
    ...known.map(({ at, decided, denied }) => ({
      at,
      policy: requestsName,
      outcomes: { allowed: (decided ?? 0) - (denied ?? 0), denied: denied ?? 0 },
      nearLimit: 0,
      latency: [],
      latencySumMs: 0,
    })),
  ];
}

/** The end of the last step whose requests are unknown; null when all are known. */
export function unknownUntil({ requests, stepMs }: StatisticsView): number | null {
  const last = requests.findLast(({ decided }) => decided === null);
  return last === undefined ? null : Date.parse(last.at) + stepMs;
}

/** Separates the requests from the policies. Requests have no value in steps that begin before `unknownUntilMs`. */
export function withRequests(
  counted: ReadonlyMap<string, PolicyTraffic>,
  times: readonly number[],
  unknownUntilMs: number | null,
): Pick<CountedTraffic, "policies" | "requests" | "unknownUntilMs"> {
  const policies = new Map(counted);
  const requests = policies.get(requestsName) ?? newPolicyTraffic(0, times.length);
  policies.delete(requestsName);
  const known = (values: Values): Values =>
    values.map((value, index) => ((times[index] ?? 0) < (unknownUntilMs ?? 0) ? null : value));
  return {
    policies,
    requests: {
      ...requests,
      lines: { ...requests.lines, allowed: known(requests.lines.allowed), denied: known(requests.lines.denied) },
    },
    unknownUntilMs,
  };
}

/** Adds up the points by policy. */
export function trafficOf(statistics: StatisticsView): CountedTraffic {
  const { from, to, stepMs, latencyBoundsMs: boundsMs, originFailures } = statistics;
  const fromMs = Date.parse(from);
  const toMs = Date.parse(to);
  const steps = Math.max(0, Math.round((toMs - fromMs) / stepMs));
  const policies = new Map<string, PolicyTraffic>();
  for (const point of countedPoints(statistics)) {
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
  const times = Array.from({ length: steps }, (_, index) => fromMs + index * stepMs);
  return {
    fromMs,
    toMs,
    stepMs,
    times,
    longSteps: [],
    boundsMs,
    ...withRequests(policies, times, unknownUntil(statistics)),
    countedFromMs: fromMs,
    firsts: firstsOf(statistics),
    denialRuns: denialRunsOf(statistics),
    originFailures: originFailures.reduce((sum, { count }) => sum + count, 0),
  };
}

export interface ShownTraffic extends PolicyTraffic {
  readonly numbers: Numbers;
}

/**
 * The traffic of one policy. Without a policy, allowed and denied requests, and the sums of what only decisions of policies
 * have.
 */
export function shownTraffic(traffic: CountedTraffic, policy: string | null): ShownTraffic {
  const sum = newPolicyTraffic(traffic.boundsMs.length, traffic.times.length);
  const chosen = policy === null ? traffic.policies.values() : [traffic.policies.get(policy)];
  for (const each of chosen) {
    if (each === undefined) continue;
    addTally(sum.total, each.total);
    for (const line of lines) addValues(sum.lines[line], each.lines[line]);
  }
  const numbers = numbersOf(sum.total);
  if (policy !== null) return { ...sum, numbers };
  const { requests } = traffic;
  const { allowed, denied, decisions } = numbersOf(requests.total);
  return {
    total: sum.total,
    lines: { ...sum.lines, allowed: requests.lines.allowed, denied: requests.lines.denied },
    numbers: { ...numbers, allowed, denied, decisions },
  };
}

/** A value that is unknown for one policy is unknown for all. */
function addValues(sum: Values, added: Values): void {
  for (let index = 0; index < sum.length; index++) {
    const before = sum[index] ?? null;
    const value = added[index] ?? null;
    sum[index] = before === null || value === null ? null : before + value;
  }
}
