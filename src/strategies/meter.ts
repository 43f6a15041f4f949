/**
 * A meter: several limits on one key, decided at one instant, all or nothing. A denial and a look spend nothing.
 *
 * It keeps the latest time it has seen, so that a clock that steps back adds no quota; and the states of limits it was
 * not given, until they are idle, so that two deployed versions of a policy do not erase one another's.
 */
import { isCount } from "./integers.ts";
import { identityOf, strategyOf } from "./registry.ts";
import type { Decision, Limit, LimitDecision, Strategy } from "./strategy.ts";

const snapshotVersion = 1;

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

interface Entry {
  readonly limit: Limit;
  readonly strategy: Strategy;
  readonly identity: string;
  readonly state: unknown;
}

/** The state of a limit that this meter was not given. */
interface ForeignState {
  readonly identity: string;
  readonly seenMs: number;
  readonly idleAtMs: number;
  readonly data: unknown;
}

interface Stored {
  readonly seenMs: number;
  readonly states: readonly ForeignState[];
}

/** @param stored what an earlier meter's `snapshot` answered; anything else is refused, see `refused` */
export function createMeter(limits: readonly Limit[], stored?: unknown): Meter {
  return new LimitsMeter(limits, stored);
}

class LimitsMeter implements Meter {
  readonly #longestWindowMs: number;
  readonly #foreign: readonly ForeignState[];
  #entries: readonly Entry[];
  seenMs: number;
  changes = 0;
  refused: string | null = null;

  constructor(limits: readonly Limit[], stored: unknown) {
    const revived = stored === undefined ? { seenMs: 0, states: [] } : readSnapshot(stored);
    if (revived === null) this.refused = "not a snapshot of this version";
    const states = new Map(revived?.states.map((state) => [state.identity, state]));
    // The state of a limit that was away may have seen a later time than the meter, whose clock was mended since.
    const seenTimes = limits.map((limit) => states.get(identityOf(limit))?.seenMs ?? 0);
    this.seenMs = Math.max(revived?.seenMs ?? 0, ...seenTimes);
    this.#entries = limits.map((limit) => {
      const identity = identityOf(limit);
      const entry = this.#revive(limit, identity, states.get(identity));
      states.delete(identity);
      return entry;
    });
    this.#foreign = [...states.values()];
    this.#longestWindowMs = Math.max(0, ...limits.map((limit) => limit.windowMs));
  }

  #revive(limit: Limit, identity: string, found: ForeignState | undefined): Entry {
    const strategy = strategyOf(limit);
    const fresh: Entry = { limit, strategy, identity, state: strategy.fresh() };
    if (found === undefined) return fresh;
    const state = strategy.revive(limit, found.data, found.seenMs);
    if (state === null) {
      this.refused = `not a state of "${identity}"`;
      return fresh;
    }
    // Others have seen a later time: to take theirs as it stands would give back what was spent by this one's.
    const entry: Entry = { limit, strategy, identity, state };
    return found.seenMs < this.seenMs ? rebooked(entry, found.seenMs, this.seenMs) : entry;
  }

  consume(cost: number, nowMs: number, heldUnits = 0): Decision {
    requireCount("cost", cost);
    requireCount("nowMs", nowMs);
    requireCount("heldUnits", heldUnits);
    if (cost === 0) return this.look(cost, nowMs, heldUnits);
    this.#trustClock(nowMs);
    const atMs = Math.max(nowMs, this.seenMs);
    const entries = withHeld(this.#entries, heldUnits, atMs);
    const verdicts = entries.map((entry) => fits(entry, cost, atMs));
    if (verdicts.includes(false)) return denied(entries, verdicts, cost, atMs, nowMs);
    this.#change(atMs, ({ limit, strategy, state }) =>
      strategy.spend(limit, state, cost, atMs, atMs),
    );
    return allowed(withHeld(this.#entries, heldUnits, atMs), cost, atMs, nowMs);
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
    const entries = withHeld(kept, heldUnits, atMs);
    const verdicts = entries.map((entry) => fits(entry, cost, atMs));
    return verdicts.includes(false)
      ? denied(entries, verdicts, cost, atMs, nowMs)
      : allowed(entries, cost, atMs, nowMs);
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
    const states: unknown[] = [];
    for (const { limit, strategy, identity, state } of this.#entries) {
      const idleAtMs = strategy.idleAtMs(limit, state);
      if (idleAtMs <= this.seenMs) continue;
      states.push([identity, idleAtMs, strategy.store(limit, state, this.seenMs)]);
    }
    for (const { identity, seenMs, idleAtMs, data } of this.#foreign) {
      if (idleAtMs <= this.seenMs) continue;
      states.push([identity, idleAtMs, data, ...(seenMs > this.seenMs ? [seenMs] : [])]);
    }
    return [snapshotVersion, this.seenMs, ...states];
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
    this.#entries = this.#entries.map((entry) => rebooked(entry, this.seenMs, nowMs));
    this.seenMs = nowMs;
    this.changes++;
  }

  #isMisset(nowMs: number): boolean {
    return this.seenMs - nowMs > this.#longestWindowMs;
  }

  #change(seenMs: number, transition: (entry: Entry) => unknown): void {
    this.#entries = moved(this.#entries, transition);
    this.seenMs = seenMs;
    this.changes++;
  }
}

