/** One limit of a meter: what is spent of it, and what it says of a request. */
import { completeLimit, identityOf, strategyOf } from "./registry.ts";
import type { Decision, Limit, LimitDecision, Strategy } from "./strategy.ts";

export interface Entry {
  readonly limit: Limit;
  readonly strategy: Strategy;
  readonly identity: string;
  readonly capacity: number;
  state: unknown;
  /** Units that count at the instant that is being decided, with those that are held. */
  used: number;
}

/*
 * A decision is made at `atMs`, the latest time that the meter has seen, `lagMs` ahead of the caller's clock; a wait lasts
 * until that clock has got there, and beyond. Units that are held are lent out, and count as spent now.
 */

export function entryOf(written: Limit): Entry {
  const limit = completeLimit(written);
  const strategy = strategyOf(limit);
  return {
    limit,
    strategy,
    identity: identityOf(written),
    capacity: strategy.capacity(limit),
    state: strategy.fresh(),
    used: 0,
  };
}

export function withState(entry: Entry, state: unknown): Entry {
  const { limit, strategy, identity, capacity } = entry;
  return { limit, strategy, identity, capacity, state, used: 0 };
}

/** An entry as it would stand had all that it has spent been spent at `nowMs`. */
export function rebooked(entry: Entry, seenMs: number, nowMs: number): Entry {
  const { limit, strategy, state } = entry;
  const used = strategy.used(limit, state, seenMs);
  const fresh = strategy.fresh();
  return withState(entry, used === 0 ? fresh : strategy.spend(limit, fresh, used, nowMs, nowMs));
}

/** To look is allowed even in debt: what remains can be spent, be it nothing. */
const fits = ({ used, capacity }: Entry, cost: number): boolean =>
  cost === 0 || used + cost <= capacity;

/** Whether a cost fits them all; notes what is used of each. */
export function measure(
  entries: readonly Entry[],
  cost: number,
  heldUnits: number,
  atMs: number,
): boolean {
  let areFitting = true;
  for (const entry of entries) {
    entry.used = entry.strategy.used(entry.limit, entry.state, atMs) + heldUnits;
    if (!fits(entry, cost)) areFitting = false;
  }
  return areFitting;
}

/** The state as it would stand with the held units spent. */
const stateWith = ({ limit, strategy, state }: Entry, heldUnits: number, atMs: number): unknown =>
  heldUnits === 0 ? state : strategy.spend(limit, state, heldUnits, atMs, atMs);

/** How long a request that is allowed would have to wait; asked before it is spent. */
export function delayOf(
  entries: readonly Entry[],
  heldUnits: number,
  atMs: number,
  lagMs: number,
): number {
  let longestMs = 0;
  for (const entry of entries) {
    const { limit, strategy } = entry;
    if (strategy.delayMs === null) continue;
    const delayMs = strategy.delayMs(limit, stateWith(entry, heldUnits, atMs), atMs);
    if (delayMs > 0) longestMs = Math.max(longestMs, delayMs + lagMs);
  }
  return longestMs;
}

/** The decision on a cost that has just been spent; each entry's `used` is what it is now. */
export function spentDecision(
  entries: readonly Entry[],
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
  entries: readonly Entry[],
  cost: number,
  heldUnits: number,
  atMs: number,
  lagMs: number,
): Decision {
  const limits = entries.map((entry) =>
    report(entry, cost, fits(entry, cost), heldUnits, atMs, lagMs),
  );
  const allowed = limits.every((limit) => limit.allowed);
  const delayMs = allowed ? delayOf(entries, heldUnits, atMs, lagMs) : 0;
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
  entry: Entry,
  cost: number,
  allowed: boolean,
  heldUnits: number,
  atMs: number,
  lagMs: number,
): LimitDecision {
  const { limit, strategy, capacity, used } = entry;
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
    name: limit.name,
    strategy: limit.strategy,
    limit: limit.limit,
    capacity,
    windowMs: strategy.windowMs === null ? limit.windowMs : strategy.windowMs(limit, atMs),
    allowed,
    remaining,
    retryAfterMs,
    replenishAfterMs: nextMs,
    resetAfterMs: wholeMs,
  };
}
