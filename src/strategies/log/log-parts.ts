/** The parts that all strategies with a log share. */
import type { DatedUnits, Limit } from "../strategy.ts";
import {
  addToRuns,
  decodeRuns,
  encodeRuns,
  instantLeaving,
  noRuns,
  removeFromRuns,
  type Runs,
  runsBytes,
  unitsAfter,
} from "./runs.ts";

interface LogTimes<L extends Limit> {
  /** How long a run counts. */
  readonly keptMs: (limit: L) => number;
  /** The instant from which a unit spent at `atMs` counts. */
  readonly countsFromMs: (limit: L, atMs: number) => number;
}

export function logParts<L extends Limit>({ keptMs, countsFromMs }: LogTimes<L>) {
  /** Runs at this instant or before no longer count. */
  const afterMs = (limit: L, nowMs: number): number => nowMs - keptMs(limit);
  return {
    capacity: ({ limit }: L) => limit,
    fresh: noRuns,
    used: (limit: L, log: Runs, nowMs: number) => unitsAfter(log, afterMs(limit, nowMs)),
    waitMs: (limit: L, log: Runs, cost: number, nowMs: number) =>
      instantLeaving(log, limit.limit - cost) + keptMs(limit) - nowMs,
    spend(limit: L, log: Runs, { atMs, units }: DatedUnits, nowMs: number): Runs {
      const fromMs = countsFromMs(limit, atMs);
      const isOver = fromMs <= afterMs(limit, nowMs);
      return isOver ? log : addToRuns(log, units, fromMs, afterMs(limit, nowMs));
    },
    refund: (limit: L, log: Runs, { atMs, units }: DatedUnits, nowMs: number) =>
      removeFromRuns(log, units, countsFromMs(limit, atMs), afterMs(limit, nowMs), nowMs),
    idleAtMs: (limit: L, { newest }: Runs) =>
      newest.units === 0 ? 0 : newest.atMs + keptMs(limit),
    sizeBytes: runsBytes,
    store: (limit: L, log: Runs, nowMs: number) => encodeRuns(log, afterMs(limit, nowMs), nowMs),
    restore: (_limit: L, stored: unknown, nowMs: number) => decodeRuns(stored, nowMs),
  };
}
