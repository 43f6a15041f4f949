/** One limit of a meter and its state: spends, settlements of reservations, and the decision on a request. */
import type { UsageBreakdown } from "./usage.ts";
import type { CompiledLimit } from "./compiled-limit.ts";
import { expiryMs } from "./open-reservations.ts";
import type { Decision, LimitDecision, SettledUnits } from "./strategy.ts";

/** The time of a decision, and the units that are lent out at that time. */
export interface DecisionTime {
  /** The latest time that the meter has seen. */
  readonly atMs: number;
  /** How far `atMs` is ahead of the caller's clock. Every wait includes it. */
  readonly lagMs: number;
  /** Units lent out to leases. They count as spent at `atMs`. */
  readonly heldUnits: number;
}

/** A spend that is settled later. */
export interface ReservedSpend {
  readonly cost: number;
  /** After this time, an unsettled reservation counts as spent; an integer of at least 1. */
  readonly ttlMs: number;
}

export interface RenewedReservation extends ReservedSpend {
  /** The meter's `seenMs` right after the reservation, or right after its last renewal. */
  readonly heldAtMs: number;
}

/** Debts are capped, so that sums of units stay exact integers. */
const greatestDebt = 2 ** 50;

/** Its methods never change `state`. Those that spend or correct return the next state. */
export class MeteredLimit {
  readonly compiled: CompiledLimit;
  state: unknown;

  constructor(compiled: CompiledLimit, state: unknown = compiled.strategy.fresh()) {
    this.compiled = compiled;
    this.state = state;
  }

