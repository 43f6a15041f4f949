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
  type Level,
  owedAt,
  owing,
  waitUntilOwed,
} from "./draining.ts";
import { strategyOfParts } from "./strategy.ts";

interface LeakyBucketLimit extends DrainingLimit {
  readonly mode: "queue" | "police";
}

/** In a queue one departs at once, and `burst` wait. */
const capacity = ({ mode, burst }: LeakyBucketLimit): number =>
  mode === "queue" ? burst + 1 : burst;

export const leakyBucket = strategyOfParts<LeakyBucketLimit, Level>({
  ...drainingParts,
  name: "leaky-bucket",
  options: {
    ...burstOption,
    mode: v.optional(v.picklist(["queue", "police"], 'one of "queue", "police"'), "queue"),
  },
  complete: draining,
  identity: (limit) => (limit.mode === "police" ? "police" : ""),
  capacity,
  mostPerWindow: (limit) => capacity(limit) + limit.limit,

  waitMs: (limit, level, cost, nowMs) => waitUntilOwed(limit, level, capacity(limit) - cost, nowMs),

  delayMs: (limit, level, nowMs) =>
    limit.mode === "queue" ? Math.ceil(owedAt(limit, level, nowMs) / limit.creditsPerStep) : 0,

  spend: (limit, level, units, atMs, nowMs) =>
    // Later slots are promised to others: of a queue nothing but the last to come in can be given back.
    owing(limit, level, units, atMs, nowMs, limit.mode === "queue"),
});
