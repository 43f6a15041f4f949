/**
 * Since when each policy denies requests. A run of denials ends when the policy denies nothing for five minutes, so that short
 * pauses, such as those between the windows of a limit, do not start another one.
 */
import type { StatisticsBatch } from "../protocol.ts";
import type { DenialRun } from "../statistics-calls.ts";
import { dayMs, denialsIn, minuteMs, type TallySource } from "./statistics-rows.ts";
import { rowsIn } from "./storage.ts";

const longestPauseMs = 5 * minuteMs;

export type DenialRunsState = readonly (readonly [policy: string, sinceMs: number, lastMs: number])[];

export class DenialRuns {
  readonly #runs = new Map<string, DenialRun>();

  /** @param state the last `toJSON` that was stored */
  constructor(state: DenialRunsState | undefined) {
    for (const [policy, sinceMs, lastMs] of rowsIn(state, "string", "number", "number")) {
      this.#runs.set(policy, { policy, sinceMs, lastMs });
    }
  }

  /** Notes the denials of a batch or of a stored minute. */
  add({ policies }: Pick<StatisticsBatch | TallySource, "policies">, atMs: number): void {
    for (const [policy, counts] of Object.entries(policies)) if (denialsIn(counts) > 0) this.#note(policy, atMs);
  }

  /** The latest run of each policy, of the last 24 hours. */
  latest(nowMs: number): readonly DenialRun[] {
    return [...this.#runs.values()].filter(({ lastMs }) => nowMs - lastMs < dayMs);
  }

  toJSON(nowMs: number): DenialRunsState {
    return this.latest(nowMs).map(({ policy, sinceMs, lastMs }) => [policy, sinceMs, lastMs]);
  }

  /** Batches may arrive late, and in any order. */
  #note(policy: string, atMs: number): void {
    const run = this.#runs.get(policy);
    if (run === undefined || atMs - run.lastMs > longestPauseMs) {
      this.#runs.set(policy, { policy, sinceMs: atMs, lastMs: atMs });
    } else if (run.sinceMs - atMs <= longestPauseMs) {
      const { sinceMs, lastMs } = run;
      this.#runs.set(policy, { policy, sinceMs: Math.min(sinceMs, atMs), lastMs: Math.max(lastMs, atMs) });
    }
  }
}