  #used(atMs: number): number {
    const { limit, strategy } = this.compiled;
    return strategy.used(limit, this.state, atMs);
  }

  /** The limit with a state in which all units that count at `seenMs` were spent at `nowMs`. */
  rebooked(seenMs: number, nowMs: number): MeteredLimit {
    const used = this.#used(seenMs);
    const fresh = new MeteredLimit(this.compiled);
    if (used > 0) fresh.state = fresh.spent(used, nowMs, nowMs);
    return fresh;
  }

  /** The state after a spend at `atMs` that fits. */
  spent(units: number, atMs: number, nowMs: number): unknown {
    const { limit, strategy } = this.compiled;
    return strategy.spend(limit, this.state, { atMs, units }, nowMs);
  }

  /** The state after a spend at `atMs` that may exceed the capacity. */
  booked(cost: number, atMs: number, seenMs: number): unknown {
    const units = Math.min(cost, greatestDebt - this.#used(seenMs));
    return units <= 0 ? this.state : this.spent(units, atMs, seenMs);
  }

  refunded(units: number, atMs: number, seenMs: number): unknown {
    const { limit, strategy } = this.compiled;
    return strategy.refund(limit, this.state, { atMs, units }, seenMs);
  }

  /**
   * The instant at which a reservation is booked. Slots expire after a window, so reservations with a shorter ttl are
   * booked earlier.
   */
  #reservedAtMs(ttlMs: number, atMs: number): number {
    const { windowMs, strategy } = this.compiled;
    return strategy.holdsSlots && ttlMs < windowMs ? Math.max(0, atMs - (windowMs - ttlMs)) : atMs;
  }

  /** The state after a reservation that fits. */
  reserved(cost: number, ttlMs: number, atMs: number): unknown {
    const { limit, strategy } = this.compiled;
    if (strategy.reservations === null) return this.spent(cost, this.#reservedAtMs(ttlMs, atMs), atMs);
    const reserved = { units: cost, expiresAtMs: expiryMs(atMs, ttlMs) };
    return strategy.reservations.reserve(limit, this.state, reserved, atMs);
  }

  /** The state after a reservation ends: its slots are free, or its units are corrected to the actual cost. */
  settled(reservation: RenewedReservation & SettledUnits, seenMs: number): unknown {
    const { limit, strategy } = this.compiled;
    if (strategy.holdsSlots) return this.#released(reservation, seenMs);
    const { cost, actualCost, spentAtMs } = reservation;
    const refunded = Math.max(0, cost - actualCost);
    let next = this.state;
    if (strategy.reservations !== null) {
      const settlement = { cost, actualCost: cost - refunded, spentAtMs };
      next = strategy.reservations.settle(limit, this.state, settlement, seenMs);
    } else if (refunded > 0) {
      next = this.refunded(refunded, spentAtMs, seenMs);
    }
    // Units beyond the reserved cost are spent now.
    return actualCost > cost ? new MeteredLimit(this.compiled, next).booked(actualCost - cost, seenMs, seenMs) : next;
  }

  /** The state without the slots of a reservation. */
  #released({ cost, heldAtMs, ttlMs }: RenewedReservation, seenMs: number): unknown {
    // The clock was ahead when the reservation was made. Its slots have been booked again since, without its ttl.
    const atMs = heldAtMs > seenMs ? heldAtMs : this.#reservedAtMs(ttlMs, heldAtMs);
    return this.refunded(cost, atMs, seenMs);
  }

  /** Whether the state keeps data about a reservation made at `spentAtMs`. */
  hasOpenReservation(spentAtMs: number): boolean {
    return this.compiled.strategy.reservations?.isOpen(this.state, spentAtMs) === true;
  }

  /** Whether a renewal can change the state. */
  get canRenew(): boolean {
    const { holdsSlots, reservations } = this.compiled.strategy;
    return holdsSlots || reservations !== null;
  }

  /** The state with a reservation open until `ttlMs` after `seenMs`. */
  renewed(reservation: RenewedReservation, seenMs: number): unknown {
    const { holdsSlots, reservations } = this.compiled.strategy;
    if (reservations !== null) return reservations.renew(this.state, reservation, seenMs);
    if (!holdsSlots) return this.state;
    const { cost, ttlMs } = reservation;
    const released = new MeteredLimit(this.compiled, this.#released(reservation, seenMs));
    return released.booked(cost, this.#reservedAtMs(ttlMs, seenMs), seenMs);
  }

  /** The units that count at `atMs`, held units included. */
  usedAt({ atMs, heldUnits }: DecisionTime): number {
    return this.#used(atMs) + heldUnits;
  }

  /** How the limit arrives at the units of `usedAt`. */
  account(time: DecisionTime): UsageBreakdown {
    const { limit, strategy } = this.compiled;
    const { atMs, heldUnits } = time;
    return { used: this.usedAt(time), heldUnits, terms: strategy.account(limit, this.state, atMs) };
  }

  /** The state with the held units spent. */
  #withHeld({ atMs, heldUnits }: DecisionTime): unknown {
    return heldUnits === 0 ? this.state : this.spent(heldUnits, atMs, atMs);
  }

  /** How long an allowed request waits in the queue, computed before its units are spent; 0 without a queue. */
  delayMs(time: DecisionTime): number {
    const { limit, strategy } = this.compiled;
    if (strategy.delayMs === null) return 0;
    const delayMs = strategy.delayMs(limit, this.#withHeld(time), time.atMs);
    return delayMs > 0 ? delayMs + time.lagMs : 0;
  }

  /**
   * A cost of 0 always fits, even when more than the capacity is used.
   * @param used the result of `usedAt`
   */
  fits(used: number, cost: number): boolean {
    return cost === 0 || used + cost <= this.compiled.capacity;
  }

  /**
   * The decision on a cost that is not spent.
   * @param used the result of `usedAt`, or the units after a spend
   */
  decision(used: number, cost: number, time: DecisionTime): LimitDecision {
    const { strategy, limit, capacity, name, units, windowMs } = this.compiled;
    const { atMs, lagMs } = time;
    const allowed = this.fits(used, cost);
    const state = this.#withHeld(time);
    const remaining = used < capacity ? capacity - used : 0;
    const next = remaining + 1;
    const nextMs = next <= capacity ? strategy.waitMs(limit, state, next, atMs) + lagMs : 0;
    const wholeMs = next < capacity ? strategy.waitMs(limit, state, capacity, atMs) + lagMs : nextMs;
    let retryAfterMs: number | null = 0;
    if (!allowed && cost > capacity) retryAfterMs = null;
    else if (!allowed && cost === next) retryAfterMs = nextMs;
    else if (!allowed) retryAfterMs = strategy.waitMs(limit, state, cost, atMs) + lagMs;
    return {
      name,
      strategy: strategy.name,
      limit: units,
      capacity,
      windowMs: strategy.windowMs === null ? windowMs : strategy.windowMs(limit, atMs),
      allowed,
      remaining,
      retryAfterMs,
      replenishAfterMs: nextMs,
      resetAfterMs: wholeMs,
    };
  }
}

/** How long an allowed request waits in the slowest queue. */
export function queueDelayMs(limits: readonly MeteredLimit[], time: DecisionTime): number {
  let longestMs = 0;
  for (const metered of limits) longestMs = Math.max(longestMs, metered.delayMs(time));
  return longestMs;
}

/**
 * The decision on a cost that is denied, or that the caller only looks at.
 * @param used the units of each limit
 */
export function unspentDecision(
  metered: readonly MeteredLimit[],
  used: readonly number[],
  cost: number,
  time: DecisionTime,
): Decision {
  const limits = metered.map((each, index) => each.decision(used[index] ?? 0, cost, time));
  const allowed = limits.every((limit) => limit.allowed);
  return {
    allowed,
    cost,
    delayMs: allowed && cost > 0 ? queueDelayMs(metered, time) : 0,
    retryAfterMs: longestWaitMs(limits),
    bannedForMs: 0,
    limits,
  };
}

/** The greatest wait of several limits or decisions: null if one never allows the cost, 0 if all allow it. */
export function longestWaitMs(decisions: readonly { readonly retryAfterMs: number | null }[]): number | null {
  let longestMs = 0;
  for (const { retryAfterMs } of decisions) {
    if (retryAfterMs === null) return null;
    longestMs = Math.max(longestMs, retryAfterMs);
  }
  return longestMs;
}
