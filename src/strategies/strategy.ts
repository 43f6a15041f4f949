/**
 * The contract between a limit, the strategy that decides it, and the meter that asks.
 * Nothing here or in this folder reads a clock or touches a platform: time is an argument, in integer milliseconds.
 */
import type { ObjectEntries } from "valibot";

/** One rule: at most `limit` units per `windowMs`, as its strategy counts them. Made by `parseLimits` only. */
export interface Limit {
  /** What the RateLimit fields call it. */
  readonly name: string;
  /** A name in the registry of strategies. */
  readonly strategy: string;
  /** Units per window; an integer of at least 1. */
  readonly limit: number;
  /** Of a calendar window the greatest length while no clocks are changed. */
  readonly windowMs: number;
  /** What a calendar window is one of. */
  readonly period?: Period;
}

export type Period = "day" | "week" | "month" | "year";

/** What one limit says of one request. All durations are in milliseconds and count from the instant of the decision. */
export interface LimitDecision {
  name: string;
  strategy: string;
  /** Units per window. */
  limit: number;
  /** The most units that could be spent at one instant. */
  capacity: number;
  /** Of a calendar window the length of the current one. */
  windowMs: number;
  /** Whether this limit alone would have let the request in. */
  allowed: boolean;
  /** Whole units that could be spent right now, after this decision; 0..capacity. */
  remaining: number;
  /** 0 if allowed; else the least wait after which this cost fits; null if it never can. */
  retryAfterMs: number | null;
  /** Until `remaining` next grows; 0 when nothing is missing. */
  replenishAfterMs: number;
  /** Until nothing is missing. */
  resetAfterMs: number;
}

/** What all limits of a meter together say of one request: allowed by all, or by none. */
export interface Decision {
  allowed: boolean;
  cost: number;
  /** How long to hold an allowed request before it is forwarded; 0 for every strategy but a leaky-bucket queue. */
  delayMs: number;
  /** The greatest of the denying limits'; null if any of them is null; 0 when allowed. */
  retryAfterMs: number | null;
  /** More than 0 while a ban refuses the key. */
  bannedForMs: number;
  /** In the order of the policy. */
  limits: LimitDecision[];
}

/** A field of a limit that is wrong, and what it may be. */
export interface LimitProblem {
  readonly field: string;
  readonly accepted: string;
}

/**
 * A state as it is stored: a text, or of a long one the texts of its sealed segments, which do not change while they are
 * of use, the oldest first, and last the text of what still changes.
 */
export type StoredState = string | readonly string[];

/** Units of a reservation. */
export interface ReservedUnits {
  readonly units: number;
  /** An unsettled reservation stands as spent from this instant on. */
  readonly expiresAtMs: number;
}

/** The outcome of a reservation. */
export interface Settlement {
  readonly cost: number;
  /** At most `cost`: a higher actual cost is booked separately. */
  readonly actualCost: number;
  readonly spentAtMs: number;
}

/** The extension of a reservation. */
export interface Renewal {
  /** When the reservation was made or last renewed. */
  readonly heldAtMs: number;
  /** How long the reservation stays open from now on. */
  readonly ttlMs: number;
}

/** How a strategy keeps open reservations, so that only their outcome has an effect in the end (law 10). */
export interface ReservationParts<L extends Limit, State> {
  /** The state after units are reserved at `nowMs`. */
  reserve(limit: L, state: State, reserved: ReservedUnits, nowMs: number): State;
  /** Whether the state keeps data about a reservation made at `spentAtMs`. */
  isOpen(state: State, spentAtMs: number): boolean;
  /** The state after a reservation is corrected to its actual cost and no longer open. */
  settle(limit: L, state: State, settlement: Settlement, nowMs: number): State;
  /** The state after a reservation is extended. */
  renew(state: State, renewal: Renewal, nowMs: number): State;
  /** The data about open reservations as text; "" for none. */
  store(limit: L, state: State, nowMs: number): string;
}

/** What not every strategy has. */
interface OptionalFunctions<L extends Limit, State> {
  /** The length of the window at an instant. */
  windowMs(limit: L, nowMs: number): number;
  /** How long the next unit to be spent would have to wait, although allowed. */
  delayMs(limit: L, state: State, nowMs: number): number;
  /** Transition: a request is denied. */
  deny(limit: L, state: State, nowMs: number): State;
}

/**
 * A strategy is a set of pure functions over a state it alone understands. A state is never changed: a transition
 * answers with the next one. Units are integers, and so is everything that decides.
 *
 * Callers keep `nowMs` from stepping back, and ask `waitMs` only for a cost within the capacity.
 */
