/**
 * Traces with reservations, and what law 10 compares them with: the same trace in which each reservation's cost was spent
 * for good at the instant of the reservation. While it is open that is its whole cost, and from then on its settled one.
 */
import * as fc from "fast-check";
import { createMeter, type Limit, type Meter } from "../../src/strategies/index.ts";

export type ActionKind =
  | "reserve"
  | "settle"
  | "consume"
  | "fill"
  | "book"
  | "look"
  | "deny"
  | "restart"
  | "copy";

export interface Action {
  readonly kind: ActionKind;
  readonly idleTicks: number;
  readonly cost: number;
  /** Which of the open reservations is settled. */
  readonly pick: number;
  /** Units more than nothing, up to more than was reserved. */
  readonly actualCost: number;
}

export const actions = (
  kinds: readonly ActionKind[],
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
    length,
  );

/** Something that was spent: by a reservation, or for good. */
export interface Spend {
  readonly atMs: number;
  /** What counts of it at its instant. */
  units: number;
  readonly cost: number;
  readonly ttlMs: number;
  isOpen: boolean;
}

export const dayMs = 86_400_000;

/** A meter that goes through a trace, and all that it has spent. */
export class Trace {
  meter: Meter;
  nowMs: number;
  readonly limits: readonly Limit[];
  readonly spends: Spend[] = [];
  /** How many reservations were settled: to nothing, to less, to what they were, to more. */
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
    this.#note(cost, ttlMs, true);
    this.mostOpen = Math.max(this.mostOpen, this.open.length);
    return true;
  }

  consume(cost: number): boolean {
    const isAllowed = this.meter.consume(cost, this.nowMs).allowed;
    if (isAllowed) this.#note(cost, 0, false);
    return isAllowed;
  }

  book(cost: number): void {
    this.meter.book(cost, this.nowMs, this.nowMs);
    this.#note(cost, 0, false);
  }

  settle(spend: Spend, actualCost: number): void {
    const { cost, ttlMs, atMs: spentAtMs } = spend;
    this.meter.settle({ cost, actualCost, spentAtMs, ttlMs }, this.nowMs);
    spend.isOpen = false;
    spend.units = Math.min(cost, actualCost);
    if (actualCost > cost) this.#note(actualCost - cost, ttlMs, false);
    const kind = actualCost === 0 ? "nothing" : actualCost < cost ? "less" : "more";
    this.settled[actualCost === cost ? "same" : kind]++;
  }

  /** As after an eviction: nothing is left but what was stored. */
  restart(): void {
    this.meter = createMeter(this.limits, JSON.parse(JSON.stringify(this.meter.snapshot())));
  }

  /** @param mayBeSettled whether a reservation may be settled now */
  play(action: Action, tickMs: number, mayBeSettled: (spend: Spend) => boolean): void {
    this.nowMs += action.idleTicks * tickMs;
    const { kind, cost, pick, actualCost } = action;
    if (kind === "reserve") this.reserve(cost);
    if (kind === "consume") this.consume(cost);
    if (kind === "fill") this.consume(Math.max(1, this.#remaining()));
    if (kind === "book") this.book(cost);
    if (kind === "look") this.meter.look(cost, this.nowMs);
    if (kind === "deny") this.meter.consume(100_000, this.nowMs);
    if (kind === "restart") this.restart();
    if (kind === "copy") this.meter = this.meter.withLimits(structuredClone(this.limits));
    if (kind !== "settle") return;
    const { open } = this;
    const spend = open[pick % Math.max(1, open.length)];
    const isUp = spend !== undefined && this.nowMs >= spend.atMs + spend.ttlMs;
    if (spend !== undefined && !isUp && mayBeSettled(spend)) this.settle(spend, actualCost);
  }

  #note(cost: number, ttlMs: number, isOpen: boolean): void {
    this.spends.push({ atMs: this.nowMs, units: cost, cost, ttlMs, isOpen });
  }

  #remaining(): number {
    const { limits } = this.meter.look(1, this.nowMs);
    return Math.min(...limits.map(({ remaining }) => remaining));
  }
}

/** A meter of one limit that has spent for good what the trace has spent by now. */
export function replayed(limit: Limit, { spends }: Trace): Meter {
  const meter = createMeter([limit]);
  const holdsSlots = limit.strategy === "concurrency";
  for (const { atMs, units, ttlMs, isOpen } of spends) {
    if (holdsSlots && ttlMs > 0 && isOpen) meter.reserve({ cost: units, ttlMs }, atMs);
    // Slots are free when the work is done, whatever it cost.
    else if (units > 0 && !(holdsSlots && ttlMs > 0)) meter.book(units, atMs, atMs);
  }
  return meter;
}

const option = (limit: Limit, name: string): unknown => Reflect.get(limit, name);

/**
 * Whether a reservation is settled before the end of the window, bucket or refill period of its spend, where a request
 * has opened that: as all that was spent says, found by walking through it.
 */
export function isInTime(limit: Limit, trace: Trace, spend: Spend): boolean {
  const { windowMs, strategy } = limit;
  const isAligned = (option(limit, "align") ?? "first-request") !== "first-request";
  const spends = trace.spends.filter(({ units }) => units > 0);
  if (strategy === "fixed-window" && !isAligned) {
    return spend.atMs >= windowOf(windowMs, spends, trace.nowMs);
  }
  if (strategy === "sliding-window-counter" && !isAligned) {
    return spend.atMs >= bucketOf(windowMs, spends, trace.nowMs);
  }
  return option(limit, "refill") === "interval"
    ? spend.atMs >= periodOf(limit, spends, trace.nowMs)
    : true;
}

const never = Number.POSITIVE_INFINITY;

/** When the present window opened. */
function windowOf(windowMs: number, spends: readonly Spend[], nowMs: number): number {
  let openedAtMs = -never;
  for (const { atMs } of spends) if (atMs >= openedAtMs + windowMs) openedAtMs = atMs;
  return nowMs >= openedAtMs + windowMs ? never : openedAtMs;
}

/** When the present bucket opened: with a request, or at the end of the one before. */
function bucketOf(windowMs: number, spends: readonly Spend[], nowMs: number): number {
  let openedAtMs = -never;
  for (const { atMs } of spends) {
    if (atMs >= openedAtMs + 2 * windowMs) openedAtMs = atMs;
    else if (atMs >= openedAtMs + windowMs) openedAtMs += windowMs;
  }
  if (nowMs >= openedAtMs + 2 * windowMs) return never;
  return nowMs >= openedAtMs + windowMs ? openedAtMs + windowMs : openedAtMs;
}

/** When the present refill period began. */
function periodOf({ limit, windowMs }: Limit, spends: readonly Spend[], nowMs: number): number {
  let owed = 0;
  let begunAtMs = never;
  const walkTo = (atMs: number): void => {
    while (owed > 0 && atMs >= begunAtMs + windowMs) {
      owed = Math.max(0, owed - limit);
      begunAtMs += windowMs;
    }
  };
  for (const { atMs, units } of spends) {
    walkTo(atMs);
    if (owed === 0) begunAtMs = atMs;
    owed += units;
  }
  walkTo(nowMs);
  return owed === 0 ? never : begunAtMs;
}
