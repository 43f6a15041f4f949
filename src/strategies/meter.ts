/**
 * A meter decides several limits on one key at one instant, all or nothing. A denial and a look spend nothing.
 *
 * A meter remembers the latest time it has seen, so that a clock that steps back adds no quota. It also keeps the states
 * of absent limits until they are idle, so that two deployed versions of a policy do not erase one another's states.
 */
import type { UsageBreakdown } from "./usage.ts";
import { compiledLimit, type CompiledLimit, internedLimits } from "./compiled-limit.ts";
import {
  boundedStates,
  type CarriedState,
  type CarriedStates,
  isWellFormed,
  liveState,
  noCarriedStates,
  stateBytes,
  stateFor,
  storedState,
  readSnapshot,
  writeSnapshot,
} from "./snapshot.ts";
import { requireCount, requireInstant, requireTtl } from "./integers.ts";
import {
  type DecisionTime,
  MeteredLimit,
  queueDelayMs,
  type RenewedReservation,
  type ReservedSpend,
  unspentDecision,
} from "./metered-limit.ts";
import type { Decision, Limit } from "./strategy.ts";

/** A reservation and its actual cost. */
interface SettledReservation extends ReservedSpend {
  readonly actualCost: number;
  /** The meter's `seenMs` right after the reservation. */
  readonly spentAtMs: number;
  /** The meter's `seenMs` right after the last renewal; `spentAtMs` by default. */
  readonly heldAtMs?: number;
}

/** Decides the limits of one key. Times are integer milliseconds since the Unix epoch. */
export interface Meter {
  /**
   * Spends `cost` if every limit allows it; otherwise spends nothing. A cost of 0 only looks.
   * @param nowMs the time of the decision, integer milliseconds since the Unix epoch
   * @param heldUnits units lent out, which count as spent at this instant
   * @throws RangeError if an argument is not an integer of at least 0
   */
  consume(cost: number, nowMs: number, heldUnits?: number): Decision;
  /** Returns the decision that `consume` would return, and changes nothing. */
  look(cost: number, nowMs: number, heldUnits?: number): Decision;
  /** Returns how each limit arrives at its used units, in the order of `look`'s limits. Changes nothing. */
  account(nowMs: number, heldUnits?: number): readonly UsageBreakdown[];
  /**
   * Spends `cost` if every limit allows it. The caller settles the reservation when the actual cost is known. Until the ttl
   * ends, the meter keeps the data for an exact settlement. Then the cost counts as spent, and concurrency slots are free.
   */
  reserve(reservation: ReservedSpend, nowMs: number, heldUnits?: number): Decision;
  /**
   * Corrects a reservation to its actual cost. A lower cost is a refund, booked to the instant of the spend. A higher cost
   * is booked in full now. Concurrency slots are freed in both cases. The caller must settle a reservation at most once,
   * and before its ttl ends.
   */
  settle(reservation: SettledReservation, nowMs: number): void;
  /** Keeps a reservation, and its concurrency slots, open until `ttlMs` from now. */
  renew(reservation: RenewedReservation, nowMs: number): void;
  /** Records that another policy denied the request, which restarts elastic windows. Other limits do not change. */
  deny(nowMs: number): void;
  /** Adds units that were spent elsewhere at `atMs`. Never denies, and may leave a debt. */
  book(cost: number, atMs: number, nowMs: number): void;
  /** Gives back units spent at `spentAtMs` that still count. Without a reservation this is best effort. */
  refund(cost: number, spentAtMs: number, nowMs: number): void;
  /** The state as a versioned, structured-cloneable value for storage and `createMeter`. */
  snapshot(): unknown;
  /**
   * A meter of other limits on the same key. It decides like `createMeter(limits, this.snapshot())`, but takes over the
   * states without encoding them. Later changes of one meter do not affect the other.
   */
  withLimits(limits: readonly Limit[]): Meter;
  /**
   * The earliest instant at which discarding the state changes no decision. It is at most `seenMs` if the state is
   * empty.
   */
  idleAtMs(): number;
  /**
   * How long a spend can affect decisions of this meter's limits, if it leaves no debt. Debts and states of absent limits
   * may last longer: see `idleAtMs`.
   */
  readonly retentionMs: number;
  /** Approximate memory of the meter, without its limits. */
  sizeBytes(): number;
  /** The latest time that the meter has seen. A spend is booked at this time, even if the caller's clock is behind. */
  readonly seenMs: number;
  /** Grows with every change of the state. A later `seenMs` alone is not a change. */
  readonly changes: number;
  /** Why a stored state was rejected and replaced by an empty one; null if none was rejected. */
  readonly refused: string | null;
}