export interface Strategy<L extends Limit = Limit, State = unknown> {
  readonly name: string;
  /** Schemas of the fields of a limit that only this strategy has. */
  readonly options: ObjectEntries;
  /** The limit with what follows from its fields, such as defaults that depend on others. All below are given such. */
  complete(limit: L): L;
  /** What is wrong with a limit whose fields are each fine; null if nothing is. */
  problem(limit: L): LimitProblem | null;
  /** Why a limit that is accepted should rather not be used. */
  warning(limit: L): string | null;
  /** The options that a stored state depends on, as text; strategy, window and defaults need not be in it. */
  identity(limit: L): string;
  /** The most units that could be spent at one instant. */
  capacity(limit: L): number;
  /** The bound: the most units admitted in any span of one window; of a calendar's, of the shortest that there is. */
  mostPerWindow(limit: L): number;
  /** Whether units are given back when the work is done for which they were spent. */
  readonly holdsSlots: boolean;
  /** Null where it is always the same. */
  readonly windowMs: OptionalFunctions<L, State>["windowMs"] | null;
  /** The most bytes that a stored state takes of units that were allowed: by it an owner plans its storage. */
  mostStoredBytes(limit: L): number;

  /** The state of a key that has spent nothing. */
  fresh(): State;
  /**
   * Units spent and not yet given back by time, rounded up; more than the capacity when there is a debt. To spend units
   * now makes it exactly as many more.
   */
  used(limit: L, state: State, nowMs: number): number;
  /** The least wait after which `cost` more units fit, which do not fit now, if nothing else is spent. */
  waitMs(limit: L, state: State, cost: number, nowMs: number): number;
  /** Null where there is no queue. */
  readonly delayMs: OptionalFunctions<L, State>["delayMs"] | null;
  /** Transition: `units` are spent at `atMs <= nowMs`, whether they fit or not. */
  spend(limit: L, state: State, units: number, atMs: number, nowMs: number): State;
  /** Transition: of the units spent at `spentAtMs`, `units` are given back, as far as time has not done so already. */
  refund(limit: L, state: State, units: number, spentAtMs: number, nowMs: number): State;
  /** Null where a denial changes nothing. */
  readonly deny: OptionalFunctions<L, State>["deny"] | null;
  /** Null where a refund is exact without more data, and where it is declared not to be. */
  readonly reservations: ReservationParts<L, State> | null;
  /** The state for a limit of the same identity whose number of units is another than that of `before`. */
  adapt(limit: L, state: State, before: L, nowMs: number): State;
  /** From this instant on the state decides like a fresh one; 0 for a fresh one. */
  idleAtMs(limit: L, state: State): number;

  /** About how many bytes of memory the state takes. */
  sizeBytes(state: State): number;
  /**
   * The state in short, in which instants are told by how long before `nowMs`, the latest, they were; but that the text
   * of a sealed segment is the same whenever it is asked for.
   */
  store(limit: L, state: State, nowMs: number): StoredState;
  /**
   * The state that `store` wrote at `nowMs`, or null when the data is not such a state.
   * @param storedOpen what `reservations.store` wrote; "" by default
   */
  restore(limit: L, stored: unknown, nowMs: number, storedOpen?: string): State | null;
}

type Optional =
  | "complete"
  | "warning"
  | "holdsSlots"
  | "windowMs"
  | "delayMs"
  | "deny"
  | "reservations"
  | "adapt"
  | "sizeBytes";

/** Of a state that is always as large: a few numbers, and some instants for corrections. */
export const constantSizeBytes = 230;

/** What a strategy has to say; for the rest it is like most. */
export type StrategyParts<L extends Limit, State> = Omit<Strategy<L, State>, Optional> &
  Partial<Pick<Strategy<L, State>, Optional>>;

/**
 * A strategy of its parts. All have the same fields in the same order: so an engine reads them at the least cost. Of
 * what kind its limits and states are is its own affair: it is given no others.
 */
export function strategyOfParts<L extends Limit, State>(parts: StrategyParts<L, State>): Strategy {
  const strategy: Strategy<L, State> = {
    name: parts.name,
    options: parts.options,
    complete: parts.complete ?? ((limit) => limit),
    problem: parts.problem,
    warning: parts.warning ?? (() => null),
    identity: parts.identity,
    capacity: parts.capacity,
    mostPerWindow: parts.mostPerWindow,
    holdsSlots: parts.holdsSlots ?? false,
    windowMs: parts.windowMs ?? null,
    mostStoredBytes: parts.mostStoredBytes,
    fresh: parts.fresh,
    used: parts.used,
    waitMs: parts.waitMs,
    delayMs: parts.delayMs ?? null,
    spend: parts.spend,
    refund: parts.refund,
    deny: parts.deny ?? null,
    reservations: parts.reservations ?? null,
    adapt: parts.adapt ?? ((_limit, state) => state),
    idleAtMs: parts.idleAtMs,
    sizeBytes: parts.sizeBytes ?? (() => constantSizeBytes),
    store: parts.store,
    restore: parts.restore,
  };
  return strategy;
}
