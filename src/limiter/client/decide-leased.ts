/** Decisions from the units that the isolate has borrowed of a key's quota. */
import type { Turn } from "./admission.ts";
import { localSpend, type StrictDecider } from "./decide-strict.ts";
import type { Clock } from "../clock.ts";
import type { Leases } from "./leases.ts";
import { type LocalMeters, nothingCounted } from "./local-meters.ts";
import type { Outcome, Spend } from "./outcome.ts";

export class LeasedDecider {
  readonly #leases: Leases;
  readonly #local: LocalMeters;
  readonly #clock: Clock;
  readonly #strict: StrictDecider;

  constructor(leases: Leases, local: LocalMeters, clock: Clock, strict: StrictDecider) {
    this.#leases = leases;
    this.#local = local;
    this.#clock = clock;
    this.#strict = strict;
  }

  /** Spends on one key, all or nothing; the object decides where the borrowed units do not suffice. */
  async decide(group: readonly Spend[], turn: Turn): Promise<readonly Outcome[]> {
    const { admission, waitUntil, provisionalMs } = turn;
    const isProvisional = provisionalMs > 0;
    const borrowed = this.#leases.spend(group, waitUntil, isProvisional);
    if (borrowed === null) return this.#strict.decide(group, turn);
    let counted = isProvisional ? nothingCounted : this.#local.book(group, this.#clock.now());
    void admission.add(
      localSpend({
        confirm: () => {
          if (!isProvisional) return;
          counted = this.#local.book(group, this.#clock.now());
          borrowed.confirm();
        },
        giveBack: async () => {
          this.#local.settle(counted, () => 0);
          await this.#strict.refund(await borrowed.giveBack());
        },
      }),
    );
    return borrowed.outcomes;
  }
}
