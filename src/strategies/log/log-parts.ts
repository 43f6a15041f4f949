/** The parts that all strategies with a log share. */
import type { AccountTerms, LeavingUnits } from "../account.ts";
import type { DatedUnits, Limit } from "../strategy.ts";
import {
  addToRuns,
  countingRuns,
  decodeRuns,
  encodeRuns,
  instantLeaving,
  noRuns,
  removeFromRuns,
  type Runs,
  runsBytes,
  unitsAfter,
} from "./runs.ts";

interface LogForm<L extends Limit> {
  /** How long a run counts. */
  readonly keptMs: (limit: L) => number;
  /** The instant from which a unit spent at `atMs` counts. */
  readonly countsFromMs: (limit: L, atMs: number) => number;
  /** @param runs those that count, the oldest first */
  readonly termsOf: (limit: L, runs: readonly LeavingUnits[]) => AccountTerms;
}

export function logParts<L extends Limit>({ keptMs, countsFromMs, termsOf }: LogForm<L>) {
  /** Runs at this instant or before no longer count. */
  const afterMs = (limit: L, nowMs: number): number => nowMs - keptMs(limit);
  return {
    capacity: ({ limit }: L) => limit,
    fresh: noRuns,
    used: (limit: L, log: Runs, nowMs: number) => unitsAfter(log, afterMs(limit, nowMs)),
    account(limit: L, log: Runs, nowMs: number): AccountTerms {
      const runs = countingRuns(log, afterMs(limit, nowMs));
      const leaving = runs.map(({ atMs, units }) => ({
        units,
        leavesInMs: atMs + keptMs(limit) - nowMs,
      }));
      return termsOf(limit, leaving);
    },
    waitMs: (limit: L, log: Runs, cost: number, nowMs: number) =>
      instantLeaving(log, limit.limit - cost) + keptMs(limit) - nowMs,
    spend(limit: L, log: Runs, { atMs, units }: DatedUnits, nowMs: number): Runs {
      const fromMs = countsFromMs(limit, atMs);
      const isOver = fromMs <= afterMs(limit, nowMs);
      return isOver ? log : addToRuns(log, units, fromMs, afterMs(limit, nowMs));
    },
    refund: (limit: L, log: Runs, { atMs, units }: DatedUnits, nowMs: number) =>
      removeFromRuns(log, units, countsFromMs(limit, atMs), afterMs(limit, nowMs), nowMs),
    idleAtMs: (limit: L, { newest }: Runs) => (newest.units === 0 ? 0 : newest.atMs + keptMs(limit)),
    sizeBytes: runsBytes,
    store: (limit: L, log: Runs, nowMs: number) => encodeRuns(log, afterMs(limit, nowMs), nowMs),
    restore: (_limit: L, stored: unknown, nowMs: number) => decodeRuns(stored, nowMs),
  };
}
