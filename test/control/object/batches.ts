/** Beats and batches of statistics for tests. */
import type { BeatCall, PolicyCounts, StatisticsBatch, TailEntry } from "../../../src/control/protocol.ts";

export const counts = (others: Partial<PolicyCounts> = {}): PolicyCounts => ({
  outcomes: {},
  nearLimit: 0,
  latency: [],
  latencySumMs: 0,
  topDenied: [],
  topSpenders: [],
  ...others,
});

/** A batch with this number of allowed decisions of the policy `api`. */
export const batch = (seq: number, allowed: number, agoMs = 0): StatisticsBatch => ({
  seq,
  agoMs,
  policies: { api: counts({ outcomes: { allowed } }) },
  originFailures: 0,
});

export const beat = (batches: readonly StatisticsBatch[], others: Partial<BeatCall> = {}): BeatCall => ({
  isolate: "one",
  epoch: 0,
  versions: {},
  deployment: "d",
  batches,
  tail: [],
  alerts: [],
  ...others,
});

export const denial = (others: Partial<TailEntry> = {}): TailEntry => ({
  agoMs: 0,
  policy: "api",
  outcome: "denied",
  violated: ["api"],
  retryAfterMs: 1_000,
  cost: 1,
  colo: "AMS",
  key: "key",
  ...others,
});