/**
 * Returns a meter of one key, new or from the snapshot of an earlier meter.
 * @param stored the snapshot of an earlier meter; any other value is rejected, see `refused`
 */
export function createMeter(limits: readonly Limit[], stored?: unknown): Meter {
  return LimitsMeter.from(limits, stored);
}

/**
 * Returns a meter of these limits: `before` itself if it has them, else one that takes over its state. Meters of equal limits
 * share one list of them.
 */
export function meterUnder(limits: readonly Limit[], before: LimitsMeter | undefined): LimitsMeter {
  if (before?.limits === limits) return before;
  const interned = internedLimits(limits);
  if (before === undefined) return LimitsMeter.from(interned);
  return before.limits === interned ? before : before.withLimits(interned);
}

/** Approximate memory of a meter and of each of its limits, without their states. */
const bytesPerMeter = 130;
const bytesPerLimit = 70;

/** The only implementation of `Meter`. It also exposes its limits. */
export class LimitsMeter implements Meter {
  readonly limits: readonly Limit[];
  readonly #longestWindowMs: number;
  readonly #limits: readonly MeteredLimit[];
  /** The used units of each limit at the instant of the current decision. */
  readonly #used: number[];
  /** States of limits that this meter does not have. */
  readonly #absentStates: readonly CarriedState[];
  seenMs: number;
  changes = 0;
  refused: string | null;

