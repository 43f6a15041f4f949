/** Reservations are charged before the work, and are settled to its actual cost afterwards. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createMeter, type Meter } from "../../src/strategies/index.ts";
import { expectSame, meterOf, remainders, remainingAt } from "./meters.ts";
import { forAllScenarios, deniedCost, inelasticLimitSets, limitSets, run, scenarios, testEach } from "./scenario.ts";
import { at } from "./timeline.ts";
import type { Variant } from "./variants.ts";

const remainingWhen = (meter: Meter, time: string): number => remainingAt(meter, at(time));

/** A reservation in the form in which its owner stores it. */
interface Reservation {
  readonly cost: number;
  readonly ttlMs: number;
  readonly spentAtMs: number;
}

function reserve(meter: Meter, cost: number, ttlMs: number, time: string): Reservation {
  expect(meter.reserve({ cost, ttlMs }, at(time)).allowed).toBe(true);
  return { cost, ttlMs, spentAtMs: meter.seenMs };
}

const settle = (meter: Meter, reservation: Reservation, actualCost: number, time: string): void =>
  meter.settle({ ...reservation, actualCost }, at(time));

describe("reservations of concurrency slots", () => {
  const limit = { limit: 2, window: "1m", strategy: "concurrency" };

  test.each([0, 1, 2, 5])("a settlement with actual cost %i frees all slots", (actualCost) => {
    const meter = meterOf(limit);
    const reservation = reserve(meter, 2, 30_000, "1:00");
    expect(meter.look(1, at("1:10"))).toMatchObject({ allowed: false, retryAfterMs: 20_000 });
    settle(meter, reservation, actualCost, "1:10");
    expect(remainingWhen(meter, "1:10")).toBe(2);
    expect(meter.idleAtMs()).toBe(0);
  });

  test("slots that are never settled are freed exactly at ttlMs", () => {
    const meter = meterOf(limit);
    expect(meter.reserve({ cost: 2, ttlMs: 30_000 }, at("1:00"))).toMatchObject({
      allowed: true,
      limits: [{ remaining: 0, replenishAfterMs: 30_000, resetAfterMs: 30_000 }],
    });
    expect(meter.consume(1, at("1:29.999"))).toMatchObject({ allowed: false, retryAfterMs: 1 });
    expect(meter.consume(1, at("1:30")).allowed).toBe(true);
    expect(meter.idleAtMs()).toBe(at("2:30"));
  });

  test("slots are freed at the end of the window if the window is shorter than ttlMs", () => {
    const meter = meterOf(limit);
    const reservation = reserve(meter, 2, 3_600_000, "1:00");
    expect(meter.look(1, at("1:59.999"))).toMatchObject({ allowed: false, retryAfterMs: 1 });
    expect(meter.consume(2, at("2:00")).allowed).toBe(true);
    // The settlement does not free the slots of the later request.
    settle(meter, reservation, 0, "2:10");
    expect(remainingWhen(meter, "2:10")).toBe(0);
  });

  test("a settlement after ttlMs does not free the slots of another request", () => {
    const meter = meterOf(limit);
    const reservation = reserve(meter, 2, 10_000, "1:00");
    meter.consume(2, at("1:10"));
    settle(meter, reservation, 0, "1:11");
    expect(remainingWhen(meter, "1:11")).toBe(0);
  });

  test("a settlement frees only the slots of its own reservation", () => {
    const meter = meterOf({ ...limit, limit: 6 });
    const reservations = ["1:00", "1:00", "1:05"].map((time, index) =>
      reserve(meter, 2, [50_000, 20_000, 15_000][index] ?? 0, time),
    );
    expect(meter.look(1, at("1:06")).retryAfterMs).toBe(14_000);
    const [first] = reservations;
    if (first !== undefined) settle(meter, first, 1, "1:06");
    expect(remainingWhen(meter, "1:06")).toBe(2);
    expect(remainingWhen(meter, "1:19.999")).toBe(2);
    expect(remainingWhen(meter, "1:20")).toBe(6);
  });

  test("when the clock was far ahead at the reservation, a later settlement frees the slot once", () => {
    const meter = meterOf(limit);
    const reservation = reserve(meter, 1, 30_000, "9:00");
    meter.consume(1, at("1:00"));
    expect(remainingWhen(meter, "1:00")).toBe(0);
    settle(meter, reservation, 1, "1:01");
    expect(remainingWhen(meter, "1:01")).toBe(1);
  });

  test("a denied reservation takes no slots and spends nothing from other limits", () => {
    const meter = meterOf([limit, { limit: 3, window: "1h", strategy: "fixed-window" }]);
    const first = reserve(meter, 2, 30_000, "1:00");
    const before = meter.snapshot();
    expect(meter.reserve({ cost: 1, ttlMs: 30_000 }, at("1:01")).allowed).toBe(false);
    expect(meter.snapshot()).toStrictEqual(before);
    settle(meter, first, 1, "1:02");
    expect(meter.look(1, at("1:02")).limits.map(({ remaining }) => remaining)).toEqual([2, 2]);
  });
});

