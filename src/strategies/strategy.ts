/**
 * The contract between a limit, the strategy that decides it, and the meter that calls the strategy.
 *
 * To add a strategy, call `strategyOfParts`, list the result in `compiled-limit.ts`, and add its example scenarios to the
 * tests. Everything in this folder is pure: time is an argument, in integer milliseconds.
 */
import type { ObjectEntries } from "valibot";
import type { UsageTerms } from "./usage.ts";

/** At most `limit` units (L) per `windowMs` (W), as the strategy counts them. Only `parseLimits` makes limits. */
export interface Limit {
  /** The name in the RateLimit fields. */
  readonly name: string;
  /** How the limit counts. */
  readonly strategy: string;
  /** Units per window; an integer of at least 1. */
  readonly limit: number;
  /** The window. For a calendar window, it is the greatest length without a clock change. */
  readonly windowMs: number;
  /** The period of a calendar window. */
  readonly period?: Period;
}

export type Period = "day" | "week" | "month" | "year";

/** The decision of one limit. All durations are in milliseconds and count from the instant of the decision. */
export interface LimitDecision {
  /** The name of the limit in the RateLimit fields. */
  name: string;
  /** How the limit counts. */
  strategy: string;
  /** Units per window. */
  limit: number;
  /** The most units that could be spent at one instant. */
  capacity: number;
  /** The window. For a calendar window, it is the current period. */
  windowMs: number;
  /** Whether this limit alone would have allowed the request. */
  allowed: boolean;
  /** Whole units that could be spent now, after this decision. From 0 to `capacity`. */
  remaining: number;
  /** The least wait after which this cost fits. It is 0 if allowed, and null if no wait suffices. */
  retryAfterMs: number | null;
  /** The time until `remaining` next grows. It is 0 when `remaining` equals `capacity`. */
  replenishAfterMs: number;
  /** The time until `remaining` equals `capacity`. */
  resetAfterMs: number;
}

/** The decision of all limits of a meter. */
export interface Decision {
  /** Whether every limit allowed the request. */
  allowed: boolean;
  /** The cost of the request. */
  cost: number;
  /** How long to delay an allowed request. It is more than 0 only for a leaky-bucket queue. */
  delayMs: number;
  /** The least wait after which this cost fits. It is 0 if allowed, and null if no wait suffices. */
  retryAfterMs: number | null;
  /** How long a ban still denies the key; 0 without a ban. */
  bannedForMs: number;
  /** The decisions of the limits, in their order. */
  limits: LimitDecision[];
}

/** An invalid field of a limit. */
export interface LimitProblem {
  readonly field: string;
  /** The values that the field accepts. */
  readonly accepted: string;
}

/**
 * A stored state: one text, or for a long state a list of texts. All but the last text of a list are sealed segments, the
 * oldest first, which never change.
 */
export type StoredState = string | readonly string[];

/** Units with the instant at which they were spent or from which they count. */
export interface DatedUnits {
  readonly atMs: number;
  readonly units: number;
}

/** The units that a reservation spends. */
export interface ReservedUnits {
  readonly units: number;
  /** From this instant on, an unsettled reservation counts as spent. */
  readonly expiresAtMs: number;
}

