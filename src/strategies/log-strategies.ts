/** The strategies with a log: sliding log, sliding buckets and concurrency. `log/runs.ts` has the log that they share. */
import { type UsageTerms, type LeavingUnits, sumOf } from "./usage.ts";
import { type DatedUnits, type Limit, strategyOfParts, type Strategy } from "./strategy.ts";
import {
  addToRuns,
  countingRuns,
  decodeRuns,
  encodeRuns,
  instantLeaving,
  noRuns,
  removeFromRuns,
  type Runs,
  runsBytes,
  unitsAfter,
  mostBytesOfRuns,
} from "./log/runs.ts";
import * as v from "valibot";
import { integerFrom } from "../validation/problems.ts";
import { acceptedDuration, parseDuration } from "./notation.ts";

interface LogForm<L extends Limit> {
  /** How long a run counts. */
  readonly keptMs: (limit: L) => number;
  /** The instant from which a unit spent at `atMs` counts. */
  readonly countsFromMs: (limit: L, atMs: number) => number;
  /** @param runs those that count, the oldest first */
  readonly termsOf: (limit: L, runs: readonly LeavingUnits[]) => UsageTerms;
}

/** The parts that all strategies with a log share. */
function logParts<L extends Limit>({ keptMs, countsFromMs, termsOf }: LogForm<L>) {
  /** Runs at this instant or before no longer count. */
  const afterMs = (limit: L, nowMs: number): number => nowMs - keptMs(limit);
  return {
    capacity: ({ limit }: L) => limit,
    fresh: noRuns,
    used: (limit: L, log: Runs, nowMs: number) => unitsAfter(log, afterMs(limit, nowMs)),
    account(limit: L, log: Runs, nowMs: number): UsageTerms {
      const runs = countingRuns(log, afterMs(limit, nowMs));
      const leaving = runs.map(({ atMs, units }) => ({
        units,
        leavesInMs: atMs + keptMs(limit) - nowMs,
      }));
      return termsOf(limit, leaving);
    },
    waitMs: (limit: L, log: Runs, cost: number, nowMs: number) =>
      instantLeaving(log, limit.limit - cost) + keptMs(limit) - nowMs,
    spend(limit: L, log: Runs, { atMs, units }: DatedUnits, nowMs: number): Runs {
      const fromMs = countsFromMs(limit, atMs);
      const isOver = fromMs <= afterMs(limit, nowMs);
      return isOver ? log : addToRuns(log, units, fromMs, afterMs(limit, nowMs));
    },
    refund: (limit: L, log: Runs, { atMs, units }: DatedUnits, nowMs: number) =>
      removeFromRuns(log, units, countsFromMs(limit, atMs), afterMs(limit, nowMs), nowMs),
    idleAtMs: (limit: L, { newest }: Runs) => (newest.units === 0 ? 0 : newest.atMs + keptMs(limit)),
    sizeBytes: runsBytes,
    store: (limit: L, log: Runs, nowMs: number) => encodeRuns(log, afterMs(limit, nowMs), nowMs),
    restore: (_limit: L, stored: unknown, nowMs: number) => decodeRuns(stored, nowMs),
  };
}

const greatestLimit = 100_000;

/**
 * Sliding log: the time of every admitted unit in the last W. A unit spent at s counts while t − s < W.
 *
 * Promise: exact, at most L units in any span of W. Known weakness: its size grows with the admitted units, so L is at
 * most 100,000. Units of one millisecond share one entry.
 */
export const slidingLog = strategyOfParts<Limit, Runs>({
  ...logParts<Limit>({
    keptMs: ({ windowMs }) => windowMs,
    countsFromMs: (_limit, atMs) => atMs,
    termsOf: (_limit, runs) => ({ kind: "log", units: sumOf(runs), oldest: runs[0] ?? null }),
  }),
  name: "sliding-log",
  options: {},
  problem: ({ limit, strategy }) =>
    limit <= greatestLimit
      ? null
      : { field: "limit", accepted: `at most ${greatestLimit} for the strategy ${strategy}` },
  identity: () => "",
  mostPerWindow: ({ limit }) => limit,
  // There is at most one run for each millisecond.
  mostStoredBytes: ({ limit, windowMs }) => 100 + mostBytesOfRuns(Math.min(limit, windowMs), windowMs, limit),
});

