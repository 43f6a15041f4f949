/**
 * A meter decides several limits on one key at one instant, all or nothing. A denial and a look spend nothing.
 *
 * A meter remembers the latest time it has seen, so that a clock that steps back adds no quota. It also keeps the states
 * of absent limits until they are idle, so that two deployed versions of a policy do not erase one another's states.
 */
import type { UsageBreakdown } from "./usage.ts";
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
  readSnapshot,
  writeSnapshot,
} from "./snapshot.ts";
import { isCount, isInstant } from "./integers.ts";
import {
  accountOf,
  bookedState,
  canRenew,
  hasOpenReservation,
  isWithinAll,
  measureUsed,
  type MeteredLimit,
  queueDelayMs,
  rebooked,
  type RenewedReservation,
  renewedState,
  type ReservedSpend,
  reservedState,
  settledState,
  spentDecision,
  spentState,
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
  const snapshot = stored === undefined ? noCarriedStates : readSnapshot(stored);
  return snapshot === null
    ? new LimitsMeter(limits, noCarriedStates, "not a snapshot of this version")
    : new LimitsMeter(limits, snapshot, null);
}

/** Approximate memory of a meter and of each of its limits, without their states. */
const bytesPerMeter = 130;
const bytesPerLimit = 70;

type SpendTransition = (metered: MeteredLimit, cost: number, atMs: number) => unknown;

class LimitsMeter implements Meter {
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
      return state === undefined
        ? { compiled, state: compiled.strategy.fresh() }
        : this.#takeOver(compiled, state, carried.seenMs);
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

  /** @param carriedSeenMs the latest time that the former meter had seen */
  #takeOver(compiled: CompiledLimit, carried: CarriedState, carriedSeenMs: number): MeteredLimit {
    const state = stateFor(compiled, carried);
    if (state === null) {
      this.#refuse(compiled.identity);
      return { compiled, state: compiled.strategy.fresh() };
    }
    const seenMs = Math.max(carried.writtenAtMs, carriedSeenMs);
    // Another limit has seen a later time. Without a new booking, this limit would give back units too early.
    return seenMs < this.seenMs ? rebooked({ compiled, state }, seenMs, this.seenMs) : { compiled, state };
  }

  #refuse(identity: string): void {
    this.refused = `not a state of "${identity}"`;
  }

  consume(cost: number, nowMs: number, heldUnits = 0): Decision {
    return this.#spend(cost, spentState, nowMs, heldUnits);
  }

  reserve({ cost, ttlMs }: ReservedSpend, nowMs: number, heldUnits = 0): Decision {
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
    const used = this.#used;
    measureUsed(limits, time, used);
    if (!isWithinAll(limits, used, cost)) {
      this.#denyAt(atMs);
      return unspentDecision(limits, used, cost, time);
    }
    const delayMs = queueDelayMs(limits, time);
    for (const metered of limits) metered.state = transition(metered, cost, atMs);
    this.seenMs = atMs;
    this.changes++;
    for (let index = 0; index < used.length; index++) used[index] = (used[index] ?? 0) + cost;
    return spentDecision(limits, used, { cost, delayMs }, time);
  }

  look(cost: number, nowMs: number, heldUnits = 0): Decision {
    requireCount("cost", cost);
    requireInstant(nowMs);
    requireCount("heldUnits", heldUnits);
    const limits = this.#correctedLimits(nowMs);
    const atMs = limits === this.#limits ? Math.max(nowMs, this.seenMs) : nowMs;
    const time = { atMs, lagMs: atMs - nowMs, heldUnits };
    measureUsed(limits, time, this.#used);
    return unspentDecision(limits, this.#used, cost, time);
  }

  account(nowMs: number, heldUnits = 0): readonly UsageBreakdown[] {
    requireInstant(nowMs);
    requireCount("heldUnits", heldUnits);
    const limits = this.#correctedLimits(nowMs);
    const atMs = limits === this.#limits ? Math.max(nowMs, this.seenMs) : nowMs;
    return limits.map((metered) => accountOf(metered, { atMs, lagMs: atMs - nowMs, heldUnits }));
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
    this.#change(seenMs, (metered) => bookedState(metered, cost, bookedAtMs, seenMs));
  }

  refund(cost: number, spentAtMs: number, nowMs: number): void {
    requireCount("cost", cost);
    requireCount("spentAtMs", spentAtMs);
    requireInstant(nowMs);
    if (cost === 0) return;
    const seenMs = this.#correctedMs(nowMs);
    const refunded = { atMs: spentAtMs, units: cost };
    this.#change(seenMs, ({ compiled: { limit, strategy }, state }) => strategy.refund(limit, state, refunded, seenMs));
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
      metered.state = rebooked(metered, this.seenMs, nowMs).state;
    }
    this.seenMs = nowMs;
    this.changes++;
    return nowMs;
  }

  /** The limits as `#correctedMs` would leave them: the same list, unless the clock was mis-set. */
  #correctedLimits(nowMs: number): readonly MeteredLimit[] {
    return this.#isMisset(nowMs) ? this.#limits.map((metered) => rebooked(metered, this.seenMs, nowMs)) : this.#limits;
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

function requireInstant(nowMs: number): void {
  if (!isInstant(nowMs)) throw new RangeError(`nowMs must be integer milliseconds since 1970, not ${String(nowMs)}`);
}

function requireCount(name: string, value: number): void {
  if (!isCount(value)) throw new RangeError(`${name} must be an integer of at least 0, not ${String(value)}`);
}

function requireTtl(ttlMs: number): void {
  if (!isCount(ttlMs) || ttlMs === 0)
    throw new RangeError(`ttlMs must be an integer of at least 1, not ${String(ttlMs)}`);
}
