/**
 * Random traces with reservations, and the trace without reservations with which law 10 compares them. In the latter,
 * each reservation is a plain spend at the same time: of the full cost while the reservation is open, and of the
 * settled cost afterwards.
 */
import * as fc from "fast-check";
import { createMeter, type Limit, type Meter } from "../../src/strategies/index.ts";
import { dayMs, remainingAt, stored } from "./meters.ts";

export interface Action {
  readonly kind: "reserve" | "settle" | "consume" | "fill" | "book" | "look" | "deny" | "restart" | "copy";
  readonly idleTicks: number;
  readonly cost: number;
  /** Selects the open reservation to settle. */
  readonly pick: number;
  /** The actual cost of a settlement; it can exceed the reserved cost. */
  readonly actualCost: number;
}

export const actions = (
  kinds: readonly Action["kind"][],
  length: { readonly minLength: number; readonly maxLength: number },
): fc.Arbitrary<readonly Action[]> =>
  fc.array(
    fc.record({
      kind: fc.constantFrom(...kinds),
      idleTicks: fc.oneof(
        { weight: 4, arbitrary: fc.constant(0) },
        { weight: 6, arbitrary: fc.integer({ min: 1, max: 2 }) },
        { weight: 1, arbitrary: fc.integer({ min: 3, max: 9 }) },
      ),
      cost: fc.oneof(
        { weight: 6, arbitrary: fc.integer({ min: 1, max: 3 }) },
        { weight: 1, arbitrary: fc.integer({ min: 4, max: 20 }) },
      ),
      pick: fc.nat(1_000),
      actualCost: fc.constantFrom(0, 0, 0, 1, 2, 3, 9),
    }),
    // By default, fast-check would draw few actions, and few settlements among them.
    { ...length, size: "max" },
  );

/** Units that were spent, by a reservation or without one. */
export interface Spend {
  readonly atMs: number;
  /** The units that count at `atMs`: the reserved cost until the settlement. */
  units: number;
  readonly cost: number;
  readonly ttlMs: number;
  isOpen: boolean;
}

/** A meter, and everything that it has spent. */
export class Trace {
  meter: Meter;
  nowMs: number;
  readonly limits: readonly Limit[];
  readonly spends: Spend[] = [];
  /** The numbers of settlements whose actual cost was 0, less than, equal to, or more than the reserved cost. */
  readonly settled = { nothing: 0, less: 0, same: 0, more: 0 };
  mostOpen = 0;

  constructor(limits: readonly Limit[], startMs: number) {
    this.limits = limits;
    this.meter = createMeter(limits);
    this.nowMs = startMs;
  }

  get open(): Spend[] {
    return this.spends.filter(({ isOpen }) => isOpen);
  }

  reserve(cost: number, ttlMs = dayMs): boolean {
    if (!this.meter.reserve({ cost, ttlMs }, this.nowMs).allowed) return false;
    this.#record(cost, ttlMs, true);
    this.mostOpen = Math.max(this.mostOpen, this.open.length);
    return true;
  }

  consume(cost: number): boolean {
    const isAllowed = this.meter.consume(cost, this.nowMs).allowed;
    if (isAllowed) this.#record(cost, 0, false);
    return isAllowed;
  }

  book(cost: number): void {
    this.meter.book(cost, this.nowMs, this.nowMs);
    this.#record(cost, 0, false);
  }

  settle(spend: Spend, actualCost: number): void {
    const { cost, ttlMs, atMs: spentAtMs } = spend;
    this.meter.settle({ cost, actualCost, spentAtMs, ttlMs }, this.nowMs);
    spend.isOpen = false;
    spend.units = Math.min(cost, actualCost);
    if (actualCost > cost) this.#record(actualCost - cost, ttlMs, false);
    const kind = actualCost === 0 ? "nothing" : actualCost < cost ? "less" : "more";
    this.settled[actualCost === cost ? "same" : kind]++;
  }

  /** Restores the meter from its snapshot, as after an eviction. */
  restart(): void {
    this.meter = createMeter(this.limits, stored(this.meter));
  }

