/**
 * A meter: several limits on one key, decided at one instant, all or nothing. A denial and a look spend nothing.
 *
 * It keeps the latest time it has seen, so that a clock that steps back adds no quota; and the states of limits it was
 * not given, until they are idle, so that two deployed versions of a policy do not erase one another's.
 */
import { isCount } from "./integers.ts";
import { completeLimit, identityOf, strategyOf } from "./registry.ts";
import { readSnapshot, type StoredState, writeSnapshot } from "./snapshot.ts";
import type { Decision, Limit, LimitDecision, Strategy } from "./strategy.ts";

/** A debt beyond this is not told apart from it: sums of units stay exact. */
const greatestDebt = 2 ** 50;

export interface Meter {
  /**
   * Spends `cost` if every limit allows it. A cost of 0 looks.
   * @param nowMs the time of the decision, integer milliseconds since the Unix epoch
   * @param heldUnits units lent out, which count as spent at this instant
   * @throws RangeError if an argument is not an integer of at least 0
   */
  consume(cost: number, nowMs: number, heldUnits?: number): Decision;
  /** What `consume` would answer, without spending; never changes anything. */
  look(cost: number, nowMs: number, heldUnits?: number): Decision;
  /** Counts units that were spent elsewhere at `atMs`; never denies, and may leave a debt. */
  book(cost: number, atMs: number, nowMs: number): void;
  /** Gives back units spent at `spentAtMs`, as far as time has not given them back already. */
  refund(cost: number, spentAtMs: number, nowMs: number): void;
  /** All that must be kept, structured-cloneable and versioned, for `createMeter`. */
  snapshot(): unknown;
  /** When the snapshot may be forgotten without changing any decision; `seenMs` or before if there is nothing to keep. */
  idleAtMs(): number;
  /** The latest time it has seen: when what was spent last was spent, whatever the caller's clock said. */
  readonly seenMs: number;
  /** Grows at least with every change of what `snapshot` answers, so that an owner knows when to write it. */
  readonly changes: number;
  /** Why stored state was not trusted and was replaced by none; null if it was trusted, or there was none. */
  readonly refused: string | null;
}

/** One limit and what is spent of it. */
interface Entry {
  readonly limit: Limit;
  readonly strategy: Strategy;
  readonly identity: string;
  readonly capacity: number;
  state: unknown;
}

/** @param stored what an earlier meter's `snapshot` answered; anything else is refused, see `refused` */
export function createMeter(limits: readonly Limit[], stored?: unknown): Meter {
  return new LimitsMeter(limits, stored);
}

class LimitsMeter implements Meter {
  readonly #longestWindowMs: number;
  /** The states of limits that this meter was not given. */
  readonly #foreign: readonly StoredState[];
  readonly #entries: readonly Entry[];
  seenMs: number;
  changes = 0;
  refused: string | null = null;