function requireCount(name: string, value: number): void {
  if (!isCount(value))
    throw new RangeError(`${name} must be an integer of at least 0, not ${String(value)}`);
}

function moved(entries: readonly Entry[], transition: (entry: Entry) => unknown): readonly Entry[] {
  return entries.map((entry) => ({
    limit: entry.limit,
    strategy: entry.strategy,
    identity: entry.identity,
    state: transition(entry),
  }));
}

/** The entries as they would stand with the held units spent. */
function withHeld(entries: readonly Entry[], heldUnits: number, atMs: number): readonly Entry[] {
  if (heldUnits === 0) return entries;
  return moved(entries, ({ limit, strategy, state }) =>
    strategy.spend(limit, state, heldUnits, atMs, atMs),
  );
}

/** An entry as it would stand had all that it has spent been spent at `nowMs`. */
function rebooked(entry: Entry, seenMs: number, nowMs: number): Entry {
  const { limit, strategy, identity, state } = entry;
  const used = strategy.used(limit, state, seenMs);
  const fresh = strategy.fresh();
  return {
    limit,
    strategy,
    identity,
    state: used === 0 ? fresh : strategy.spend(limit, fresh, used, nowMs, nowMs),
  };
}

function fits({ limit, strategy, state }: Entry, cost: number, atMs: number): boolean {
  // To look is allowed even in debt: what remains can be spent, be it nothing.
  return cost === 0 || strategy.used(limit, state, atMs) + cost <= strategy.capacity(limit);
}

function allowed(entries: readonly Entry[], cost: number, atMs: number, nowMs: number): Decision {
  return {
    allowed: true,
    cost,
    delayMs: 0,
    retryAfterMs: 0,
    bannedForMs: 0,
    limits: entries.map((entry) => report(entry, true, cost, atMs, nowMs)),
  };
}

function denied(
  entries: readonly Entry[],
  verdicts: readonly boolean[],
  cost: number,
  atMs: number,
  nowMs: number,
): Decision {
  const limits = entries.map((entry, index) =>
    report(entry, verdicts[index] === true, cost, atMs, nowMs),
  );
  return {
    allowed: false,
    cost,
    delayMs: 0,
    retryAfterMs: longestWaitMs(limits),
    bannedForMs: 0,
    limits,
  };
}

/** The greatest of the waits of limits or decisions; null if waiting does not help one of them, 0 if all allow. */
export function longestWaitMs(
  decided: readonly { readonly retryAfterMs: number | null }[],
): number | null {
  const waits = decided.map(({ retryAfterMs }) => retryAfterMs);
  return waits.includes(null) ? null : Math.max(0, ...waits.map(Number));
}

function report(
  entry: Entry,
  isAllowed: boolean,
  cost: number,
  atMs: number,
  nowMs: number,
): LimitDecision {
  const { limit, strategy, state } = entry;
  const capacity = strategy.capacity(limit);
  const remaining = Math.max(0, capacity - strategy.used(limit, state, atMs));
  // The meter decides at the latest time it has seen: a wait lasts until the caller's clock has got there and beyond.
  const waitMs = (units: number): number =>
    strategy.waitMs(limit, state, units, atMs) + atMs - nowMs;
  return {
    name: limit.name,
    strategy: limit.strategy,
    limit: limit.limit,
    capacity,
    windowMs: limit.windowMs,
    allowed: isAllowed,
    remaining,
    retryAfterMs: isAllowed ? 0 : cost > capacity ? null : waitMs(cost),
    replenishAfterMs: remaining < capacity ? waitMs(remaining + 1) : 0,
    resetAfterMs: remaining < capacity ? waitMs(capacity) : 0,
  };
}

function readSnapshot(stored: unknown): Stored | null {
  if (!Array.isArray(stored)) return null;
  const [version, seenMs, ...written]: unknown[] = stored;
  if (version !== snapshotVersion || !isCount(seenMs)) return null;
  const states = written.map((state) => readState(state, seenMs)).filter((state) => state !== null);
  return states.length === written.length ? { seenMs, states } : null;
}

function readState(stored: unknown, meterSeenMs: number): ForeignState | null {
  if (!Array.isArray(stored) || stored.length < 3 || stored.length > 4) return null;
  const [identity, idleAtMs, data, seenMs = meterSeenMs]: unknown[] = stored;
  const isRead = typeof identity === "string" && isCount(idleAtMs) && isCount(seenMs);
  return isRead ? { identity, seenMs, idleAtMs, data } : null;
}
