/** Metrics that contain every name and label. */
import type { MetricsInput } from "../../../src/control/object/metrics.ts";
import { Tally } from "../../../src/control/object/statistics-rows.ts";
import type { PolicyInfo } from "../../../src/control/protocol.ts";
import { counts } from "./batches.ts";

const policy = (name: string, limits: PolicyInfo["limits"]): PolicyInfo => ({
  name,
  mode: "enforce",
  objects: { shards: null, locationHint: null, jurisdiction: null },
  limits,
});

export function exampleMetrics(): MetricsInput {
  const totals = new Tally();
  totals.add({
    policies: {
      login: counts({
        outcomes: { allowed: 100, denied: 20, "fallback-local": 3 },
        nearLimit: 6,
        latency: [
          [0, 5],
          [3, 7],
          [24, 2],
        ],
        latencySumMs: 20_500,
        deniedRequests: 20,
      }),
      gone: counts({ outcomes: { allowed: 1 } }),
    },
    originFailures: 4,
    requests: 110,
  });
  return {
    totals,
    policies: [
      policy("login", [
        { name: "login", limit: 5, windowMs: 60_000 },
        { name: "login-day", limit: 50, windowMs: 86_400_000 },
      ]),
      policy("api", [{ name: "api", limit: 100, windowMs: 500 }]),
    ],
    rules: [{ policy: "login", kind: "block", count: 2 }],
    pendingRules: 1,
    epochMs: 1_800_000_000_250,
    version: 17,
    lastBeatMs: 1_800_000_500_000,
  };
}