  constructor(limits: readonly Limit[], stored: unknown) {
    const revived = stored === undefined ? { seenMs: 0, states: [] } : readSnapshot(stored);
    if (revived === null) this.refused = "not a snapshot of this version";
    const { seenMs = 0, states: found = [] } = revived ?? {};
    const states = new Map(found.map((state) => [state.identity, state]));
    // The state of a limit that was away may have seen a later time than the meter, whose clock was mended since.
    this.seenMs = limits.reduce(
      (latest, limit) => Math.max(latest, states.get(identityOf(limit))?.writtenAtMs ?? 0),
      seenMs,
    );
    this.#entries = limits.map((limit) => {
      const entry = entryOf(limit);
      const state = states.get(entry.identity);
      states.delete(entry.identity);
      return state === undefined ? entry : this.#revived(entry, state, seenMs);
    });
    this.#foreign = [...states.values()];
    this.#longestWindowMs = limits.reduce((longest, limit) => Math.max(longest, limit.windowMs), 0);
  }

  /** @param snapshotSeenMs the latest time that the meter had seen that wrote the snapshot */
  #revived(fresh: Entry, { data, writtenAtMs }: StoredState, snapshotSeenMs: number): Entry {
    const state = fresh.strategy.revive(fresh.limit, data, writtenAtMs);
    if (state === null) {
      this.refused = `not a state of "${fresh.identity}"`;
      return fresh;
    }
    const entry = withState(fresh, state);
    const seenMs = Math.max(writtenAtMs, snapshotSeenMs);
    // Others have seen a later time: to take theirs as it stands would give back what was spent by this one's.
    return seenMs < this.seenMs ? rebooked(entry, seenMs, this.seenMs) : entry;
  }

  consume(cost: number, nowMs: number, heldUnits = 0): Decision {
    if (cost === 0) return this.look(cost, nowMs, heldUnits);
    requireCount("cost", cost);
    requireCount("nowMs", nowMs);
    requireCount("heldUnits", heldUnits);
    this.#trustClock(nowMs);
    const atMs = Math.max(nowMs, this.seenMs);
    const before = withHeld(this.#entries, heldUnits, atMs);
    if (!before.every((entry) => fits(entry, cost, atMs))) {
      this.#deny(atMs);
      return decided(withHeld(this.#entries, heldUnits, atMs), cost, atMs, nowMs);
    }
    const delayMs = delayOf(before, atMs, nowMs);
    this.#change(atMs, ({ limit, strategy, state }) =>
      strategy.spend(limit, state, cost, atMs, atMs),
    );
    return spent(withHeld(this.#entries, heldUnits, atMs), cost, delayMs, atMs, nowMs);
  }

  look(cost: number, nowMs: number, heldUnits = 0): Decision {
    requireCount("cost", cost);
    requireCount("nowMs", nowMs);
    requireCount("heldUnits", heldUnits);
    const isMisset = this.#isMisset(nowMs);
    const atMs = isMisset ? nowMs : Math.max(nowMs, this.seenMs);
    const kept = isMisset
      ? this.#entries.map((entry) => rebooked(entry, this.seenMs, nowMs))
      : this.#entries;
    return decided(withHeld(kept, heldUnits, atMs), cost, atMs, nowMs);
  }

  book(cost: number, atMs: number, nowMs: number): void {
    requireCount("cost", cost);
    requireCount("atMs", atMs);
    requireCount("nowMs", nowMs);
    if (cost === 0) return;
    this.#trustClock(nowMs);
    const seenMs = Math.max(nowMs, this.seenMs);
    // As long ago as the caller says, by the time at which the meter decides.
    const bookedAtMs = seenMs - Math.max(0, nowMs - atMs);
    this.#change(seenMs, ({ limit, strategy, state }) => {
      const units = Math.min(cost, greatestDebt - strategy.used(limit, state, seenMs));
      return units <= 0 ? state : strategy.spend(limit, state, units, bookedAtMs, seenMs);
    });
  }

  refund(cost: number, spentAtMs: number, nowMs: number): void {
    requireCount("cost", cost);
    requireCount("spentAtMs", spentAtMs);
    requireCount("nowMs", nowMs);
    if (cost === 0) return;
    this.#trustClock(nowMs);
    const seenMs = Math.max(nowMs, this.seenMs);
    this.#change(seenMs, ({ limit, strategy, state }) =>
      strategy.refund(limit, state, cost, spentAtMs, seenMs),
    );
  }

  snapshot(): unknown {
    const own = this.#entries.map(({ limit, strategy, identity, state }) => ({
      identity,
      data: strategy.store(limit, state, this.seenMs),
      writtenAtMs: this.seenMs,
      idleAtMs: strategy.idleAtMs(limit, state),
    }));
    return writeSnapshot({ seenMs: this.seenMs, states: [...own, ...this.#foreign] });
  }

  idleAtMs(): number {
    const own = this.#entries.map(({ limit, strategy, state }) => strategy.idleAtMs(limit, state));
    return Math.max(0, ...own, ...this.#foreign.map((state) => state.idleAtMs));
  }

  /**
   * A latest time further ahead than the longest window comes from a clock that was wrong then or is wrong now. What is
   * spent is booked again at this instant, once and for good, so that a key is neither freed nor frozen.
   */
  #trustClock(nowMs: number): void {
    if (!this.#isMisset(nowMs)) return;
    const { seenMs } = this;
    this.#change(nowMs, (entry) => rebooked(entry, seenMs, nowMs).state);
  }

  #isMisset(nowMs: number): boolean {
    return this.seenMs - nowMs > this.#longestWindowMs;
  }

  #change(seenMs: number, transition: (entry: Entry) => unknown): void {
    for (const entry of this.#entries) entry.state = transition(entry);
    this.seenMs = seenMs;
    this.changes++;
  }

  /** What a denial changes, where a strategy declares that it does. */
  #deny(atMs: number): void {
    for (const entry of this.#entries) {
      const { limit, strategy, state } = entry;
      const next = strategy.deny?.(limit, state, atMs) ?? state;
      if (next === state) continue;
      entry.state = next;
      this.seenMs = atMs;
      this.changes++;
    }
  }
}

