/**
 * What came of the spends of one request, and what is still to be done about them: to give all back, or to settle what
 * each has cost. One of the two is done once, also to what objects tell too late to be waited for.
 */
import type { WaitUntil } from "./object-caller.ts";
import type { Outcome, Spend } from "./outcome.ts";
import type { ReservationAddress } from "./reservation-id.ts";

/** What the spend is to have cost; of a dry run too. */
export type CostOf = (spend: Spend) => number;

/** What was spent on one key, and may still be given back or settled. */
export interface OpenSpend {
  /** Where it is open; null when it was spent for good, or not by the object. */
  readonly address: ReservationAddress | null;
  /** Ends its provisional time: no later object has denied the request. */
  readonly confirm: () => void;
  readonly giveBack: () => Promise<unknown>;
  /** What was spent for good stays spent. */
  readonly settle: (costOf: CostOf) => Promise<unknown>;
  /** Keeps what is open so for its ttl from now on. */
  readonly renew: () => Promise<unknown>;
}

/** How one of a request's groups is decided. */
export interface Turn {
  /** Takes what the group spends. */
  readonly admission: Admission;
  readonly waitUntil: WaitUntil;
  /** For how long a later object may still deny the request, in milliseconds; 0 when none can. */
  readonly provisionalMs: number;
}

export class Admission {
  /** Of the spends that were asked for, those of the denying key last; dry runs of keys of their own have none. */
  readonly outcomes: Outcome[] = [];
  /** More than 0 when it was refused because a key has as many reservations open as it may. */
  fullForMs = 0;
  isRefused = false;
  /** When it was decided, in milliseconds since the Unix epoch: what waits are counted from. */
  decidedAtMs = 0;
  readonly #open: OpenSpend[] = [];
  #end: ((spend: OpenSpend) => Promise<unknown>) | null = null;

  /** Where the first that can be settled later is open; null when none is. */
  get address(): ReservationAddress | null {
    return this.#open.find(({ address }) => address !== null)?.address ?? null;
  }

  /** Adds what was spent; after the end it meets it too. */
  async add(spend: OpenSpend): Promise<void> {
    if (this.#end === null) this.#open.push(spend);
    else await this.#end(spend);
  }

  /** The request is admitted: nothing that was spent for it is provisional any more. */
  confirm(): void {
    for (const spend of this.#open) spend.confirm();
  }

  giveBack(): Promise<void> {
    return this.#finish((spend) => spend.giveBack());
  }

  settle(costOf: CostOf): Promise<void> {
    return this.#finish((spend) => spend.settle(costOf));
  }

  async renew(): Promise<void> {
    await Promise.all(this.#open.map((spend) => spend.renew()));
  }

  async #finish(end: (spend: OpenSpend) => Promise<unknown>): Promise<void> {
    if (this.#end !== null) return;
    this.#end = end;
    await Promise.all(this.#open.map(end));
  }
}
