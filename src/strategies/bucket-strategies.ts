/** The strategies with a bucket: token bucket and leaky bucket. `bucket.ts` has the arithmetic that they share. */
import * as v from "valibot";
import {
  bucketTerms,
  type BucketLimit,
  bucketParts,
  bucketReservations,
  burstOption,
  type BucketState,
  spendFinal,
  waitUntilOwed,
  withRate,
  creditsOwed,
  enqueue,
} from "./bucket.ts";
import { strategyOfParts, type Limit } from "./strategy.ts";

interface TokenBucketLimit extends BucketLimit {
  readonly refill: "continuous" | "interval";
}

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

interface LeakyBucketLimit extends BucketLimit {
  readonly mode: "queue" | "police";
  /**
   * The longest delay of a queue. `withMaxDelay` sets it from the policy; limits have no such field in the
   * configuration.
   */
  readonly maxDelayMs?: number;
  readonly capacity: number;
  /** Credits that may be owed beyond whole units, if `maxDelayMs` is not a whole number of slots. */
  readonly slackCredits: number;
}

export const isQueue = (limit: Limit): boolean =>
  limit.strategy === leakyBucket.name && Reflect.get(limit, "mode") !== "police";

/**
 * Whether `maxDelayMs`, and not the burst, bounds the queue of a limit.
 * @param capacity the capacity of the limit in units; burst + 1 if the burst bounds it
 */
export const isBoundByDelay = (limit: Limit, capacity: number): boolean =>
  isQueue(limit) && capacity <= Number(Reflect.get(limit, "burst") ?? limit.limit);

/** The limits with a longest delay for each queue. Null changes nothing: the burst alone bounds the delay. */
export function withMaxDelay(limits: readonly Limit[], maxDelayMs: number | null): readonly Limit[] {
  if (maxDelayMs === null) return limits;
  return limits.map((limit) => (isQueue(limit) ? { ...limit, maxDelayMs } : limit));
}

const delayMsOf = (limit: LeakyBucketLimit, state: BucketState, nowMs: number): number =>
  limit.mode === "queue" ? Math.ceil(creditsOwed(limit, state, nowMs) / limit.creditsPerStep) : 0;

function complete(written: LeakyBucketLimit): LeakyBucketLimit {
  const limit = withRate(written);
  const { mode, burst, creditsPerUnit, creditsPerStep, maxDelayMs } = limit;
  if (mode === "police") return { ...limit, capacity: burst, slackCredits: 0 };
  const burstCredits = burst * creditsPerUnit;
  const waitingCredits = maxDelayMs === undefined ? burstCredits : Math.min(burstCredits, maxDelayMs * creditsPerStep);
  // One unit departs at once; the others wait.
  const capacity = Math.floor(waitingCredits / creditsPerUnit) + 1;
  return { ...limit, capacity, slackCredits: waitingCredits % creditsPerUnit };
}

/**
 * Leaky bucket: drains one unit every W/L.
 *
 * - `mode = "queue"` gives each unit of an allowed request the next departure slot: first come, first served, exactly W/L
 *   apart. A unit that finds the bucket idle departs at once. A request is denied when more than `burst` units would
 *   wait. Promise: allowed requests leave evenly spaced. Known weakness: it delays requests by design.
 * - `mode = "police"` delays nothing: a request that would overflow the capacity `burst` is denied. It is equal to the
 *   continuous token bucket and to the generic cell rate algorithm (GCRA).
 *
 * Bound: capacity + L admitted in any span of W. The capacity of a queue is burst + 1. At most L units depart in a span
 * of W, or L + cost - 1 for requests of a higher cost, because a request departs whole.
 */
export const leakyBucket = strategyOfParts<LeakyBucketLimit, BucketState>({
  ...bucketParts,
  name: "leaky-bucket",
  options: {
    ...burstOption,
    mode: v.optional(v.picklist(["queue", "police"], 'one of "queue", "police"'), "queue"),
  },
  complete,
  identity: (limit) => (limit.mode === "police" ? "police" : ""),
  capacity: ({ capacity }) => capacity,
  mostPerWindow: ({ capacity, limit }) => capacity + limit,

  used: (limit, state, nowMs) =>
    Math.ceil(Math.max(0, creditsOwed(limit, state, nowMs) - limit.slackCredits) / limit.creditsPerUnit),

  account(limit, state, nowMs) {
    const terms = bucketTerms(limit, state, nowMs);
    if (limit.mode === "police") return { kind: "level", ...terms };
    return {
      kind: "queue",
      ...terms,
      // The last departure takes one slot; the units behind it wait.
      waitingUnits: Math.max(0, Math.ceil(terms.owedCredits / terms.creditsPerUnit) - 1),
      delayMs: delayMsOf(limit, state, nowMs),
      slackCredits: limit.slackCredits,
    };
  },

  waitMs: (limit, state, cost, nowMs) => {
    const credits = (limit.capacity - cost) * limit.creditsPerUnit + limit.slackCredits;
    return waitUntilOwed(limit, state, credits, nowMs);
  },

  delayMs: delayMsOf,

  spend: (limit, state, spent, nowMs) =>
    limit.mode === "queue" ? enqueue(limit, state, spent, nowMs) : spendFinal(limit, state, spent, nowMs),

  reservations: {
    ...bucketReservations,
    reserve: (limit, state, reserved, nowMs) =>
      limit.mode === "queue"
        ? enqueue(limit, state, { atMs: nowMs, units: reserved.units }, nowMs)
        : bucketReservations.reserve(limit, state, reserved, nowMs),
  },
});
