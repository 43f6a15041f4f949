/** Answers of `GET /api/stats` for tests. */
import type { StatisticsView, StatisticsPointView } from "../../../src/admin/wire.ts";

export const boundsMs = [1, 2, 4, 8];

export const startMs = Date.UTC(2026, 10, 22, 10);
export const minuteMs = 60_000;

export const point = (atMs: number, policy: string, others: Partial<StatisticsPointView>): StatisticsPointView => ({
  at: new Date(atMs).toISOString(),
  policy,
  outcomes: {},
  nearLimit: 0,
  latency: [],
  latencySumMs: 0,
  ...others,
});

export const statisticsOf = (
  [fromMs, toMs]: readonly [number, number],
  points: readonly StatisticsPointView[],
  originFailures: StatisticsView["originFailures"] = [],
): StatisticsView => ({
  from: new Date(fromMs).toISOString(),
  to: new Date(toMs).toISOString(),
  stepMs: minuteMs,
  latencyBoundsMs: boundsMs,
  points,
  originFailures,
  requests: [],
  denialRuns: [],
});
