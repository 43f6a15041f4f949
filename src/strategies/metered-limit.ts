/** One limit of a meter: what is spent of it, and what it says of a request. */
import { expiryOf } from "./open-reservations.ts";
import type { CompiledLimit } from "./compiled-limit.ts";
import type { Decision, LimitDecision } from "./strategy.ts";

export interface MeteredLimit {
  readonly rule: CompiledLimit;
  state: unknown;
  /** Units that count at the instant that is being decided, with those that are held. */
  used: number;
}

/*
 * A decision is made at `atMs`, the latest time that the meter has seen, `lagMs` ahead of the caller's clock; a wait lasts
 * until that clock has got there, and beyond. Units that are held are lent out, and count as spent now.
 */

export const meteredLimit = (rule: CompiledLimit, state: unknown): MeteredLimit => ({
  rule,
  state,
  used: 0,
});

/** An entry as it would stand had all that it has spent been spent at `nowMs`. */
export function rebooked(entry: MeteredLimit, seenMs: number, nowMs: number): MeteredLimit {
  const { limit, strategy } = entry.rule;
  const used = strategy.used(limit, entry.state, seenMs);
  const fresh = strategy.fresh();
  const state = used === 0 ? fresh : strategy.spend(limit, fresh, used, nowMs, nowMs);
  return meteredLimit(entry.rule, state);
}

/** A debt beyond this is not told apart from it: sums of units stay exact. */
const greatestDebt = 2 ** 50;

/** The state with units spent at `atMs`, whether they fit or not. */
export function booked(
  { rule: { limit, strategy }, state }: MeteredLimit,
  cost: number,
  atMs: number,
  seenMs: number,
): unknown {
  const units = Math.min(cost, greatestDebt - strategy.used(limit, state, seenMs));
  return units <= 0 ? state : strategy.spend(limit, state, units, atMs, seenMs);
}

/**
 * When units that are reserved count as spent: where they are given back at the latest when the time of the reservation
 * is up, so long ago that they are over just then.
 */
function reservedAtMs({ windowMs, strategy }: CompiledLimit, ttlMs: number, atMs: number): number {
  return strategy.holdsSlots && ttlMs < windowMs ? Math.max(0, atMs - (windowMs - ttlMs)) : atMs;
}

/**
 * The state with units that were reserved at `spentAtMs` given back, all or but for what they have turned out to be.
 * @param heldAtMs since when what is given back in any case is held
 */
export function settled(
  entry: MeteredLimit,
  cost: number,
  actualCost: number,
  spentAtMs: number,
  heldAtMs: number,
  ttlMs: number,
  seenMs: number,
): unknown {
  const { rule, state } = entry;
  const { limit, strategy } = rule;
  const { reservations } = strategy;
  if (strategy.holdsSlots) return released(entry, cost, heldAtMs, ttlMs, seenMs);
  const units = Math.max(0, cost - actualCost);
  let next = state;
  if (reservations !== null) {
    const its = { cost, actualCost: cost - units, spentAtMs };
    next = reservations.settle(limit, state, its, seenMs);
  } else if (units > 0) {
    next = strategy.refund(limit, state, units, spentAtMs, seenMs);
  }
  // What the work took beyond the reservation is spent now.
  return actualCost > cost
    ? booked(meteredLimit(rule, next), actualCost - cost, seenMs, seenMs)
    : next;
}

/** Whether the entry keeps anything of a reservation that was made at this instant. */
export const keepsReservation = ({ rule, state }: MeteredLimit, spentAtMs: number): boolean =>
  rule.strategy.reservations?.isOpen(state, spentAtMs) === true;

/** The state with units spent to be settled later. */
export function reserved(
  { rule, state }: MeteredLimit,
  cost: number,
  ttlMs: number,
  atMs: number,
): unknown {
  const { limit, strategy } = rule;
  const { reservations } = strategy;
  return reservations === null
    ? strategy.spend(limit, state, cost, reservedAtMs(rule, ttlMs, atMs), atMs)
    : reservations.reserve(limit, state, cost, expiryOf(atMs, ttlMs), atMs);
}

/** The state with units that are held since `heldAtMs` given back. */
function released(
  { rule, state }: MeteredLimit,
  cost: number,
  heldAtMs: number,
  ttlMs: number,
  seenMs: number,
): unknown {
  // What was reserved while the clock was ahead has been booked again since, and not with the time it had left.
  const atMs = heldAtMs > seenMs ? heldAtMs : reservedAtMs(rule, ttlMs, heldAtMs);
  return rule.strategy.refund(rule.limit, state, cost, atMs, seenMs);
}

/** Whether a renewal can change anything. */
export const canRenew = ({ rule: { strategy } }: MeteredLimit): boolean =>
  strategy.holdsSlots || strategy.reservations !== null;

