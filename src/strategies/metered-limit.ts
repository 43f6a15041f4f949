/** One limit of a meter and its state: spends, settlements of reservations, and the decision on a request. */
import type { UsageBreakdown } from "./usage.ts";
import type { CompiledLimit } from "./compiled-limit.ts";
import { expiryMs } from "./open-reservations.ts";
import type { Decision, LimitDecision, SettledUnits } from "./strategy.ts";

export interface MeteredLimit {
  readonly compiled: CompiledLimit;
  state: unknown;
}

/** The time of a decision, and the units that are lent out at that time. */
interface DecisionTime {
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

/** The limit with a state in which all units that count at `seenMs` were spent at `nowMs`. */
export function rebooked({ compiled, state }: MeteredLimit, seenMs: number, nowMs: number) {
  const { limit, strategy } = compiled;
  const used = strategy.used(limit, state, seenMs);
  const fresh = strategy.fresh();
  return {
    compiled,
    state: used === 0 ? fresh : strategy.spend(limit, fresh, { atMs: nowMs, units: used }, nowMs),
  };
}

/** The state after a spend that fits. */
export function spentState(
  { compiled: { limit, strategy }, state }: MeteredLimit,
  cost: number,
  atMs: number,
): unknown {
  return strategy.spend(limit, state, { atMs, units: cost }, atMs);
}

/** Debts are capped, so that sums of units stay exact integers. */
const greatestDebt = 2 ** 50;

/** The state after a spend at `atMs` that may exceed the capacity. */
export function bookedState(
  { compiled: { limit, strategy }, state }: MeteredLimit,
  cost: number,
  atMs: number,
  seenMs: number,
): unknown {
  const units = Math.min(cost, greatestDebt - strategy.used(limit, state, seenMs));
  return units <= 0 ? state : strategy.spend(limit, state, { atMs, units }, seenMs);
}

/** The instant at which a reservation is booked. Slots expire after a window, so those with a shorter ttl are booked earlier. */
function reservedAtMs({ windowMs, strategy }: CompiledLimit, ttlMs: number, atMs: number): number {
  return strategy.holdsSlots && ttlMs < windowMs ? Math.max(0, atMs - (windowMs - ttlMs)) : atMs;
}

/** The state after a reservation that fits. */
export function reservedState(
  { compiled, state }: MeteredLimit,
  { cost, ttlMs }: ReservedSpend,
  atMs: number,
): unknown {
  const { limit, strategy } = compiled;
  if (strategy.reservations === null) {
    const spent = { atMs: reservedAtMs(compiled, ttlMs, atMs), units: cost };
    return strategy.spend(limit, state, spent, atMs);
  }
  const reserved = { units: cost, expiresAtMs: expiryMs(atMs, ttlMs) };
  return strategy.reservations.reserve(limit, state, reserved, atMs);
}

/** The state after a reservation ends: its slots are free, or its units are corrected to the actual cost. */
export function settledState(
  metered: MeteredLimit,
  reservation: RenewedReservation & SettledUnits,
  seenMs: number,
): unknown {
  const { compiled, state } = metered;
  const { limit, strategy } = compiled;
  if (strategy.holdsSlots) return releasedState(metered, reservation, seenMs);
  const { cost, actualCost, spentAtMs } = reservation;
  const refunded = Math.max(0, cost - actualCost);
  let next = state;
  if (strategy.reservations !== null) {
    const settlement = { cost, actualCost: cost - refunded, spentAtMs };
    next = strategy.reservations.settle(limit, state, settlement, seenMs);
  } else if (refunded > 0) {
    next = strategy.refund(limit, state, { atMs: spentAtMs, units: refunded }, seenMs);
  }
  // Units beyond the reserved cost are spent now.
  return actualCost > cost ? bookedState({ compiled, state: next }, actualCost - cost, seenMs, seenMs) : next;
}

/** The state without the slots of a reservation. */
function releasedState(
  { compiled, state }: MeteredLimit,
  { cost, heldAtMs, ttlMs }: RenewedReservation,
  seenMs: number,
): unknown {
  // The clock was ahead when the reservation was made. Its slots have been booked again since, without its ttl.
  const atMs = heldAtMs > seenMs ? heldAtMs : reservedAtMs(compiled, ttlMs, heldAtMs);
  return compiled.strategy.refund(compiled.limit, state, { atMs, units: cost }, seenMs);
}

/** Whether the state keeps data about a reservation made at `spentAtMs`. */
export const hasOpenReservation = ({ compiled, state }: MeteredLimit, spentAtMs: number): boolean =>
  compiled.strategy.reservations?.isOpen(state, spentAtMs) === true;

/** Whether a renewal can change the state. */
export const canRenew = ({ compiled: { strategy } }: MeteredLimit): boolean =>
  strategy.holdsSlots || strategy.reservations !== null;

/** The state with a reservation open until `ttlMs` after `seenMs`. */
export function renewedState(metered: MeteredLimit, reservation: RenewedReservation, seenMs: number): unknown {
  const { compiled, state } = metered;
  const { holdsSlots, reservations } = compiled.strategy;
  if (reservations !== null) return reservations.renew(state, reservation, seenMs);
  if (!holdsSlots) return state;
  const { cost, ttlMs } = reservation;
  const released = { compiled, state: releasedState(metered, reservation, seenMs) };
  return bookedState(released, cost, reservedAtMs(compiled, ttlMs, seenMs), seenMs);
}

/**
 * Measures the units of each limit that count at `atMs`, held units included.
 * @param used receives them; a new list for each decision would make decisions slower
 */
export function measureUsed(limits: readonly MeteredLimit[], { atMs, heldUnits }: DecisionTime, used: number[]): void {
  let index = 0;
  for (const { compiled, state } of limits) {
    used[index++] = compiled.strategy.used(compiled.limit, state, atMs) + heldUnits;
  }
}

/** The account of the units that `measureUsed` measures. */
export function accountOf(
  { compiled: { limit, strategy }, state }: MeteredLimit,
  { atMs, heldUnits }: DecisionTime,
): UsageBreakdown {
  return {
    used: strategy.used(limit, state, atMs) + heldUnits,
    heldUnits,
    terms: strategy.account(limit, state, atMs),
  };
}

/** A cost of 0 always fits, even when more than the capacity is used. */
const fits = ({ compiled }: MeteredLimit, used: number, cost: number): boolean =>
  cost === 0 || used + cost <= compiled.capacity;

/** @param used the result of `measureUsed` for the same limits */
export function isWithinAll(limits: readonly MeteredLimit[], used: readonly number[], cost: number): boolean {
  // A plain loop: this runs on every decision.
  for (let index = 0; index < limits.length; index++) {
    const metered = limits[index];
    if (metered !== undefined && !fits(metered, used[index] ?? 0, cost)) return false;
  }
  return true;
}

/** The state with the held units spent. */
const stateWithHeld = ({ compiled, state }: MeteredLimit, { atMs, heldUnits }: DecisionTime): unknown =>
  heldUnits === 0 ? state : compiled.strategy.spend(compiled.limit, state, { atMs, units: heldUnits }, atMs);

/** How long an allowed request waits in the slowest queue, computed before its units are spent. */
export function queueDelayMs(limits: readonly MeteredLimit[], time: DecisionTime): number {
  let longestMs = 0;
  for (const metered of limits) {
    const { limit, strategy } = metered.compiled;
    if (strategy.delayMs === null) continue;
    const delayMs = strategy.delayMs(limit, stateWithHeld(metered, time), time.atMs);
    if (delayMs > 0) longestMs = Math.max(longestMs, delayMs + time.lagMs);
  }
  return longestMs;
}

/**
 * The decision on a cost that has just been spent.
 * @param used the units of each limit after the spend
 */
export function spentDecision(
  limits: readonly MeteredLimit[],
  used: readonly number[],
  spent: Pick<Decision, "cost" | "delayMs">,
  time: DecisionTime,
): Decision {
  return {
    allowed: true,
    cost: spent.cost,
    delayMs: spent.delayMs,
    retryAfterMs: 0,
    bannedForMs: 0,
    limits: limits.map((metered, index) => limitDecision(metered, used[index] ?? 0, 0, time)),
  };
}

/** The decision on a cost that is denied, or that the caller only looks at. */
export function unspentDecision(
  metered: readonly MeteredLimit[],
  used: readonly number[],
  cost: number,
  time: DecisionTime,
): Decision {
  const limits = metered.map((each, index) => limitDecision(each, used[index] ?? 0, cost, time));
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

function limitDecision(metered: MeteredLimit, used: number, cost: number, time: DecisionTime): LimitDecision {
  const { strategy, limit, capacity, name, units, windowMs } = metered.compiled;
  const { atMs, lagMs } = time;
  const allowed = fits(metered, used, cost);
  const state = stateWithHeld(metered, time);
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
