/**
 * Sliding buckets: W is cut into n equal buckets by the clock, and a count is kept for each that still counts.
 *
 * Promise: at most n + 1 counts, whatever L. With `edge = "keep"` a bucket counts until its end is W old: at most L
 * units in any span of W, and known weakness: a unit may count up to a bucket's width too long. With `edge = "drop"`,
 * the textbook's form, only the n buckets that end with the current one count: what was spent early in a bucket is
 * forgotten up to its width too soon. Bound: L in any span of W − W/n, and 2L in one of W.
 */
import * as v from "valibot";
import { acceptedDuration, parseDuration } from "./notation.ts";
import {
  instantLeaving,
  mostBytesOfRuns,
  noRuns,
  decodeRuns,
  type Runs,
  runsBytes,
  encodeRuns,
  unitsAfter,
  removeUnits,
  addUnits,
} from "./log/runs.ts";
import { type Limit, strategyOfParts } from "./strategy.ts";

interface BucketsLimit extends Limit {
  /** Buckets in a window. */
  readonly buckets: number;
  /** The width of a bucket: another way to say how many there are. */
  readonly precision?: number;
  readonly edge: "keep" | "drop";
  readonly bucketMs: number;
  /** For how long a unit counts from the beginning of its bucket. */
  readonly keptMs: number;
}

const mostBuckets = 1_000;
const mostDefaultBuckets = 60;
const acceptedBuckets = `an integer from 1 to ${mostBuckets} that divides the window in milliseconds`;
const acceptedPrecision = `a duration that divides the window into at most ${mostBuckets} parts`;

/** A unit counts from the beginning of its bucket. */
const countsFromMs = ({ bucketMs }: BucketsLimit, atMs: number): number =>
  Math.floor(atMs / bucketMs) * bucketMs;

/** What counts from this instant or before counts no more. */
const afterMs = (limit: BucketsLimit, nowMs: number): number => nowMs - limit.keptMs;

const used = (limit: BucketsLimit, counts: Runs, nowMs: number): number =>
  unitsAfter(counts, afterMs(limit, nowMs));

function defaultBuckets(windowMs: number): number {
  let buckets = mostDefaultBuckets;
  while (windowMs % buckets !== 0) buckets--;
  return buckets;
}

export const slidingBuckets = strategyOfParts<BucketsLimit, Runs>({
  name: "sliding-buckets",
  options: {
    buckets: v.optional(
      v.pipe(
        v.number(acceptedBuckets),
        v.safeInteger(acceptedBuckets),
        v.minValue(1, acceptedBuckets),
        v.maxValue(mostBuckets, acceptedBuckets),
      ),
    ),
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
      return { field: "precision", accepted: "nothing beside buckets" };
    }
    const divides = Number.isInteger(buckets) && windowMs % buckets === 0;
    if (divides && buckets <= mostBuckets) return null;
    return precision === undefined
      ? { field: "buckets", accepted: acceptedBuckets }
      : { field: "precision", accepted: acceptedPrecision };
  },
  identity: ({ buckets, edge }) => (edge === "drop" ? `${buckets} drop` : `${buckets}`),
  capacity: (limit) => limit.limit,
  mostPerWindow: ({ limit, edge }) => (edge === "keep" ? limit : 2 * limit),
  mostStoredBytes: ({ limit, buckets, keptMs }) =>
    100 + mostBytesOfRuns(Math.min(limit, buckets + 1), keptMs, limit),

  fresh: noRuns,

  used,

  waitMs: (limit, counts, cost, nowMs) =>
    instantLeaving(counts, limit.limit - cost) + limit.keptMs - nowMs,

  spend(limit, counts, units, atMs, nowMs) {
    const fromMs = countsFromMs(limit, atMs);
    const isOver = fromMs <= afterMs(limit, nowMs);
    return isOver ? counts : addUnits(counts, units, fromMs, afterMs(limit, nowMs));
  },

  refund: (limit, counts, units, spentAtMs, nowMs) =>
    removeUnits(counts, units, countsFromMs(limit, spentAtMs), afterMs(limit, nowMs), nowMs),

  idleAtMs: (limit, counts) => (counts.newest.units === 0 ? 0 : counts.newest.atMs + limit.keptMs),

  sizeBytes: runsBytes,

  store: (limit, counts, nowMs) => encodeRuns(counts, afterMs(limit, nowMs), nowMs),

  restore: (_limit, stored, nowMs) => decodeRuns(stored, nowMs),
});
