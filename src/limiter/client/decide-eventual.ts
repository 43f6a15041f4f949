/** Decisions from what the isolate knows of a key, without waiting for the object. */
import type { Turn } from "./admission.ts";
import { localSpend, reportDryRuns, type StrictDecider } from "./decide-strict.ts";
import type { Clock } from "../clock.ts";
import type { Replicas } from "./replicas.ts";
import { admits, allows, type Outcome, type Spend } from "./outcome.ts";

export class EventualDecider {
  readonly #replicas: Replicas;
  readonly #clock: Clock;
  readonly #strict: StrictDecider;

  constructor(replicas: Replicas, clock: Clock, strict: StrictDecider) {
    this.#replicas = replicas;
    this.#clock = clock;
    this.#strict = strict;
  }

  /** Spends on one key, all or nothing. */
  decide(
    group: readonly Spend[],
    { admission, waitUntil, provisionalMs }: Turn,
  ): readonly Outcome[] {
    const isProvisional = provisionalMs > 0;
    let spentAtMs = this.#clock.now();
    const outcomes = this.#replicas.decide(group, waitUntil, isProvisional);
    if (!outcomes.every(admits)) return outcomes;
    reportDryRuns(group, outcomes);
    const spent = group.filter((_, index) => {
      const outcome = outcomes[index];
      return outcome !== undefined && allows(outcome);
    });
    void admission.add(
      localSpend({
        confirm: () => {
          if (!isProvisional || spent.length === 0) return;
          spentAtMs = this.#replicas.confirm(spent, spentAtMs, waitUntil);
        },
        giveBack: async () => {
          if (spent.length === 0) return;
          await this.#strict.refund(this.#replicas.giveBack(spent, spentAtMs));
        },
      }),
    );
    return outcomes;
  }
}