describe.each([
  ["fixed-window", 0],
  ["sliding-log", 0],
  ["token-bucket", 1],
] as const)("reservations of a %s", (strategy, refilled) => {
  const limit = { limit: 10, window: "1m", strategy };

  test("a settlement below the reserved cost refunds the difference", () => {
    const meter = meterOf(limit);
    const reservation = reserve(meter, 8, 30_000, "1:00");
    expect(remainingWhen(meter, "1:06")).toBe(2 + refilled);
    settle(meter, reservation, 3, "1:06");
    expect(remainingWhen(meter, "1:06")).toBe(7 + refilled);
  });

  test("a settlement above the reserved cost charges the difference, which may leave a debt", () => {
    const meter = meterOf(limit);
    const reservation = reserve(meter, 5, 30_000, "1:00");
    settle(meter, reservation, 7, "1:06");
    expect(remainingWhen(meter, "1:06")).toBe(3 + refilled);
    const other = reserve(meter, 1, 30_000, "1:06");
    settle(meter, other, 21, "1:06");
    const { allowed, limits } = meter.look(1, at("1:06"));
    expect([allowed, limits[0]?.remaining]).toEqual([false, 0]);
  });

  test("a settlement at the reserved cost leaves the meter as a spend of that cost would", () => {
    const [meter, other] = [meterOf(limit), meterOf(limit)];
    const reservation = reserve(meter, 5, 30_000, "1:00");
    other.consume(5, at("1:00"));
    settle(meter, reservation, 5, "1:06");
    expect(meter.look(1, at("1:06"))).toEqual(other.look(1, at("1:06")));
    // The snapshot no longer contains the reservation.
    for (const each of [meter, other]) each.consume(1, at("1:06"));
    expect(meter.snapshot()).toStrictEqual(other.snapshot());
    const { changes } = meter;
    settle(meter, reservation, 5, "1:07");
    expect(meter.changes).toBe(changes);
  });

  test("a settlement after the end of the window refunds nothing", () => {
    const meter = meterOf(limit);
    const reservation = reserve(meter, 10, 30_000, "1:00");
    meter.consume(10, at("2:00"));
    settle(meter, reservation, 0, "2:00");
    expect(remainingWhen(meter, "2:00")).toBe(0);
  });
});

describe("reservations of leaky-bucket slots", () => {
  test("a settlement in a queue returns only the last slot", () => {
    const meter = meterOf({ limit: 6, window: "1m", strategy: "leaky-bucket" });
    const [first, second] = [1, 1].map((cost) => reserve(meter, cost, 30_000, "1:00"));
    if (first === undefined || second === undefined) throw new Error("expected two reservations");
    expect(meter.look(1, at("1:00")).delayMs).toBe(20_000);
    settle(meter, first, 0, "1:00.001");
    const delayMs = meter.look(1, at("1:00.001")).delayMs;
    settle(meter, second, 0, "1:00.001");
    // Both slots were reserved at the same time, so either can be the last. After both settlements the queue is empty.
    expect([delayMs, meter.look(1, at("1:00.001")).delayMs]).toEqual([9_999, 0]);
    const [third] = [1, 1].map((cost, index) => reserve(meter, cost, 30_000, `2:0${index}`));
    const before = meter.look(1, at("2:02")).delayMs;
    if (third !== undefined) settle(meter, third, 0, "2:02");
    expect(meter.look(1, at("2:02")).delayMs).toBe(before);
  });
});

describe("the arguments of reserve, settle and renew", () => {
  test("a number that is not an integer of at least 0 causes a RangeError and changes nothing in a reservation", () => {
    const meter = meterOf({ limit: 5, window: "1m", strategy: "concurrency" });
    const reservation = reserve(meter, 2, 30_000, "1:00");
    const before = meter.snapshot();
    const nowMs = at("1:01");
    const settlement = { ...reservation, cost: 1, actualCost: 1 };
    const renewal = { cost: 1, heldAtMs: reservation.spentAtMs, ttlMs: 1_000 };
    for (const value of [-1, 0.5, Number.NaN, Infinity, 2 ** 53]) {
      for (const call of [
        () => meter.reserve({ cost: value, ttlMs: 1_000 }, nowMs),
        () => meter.reserve({ cost: 1, ttlMs: value }, nowMs),
        () => meter.reserve({ cost: 1, ttlMs: 1_000 }, value),
        () => meter.reserve({ cost: 1, ttlMs: 1_000 }, nowMs, value),
        () => meter.settle({ ...settlement, cost: value }, nowMs),
        () => meter.settle({ ...settlement, actualCost: value }, nowMs),
        () => meter.settle({ ...settlement, spentAtMs: value }, nowMs),
        () => meter.settle({ ...settlement, ttlMs: value }, nowMs),
        () => meter.settle({ ...settlement, heldAtMs: value }, nowMs),
        () => meter.settle(settlement, value),
        () => meter.renew({ ...renewal, cost: value }, nowMs),
        () => meter.renew({ ...renewal, heldAtMs: value }, nowMs),
        () => meter.renew({ ...renewal, ttlMs: value }, nowMs),
        () => meter.renew(renewal, value),
      ]) {
        expect(call).toThrow(RangeError);
      }
    }
    expect(() => meter.reserve({ cost: 1, ttlMs: 0 }, nowMs)).toThrow(RangeError);
    expect(meter.snapshot()).toStrictEqual(before);
  });

  test("a reservation of cost 0 and its settlement change nothing", () => {
    const meter = meterOf({ limit: 5, window: "1m", strategy: "concurrency" });
    expect(meter.reserve({ cost: 0, ttlMs: 1_000 }, at("1:00")).allowed).toBe(true);
    meter.settle({ cost: 0, actualCost: 0, spentAtMs: at("1:00"), ttlMs: 1_000 }, at("1:01"));
    expect([meter.changes, meter.seenMs]).toEqual([0, 0]);
  });
});

