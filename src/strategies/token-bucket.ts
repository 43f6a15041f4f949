/**
 * Token bucket: holds up to `burst` tokens, and L more come in each W. A unit takes a token, or is denied.
 *
 * Promise: a burst is let in at once, and the rate holds after it. However long it idles, a bucket never holds more than
 * its capacity. Bound and known weakness: capacity + L in any span of W, since a full bucket may be emptied and then
 * keeps being refilled. `refill = "continuous"` gives a token as soon as it is earned; `refill = "interval"` L at once
 * at every W after the spend that found the bucket full, and keeps that beat though the spend be given back.
 */
import * as v from "valibot";
import {
  burstOption,
  draining,
  type DrainingLimit,
  drainingParts,
  drainingReservations,
  type Level,
  spentFor,
  waitUntilOwed,
} from "./bucket.ts";
import { strategyOfParts } from "./strategy.ts";

interface TokenBucketLimit extends DrainingLimit {
  readonly refill: "continuous" | "interval";
}

export const tokenBucket = strategyOfParts<TokenBucketLimit, Level>({
  ...drainingParts,
  name: "token-bucket",
  options: {
    ...burstOption,
    refill: v.optional(
      v.picklist(["continuous", "interval"], 'one of "continuous", "interval"'),
      "continuous",
    ),
  },
  complete: (limit) =>
    limit.refill === "interval"
      ? {
          ...draining(limit),
          creditsPerUnit: 1,
          creditsPerStep: limit.limit,
          stepMs: limit.windowMs,
        }
      : draining(limit),
  identity: (limit) => (limit.refill === "interval" ? "interval" : ""),
  capacity: (limit) => limit.burst,
  mostPerWindow: (limit) => limit.burst + limit.limit,

  waitMs: (limit, level, cost, nowMs) =>
    waitUntilOwed(limit, level, (limit.burst - cost) * limit.creditsPerUnit, nowMs),

  spend: spentFor,

  reservations: drainingReservations,
});
