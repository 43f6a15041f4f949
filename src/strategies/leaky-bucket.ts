/**
 * Leaky bucket: drains one unit every W/L.
 *
 * `mode = "queue"` gives each unit of an allowed request the next departure slot: first come, first served, and exactly
 * W/L apart. A unit that finds the bucket idle departs at once; a request that would leave more than `burst` units
 * waiting is denied. Promise: what is let through leaves evenly spaced. Known weakness: it answers late by design.
 *
 * `mode = "police"` lets nothing wait: what would overflow the capacity `burst` is denied. It is the continuous token
 * bucket seen from below, and equal to the generic cell rate algorithm (GCRA).
 *
 * Bound: capacity + L admitted in any span of W; of a queue, capacity is burst + 1, and what departs in a span is L + 1.
 */
import * as v from "valibot";
import {
  burstOption,
  draining,
  type DrainingLimit,
  drainingParts,
  drainingReservations,
  type Level,
  owedAt,
  owing,
  spentFor,
  waitUntilOwed,
} from "./bucket.ts";
import { type Limit, strategyOfParts } from "./strategy.ts";

interface LeakyBucketLimit extends DrainingLimit {
  readonly mode: "queue" | "police";
  /** Of a queue: nothing waits longer. Not written in a limit, but added by `withMaxDelay`. */
  readonly maxDelayMs?: number;
  readonly capacity: number;
  /** What may be owed beyond whole units, where the longest wait is not one for whole units. */
  readonly slackCredits: number;
}

export const isQueue = (limit: Limit): boolean =>
  limit.strategy === leakyBucket.name && Reflect.get(limit, "mode") !== "police";

/**
 * Whether `maxDelay`, and not the burst, bounds how much may wait in the queue of a limit.
 * @param capacity of the limit, in units; a queue of its whole burst holds one more than that
 */
export const isBoundByDelay = (limit: Limit, capacity: number): boolean =>
  isQueue(limit) && capacity <= Number(Reflect.get(limit, "burst") ?? limit.limit);

/** The limits, of which no queue holds a unit for longer than so long; null for as long as its burst takes. */
export function withMaxDelay(
  limits: readonly Limit[],
  maxDelayMs: number | null,
): readonly Limit[] {
  if (maxDelayMs === null) return limits;
  return limits.map((limit) => (isQueue(limit) ? { ...limit, maxDelayMs } : limit));
}

/** What follows from how much may wait, and for how long. */
function complete(written: LeakyBucketLimit): LeakyBucketLimit {
  const limit = draining(written);
  const { mode, burst, creditsPerUnit, creditsPerStep, maxDelayMs } = limit;
  if (mode === "police") return { ...limit, capacity: burst, slackCredits: 0 };
  const ofBurst = burst * creditsPerUnit;
  const waitedFor =
    maxDelayMs === undefined ? ofBurst : Math.min(ofBurst, maxDelayMs * creditsPerStep);
  // One departs at once, and the others wait.
  const capacity = Math.floor(waitedFor / creditsPerUnit) + 1;
  return { ...limit, capacity, slackCredits: waitedFor % creditsPerUnit };
}

export const leakyBucket = strategyOfParts<LeakyBucketLimit, Level>({
  ...drainingParts,
  name: "leaky-bucket",
  options: {
    ...burstOption,
    mode: v.optional(v.picklist(["queue", "police"], 'one of "queue", "police"'), "queue"),
  },
  complete,
  identity: (limit) => (limit.mode === "police" ? "police" : ""),
  capacity: ({ capacity }) => capacity,
  mostPerWindow: ({ capacity, limit }) => capacity + limit,

  used: (limit, level, nowMs) =>
    Math.ceil(Math.max(0, owedAt(limit, level, nowMs) - limit.slackCredits) / limit.creditsPerUnit),

  waitMs: (limit, level, cost, nowMs) => {
    const credits = (limit.capacity - cost) * limit.creditsPerUnit + limit.slackCredits;
    return waitUntilOwed(limit, level, credits, nowMs);
  },

  delayMs: (limit, level, nowMs) =>
    limit.mode === "queue" ? Math.ceil(owedAt(limit, level, nowMs) / limit.creditsPerStep) : 0,

  spend: (limit, level, units, atMs, nowMs) =>
    // Later slots are promised to others: of a queue nothing but the last to come in can be given back.
    limit.mode === "queue"
      ? owing(limit, level, units, atMs, nowMs, true)
      : spentFor(limit, level, units, atMs, nowMs),

  reservations: {
    ...drainingReservations,
    reserve: (limit, level, units, expiresAtMs, nowMs) =>
      limit.mode === "queue"
        ? owing(limit, level, units, nowMs, nowMs, true)
        : drainingReservations.reserve(limit, level, units, expiresAtMs, nowMs),
  },
});