interface SlidingBucketsLimit extends Limit {
  /** Buckets in a window. */
  readonly buckets: number;
  /** The width of a bucket in milliseconds, written instead of `buckets`. */
  readonly precision?: number;
  readonly edge: "keep" | "drop";
  readonly bucketMs: number;
  /** How long a unit counts from the start of its bucket. */
  readonly keptMs: number;
}

const mostBuckets = 1_000;
const mostDefaultBuckets = 60;
const acceptedBuckets = `an integer from 1 to ${mostBuckets} that divides the window in milliseconds`;
const acceptedPrecision = `a duration that divides the window into at most ${mostBuckets} parts`;

/** The greatest number of buckets, up to `mostDefaultBuckets`, that divides a window. */
function defaultBuckets(windowMs: number): number {
  let buckets = mostDefaultBuckets;
  while (windowMs % buckets !== 0) buckets--;
  return buckets;
}

/**
 * Sliding buckets: W is cut into n equal buckets, aligned to the clock, with one count for each bucket that still counts.
 *
 * - `edge = "keep"` counts a bucket until its end is W old. Bound: L units in any span of W. Known weakness: a unit may
 *   count up to one bucket's width too long.
 * - `edge = "drop"` counts only the n buckets that end with the current one, which is the common textbook form. It forgets
 *   units up to one bucket's width too early. Bound: L in any span of W − W/n, so 2L in W.
 *
 * Promise: at most n + 1 counts, whatever L.
 */
export const slidingBuckets = strategyOfParts<SlidingBucketsLimit, Runs>({
  ...logParts<SlidingBucketsLimit>({
    keptMs: ({ keptMs }) => keptMs,
    countsFromMs: ({ bucketMs }, atMs) => Math.floor(atMs / bucketMs) * bucketMs,
    termsOf: ({ bucketMs }, buckets) => ({ kind: "buckets", bucketMs, buckets }),
  }),
  name: "sliding-buckets",
  options: {
    buckets: v.optional(integerFrom(1, mostBuckets, acceptedBuckets)),
    precision: v.optional(
      v.pipe(
        v.string(acceptedDuration),
        v.check((text) => parseDuration(text) !== null, acceptedDuration),
        v.transform((text) => parseDuration(text) ?? 0),
      ),
    ),
    edge: v.optional(v.picklist(["keep", "drop"], 'one of "keep", "drop"'), "keep"),
  },
  complete(limit) {
    const { windowMs, precision, edge } = limit;
    const byPrecision = precision === undefined ? defaultBuckets(windowMs) : windowMs / precision;
    const buckets = limit.buckets ?? byPrecision;
    const bucketMs = windowMs / buckets;
    return { ...limit, buckets, bucketMs, keptMs: windowMs + (edge === "keep" ? bucketMs : 0) };
  },
  problem(limit) {
    const { windowMs, buckets, precision } = limit;
    if (precision !== undefined && windowMs / precision !== buckets) {
      return { field: "precision", accepted: "nothing, because buckets is set" };
    }
    const divides = Number.isInteger(buckets) && windowMs % buckets === 0;
    if (divides && buckets <= mostBuckets) return null;
    return precision === undefined
      ? { field: "buckets", accepted: acceptedBuckets }
      : { field: "precision", accepted: acceptedPrecision };
  },
  identity: ({ buckets, edge }) => (edge === "drop" ? `${buckets} drop` : `${buckets}`),
  mostPerWindow: ({ limit, edge }) => (edge === "keep" ? limit : 2 * limit),
  mostStoredBytes: ({ limit, buckets, keptMs }) => 100 + mostBytesOfRuns(Math.min(limit, buckets + 1), keptMs, limit),
});

/**
 * Concurrency: at most L units in flight. A spend holds its slots until they are given back or the lease W has passed,
 * which frees the slots of work whose end is never reported.
 *
 * Promise: at most L slots are held, none for longer than W. Bound: L in any span of W, not counting slots given back in
 * it. Known weakness: work that outlasts its lease is no longer counted.
 *
 * A held slot is kept like a unit of a sliding log. The difference is that giving it back is the normal case.
 */
export const concurrency: Strategy = {
  ...slidingLog,
  name: "concurrency",
  holdsSlots: true,
  account(limit, state, nowMs) {
    const terms = slidingLog.account(limit, state, nowMs);
    return terms.kind === "log" ? { kind: "slots", slots: terms.units, oldest: terms.oldest } : terms;
  },
};
