/** Decides spends from the slices that the isolate has borrowed of a key's quota. */
import { type KeyCheck, localSpend } from "./charge-result.ts";
import type { IsolateParts, StrictDecider } from "./decide-strict.ts";
import type { Outcome } from "./outcome.ts";
import { chargedSpends } from "./ruled-outcome.ts";

export class LeasedDecider {
  readonly #isolate: IsolateParts;
  readonly #strict: StrictDecider;

  constructor(isolate: IsolateParts, strict: StrictDecider) {
    this.#isolate = isolate;
    this.#strict = strict;
  }

  /**
   * Spends on one key, all or nothing.
   * @returns null when no slice has enough units left, so that the object must decide
   */
  decide(check: KeyCheck): readonly Outcome[] | null {
    const { leases, localMeters } = this.#isolate;
    const spent = leases.spend(check);
    if (spent === null) return null;
    const count = localMeters.count(chargedSpends(check.group, spent.outcomes));
    if (check.provisionalMs === 0) count.book();
    void check.result.add(
      localSpend({
        finalize: () => {
          count.book();
          spent.finalize();
        },
        giveBack: async () => {
          count.settle(() => 0);
          await this.#strict.refund(await spent.giveBack());
        },
      }),
    );
    return spent.outcomes;
  }
}
