/**
 * Token bucket: holds up to `burst` tokens, and gains L in each W. A unit takes a token, or is denied.
 *
 * - `refill = "continuous"` adds each token as soon as it is earned.
 * - `refill = "interval"` adds L tokens at the end of each refill period. Periods last W, and the first begins with the
 *   spend that finds the bucket full. Refunding that spend without a reservation does not move the periods.
 *
 * Promise: a burst is allowed at once, and the rate applies after it. An idle bucket never holds more than its capacity.
 * Bound: capacity + L in any span of W, because a full bucket can be emptied while it is refilled.
 */
import * as v from "valibot";
import { bucketTerms } from "./bucket-account.ts";
import {
  type BucketLimit,
  bucketParts,
  bucketReservations,
  burstOption,
  type BucketState,
  spendFinal,
  waitUntilOwed,
  withRate,
} from "./bucket.ts";
import { strategyOfParts } from "./strategy.ts";

interface TokenBucketLimit extends BucketLimit {
  readonly refill: "continuous" | "interval";
}

export const tokenBucket = strategyOfParts<TokenBucketLimit, BucketState>({
  ...bucketParts,
  name: "token-bucket",
  options: {
    ...burstOption,
    refill: v.optional(v.picklist(["continuous", "interval"], 'one of "continuous", "interval"'), "continuous"),
  },
  complete(written) {
    const limit = withRate(written);
    return limit.refill === "interval"
      ? { ...limit, creditsPerUnit: 1, creditsPerStep: limit.limit, stepMs: limit.windowMs }
      : limit;
  },
  identity: (limit) => (limit.refill === "interval" ? "interval" : ""),
  capacity: (limit) => limit.burst,
  mostPerWindow: (limit) => limit.burst + limit.limit,

  account: (limit, state, nowMs) => ({ kind: "level", ...bucketTerms(limit, state, nowMs) }),

  waitMs: (limit, state, cost, nowMs) =>
    waitUntilOwed(limit, state, (limit.burst - cost) * limit.creditsPerUnit, nowMs),

  spend: spendFinal,

  reservations: bucketReservations,
});
