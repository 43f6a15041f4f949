/**
 * A meter: several limits on one key, decided at one instant, all or nothing. A denial and a look spend nothing.
 *
 * It keeps the latest time it has seen, so that a clock that steps back adds no quota; and the states of limits it was
 * not given, until they are idle, so that two deployed versions of a policy do not erase one another's.
 */
import { compiledLimit, type CompiledLimit } from "./compiled-limit.ts";
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
} from "./carried-state.ts";
import { isCount, isInstant } from "./integers.ts";
import {
  bookedState,
  canRenew,
  hasOpenReservation,
  isWithinAll,
  type MeteredLimit,
  queueDelayMs,
  rebooked,
  type RenewedReservation,
  renewedState,
  type Reservation,
  reservedState,
  settledState,
  spentDecision,
  spentState,
  unspentDecision,
  usedUnits,
} from "./metered-limit.ts";
import { readSnapshot, writeSnapshot } from "./snapshot.ts";
import type { Decision, Limit } from "./strategy.ts";

/** A reservation that ends. */
export interface SettledReservation extends Reservation {
  readonly actualCost: number;
  /** The meter's `seenMs` right after the reservation. */
  readonly spentAtMs: number;
  /** The meter's `seenMs` right after the last renewal; `spentAtMs` by default. */
  readonly heldAtMs?: number;
}

export interface Meter {
  /**
   * Spends `cost` if every limit allows it; otherwise spends nothing. A cost of 0 only looks.
   * @param nowMs the time of the decision, integer milliseconds since the Unix epoch
   * @param heldUnits units lent out, which count as spent at this instant
   * @throws RangeError if an argument is not an integer of at least 0
   */
  consume(cost: number, nowMs: number, heldUnits?: number): Decision;
  /** What `consume` would return. Changes nothing. */
  look(cost: number, nowMs: number, heldUnits?: number): Decision;
  /**
   * Spends `cost` if every limit allows it, for the caller to settle when the actual cost is known. Concurrency slots are
   * free again after `ttlMs` at the latest. Until then the meter keeps the data that an exact settlement needs (law 10).
   */
  reserve(reservation: Reservation, nowMs: number, heldUnits?: number): Decision;
  /**
   * Corrects a reservation to its actual cost. A lower cost is a refund, booked to the instant of the spend; a higher
   * cost is booked in full now. Concurrency slots are freed whatever the actual cost is. The caller settles each
   * reservation at most once, and before its ttl ends.
   */
  settle(reservation: SettledReservation, nowMs: number): void;
  /** Extends a reservation, and its concurrency slots, to `ttlMs` from now. */
  renew(reservation: RenewedReservation, nowMs: number): void;
  /** Records that another policy denied the request. Only an elastic window changes: it restarts. */
  deny(nowMs: number): void;
  /** Adds units that were spent elsewhere at `atMs`. Never denies, and may leave a debt. */
  book(cost: number, atMs: number, nowMs: number): void;
  /** Gives back units spent at `spentAtMs` that still count. Without a reservation this is best effort. */
  refund(cost: number, spentAtMs: number, nowMs: number): void;
  /** The state for storage and `createMeter`: structured-cloneable and versioned. */
  snapshot(): unknown;
  /**
   * A meter of other limits on the same key. It decides like `createMeter(limits, this.snapshot())`, but takes over live
   * states without encoding them. Both meters share states, which are immutable, and go on independently.
   */
  withLimits(limits: readonly Limit[]): Meter;
  /** From this instant on, discarding the snapshot changes no decision. At most `seenMs` when the state is empty. */
  idleAtMs(): number;
  /**
   * How long a spend of up to the whole capacity can affect decisions of this meter's own limits. Debts, and states of
   * absent limits, may last longer: see `idleAtMs`.
   */
  readonly retentionMs: number;
  /** Approximate memory, without the limits. */
  sizeBytes(): number;
  /** The latest time that the meter has seen. The last spend was booked at this time. */
  readonly seenMs: number;
  /** Grows whenever `snapshot` would return another state; a later `seenMs` alone does not count. */
  readonly changes: number;
  /** Why stored state was rejected and replaced by an empty one; null if none was rejected. */
  readonly refused: string | null;
}

