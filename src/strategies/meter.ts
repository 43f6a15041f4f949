/**
 * A meter: several limits on one key, decided at one instant, all or nothing. A denial and a look spend nothing.
 *
 * It keeps the latest time it has seen, so that a clock that steps back adds no quota; and the states of limits it was
 * not given, until they are idle, so that two deployed versions of a policy do not erase one another's.
 */
import { isCount, isInstant } from "./integers.ts";
import {
  booked,
  canRenew,
  type MeteredLimit,
  decided,
  meteredLimit,
  measure,
  rebooked,
  renewed,
  keepsReservation,
  reserved,
  settled,
  spentDecision,
  delayOf,
} from "./metered-limit.ts";
import { type CompiledLimit, compiledLimit } from "./compiled-limit.ts";
import {
  isKeepable,
  type CarriedState,
  type KeptState,
  lastIdle,
  liveState,
  noCarriedState,
  sizeOfKept,
  stateFor,
  storedState,
} from "./carried-state.ts";
import { readSnapshot, writeSnapshot } from "./snapshot.ts";
import type { Decision, Limit } from "./strategy.ts";

/** A spend that will be settled. */
export interface ReservedSpend {
  readonly cost: number;
  /** After so long an unsettled reservation stands as spent; an integer of at least 1. */
  readonly ttlMs: number;
}

/** A reservation that ends, as its owner remembers it. */
export interface OpenReservation extends ReservedSpend {
  readonly actualCost: number;
  /** The meter's `seenMs` right after the reservation. */
  readonly spentAtMs: number;
  /** The meter's `seenMs` right after the last renewal; `spentAtMs` if there was none. */
  readonly heldAtMs?: number;
}

/** A reservation that goes on. */
export interface RenewedReservation extends ReservedSpend {
  /** The meter's `seenMs` right after the reservation, or right after the last renewal. */
  readonly heldAtMs: number;
}

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
  /**
   * Spends `cost` if every limit allows it, to be settled when the work is done and its cost is known. Slots of
   * concurrency are free again after `ttlMs` at the latest. Until then, what `settle` needs for law 10 is kept.
   */
  reserve(spend: ReservedSpend, nowMs: number, heldUnits?: number): Decision;
  /**
   * Corrects a reservation to the actual cost: a lower cost is a refund, booked to the instant of the spend; a higher
   * cost is booked in full now. Slots of concurrency are all given back, whatever the actual cost is. The caller settles
   * each reservation once at most, and before its ttl is over.
   */
  settle(reservation: OpenReservation, nowMs: number): void;
  /** Extends a reservation by `ttlMs` from now: slots of concurrency are held for so much longer. */
  renew(reservation: RenewedReservation, nowMs: number): void;
  /** Notes that a request was denied by other limits, which restarts an elastic window; nothing else changes by it. */
  deny(nowMs: number): void;
  /** Counts units that were spent elsewhere at `atMs`; never denies, and may leave a debt. */
  book(cost: number, atMs: number, nowMs: number): void;
  /** Gives back units spent at `spentAtMs`, as far as time has not given them back already. */
  refund(cost: number, spentAtMs: number, nowMs: number): void;
  /** All that must be kept, structured-cloneable and versioned, for `createMeter`. */
  snapshot(): unknown;
  /**
   * The meter of other limits on the same key: it decides as one that is created of the snapshot, but takes over what it
   * can as it is. This one goes on as if there were no other: states are shared, and none is ever changed.
   */
  withLimits(limits: readonly Limit[]): Meter;
  /** When the snapshot may be forgotten without changing any decision; `seenMs` or before if there is nothing to keep. */
  idleAtMs(): number;
  /**
   * For how long after a spend, be it of all the capacity, a decision may still be another than a fresh meter's; of the
   * limits it was given. Debts, and states of other limits, may last longer: see `idleAtMs`.
   */
  readonly memoryMs: number;
  /** About how many bytes of memory it takes, without the limits. */
  sizeBytes(): number;
  /** The latest time it has seen: when what was spent last was spent, whatever the caller's clock said. */
  readonly seenMs: number;
  /** Grows with every change of what `snapshot` answers, but for `seenMs` alone, so that an owner knows when to write. */
  readonly changes: number;
  /** Why stored state was not trusted and was replaced by none; null if it was trusted, or there was none. */
  readonly refused: string | null;
}

