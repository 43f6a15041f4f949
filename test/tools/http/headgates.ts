/** The measured configurations of Headgate, each with its own isolate, objects and socket. */
import type { WorkerService } from "./services.ts";

export const token = "the-benchmark's-token";

/** Never reached in a turn, and small enough for the arithmetic of every strategy. */
const plenty = "10000000/hour";

type PolicyFields = Readonly<Record<string, unknown>>;

/**
 * The common fields of the policies. The timeout is long, because a busy machine may be slow, and decisions that an
 * isolate makes after a timeout must not be measured.
 */
const common = { key: "header:X-Key", timeout: "30s", onError: "closed" };

/** One policy that allows every request, and one that denies all but the first. The path selects the policy. */
const pair = (options: PolicyFields = {}): PolicyFields[] => [
  { name: "allowed", match: { path: "/allowed" }, limits: plenty, ...common, ...options },
  { name: "denied", match: { path: "/denied" }, limits: "1/hour", ...common, ...options },
];

/** A policy for each strategy except the default. Sliding logs hold up to 100,000 units. */
export const strategies: Readonly<Record<string, PolicyFields>> = {
  "fixed-window": { limit: 10_000_000, window: "1h" },
  "sliding-log": { limit: 100_000, window: "1h" },
  "sliding-buckets": { limit: 10_000_000, window: "1h" },
  "token-bucket": { limit: 10_000_000, window: "1h" },
  "leaky-bucket": { limit: 10_000_000, window: "1h" },
  concurrency: { limit: 100_000, window: "1h" },
};

const policies: Readonly<Record<string, readonly PolicyFields[]>> = {
  strict: pair(),
  confirmed: pair({ durability: "confirmed" }),
  leased: pair({ consistency: "leased" }),
  eventual: pair({ consistency: "eventual" }),
  unremembered: pair({ denyCache: false }),
  "per-key": pair(),
  sharded: pair({ objects: "sharded" }),
  "leased-sharded": pair({ objects: "sharded", consistency: "leased" }),
  "eventual-sharded": pair({ objects: "sharded", consistency: "eventual" }),
  strategies: Object.entries(strategies).map(([strategy, limit]) => ({
    name: strategy,
    match: { path: `/${strategy}` },
    limits: { strategy, ...limit },
    ...common,
  })),
};

export const headgates: readonly WorkerService[] = Object.entries(policies).map(
  ([name, of]): WorkerService => ({
    name,
    modules: { "index.js": "headgate/index.js" },
    compatibilityDate: "2026-11-01",
    flags: ["enable_request_signal"],
    texts: {
      POLICIES: JSON.stringify(of),
      KEY_SECRET: "a secret that is the same for all",
      CHECK_TOKENS: token,
      ORIGIN: "http://origin.example",
    },
    objects: { RATE_LIMITER: "RateLimiter" },
    outbound: "origin",
  }),
);