/** @param stored what `snapshot` of an earlier meter returned; anything else is rejected, see `refused` */
export function createMeter(limits: readonly Limit[], stored?: unknown): Meter {
  const snapshot = stored === undefined ? noCarriedStates : readSnapshot(stored);
  return snapshot === null
    ? new LimitsMeter(limits, noCarriedStates, "not a snapshot of this version")
    : new LimitsMeter(limits, snapshot, null);
}

/** Approximate memory of a meter without its states, and of each of its limits. */
const bytesPerMeter = 130;
const bytesPerLimit = 70;

type SpendTransition = (metered: MeteredLimit, cost: number, atMs: number) => unknown;

class LimitsMeter implements Meter {
  readonly #longestWindowMs: number;
  readonly #limits: readonly MeteredLimit[];
  /** States of limits that this meter does not have. */
  readonly #absentStates: readonly CarriedState[];
  seenMs: number;
  changes = 0;
  refused: string | null;

  constructor(limits: readonly Limit[], carried: CarriedStates, refused: string | null) {
    this.refused = refused;
    const states = new Map(carried.states.map((state) => [state.identity, state]));
    // A carried state may have seen a later time than the meter, whose clock has been corrected since.
    this.seenMs = limits.reduce(
      (latestMs, limit) =>
        Math.max(latestMs, states.get(compiledLimit(limit).identity)?.writtenAtMs ?? 0),
      carried.seenMs,
    );
    this.#limits = limits.map((limit) => {
      const compiled = compiledLimit(limit);
      const state = states.get(compiled.identity);
      states.delete(compiled.identity);
      return state === undefined
        ? { compiled, state: compiled.strategy.fresh() }
        : this.#takeOver(compiled, state, carried.seenMs);
    });
    this.#absentStates = boundedStates(
      [...states.values()].filter((state) => {
        const isUsable = isWellFormed(state);
        if (!isUsable) this.#refuse(state.identity);
        return isUsable;
      }),
    );
    this.#longestWindowMs = limits.reduce((longest, limit) => Math.max(longest, limit.windowMs), 0);
  }

  /** @param carriedSeenMs the latest time that the former meter had seen */
  #takeOver(compiled: CompiledLimit, carried: CarriedState, carriedSeenMs: number): MeteredLimit {
    const state = stateFor(compiled, carried);
    if (state === null) {
      this.#refuse(compiled.identity);
      return { compiled, state: compiled.strategy.fresh() };
    }
    const seenMs = Math.max(carried.writtenAtMs, carriedSeenMs);
    // Other limits have seen a later time. At that time, units of this state would already have been given back.
    return seenMs < this.seenMs
      ? rebooked({ compiled, state }, seenMs, this.seenMs)
      : { compiled, state };
  }

  #refuse(identity: string): void {
    this.refused = `not a state of "${identity}"`;
  }

  consume(cost: number, nowMs: number, heldUnits = 0): Decision {
    return this.#spend(cost, spentState, nowMs, heldUnits);
  }

  reserve({ cost, ttlMs }: Reservation, nowMs: number, heldUnits = 0): Decision {
    requireTtl(ttlMs);
    const reserveUnits: SpendTransition = (metered, units, atMs) =>
      reservedState(metered, { cost: units, ttlMs }, atMs);
    return this.#spend(cost, reserveUnits, nowMs, heldUnits);
  }

  #spend(cost: number, transition: SpendTransition, nowMs: number, heldUnits: number): Decision {
    if (cost === 0) return this.look(cost, nowMs, heldUnits);
    requireCount("cost", cost);
    requireInstant(nowMs);
    requireCount("heldUnits", heldUnits);
    const atMs = this.#correctedMs(nowMs);
    const time = { atMs, lagMs: atMs - nowMs, heldUnits };
    const limits = this.#limits;
    const used = usedUnits(limits, time);
    if (!isWithinAll(limits, used, cost)) {
      this.#denyAt(atMs);
      return unspentDecision(limits, used, cost, time);
    }
    const delayMs = queueDelayMs(limits, time);
    for (const metered of limits) metered.state = transition(metered, cost, atMs);
    this.seenMs = atMs;
    this.changes++;
    const usedAfter = used.map((units) => units + cost);
    return spentDecision(limits, usedAfter, { cost, delayMs }, time);
  }

  look(cost: number, nowMs: number, heldUnits = 0): Decision {
    requireCount("cost", cost);
    requireInstant(nowMs);
    requireCount("heldUnits", heldUnits);
    const isMisset = this.#isMisset(nowMs);
    const atMs = isMisset ? nowMs : Math.max(nowMs, this.seenMs);
    const limits = isMisset
      ? this.#limits.map((metered) => rebooked(metered, this.seenMs, nowMs))
      : this.#limits;
    const time = { atMs, lagMs: atMs - nowMs, heldUnits };
    return unspentDecision(limits, usedUnits(limits, time), cost, time);
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
    // The age of the spend is right even where the caller's clock is not.
    const bookedAtMs = seenMs - Math.max(0, nowMs - atMs);
    this.#change(seenMs, (metered) => bookedState(metered, cost, bookedAtMs, seenMs));
  }

  refund(cost: number, spentAtMs: number, nowMs: number): void {
    requireCount("cost", cost);
    requireCount("spentAtMs", spentAtMs);
    requireInstant(nowMs);
    if (cost === 0) return;
    const seenMs = this.#correctedMs(nowMs);
    this.#change(seenMs, ({ compiled: { limit, strategy }, state }) =>
      strategy.refund(limit, state, cost, spentAtMs, seenMs),
    );
  }

  settle(reservation: SettledReservation, nowMs: number): void {
    const { cost, actualCost, spentAtMs, ttlMs, heldAtMs = spentAtMs } = reservation;
    requireCount("cost", cost);
    requireCount("actualCost", actualCost);
    requireCount("spentAtMs", spentAtMs);
    requireCount("heldAtMs", heldAtMs);
    requireTtl(ttlMs);
    requireInstant(nowMs);
    const isOpen = this.#limits.some((metered) => hasOpenReservation(metered, spentAtMs));
    const holdsSlots = this.#limits.some(({ compiled }) => compiled.strategy.holdsSlots);
    if (actualCost === cost && !isOpen && !(cost > 0 && holdsSlots)) return;
    const seenMs = this.#correctedMs(nowMs);
    const settled = { cost, actualCost, spentAtMs, ttlMs, heldAtMs };
    this.#change(seenMs, (metered) => settledState(metered, settled, seenMs));
  }

  renew(reservation: RenewedReservation, nowMs: number): void {
    const { cost, heldAtMs, ttlMs } = reservation;
    requireCount("cost", cost);
    requireCount("heldAtMs", heldAtMs);
    requireTtl(ttlMs);
    requireInstant(nowMs);
    if (cost === 0 || !this.#limits.some(canRenew)) return;
    const seenMs = this.#correctedMs(nowMs);
    this.#change(seenMs, (metered) => renewedState(metered, reservation, seenMs));
  }

  snapshot(): unknown {
    return writeSnapshot({ seenMs: this.seenMs, states: this.#liveStates().map(storedState) });
  }

  withLimits(limits: readonly Limit[]): Meter {
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
    const own = this.#limits.map(({ compiled: { limit, strategy }, state }) =>
      strategy.idleAtMs(limit, state),
    );
    return Math.max(0, ...own, ...this.#absentStates.map((state) => state.idleAtMs));
  }

  get retentionMs(): number {
    return this.#limits.reduce(
      (longest, { compiled }) => Math.max(longest, compiled.retentionMs),
      0,
    );
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
   * The time to decide at: `nowMs`, or `seenMs` when the clock stepped back. A `seenMs` further ahead than the longest
   * window came from a mis-set clock. The meter then books all units again at `nowMs`, so that the key neither gains
   * quota nor stays blocked.
   */
  #correctedMs(nowMs: number): number {
    if (!this.#isMisset(nowMs)) return Math.max(nowMs, this.seenMs);
    for (const metered of this.#limits) {
      metered.state = rebooked(metered, this.seenMs, nowMs).state;
    }
    this.seenMs = nowMs;
    this.changes++;
    return nowMs;
  }

  #isMisset(nowMs: number): boolean {
    return this.seenMs - nowMs > this.#longestWindowMs;
  }

  /** A later `seenMs` alone is not a change: the next decision brings its own time. */
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
