/**
 * The object that decides: it holds the meters of one key, a meter for each policy that charges it.
 *
 * Every method runs to its end without waiting, so nothing comes between reading a meter and changing it: concurrent
 * requests are decided one after the other. The clock is read once for each decision.
 */
import { DurableObject } from "cloudflare:workers";
import { createMeter, type Decision, type Limit, type Meter } from "../strategies/index.ts";
import { report } from "../observability/events.ts";
import { Ledger } from "./ledger.ts";

/** What one policy is to spend on the object's key. Plain data: it crosses from Worker to object. */
export interface Charge {
  policy: string;
  limits: readonly Limit[];
  cost: number;
}

/** A decision for each charge, in their order; allowed by all, or spent by none. */
export interface Verdict {
  decisions: Decision[];
  /** When it was spent: the latest time the object has seen. For giving it back. */
  decidedAtMs: number;
}

interface Held {
  readonly meter: Meter;
  /** The limits the meter was made for: those of a call may differ from those of the one before. */
  readonly limits: string;
  writtenChanges: number;
}

export class RateLimiter extends DurableObject<Env> {
  readonly #ledger: Ledger;
  readonly #held = new Map<string, Held>();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#ledger = new Ledger(ctx.storage);
  }

  /** Spends every charge if all of them are allowed; otherwise none. */
  check(charges: readonly Charge[]): Verdict {
    const nowMs = Date.now();
    const meters = charges.map((charge) => this.#meterOf(charge));
    const [only, ...others] = charges;
    if (only !== undefined && others.length === 0) {
      const decisions = meters.map((meter) => meter.consume(only.cost, nowMs));
      return this.#verdict(charges, meters, decisions, nowMs);
    }
    const areAllowed = charges.every(
      (charge, index) => meters[index]?.look(charge.cost, nowMs).allowed === true,
    );
    const decisions = charges.flatMap((charge, index) => {
      if (areAllowed) return meters[index]?.consume(charge.cost, nowMs) ?? [];
      // Whichever of them denies, the request is denied to all.
      meters[index]?.deny(nowMs);
      return meters[index]?.look(charge.cost, nowMs) ?? [];
    });
    return this.#verdict(charges, meters, decisions, nowMs);
  }

  /** What `check` would answer to each charge by itself; changes nothing. */
  look(charges: readonly Charge[]): Verdict {
    const nowMs = Date.now();
    const decisions = charges.map((charge) => this.#meterOf(charge).look(charge.cost, nowMs));
    return { decisions, decidedAtMs: nowMs };
  }

  /** Gives back what a `check` spent, because another object denied the same request. */
  refund(charges: readonly Charge[], spentAtMs: number): void {
    const nowMs = Date.now();
    for (const charge of charges) this.#meterOf(charge).refund(charge.cost, spentAtMs, nowMs);
    this.#keep(charges, nowMs);
  }

  /** Forgets what a policy has counted for this key. */
  forget(policy: string): void {
    this.#held.delete(policy);
    this.#ledger.delete(policy);
  }

  override alarm(): void {
    for (const policy of this.#ledger.sweep(Date.now())) this.#held.delete(policy);
  }

  #meterOf({ policy, limits }: Charge): Meter {
    const held = this.#held.get(policy);
    const wanted = JSON.stringify(limits);
    if (held !== undefined && held.limits === wanted) return held.meter;
    // What is held is as good as what is stored, and at hand.
    const meter = createMeter(
      limits,
      held === undefined ? this.#ledger.read(policy) : held.meter.snapshot(),
    );
    if (meter.refused !== null) report({ event: "state-refused", policy, reason: meter.refused });
    this.#held.set(policy, { meter, limits: wanted, writtenChanges: meter.changes });
    return meter;
  }

  #verdict(
    charges: readonly Charge[],
    meters: readonly Meter[],
    decisions: Decision[],
    nowMs: number,
  ): Verdict {
    this.#keep(charges, nowMs);
    return { decisions, decidedAtMs: Math.max(nowMs, ...meters.map((meter) => meter.seenMs)) };
  }

  /** Writes the meters that have changed. A denial changes none and costs no row. */
  #keep(charges: readonly Charge[], nowMs: number): void {
    for (const { policy } of charges) {
      const held = this.#held.get(policy);
      if (held === undefined || held.meter.changes === held.writtenChanges) continue;
      held.writtenChanges = held.meter.changes;
      this.#ledger.write(policy, held.meter.snapshot(), held.meter.idleAtMs(), nowMs);
    }
  }
}