/** The state of a reservation made or last renewed at `heldAtMs` that stays open for `ttlMs` from now. */
export function renewed(
  entry: MeteredLimit,
  cost: number,
  heldAtMs: number,
  ttlMs: number,
  seenMs: number,
): unknown {
  const { rule, state } = entry;
  const { holdsSlots, reservations } = rule.strategy;
  if (reservations !== null) return reservations.renew(state, heldAtMs, ttlMs, seenMs);
  if (!holdsSlots) return state;
  const without = released(entry, cost, heldAtMs, ttlMs, seenMs);
  return booked(meteredLimit(rule, without), cost, reservedAtMs(rule, ttlMs, seenMs), seenMs);
}

/** To look is allowed even in debt: what remains can be spent, be it nothing. */
const fits = ({ used, rule }: MeteredLimit, cost: number): boolean =>
  cost === 0 || used + cost <= rule.capacity;

/** Whether a cost fits them all; notes what is used of each. */
export function measure(
  entries: readonly MeteredLimit[],
  cost: number,
  heldUnits: number,
  atMs: number,
): boolean {
  let areFitting = true;
  for (const entry of entries) {
    const { strategy, limit } = entry.rule;
    entry.used = strategy.used(limit, entry.state, atMs) + heldUnits;
    if (!fits(entry, cost)) areFitting = false;
  }
  return areFitting;
}

/** The state as it would stand with the held units spent. */
const stateWith = ({ rule, state }: MeteredLimit, heldUnits: number, atMs: number): unknown =>
  heldUnits === 0 ? state : rule.strategy.spend(rule.limit, state, heldUnits, atMs, atMs);

/** How long a request that is allowed would have to wait; asked before it is spent. */
export function delayOf(
  entries: readonly MeteredLimit[],
  heldUnits: number,
  atMs: number,
  lagMs: number,
): number {
  let longestMs = 0;
  for (const entry of entries) {
    const { limit, strategy } = entry.rule;
    if (strategy.delayMs === null) continue;
    const delayMs = strategy.delayMs(limit, stateWith(entry, heldUnits, atMs), atMs);
    if (delayMs > 0) longestMs = Math.max(longestMs, delayMs + lagMs);
  }
  return longestMs;
}

/** The decision on a cost that has just been spent; each entry's `used` is what it is now. */
export function spentDecision(
  entries: readonly MeteredLimit[],
  cost: number,
  delayMs: number,
  heldUnits: number,
  atMs: number,
  lagMs: number,
): Decision {
  const limits = entries.map((entry) => report(entry, cost, true, heldUnits, atMs, lagMs));
  return { allowed: true, cost, delayMs, retryAfterMs: 0, bannedForMs: 0, limits };
}

/** The decision on a cost that is not spent, or not yet. */
export function decided(
  entries: readonly MeteredLimit[],
  cost: number,
  heldUnits: number,
  atMs: number,
  lagMs: number,
): Decision {
  const limits = entries.map((entry) =>
    report(entry, cost, fits(entry, cost), heldUnits, atMs, lagMs),
  );
  const allowed = limits.every((limit) => limit.allowed);
  const delayMs = allowed && cost > 0 ? delayOf(entries, heldUnits, atMs, lagMs) : 0;
  return {
    allowed,
    cost,
    delayMs,
    retryAfterMs: longestWaitMs(limits),
    bannedForMs: 0,
    limits,
  };
}

/** The greatest of the waits of limits or decisions; null if waiting does not help one of them, 0 if all allow. */
export function longestWaitMs(
  waiting: readonly { readonly retryAfterMs: number | null }[],
): number | null {
  let longestMs = 0;
  for (const { retryAfterMs } of waiting) {
    if (retryAfterMs === null) return null;
    longestMs = Math.max(longestMs, retryAfterMs);
  }
  return longestMs;
}

function report(
  entry: MeteredLimit,
  cost: number,
  allowed: boolean,
  heldUnits: number,
  atMs: number,
  lagMs: number,
): LimitDecision {
  const { rule, used } = entry;
  const { strategy, limit, capacity } = rule;
  const state = stateWith(entry, heldUnits, atMs);
  const remaining = used < capacity ? capacity - used : 0;
  const next = remaining + 1;
  const nextMs = next <= capacity ? strategy.waitMs(limit, state, next, atMs) + lagMs : 0;
  const wholeMs = next < capacity ? strategy.waitMs(limit, state, capacity, atMs) + lagMs : nextMs;
  let retryAfterMs: number | null = 0;
  if (!allowed && cost > capacity) retryAfterMs = null;
  else if (!allowed && cost === next) retryAfterMs = nextMs;
  else if (!allowed) retryAfterMs = strategy.waitMs(limit, state, cost, atMs) + lagMs;
  return {
    name: rule.name,
    strategy: strategy.name,
    limit: rule.units,
    capacity,
    windowMs: strategy.windowMs === null ? rule.windowMs : strategy.windowMs(limit, atMs),
    allowed,
    remaining,
    retryAfterMs,
    replenishAfterMs: nextMs,
    resetAfterMs: wholeMs,
  };
}
