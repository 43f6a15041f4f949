/** Beats and batches of statistics for tests. */
import type { DenialEntry } from "../../../src/control/denial-calls.ts";
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

/** An entry of one denial in the log. */
export const loggedDenial = (instance: string, others: Partial<DenialEntry> = {}): DenialEntry => ({
  instance,
  policy: "api",
  key: "key",
  outcome: "denied",
  reason: "limit",
  limits: [{ name: "api", used: 5, capacity: 5, windowMs: 60_000 }],
  retryAfterMs: 23_000,
  bannedForMs: 0,
  cost: 1,
  colo: "FRA",
  count: 1,
  agoMs: 0,
  lastAgoMs: 0,
  ...others,
});
