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
import * as v from "valibot";
import { integerFrom } from "../validation/problems.ts";
import { logParts } from "./log/log-parts.ts";
import { mostBytesOfRuns, type Runs } from "./log/runs.ts";
import { acceptedDuration, parseDuration } from "./notation.ts";
import { type Limit, strategyOfParts } from "./strategy.ts";

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
