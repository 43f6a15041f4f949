/** The statistics of an isolate, and a second count of the same decisions. */
import { IsolateStatistics } from "../../../src/control/isolate/statistics.ts";
import type { Clock } from "../../../src/limiter/clock.ts";

/** Numbers of decisions, by policy and outcome. */
export type Counts = ReadonlyMap<string, number>;

export class Counted {
  readonly statistics: IsolateStatistics;
  readonly #counts = new Map<string, number>();
  /** The counts at the time when the latest batch was closed. */
  #closed: Counts = new Map();
  /** The counts in the latest of the beats that have arrived. */
  #arrived: Counts = new Map();

  constructor(clock: Clock) {
    const count = (policy: string, outcome: string): void => {
      const name = `${policy} ${outcome}`;
      this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
    };
    const closed = (counts: Counts): void => void (this.#closed = counts);
    const counted = this.#counts;
    class CountedStatistics extends IsolateStatistics {
      #lastSeq = 0;
      override count(...call: Parameters<IsolateStatistics["count"]>): void {
        count(call[0], call[1]);
        super.count(...call);
      }
      override record(...call: Parameters<IsolateStatistics["record"]>): void {
        count(call[0], call[1]);
        super.record(...call);
      }
      override async batches(): ReturnType<IsolateStatistics["batches"]> {
        const counts = new Map(counted);
        const batches = await super.batches();
        const seq = batches.at(-1)?.seq ?? 0;
        // While many batches wait, the open batch is not closed.
        if (seq > this.#lastSeq) closed(counts);
        this.#lastSeq = Math.max(seq, this.#lastSeq);
        return batches;
      }
    }
    this.statistics = new CountedStatistics({ sealer: null, alertedPolicies: new Set(), clock });
  }

  /** The decisions that the isolate has recorded. */
  get recorded(): Counts {
    return this.#counts;
  }

  get lastArrived(): Counts {
    return this.#arrived;
  }

  /** The decisions that a beat reports if the isolate sends it now. */
  get closed(): Counts {
    return this.#closed;
  }

  /** Records that a beat has arrived which reports at least a part of these decisions. */
  arrived(counts: Counts): void {
    if (sumOf(counts) > sumOf(this.#arrived)) this.#arrived = counts;
  }
}

export const countedStatistics = (clock: Clock): Counted => new Counted(clock);

export const sumOf = (counts: Counts): number => [...counts.values()].reduce((sum, count) => sum + count, 0);

/** Adds up counts. */
export function addedUp(all: readonly Counts[]): Map<string, number> {
  const sums = new Map<string, number>();
  for (const [name, count] of all.flatMap((counts) => [...counts])) {
    sums.set(name, (sums.get(name) ?? 0) + count);
  }
  return sums;
}
