/**
 * The outcomes of one request's spends, and what can still change about those spends. Either all are given back or each is
 * settled to its actual cost, once. This includes spends of calls that are answered after their deadline.
 */
import type { RequestScope } from "./newer-rules-retry.ts";
import type { Outcome, Spend } from "./outcome.ts";
import type { ReservationAddress } from "./reservation.ts";

/** The actual cost of a spend; also called for dry runs. */
export type CostOf = (spend: Spend) => number;

/** Spends on one key that can still be given back or settled. */
export interface OpenSpend {
  /** The address of the reservation in the object; null for a final spend or a spend of the isolate. */
  readonly address: ReservationAddress | null;
  /** Ends the provisional time: every object has admitted the request. */
  readonly finalize: () => void;
  readonly giveBack: () => Promise<unknown>;
  /** Corrects a reservation to its actual cost; a final spend stays as it is. */
  readonly settle: (costOf: CostOf) => Promise<unknown>;
  readonly renew: () => Promise<unknown>;
}

/** An open spend of the isolate itself, without a reservation in an object. */
export const localSpend = (spend: Pick<OpenSpend, "giveBack"> & Partial<OpenSpend>): OpenSpend => ({
  address: null,
  finalize: () => undefined,
  settle: async () => undefined,
  renew: async () => undefined,
  ...spend,
});

/** The spends of one request on one key, which are decided together. */
export interface KeyCheck {
  readonly group: readonly Spend[];
  /** Receives the spends that can still be given back or settled. */
  readonly result: ChargeResult;
  readonly scope: RequestScope;
  /** For how long a later object may still deny the request, in milliseconds; 0 when none can. */
  readonly provisionalMs: number;
  /** Whether nothing is spent. */
  readonly isLook: boolean;
}

/** A denial from the deny cache, as it applies to one request. */
export interface CachedDenial {
  /** The same object as long as the denial is cached, so that an answer can be cached with it. */
  readonly denial: object;
  /** The time since the object's reply, in milliseconds: every wait is shorter by it. */
  readonly ageMs: number;
  /** Computed when first read. */
  readonly outcomes: readonly Outcome[];
}

/** The result of a charge, for requests that are admitted and for those that are refused. */
export class ChargeResult {
  /** The cached denial that has decided the request; null when an object or the isolate's own state was needed. */
  readonly cachedDenial: CachedDenial | null;
  /** More than 0 when a key has the maximum of open reservations: the wait until the next one expires. */
  fullForMs = 0;
  isRefused = false;
  /** Whether an object has newer rules, so that a second attempt decides and this result is ignored. */
  isStale = false;
  /** The outcomes of dry runs that are decided in the background; null when there are none. */
  dryRuns: Promise<readonly (readonly Outcome[])[]> | null = null;
  /** The time of the decision, in milliseconds since the Unix epoch. Waits count from then. */
  decidedAtMs = 0;
  readonly #outcomes: Outcome[] = [];
  readonly #open: OpenSpend[] = [];
  #end: ((spend: OpenSpend) => Promise<unknown>) | null = null;

  constructor(cachedDenial: CachedDenial | null = null) {
    this.cachedDenial = cachedDenial;
  }

  /**
   * In the order of decision: a denying key is the last. Dry runs on keys that no enforced policy charges are not among
   * them.
   */
  get outcomes(): readonly Outcome[] {
    return this.cachedDenial?.outcomes ?? this.#outcomes;
  }

  addOutcomes(outcomes: readonly Outcome[]): void {
    this.#outcomes.push(...outcomes);
  }

  /** Whether it has spends to give back or to settle. Late spends may follow. */
  get hasSpends(): boolean {
    return this.#open.length > 0;
  }

  /** The address of the first reservation; null when there is none. */
  get address(): ReservationAddress | null {
    return this.#open.find(({ address }) => address !== null)?.address ?? null;
  }

  /**
   * Adds a spend. After `giveBack` or `settle`, a late spend is ended in the same way.
   * @returns null if the spend stays open
   */
  add(spend: OpenSpend): Promise<unknown> | null {
    if (this.#end !== null) return this.#end(spend);
    this.#open.push(spend);
    return null;
  }

  /** Ends the provisional time of all spends: the request is admitted. */
  finalize(): void {
    for (const spend of this.#open) spend.finalize();
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