  /**
   * @param mayBeSettled whether an open reservation may be settled now
   * @returns whether a reservation was settled
   */
  apply(action: Action, tickMs: number, mayBeSettled: (spend: Spend) => boolean): boolean {
    this.nowMs += action.idleTicks * tickMs;
    const { kind, cost, pick, actualCost } = action;
    if (kind === "reserve") this.reserve(cost);
    if (kind === "consume") this.consume(cost);
    if (kind === "fill") this.consume(Math.max(1, remainingAt(this.meter, this.nowMs)));
    if (kind === "book") this.book(cost);
    if (kind === "look") this.meter.look(cost, this.nowMs);
    if (kind === "deny") this.meter.consume(100_000, this.nowMs);
    if (kind === "restart") this.restart();
    if (kind === "copy") this.meter = this.meter.withLimits(structuredClone(this.limits));
    if (kind !== "settle") return false;
    const candidates = this.open.filter((spend) => this.nowMs < spend.atMs + spend.ttlMs && mayBeSettled(spend));
    const spend = candidates[pick % Math.max(1, candidates.length)];
    if (spend === undefined) return false;
    this.settle(spend, actualCost);
    return true;
  }

  #record(cost: number, ttlMs: number, isOpen: boolean): void {
    this.spends.push({ atMs: this.nowMs, units: cost, cost, ttlMs, isOpen });
  }
}

/** A meter with one limit that has spent the units of the trace, but without reservations. */
export function withoutReservations(limit: Limit, { spends }: Trace): Meter {
  const meter = createMeter([limit]);
  const holdsSlots = limit.strategy === "concurrency";
  for (const { atMs, units, ttlMs, isOpen } of spends) {
    if (holdsSlots && ttlMs > 0 && isOpen) meter.reserve({ cost: units, ttlMs }, atMs);
    // A settlement frees the slots, at any actual cost.
    else if (units > 0 && !(holdsSlots && ttlMs > 0)) meter.book(units, atMs, atMs);
  }
  return meter;
}

const option = (limit: Limit, name: string): unknown => Reflect.get(limit, name);

/**
 * Whether the window, bucket or refill period in which a request spent its units is still in progress. This matters
 * only for strategies in which requests open these periods. The result comes from a walk through all spends.
 */
export function isInTime(limit: Limit, trace: Trace, spend: Spend): boolean {
  const { windowMs, strategy } = limit;
  const isAligned = (option(limit, "align") ?? "first-request") !== "first-request";
  const spends = trace.spends.filter(({ units }) => units > 0);
  if (strategy === "fixed-window" && !isAligned) {
    return spend.atMs >= windowStartMs(windowMs, spends, trace.nowMs);
  }
  if (strategy === "sliding-window-counter" && !isAligned) {
    return spend.atMs >= bucketStartMs(windowMs, spends, trace.nowMs);
  }
  return option(limit, "refill") === "interval" ? spend.atMs >= periodStartMs(limit, spends, trace.nowMs) : true;
}

const never = Number.POSITIVE_INFINITY;

/** The time at which the current window opened; `never` without a current window. */
function windowStartMs(windowMs: number, spends: readonly Spend[], nowMs: number): number {
  let openedAtMs = -never;
  for (const { atMs } of spends) if (atMs >= openedAtMs + windowMs) openedAtMs = atMs;
  return nowMs >= openedAtMs + windowMs ? never : openedAtMs;
}

/** The time at which the current bucket opened, either with a request or at the end of the previous bucket. */
function bucketStartMs(windowMs: number, spends: readonly Spend[], nowMs: number): number {
  let openedAtMs = -never;
  for (const { atMs } of spends) {
    if (atMs >= openedAtMs + 2 * windowMs) openedAtMs = atMs;
    else if (atMs >= openedAtMs + windowMs) openedAtMs += windowMs;
  }
  if (nowMs >= openedAtMs + 2 * windowMs) return never;
  return nowMs >= openedAtMs + windowMs ? openedAtMs + windowMs : openedAtMs;
}

/** The time at which the current refill period began. */
function periodStartMs({ limit, windowMs }: Limit, spends: readonly Spend[], nowMs: number): number {
  let usedUnits = 0;
  let startedAtMs = never;
  const walkTo = (atMs: number): void => {
    while (usedUnits > 0 && atMs >= startedAtMs + windowMs) {
      usedUnits = Math.max(0, usedUnits - limit);
      startedAtMs += windowMs;
    }
  };
  for (const { atMs, units } of spends) {
    walkTo(atMs);
    if (usedUnits === 0) startedAtMs = atMs;
    usedUnits += units;
  }
  walkTo(nowMs);
  return usedUnits === 0 ? never : startedAtMs;
}
