/**
 * What came of the spends of one request, and what is still to be done about them: to give all back, or to settle what
 * each has cost. One of the two is done once, also to what objects tell too late to be waited for.
 */
import type { Outcome, Spend } from "./outcome.ts";
import type { ReservationAddress } from "./reservation-id.ts";

/** What the spend is to have cost; of a dry run too. */
export type CostOf = (spend: Spend) => number;

/** What was spent on one key. */
export interface Held {
  /** Where it is open; null when it was spent for good, or not by the object. */
  readonly address: ReservationAddress | null;
  readonly giveBack: () => Promise<unknown>;
  /** What was spent for good stays spent. */
  readonly settle: (costOf: CostOf) => Promise<unknown>;
  /** Keeps what is open so for its ttl from now on. */
  readonly renew: () => Promise<unknown>;
}

export class Admission {
  /** Of the spends that were asked for, those of the denying key last; dry runs of keys of their own have none. */
  readonly outcomes: Outcome[] = [];
  /** More than 0 when it was refused because a key has as many reservations open as it may. */
  fullForMs = 0;
  isRefused = false;
  /** When it was decided, in milliseconds since the Unix epoch: what waits are counted from. */
  decidedAtMs = 0;
  readonly #held: Held[] = [];
  #end: ((held: Held) => Promise<unknown>) | null = null;

  /** Where the first that can be settled later is open; null when none is. */
  get address(): ReservationAddress | null {
    return this.#held.find(({ address }) => address !== null)?.address ?? null;
  }

  /** Adds what was spent; after the end it meets it too. */
  async add(held: Held): Promise<void> {
    if (this.#end === null) this.#held.push(held);
    else await this.#end(held);
  }

  giveBack(): Promise<void> {
    return this.#finish((held) => held.giveBack());
  }

  settle(costOf: CostOf): Promise<void> {
    return this.#finish((held) => held.settle(costOf));
  }

  async renew(): Promise<void> {
    await Promise.all(this.#held.map((held) => held.renew()));
  }

  async #finish(end: (held: Held) => Promise<unknown>): Promise<void> {
    if (this.#end !== null) return;
    this.#end = end;
    await Promise.all(this.#held.map(end));
  }
}