function requireCount(name: string, value: number): void {
  if (!isCount(value))
    throw new RangeError(`${name} must be an integer of at least 0, not ${String(value)}`);
}

function entryOf(written: Limit): Entry {
  const limit = completeLimit(written);
  const strategy = strategyOf(limit);
  return {
    limit,
    strategy,
    identity: identityOf(written),
    capacity: strategy.capacity(limit),
    state: strategy.fresh(),
  };
}

function withState({ limit, strategy, identity, capacity }: Entry, state: unknown): Entry {
  return { limit, strategy, identity, capacity, state };
}

/** The entries as they would stand with the held units spent. */
function withHeld(entries: readonly Entry[], heldUnits: number, atMs: number): readonly Entry[] {
  if (heldUnits === 0) return entries;
  return entries.map((entry) => {
    const { limit, strategy, state } = entry;
    return withState(entry, strategy.spend(limit, state, heldUnits, atMs, atMs));
  });
}

/** An entry as it would stand had all that it has spent been spent at `nowMs`. */
function rebooked(entry: Entry, seenMs: number, nowMs: number): Entry {
  const { limit, strategy, state } = entry;
  const used = strategy.used(limit, state, seenMs);
  const fresh = strategy.fresh();
  return withState(entry, used === 0 ? fresh : strategy.spend(limit, fresh, used, nowMs, nowMs));
}

function fits({ limit, strategy, capacity, state }: Entry, cost: number, atMs: number): boolean {
  // To look is allowed even in debt: what remains can be spent, be it nothing.
  return cost === 0 || strategy.used(limit, state, atMs) + cost <= capacity;
}

/** The meter decides at the latest time it has seen: a wait lasts until the caller's clock has got there and beyond. */
const heardAt = (waitMs: number, atMs: number, nowMs: number): number =>
  waitMs === 0 ? 0 : waitMs + atMs - nowMs;

function delayOf(entries: readonly Entry[], atMs: number, nowMs: number): number {
  let longestMs = 0;
  for (const { limit, strategy, state } of entries) {
    const delayMs = strategy.delayMs?.(limit, state, atMs) ?? 0;
    longestMs = Math.max(longestMs, heardAt(delayMs, atMs, nowMs));
  }
  return longestMs;
}

/** The decision on a cost that has just been spent. */
function spent(
  entries: readonly Entry[],
  cost: number,
  delayMs: number,
  atMs: number,
  nowMs: number,
): Decision {
  return {
    allowed: true,
    cost,
    delayMs,
    retryAfterMs: 0,
    bannedForMs: 0,
    limits: entries.map((entry) => report(entry, cost, true, atMs, nowMs)),
  };
}

/** The decision on a cost that is not spent, or not yet. */
function decided(entries: readonly Entry[], cost: number, atMs: number, nowMs: number): Decision {
  const limits = entries.map((entry) => report(entry, cost, fits(entry, cost, atMs), atMs, nowMs));
  const allowed = limits.every((limit) => limit.allowed);
  return {
    allowed,
    cost,
    delayMs: allowed ? delayOf(entries, atMs, nowMs) : 0,
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
  { limit, strategy, capacity, state }: Entry,
  cost: number,
  allowed: boolean,
  atMs: number,
  nowMs: number,
): LimitDecision {
  const remaining = Math.max(0, capacity - strategy.used(limit, state, atMs));
  const waitMs = (units: number): number =>
    heardAt(strategy.waitMs(limit, state, units, atMs), atMs, nowMs);
  return {
    name: limit.name,
    strategy: limit.strategy,
    limit: limit.limit,
    capacity,
    windowMs: strategy.windowMs?.(limit, atMs) ?? limit.windowMs,
    allowed,
    remaining,
    retryAfterMs: allowed ? 0 : cost > capacity ? null : waitMs(cost),
    replenishAfterMs: remaining < capacity ? waitMs(remaining + 1) : 0,
    resetAfterMs: remaining < capacity ? waitMs(capacity) : 0,
  };
}
