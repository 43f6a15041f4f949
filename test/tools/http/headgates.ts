/** The measured configurations of Headgate, each with its own isolate, objects and socket. */
import type { WorkerService } from "./services.ts";

export const token = "the-benchmark's-token";

/** A limit that is never reached in a turn, but small enough for the arithmetic of every strategy. */
const plenty = "10000000/hour";

type PolicyFields = Readonly<Record<string, unknown>>;

/**
 * The common fields of the policies. The timeout is long, because a busy machine may be slow, and decisions that an
 * isolate makes after a timeout must not be measured.
 */
const common = { key: "header:X-Key", timeout: "30s", onError: "closed" };

/** One policy allows every request, and the other denies all but the first. The path selects the policy. */
const pair = (options: PolicyFields = {}): PolicyFields[] => [
  { name: "allowed", match: { path: "/allowed" }, limits: plenty, ...common, ...options },
  { name: "denied", match: { path: "/denied" }, limits: "1/hour", ...common, ...options },
];

const policies: Readonly<Record<string, readonly PolicyFields[]>> = {
  strict: pair(),
  confirmed: pair({ durability: "confirmed" }),
  ban: pair({ ban: "10m" }),
  leased: pair({ consistency: "leased" }),
  eventual: pair({ consistency: "eventual" }),
  unremembered: pair({ denyCache: false }),
  sharded: pair({ objects: "sharded" }),
};

export const headgates: readonly WorkerService[] = Object.entries(policies).map(([name, of]): WorkerService => ({
  name,
  modules: { "headgate.js": "headgate/headgate.js" },
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
}));