/** @param stored what an earlier meter's `snapshot` answered; anything else is refused, see `refused` */
export function createMeter(limits: readonly Limit[], stored?: unknown): Meter {
  const snapshot = stored === undefined ? noCarriedState : readSnapshot(stored);
  return snapshot === null
    ? new LimitsMeter(limits, noCarriedState, "not a snapshot of this version")
    : new LimitsMeter(limits, snapshot, null);
}

/** About what a meter takes of memory beside its states, and what each of its limits does. */
const bytesOfMeter = 130;
const bytesOfEntry = 70;

/** The ttl of what is spent for good. */
const unlimited = Number.POSITIVE_INFINITY;

class LimitsMeter implements Meter {
  readonly #longestWindowMs: number;
  readonly #entries: readonly MeteredLimit[];
  /** The states of limits that this meter was not given. */
  readonly #foreign: readonly KeptState[];
  seenMs: number;
  changes = 0;
  refused: string | null;

  constructor(
    limits: readonly Limit[],
    { seenMs, states: kept }: CarriedState,
    refused: string | null,
  ) {
    this.refused = refused;
    const states = new Map(kept.map((state) => [state.identity, state]));
    // The state of a limit that was away may have seen a later time than the meter, whose clock was mended since.
    this.seenMs = limits.reduce(
      (latest, limit) =>
        Math.max(latest, states.get(compiledLimit(limit).identity)?.writtenAtMs ?? 0),
      seenMs,
    );
    this.#entries = limits.map((limit) => {
      const rule = compiledLimit(limit);
      const state = states.get(rule.identity);
      states.delete(rule.identity);
      return state === undefined
        ? meteredLimit(rule, rule.strategy.fresh())
        : this.#takenOver(rule, state, seenMs);
    });
    this.#foreign = lastIdle([...states.values()].filter((state) => this.#isKeepable(state)));
    this.#longestWindowMs = limits.reduce((longest, limit) => Math.max(longest, limit.windowMs), 0);
  }

  /** @param keptSeenMs the latest time that the meter had seen that the state comes from */
  #takenOver(rule: CompiledLimit, kept: KeptState, keptSeenMs: number): MeteredLimit {
    const state = stateFor(rule, kept);
    if (state === null) {
      this.#refuse(rule.identity);
      return meteredLimit(rule, rule.strategy.fresh());
    }
    const entry = meteredLimit(rule, state);
    const seenMs = Math.max(kept.writtenAtMs, keptSeenMs);
    // Others have seen a later time: to take theirs as it stands would give back what was spent by this one's.
    return seenMs < this.seenMs ? rebooked(entry, seenMs, this.seenMs) : entry;
  }

  #isKeepable(kept: KeptState): boolean {
    if (isKeepable(kept)) return true;
    this.#refuse(kept.identity);
    return false;
  }

  #refuse(identity: string): void {
    this.refused = `not a state of "${identity}"`;
  }

  consume(cost: number, nowMs: number, heldUnits = 0): Decision {
    return this.#spend(cost, unlimited, nowMs, heldUnits);
  }

  reserve({ cost, ttlMs }: ReservedSpend, nowMs: number, heldUnits = 0): Decision {
    requireTtl(ttlMs);
    return this.#spend(cost, ttlMs, nowMs, heldUnits);
  }

  #spend(cost: number, ttlMs: number, nowMs: number, heldUnits: number): Decision {
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
      entry.state =
        ttlMs === unlimited
          ? strategy.spend(limit, entry.state, cost, atMs, atMs)
          : reserved(entry, cost, ttlMs, atMs);
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
    this.#change(seenMs, (entry) => booked(entry, cost, bookedAtMs, seenMs));
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

  settle(
    { cost, actualCost, spentAtMs, ttlMs, heldAtMs = spentAtMs }: OpenReservation,
    nowMs: number,
  ): void {
    requireCount("cost", cost);
    requireCount("actualCost", actualCost);
    requireCount("spentAtMs", spentAtMs);
    requireCount("heldAtMs", heldAtMs);
    requireTtl(ttlMs);
    requireInstant(nowMs);
    const isKept = this.#entries.some((entry) => keepsReservation(entry, spentAtMs));
    if (actualCost === cost && !isKept && !(cost > 0 && this.#holdsSlots)) return;
    this.#trustClock(nowMs);
    const seenMs = Math.max(nowMs, this.seenMs);
    this.#change(seenMs, (entry) =>
      settled(entry, cost, actualCost, spentAtMs, heldAtMs, ttlMs, seenMs),
    );
  }

  renew({ cost, heldAtMs, ttlMs }: RenewedReservation, nowMs: number): void {
    requireCount("cost", cost);
    requireCount("heldAtMs", heldAtMs);
    requireTtl(ttlMs);
    requireInstant(nowMs);
    if (cost === 0 || !this.#entries.some(canRenew)) return;
    this.#trustClock(nowMs);
    const seenMs = Math.max(nowMs, this.seenMs);
    this.#change(seenMs, (entry) => renewed(entry, cost, heldAtMs, ttlMs, seenMs));
  }

  get #holdsSlots(): boolean {
    return this.#entries.some(({ rule }) => rule.strategy.holdsSlots);
  }

  snapshot(): unknown {
    return writeSnapshot({ seenMs: this.seenMs, states: this.#kept().map(storedState) });
  }

  withLimits(limits: readonly Limit[]): Meter {
    const next = new LimitsMeter(limits, { seenMs: this.seenMs, states: this.#kept() }, null);
    next.changes = this.changes + (next.seenMs === this.seenMs ? 0 : 1);
    return next;
  }

  /** All states that are not idle, whether of its own limits or of others. */
  #kept(): readonly KeptState[] {
    const { seenMs } = this;
    const own = this.#entries.map(({ rule, state }) => liveState(rule, state, seenMs));
    return [...own, ...this.#foreign].filter(({ idleAtMs }) => idleAtMs > seenMs);
  }

  idleAtMs(): number {
    const own = this.#entries.map(({ rule, state }) => rule.strategy.idleAtMs(rule.limit, state));
    return Math.max(0, ...own, ...this.#foreign.map((state) => state.idleAtMs));
  }

  get memoryMs(): number {
    return this.#entries.reduce((longest, { rule }) => Math.max(longest, rule.retentionMs), 0);
  }

  sizeBytes(): number {
    let sizeBytes = bytesOfMeter;
    for (const { rule, state } of this.#entries) {
      sizeBytes += bytesOfEntry + rule.strategy.sizeBytes(state);
    }
    for (const kept of this.#foreign) sizeBytes += sizeOfKept(kept);
    return sizeBytes;
  }

  /**
   * A latest time further ahead than the longest window comes from a clock that was wrong then or is wrong now. What is
   * spent is booked again at this instant, once and for good, so that a key is neither freed nor frozen.
   */
  #trustClock(nowMs: number): void {
    if (!this.#isMisset(nowMs)) return;
    for (const entry of this.#entries) entry.state = rebooked(entry, this.seenMs, nowMs).state;
    this.seenMs = nowMs;
    this.changes++;
  }

  #isMisset(nowMs: number): boolean {
    return this.seenMs - nowMs > this.#longestWindowMs;
  }

  /** To have seen a later time alone is no change: it is known again with the next. */
  #change(seenMs: number, transition: (entry: MeteredLimit) => unknown): void {
    let isChanged = false;
    for (const entry of this.#entries) {
      const next = transition(entry);
      if (next !== entry.state) isChanged = true;
      entry.state = next;
    }
    this.seenMs = seenMs;
    if (isChanged) this.changes++;
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

function requireTtl(ttlMs: number): void {
  if (!isCount(ttlMs) || ttlMs === 0)
    throw new RangeError(`ttlMs must be an integer of at least 1, not ${String(ttlMs)}`);
}
