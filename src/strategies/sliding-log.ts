/**
 * Sliding log: the time of every admitted unit in the last W. A unit spent at s counts while t − s < W.
 *
 * Promise: exact, at most L units in any span of W. Known weakness: its size grows with the admitted units, so L is at
 * most 100,000. Units of one millisecond share one entry.
 */
import { sumOf } from "./account.ts";
import { logParts } from "./log/log-parts.ts";
import { mostBytesOfRuns, type Runs } from "./log/runs.ts";
import { type Limit, strategyOfParts } from "./strategy.ts";

const greatestLimit = 100_000;

export const slidingLog = strategyOfParts<Limit, Runs>({
  ...logParts<Limit>({
    keptMs: ({ windowMs }) => windowMs,
    countsFromMs: (_limit, atMs) => atMs,
    termsOf: (_limit, runs) => ({ kind: "log", units: sumOf(runs), oldest: runs[0] ?? null }),
  }),
  name: "sliding-log",
  options: {},
  problem: ({ limit, strategy }) =>
    limit <= greatestLimit
      ? null
      : { field: "limit", accepted: `at most ${greatestLimit} for the strategy ${strategy}` },
  identity: () => "",
  mostPerWindow: ({ limit }) => limit,
  // There is at most one run for each millisecond.
  mostStoredBytes: ({ limit, windowMs }) => 100 + mostBytesOfRuns(Math.min(limit, windowMs), windowMs, limit),
});