  constructor(limits: readonly Limit[], carried: CarriedStates, refused: string | null) {
    this.limits = limits;
    this.refused = refused;
    const states = new Map(carried.states.map((state) => [state.identity, state]));
    // A stored state may be later than the meter, if the clock was ahead and has been corrected since.
    this.seenMs = limits.reduce(
      (latestMs, limit) => Math.max(latestMs, states.get(compiledLimit(limit).identity)?.writtenAtMs ?? 0),
      carried.seenMs,
    );
    this.#limits = limits.map((limit) => {
      const compiled = compiledLimit(limit);
      const state = states.get(compiled.identity);
      states.delete(compiled.identity);
      return state === undefined ? new MeteredLimit(compiled) : this.#takeOver(compiled, state, carried.seenMs);
    });
    this.#used = this.#limits.map(() => 0);
    this.#absentStates = boundedStates(
      [...states.values()].filter((state) => {
        const isUsable = isWellFormed(state);
        if (!isUsable) this.#refuse(state.identity);
        return isUsable;
      }),
    );
    this.#longestWindowMs = limits.reduce((longest, limit) => Math.max(longest, limit.windowMs), 0);
  }

  /** See `createMeter`. */
  static from(limits: readonly Limit[], stored?: unknown): LimitsMeter {
    const snapshot = stored === undefined ? noCarriedStates : readSnapshot(stored);
    return snapshot === null
      ? new LimitsMeter(limits, noCarriedStates, "not a snapshot of this version")
      : new LimitsMeter(limits, snapshot, null);
  }

  /** @param carriedSeenMs the latest time that the previous meter had seen */
  #takeOver(compiled: CompiledLimit, carried: CarriedState, carriedSeenMs: number): MeteredLimit {
    const state = stateFor(compiled, carried);
    if (state === null) {
      this.#refuse(compiled.identity);
      return new MeteredLimit(compiled);
    }
    const seenMs = Math.max(carried.writtenAtMs, carriedSeenMs);
    // Another limit has seen a later time. Without a new booking, this limit would give back units too early.
    const metered = new MeteredLimit(compiled, state);
    return seenMs < this.seenMs ? metered.rebooked(seenMs, this.seenMs) : metered;
  }

  #refuse(identity: string): void {
    this.refused = `not a state of "${identity}"`;
  }

  consume(cost: number, nowMs: number, heldUnits = 0): Decision {
    return this.#spend(cost, null, nowMs, heldUnits);
  }

  reserve({ cost, ttlMs }: ReservedSpend, nowMs: number, heldUnits = 0): Decision {
    requireTtl(ttlMs);
    return this.#spend(cost, ttlMs, nowMs, heldUnits);
  }

  /** @param ttlMs null for a final spend */
  #spend(cost: number, ttlMs: number | null, nowMs: number, heldUnits: number): Decision {
    if (cost === 0) return this.look(cost, nowMs, heldUnits);
    requireCount("cost", cost);
    requireInstant(nowMs);
    requireCount("heldUnits", heldUnits);
    const atMs = this.#correctedMs(nowMs);
    const time = { atMs, lagMs: atMs - nowMs, heldUnits };
    const limits = this.#limits;
    const used = this.#used;
    if (!this.#measure(limits, cost, time)) {
      this.#denyAt(atMs);
      return unspentDecision(limits, used, cost, time);
    }
    const delayMs = queueDelayMs(limits, time);
    for (const metered of limits) {
      metered.state = ttlMs === null ? metered.spent(cost, atMs, atMs) : metered.reserved(cost, ttlMs, atMs);
    }
    this.seenMs = atMs;
    this.changes++;
    const decisions = limits.map((metered, index) => metered.decision((used[index] ?? 0) + cost, 0, time));
    return { allowed: true, cost, delayMs, retryAfterMs: 0, bannedForMs: 0, limits: decisions };
  }

  /** Measures the used units of the limits. @returns whether the cost fits under all of them */
  #measure(limits: readonly MeteredLimit[], cost: number, time: DecisionTime): boolean {
    let index = 0;
    let isWithinAll = true;
    for (const metered of limits) {
      const used = metered.usedAt(time);
      this.#used[index++] = used;
      isWithinAll &&= metered.fits(used, cost);
    }
    return isWithinAll;
  }

  look(cost: number, nowMs: number, heldUnits = 0): Decision {
    requireCount("cost", cost);
    const { limits, time } = this.#correctedLimits(nowMs, heldUnits);
    this.#measure(limits, cost, time);
    return unspentDecision(limits, this.#used, cost, time);
  }

  account(nowMs: number, heldUnits = 0): readonly UsageBreakdown[] {
    const { limits, time } = this.#correctedLimits(nowMs, heldUnits);
    return limits.map((metered) => metered.account(time));
  }

  deny(nowMs: number): void {
    requireInstant(nowMs);
    this.#denyAt(this.#correctedMs(nowMs));
  }

  book(cost: number, atMs: number, nowMs: number): void {
    requireCount("cost", cost);
    requireCount("atMs", atMs);
    requireInstant(nowMs);
    if (cost === 0) return;
    const seenMs = this.#correctedMs(nowMs);
    // The caller's clock may be wrong, but the age of the spend is right.
    const bookedAtMs = seenMs - Math.max(0, nowMs - atMs);
    this.#change(seenMs, (metered) => metered.booked(cost, bookedAtMs, seenMs));
  }

  refund(cost: number, spentAtMs: number, nowMs: number): void {
    requireCount("cost", cost);
    requireCount("spentAtMs", spentAtMs);
    requireInstant(nowMs);
    if (cost === 0) return;
    const seenMs = this.#correctedMs(nowMs);
    this.#change(seenMs, (metered) => metered.refunded(cost, spentAtMs, seenMs));
  }

  settle(reservation: SettledReservation, nowMs: number): void {
    const { cost, actualCost, spentAtMs, ttlMs, heldAtMs = spentAtMs } = reservation;
    requireCount("cost", cost);
    requireCount("actualCost", actualCost);
    requireCount("spentAtMs", spentAtMs);
    requireCount("heldAtMs", heldAtMs);
    requireTtl(ttlMs);
    requireInstant(nowMs);
    const isOpen = this.#limits.some((metered) => metered.hasOpenReservation(spentAtMs));
    const holdsSlots = this.#limits.some(({ compiled }) => compiled.strategy.holdsSlots);
    if (actualCost === cost && !isOpen && !(cost > 0 && holdsSlots)) return;
    const seenMs = this.#correctedMs(nowMs);
    const settled = { cost, actualCost, spentAtMs, ttlMs, heldAtMs };
    this.#change(seenMs, (metered) => metered.settled(settled, seenMs));
  }

  renew(reservation: RenewedReservation, nowMs: number): void {
    const { cost, heldAtMs, ttlMs } = reservation;
    requireCount("cost", cost);
    requireCount("heldAtMs", heldAtMs);
    requireTtl(ttlMs);
    requireInstant(nowMs);
    if (cost === 0 || !this.#limits.some(({ canRenew }) => canRenew)) return;
    const seenMs = this.#correctedMs(nowMs);
    this.#change(seenMs, (metered) => metered.renewed(reservation, seenMs));
  }

  snapshot(): unknown {
    return writeSnapshot({ seenMs: this.seenMs, states: this.#liveStates().map(storedState) });
  }

  withLimits(limits: readonly Limit[]): LimitsMeter {
    const carried = { seenMs: this.seenMs, states: this.#liveStates() };
    const next = new LimitsMeter(limits, carried, null);
    next.changes = this.changes + (next.seenMs === this.seenMs ? 0 : 1);
    return next;
  }

  /** All states that are not idle, of the meter's own limits and of absent ones. */
  #liveStates(): readonly CarriedState[] {
    const { seenMs } = this;
    const own = this.#limits.map(({ compiled, state }) => liveState(compiled, state, seenMs));
    return [...own, ...this.#absentStates].filter(({ idleAtMs }) => idleAtMs > seenMs);
  }

  idleAtMs(): number {
    const own = this.#limits.map(({ compiled: { limit, strategy }, state }) => strategy.idleAtMs(limit, state));
    return Math.max(0, ...own, ...this.#absentStates.map((state) => state.idleAtMs));
  }

  get retentionMs(): number {
    return this.#limits.reduce((longest, { compiled }) => Math.max(longest, compiled.retentionMs), 0);
  }

  sizeBytes(): number {
    let sizeBytes = bytesPerMeter;
    for (const { compiled, state } of this.#limits) {
      sizeBytes += bytesPerLimit + compiled.strategy.sizeBytes(state);
    }
    for (const state of this.#absentStates) sizeBytes += stateBytes(state);
    return sizeBytes;
  }

  /**
   * The time to decide at: `nowMs`, or `seenMs` if the clock stepped back. If `seenMs` is ahead by more than the longest
   * window, it came from a mis-set clock. All units are then booked again at `nowMs`, so that the key neither gains quota
   * nor stays blocked.
   */
  #correctedMs(nowMs: number): number {
    if (!this.#isMisset(nowMs)) return Math.max(nowMs, this.seenMs);
    for (const metered of this.#limits) {
      metered.state = metered.rebooked(this.seenMs, nowMs).state;
    }
    this.seenMs = nowMs;
    this.changes++;
    return nowMs;
  }

  /** The limits as `#correctedMs` would leave them, and the time of a look at them. */
  #correctedLimits(nowMs: number, heldUnits: number): { limits: readonly MeteredLimit[]; time: DecisionTime } {
    requireInstant(nowMs);
    requireCount("heldUnits", heldUnits);
    if (this.#isMisset(nowMs)) {
      const limits = this.#limits.map((metered) => metered.rebooked(this.seenMs, nowMs));
      return { limits, time: { atMs: nowMs, lagMs: 0, heldUnits } };
    }
    const atMs = Math.max(nowMs, this.seenMs);
    return { limits: this.#limits, time: { atMs, lagMs: atMs - nowMs, heldUnits } };
  }

  #isMisset(nowMs: number): boolean {
    return this.seenMs - nowMs > this.#longestWindowMs;
  }

  /** A later `seenMs` alone is not a change, because every later decision brings its own time. */
  #change(seenMs: number, transition: (metered: MeteredLimit) => unknown): void {
    let hasChanged = false;
    for (const metered of this.#limits) {
      const next = transition(metered);
      if (next !== metered.state) hasChanged = true;
      metered.state = next;
    }
    this.seenMs = seenMs;
    if (hasChanged) this.changes++;
  }

  #denyAt(atMs: number): void {
    for (const metered of this.#limits) {
      const { limit, strategy } = metered.compiled;
      if (strategy.deny === null) continue;
      const next = strategy.deny(limit, metered.state, atMs);
      if (next === metered.state) continue;
      metered.state = next;
      this.seenMs = atMs;
      this.changes++;
    }
  }
}