/** The outcome of a reservation. */
export interface SettledUnits {
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

/**
 * How a strategy keeps open reservations. Law 10: after the last settlement, decisions are the same as if each actual cost
 * had been spent at the instant of its reservation, and nothing else.
 */
interface ReservationParts<L extends Limit, State> {
  /** The state after a reservation at `nowMs`. */
  reserve(limit: L, state: State, reserved: ReservedUnits, nowMs: number): State;
  /** Whether the state keeps data about a reservation made at `spentAtMs`. */
  isOpen(state: State, spentAtMs: number): boolean;
  /** The state after a reservation is corrected to its actual cost and closed. */
  settle(limit: L, state: State, settlement: SettledUnits, nowMs: number): State;
  /** The state after a reservation is extended. */
  renew(state: State, renewal: Renewal, nowMs: number): State;
  /** The data about open reservations as text; "" for none. */
  store(limit: L, state: State, nowMs: number): string;
}

/** Functions that only some strategies have. */
interface OptionalFunctions<L extends Limit, State> {
  windowMs(limit: L, nowMs: number): number;
  delayMs(limit: L, state: State, nowMs: number): number;
  deny(limit: L, state: State, nowMs: number): State;
}

/**
 * A set of pure functions over a state that only the strategy understands. States are immutable: functions that spend or
 * correct return the next state, or the same object if nothing changes. Units are integers, and all decisions use integer
 * arithmetic.
 *
 * Callers guarantee that `nowMs` never steps back, and that the cost given to `waitMs` is within the capacity.
 */
export interface Strategy<L extends Limit = Limit, State = unknown> {
  readonly name: string;
  /** Schemas of the fields that only limits of this strategy have. */
  readonly options: ObjectEntries;
  /** The limit with derived fields, such as defaults. All functions below receive a completed limit. */
  complete(limit: L): L;
  /** The problem of a limit whose fields are valid but do not fit together; null if there is none. */
  problem(limit: L): LimitProblem | null;
  /** Why an accepted limit is discouraged; null if it is not. */
  warning(limit: L): string | null;
  /** The options on which a stored state depends, as text. Strategy, window and defaults are left out. */
  identity(limit: L): string;
  /** The most units that could be spent at one instant. */
  capacity(limit: L): number;
  /** The documented bound: the most units admitted in any span of one window, or of the shortest calendar period. */
  mostPerWindow(limit: L): number;
  /** Whether units are slots that are given back when the work ends. */
  readonly holdsSlots: boolean;
  /** The length of the window at an instant; null if it is constant. */
  readonly windowMs: OptionalFunctions<L, State>["windowMs"] | null;
  /** The most bytes that a stored state without debts takes. Configuration is checked against it. */
  mostStoredBytes(limit: L): number;

  /** The state of a key that has spent nothing. */
  fresh(): State;
  /**
   * Units that count at `nowMs`, rounded up; more than the capacity while there is a debt. Spending n units now adds
   * exactly n.
   */
  used(limit: L, state: State, nowMs: number): number;
  /** The terms of which `used` is the sum. Decisions never call it. */
  account(limit: L, state: State, nowMs: number): UsageTerms;
  /** The least wait until `cost` units fit, if nothing else is spent. Call it only if they do not fit now. */
  waitMs(limit: L, state: State, cost: number, nowMs: number): number;
  /** The delay of the next allowed unit; null if the strategy has no queue. */
  readonly delayMs: OptionalFunctions<L, State>["delayMs"] | null;
  /** The state after a spend at `atMs <= nowMs`, whether the units fit or not. */
  spend(limit: L, state: State, spent: DatedUnits, nowMs: number): State;
  /** The state after units spent at `atMs` are given back, except those that no longer count. */
  refund(limit: L, state: State, refunded: DatedUnits, nowMs: number): State;
  /** The state after a denial; null if denials change nothing. */
  readonly deny: OptionalFunctions<L, State>["deny"] | null;
  /** Null if refunds are exact without further data, or if the strategy documents that they are not exact. */
  readonly reservations: ReservationParts<L, State> | null;
  /** The state for a limit that differs from `before` in units or burst only. */
  adapt(limit: L, state: State, before: L, nowMs: number): State;
  /** From this instant on, the state decides like a fresh one; 0 for a fresh one. */
  idleAtMs(limit: L, state: State): number;

  /** Approximate memory of the state. */
  sizeBytes(state: State): number;
  /**
   * The state in compact form. Instants are stored as ages relative to `nowMs`, the latest time seen. The texts of
   * sealed segments are an exception: they do not depend on `nowMs`.
   */
  store(limit: L, state: State, nowMs: number): StoredState;
  /**
   * Reverses `store`, which was called with the same `nowMs`; null for invalid data.
   * @param storedOpen the result of `reservations.store`; "" by default
   */
  restore(limit: L, stored: unknown, nowMs: number, storedOpen?: string): State | null;
}

/** The parts that have a default. */
type DefaultedPart =
  | "complete"
  | "warning"
  | "holdsSlots"
  | "windowMs"
  | "delayMs"
  | "deny"
  | "reservations"
  | "adapt"
  | "sizeBytes";

/** Approximate memory of a state of constant size. */
export const constantSizeBytes = 230;

type StrategyParts<L extends Limit, State> = Omit<Strategy<L, State>, DefaultedPart> &
  Partial<Pick<Strategy<L, State>, DefaultedPart>>;

/**
 * A strategy with defaults for its missing parts. All strategies have the same fields in the same order, which is
 * fastest for JavaScript engines. The returned type hides the types of limit and state, because callers never look into
 * them.
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
    account: parts.account,
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
