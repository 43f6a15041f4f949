/**
 * Sliding log: the time of every admitted unit in the last W. A unit spent at s counts while t − s < W.
 *
 * Promise: exact, at most L units in any span of W. Known weakness: its size grows with what was admitted, so L is at
 * most 100,000; units of one millisecond take the place of one.
 */
import {
  instantLeaving,
  mostBytesOfRuns,
  noRuns,
  decodeRuns,
  type Runs,
  runsBytes,
  encodeRuns,
  unitsAfter,
  removeUnits,
  addUnits,
} from "./log/runs.ts";
import { type Limit, strategyOfParts } from "./strategy.ts";

const maximumLimit = 100_000;

/** What was spent at this instant or before counts no more. */
const afterMs = (limit: Limit, nowMs: number): number => nowMs - limit.windowMs;

const used = (limit: Limit, log: Runs, nowMs: number): number =>
  unitsAfter(log, afterMs(limit, nowMs));

export const slidingLog = strategyOfParts<Limit, Runs>({
  name: "sliding-log",
  options: {},
  problem: ({ limit, strategy }) =>
    limit <= maximumLimit
      ? null
      : { field: "limit", accepted: `at most ${maximumLimit} for the strategy ${strategy}` },
  identity: () => "",
  capacity: (limit) => limit.limit,
  mostPerWindow: (limit) => limit.limit,
  // There is a run for each instant, and no more instants than milliseconds.
  mostStoredBytes: ({ limit, windowMs }) =>
    100 + mostBytesOfRuns(Math.min(limit, windowMs), windowMs, limit),

  fresh: noRuns,

  used,

  waitMs: (limit, log, cost, nowMs) =>
    instantLeaving(log, limit.limit - cost) + limit.windowMs - nowMs,

  spend(limit, log, units, atMs, nowMs) {
    const isOver = atMs <= afterMs(limit, nowMs);
    return isOver ? log : addUnits(log, units, atMs, afterMs(limit, nowMs));
  },

  refund: (limit, log, units, spentAtMs, nowMs) =>
    removeUnits(log, units, spentAtMs, afterMs(limit, nowMs), nowMs),

  idleAtMs: (limit, log) => (log.newest.units === 0 ? 0 : log.newest.atMs + limit.windowMs),

  sizeBytes: runsBytes,

  store: (limit, log, nowMs) => encodeRuns(log, afterMs(limit, nowMs), nowMs),

  restore: (_limit, stored, nowMs) => decodeRuns(stored, nowMs),
});