const isConcurrency = ({ strategy }: Variant): boolean => strategy === "concurrency";

testEach(
  limitSets,
  "a reservation decides like a request, and settled to its cost leaves the same snapshot",
  (limitSet) => {
    let settlements = 0;
    const check = forAllScenarios(
      [scenarios(limitSet), fc.nat(8), fc.constantFrom(0, 0, 1, 4), fc.nat(20)],
      (scenario, pick, heldUnits, ticks) => {
        const { meter, nowMs } = run(scenario);
        const other = createMeter(scenario.limits, meter.snapshot());
        const cost = pick % (remainingAt(meter, nowMs) + 2);
        // The snapshots would differ if the slots of the reservation were freed sooner than those of a plain request.
        const ttlMs = scenario.longestWindowMs + ticks * scenario.tickMs;
        const decision = meter.reserve({ cost, ttlMs }, nowMs, heldUnits);
        expectSame(decision, other.consume(cost, nowMs, heldUnits));
        // A settlement frees slots even when its cost equals the reserved cost.
        if (scenario.variants.some(isConcurrency)) return;
        if (decision.allowed) {
          meter.settle({ cost, actualCost: cost, spentAtMs: meter.seenMs, ttlMs }, nowMs);
          settlements++;
        }
        expectSame(meter.snapshot(), other.snapshot());
      },
    );
    return async () => {
      await check();
      if (!limitSet.variants.every(isConcurrency)) expect(settlements).toBeGreaterThan(10);
    };
  },
);

testEach(limitSets, "waits are exact while a reservation is open", (limitSet) =>
  forAllScenarios(
    [scenarios(limitSet), fc.nat(5), fc.nat(50), fc.integer({ min: 1, max: 9 })],
    (scenario, pick, pickDenied, ticks) => {
      const after = run(scenario);
      const { meter, nowMs } = after;
      const remaining = remainingAt(meter, nowMs);
      fc.pre(remaining > 0);
      const ttlMs = Math.ceil((ticks * scenario.tickMs) / 3);
      const reserved = meter.reserve({ cost: 1 + (pick % remaining), ttlMs }, nowMs);
      expectSame([reserved.allowed, reserved.limits.map((limit) => limit.remaining)], [true, remainders(meter, nowMs)]);
      const cost = deniedCost(after, pickDenied);
      const waitMs = meter.look(cost, nowMs).retryAfterMs ?? 0;
      expect(waitMs).toBeGreaterThan(0);
      expectSame(meter.look(cost, nowMs + waitMs - 1).allowed, false);
      expectSame(meter.look(cost, nowMs + waitMs).allowed, true);
    },
  ),
);

testEach(
  inelasticLimitSets,
  "a settlement for less with no spend in between leaves no more than if only the actual cost was spent",
  (limitSet) =>
    forAllScenarios(
      [
        scenarios(limitSet, ["consume", "fill", "book"]),
        fc.nat(5),
        fc.nat(6),
        fc.array(fc.nat(9), { minLength: 1, maxLength: 5 }),
      ],
      (scenario, pick, part, ticks) => {
        const { meter, nowMs } = run(scenario);
        const other = createMeter(scenario.limits, meter.snapshot());
        const remaining = remainingAt(meter, nowMs);
        fc.pre(remaining > 0);
        const cost = 1 + (pick % remaining);
        const actualCost = part % cost;
        const ttlMs = 4 * scenario.tickMs;
        expectSame(meter.reserve({ cost, ttlMs }, nowMs).allowed, true);
        if (actualCost > 0) expectSame(other.consume(actualCost, nowMs).allowed, true);
        const { seenMs } = meter;
        let atMs = Math.max(nowMs, seenMs);
        ticks.forEach((idle, index) => {
          atMs += idle * scenario.tickMs;
          if (index === 0) meter.settle({ cost, actualCost, spentAtMs: seenMs, ttlMs }, atMs);
          const most = remainders(other, atMs);
          remainders(meter, atMs).forEach((each, limit) => {
            // A settlement frees all slots, while the slots of the actual cost stay occupied in the other meter.
            if (scenario.variants[limit]?.strategy === "concurrency") return;
            expect(each).toBeLessThanOrEqual(most[limit] ?? Number.NaN);
          });
        });
      },
    ),
);
