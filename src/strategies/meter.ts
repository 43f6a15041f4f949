/**
 * A meter: several limits on one key, decided at one instant, all or nothing. A denial and a look spend nothing.
 *
 * It keeps the latest time it has seen, so that a clock that steps back adds no quota; and the states of limits it was
 * not given, until they are idle, so that two deployed versions of a policy do not erase one another's.
 */
import { isCount, isInstant } from "./integers.ts";
import {
  type Entry,
  decided,
  entryOf,
  measure,
  rebooked,
  spentDecision,
  delayOf,
} from "./entry.ts";
import { type Rule, ruleOf } from "./registry.ts";
import { readSnapshot, type StoredState, writeSnapshot } from "./snapshot.ts";
import type { Decision, Limit } from "./strategy.ts";

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
  /** Notes that a request was denied by other limits, which restarts an elastic window; nothing else changes by it. */
  deny(nowMs: number): void;
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

/** @param stored what an earlier meter's `snapshot` answered; anything else is refused, see `refused` */
export function createMeter(limits: readonly Limit[], stored?: unknown): Meter {
  return new LimitsMeter(limits, stored);
}

class LimitsMeter implements Meter {
  readonly #longestWindowMs: number;
  readonly #entries: readonly Entry[];
  /** The states of limits that this meter was not given. */
  readonly #foreign: readonly StoredState[];
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
      (latest, limit) => Math.max(latest, states.get(ruleOf(limit).identity)?.writtenAtMs ?? 0),
      seenMs,
    );
    this.#entries = limits.map((limit) => {
      const rule = ruleOf(limit);
      const state = states.get(rule.identity);
      states.delete(rule.identity);
      return state === undefined
        ? entryOf(rule, rule.strategy.fresh())
        : this.#revived(rule, state, seenMs);
    });
    this.#foreign = lastIdle([...states.values()]);
    this.#longestWindowMs = limits.reduce((longest, limit) => Math.max(longest, limit.windowMs), 0);
  }

  /** @param snapshotSeenMs the latest time that the meter had seen that wrote the snapshot */
  #revived(rule: Rule, { data, writtenAtMs }: StoredState, snapshotSeenMs: number): Entry {
    const { strategy, limit } = rule;
    const state = strategy.revive(limit, data, writtenAtMs);
    if (state === null) {
      this.refused = `not a state of "${rule.identity}"`;
      return entryOf(rule, strategy.fresh());
    }
    const entry = entryOf(rule, state);
    const seenMs = Math.max(writtenAtMs, snapshotSeenMs);
    // Others have seen a later time: to take theirs as it stands would give back what was spent by this one's.
    return seenMs < this.seenMs ? rebooked(entry, seenMs, this.seenMs) : entry;
  }

  consume(cost: number, nowMs: number, heldUnits = 0): Decision {
    if (cost === 0) return this.look(cost, nowMs, heldUnits);
    requireCount("cost", cost);
    requireInstant(nowMs);
    requireCount("heldUnits", heldUnits);
    this.#trustClock(nowMs);
    const atMs = Math.max(nowMs, this.seenMs);
    const lagMs = atMs - nowMs;
    const entries = this.#entries;
    if (!measure(entries, cost, heldUnits, atMs)) {
      this.#deny(atMs);
      return decided(entries, cost, heldUnits, atMs, lagMs);
    }
    const delayMs = delayOf(entries, heldUnits, atMs, lagMs);
    for (const entry of entries) {
      const { limit, strategy } = entry.rule;
      entry.state = strategy.spend(limit, entry.state, cost, atMs, atMs);
      entry.used += cost;
    }
    this.seenMs = atMs;
    this.changes++;
    return spentDecision(entries, cost, delayMs, heldUnits, atMs, lagMs);
  }

  deny(nowMs: number): void {
    requireInstant(nowMs);
    this.#trustClock(nowMs);
    this.#deny(Math.max(nowMs, this.seenMs));
  }

  look(cost: number, nowMs: number, heldUnits = 0): Decision {
    requireCount("cost", cost);
    requireInstant(nowMs);
    requireCount("heldUnits", heldUnits);
    const isMisset = this.#isMisset(nowMs);
    const atMs = isMisset ? nowMs : Math.max(nowMs, this.seenMs);
    const entries = isMisset
      ? this.#entries.map((entry) => rebooked(entry, this.seenMs, nowMs))
      : this.#entries;
    measure(entries, cost, heldUnits, atMs);
    return decided(entries, cost, heldUnits, atMs, atMs - nowMs);
  }

  book(cost: number, atMs: number, nowMs: number): void {
    requireCount("cost", cost);
    requireCount("atMs", atMs);
    requireInstant(nowMs);
    if (cost === 0) return;
    this.#trustClock(nowMs);
    const seenMs = Math.max(nowMs, this.seenMs);
    // As long ago as the caller says, by the time at which the meter decides.
    const bookedAtMs = seenMs - Math.max(0, nowMs - atMs);
    this.#change(seenMs, ({ rule: { limit, strategy }, state }) => {
      const units = Math.min(cost, greatestDebt - strategy.used(limit, state, seenMs));
      return units <= 0 ? state : strategy.spend(limit, state, units, bookedAtMs, seenMs);
    });
  }

  refund(cost: number, spentAtMs: number, nowMs: number): void {
    requireCount("cost", cost);
    requireCount("spentAtMs", spentAtMs);
    requireInstant(nowMs);
    if (cost === 0) return;
    this.#trustClock(nowMs);
    const seenMs = Math.max(nowMs, this.seenMs);
    this.#change(seenMs, ({ rule: { limit, strategy }, state }) =>
      strategy.refund(limit, state, cost, spentAtMs, seenMs),
    );
  }

  snapshot(): unknown {
    const own = this.#entries.map(({ rule: { limit, strategy, identity }, state }) => ({
      identity,
      data: strategy.store(limit, state, this.seenMs),
      writtenAtMs: this.seenMs,
      idleAtMs: strategy.idleAtMs(limit, state),
    }));
    return writeSnapshot({ seenMs: this.seenMs, states: [...own, ...this.#foreign] });
  }

  idleAtMs(): number {
    const own = this.#entries.map(({ rule, state }) => rule.strategy.idleAtMs(rule.limit, state));
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
      const { limit, strategy } = entry.rule;
      if (strategy.deny === null) continue;
      const next = strategy.deny(limit, entry.state, atMs);
      if (next === entry.state) continue;
      entry.state = next;
      this.seenMs = atMs;
      this.changes++;
    }
  }
}

function requireInstant(nowMs: number): void {
  if (!isInstant(nowMs))
    throw new RangeError(`nowMs must be integer milliseconds since 1970, not ${String(nowMs)}`);
}

function requireCount(name: string, value: number): void {
  if (!isCount(value))
    throw new RangeError(`${name} must be an integer of at least 0, not ${String(value)}`);
}

/** A meter keeps so many states of limits it was not given: of more, those that will be idle first are forgotten. */
const mostForeign = 256;

function lastIdle(states: readonly StoredState[]): readonly StoredState[] {
  return states.length <= mostForeign
    ? states
    : states.toSorted((a, b) => b.idleAtMs - a.idleAtMs).slice(0, mostForeign);
}
