/** Reservations: what is spent before the work, and corrected when it is known what the work took. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  createMeter,
  type LimitInput,
  type Meter,
  parseLimits,
} from "../../src/strategies/index.ts";
import { forAll } from "../for-all.ts";
import { expectSame, remainingOf } from "./meters.ts";
import {
  limitSets,
  inelasticLimitSets,
  scenarios,
  type Scenario,
  ScenarioRun,
} from "./scenario.ts";
import { at } from "./timeline.ts";
import { type Variant, variants } from "./variants.ts";

const remainingAt = (meter: Meter, time: string): number => remainingOf(meter.look(1, at(time)));

const meterOf = (limit: LimitInput | LimitInput[]): Meter => createMeter(parseLimits(limit));

/** A reservation, as its owner remembers it. */
interface Reserved {
  readonly cost: number;
  readonly ttlMs: number;
  readonly spentAtMs: number;
}

function reserved(meter: Meter, cost: number, ttlMs: number, time: string): Reserved {
  expect(meter.reserve({ cost, ttlMs }, at(time)).allowed).toBe(true);
  return { cost, ttlMs, spentAtMs: meter.seenMs };
}

const settle = (meter: Meter, its: Reserved, actualCost: number, time: string): void =>
  meter.settle({ ...its, actualCost }, at(time));

describe("concurrency", () => {
  const limit = { limit: 2, window: "1m", strategy: "concurrency" };

  test.each([0, 1, 2, 5])("slots are free when the work is settled, be it for %i", (actualCost) => {
    const meter = meterOf(limit);
    const its = reserved(meter, 2, 30_000, "1:00");
    expect(meter.look(1, at("1:10"))).toMatchObject({ allowed: false, retryAfterMs: 20_000 });
    settle(meter, its, actualCost, "1:10");
    expect(remainingAt(meter, "1:10")).toBe(2);
    expect(meter.idleAtMs()).toBe(0);
  });

  test("slots that are not settled are free when the time is up, and not a millisecond earlier", () => {
    const meter = meterOf(limit);
    expect(meter.reserve({ cost: 2, ttlMs: 30_000 }, at("1:00"))).toMatchObject({
      allowed: true,
      limits: [{ remaining: 0, replenishAfterMs: 30_000, resetAfterMs: 30_000 }],
    });
    expect(meter.consume(1, at("1:29.999"))).toMatchObject({ allowed: false, retryAfterMs: 1 });
    expect(meter.consume(1, at("1:30")).allowed).toBe(true);
    expect(meter.idleAtMs()).toBe(at("2:30"));
  });

  test("a lease that is shorter than the reservation ends first", () => {
    const meter = meterOf(limit);
    const its = reserved(meter, 2, 3_600_000, "1:00");
    expect(meter.look(1, at("1:59.999"))).toMatchObject({ allowed: false, retryAfterMs: 1 });
    expect(meter.consume(2, at("2:00")).allowed).toBe(true);
    // Not the slots of another.
    settle(meter, its, 0, "2:10");
    expect(remainingAt(meter, "2:10")).toBe(0);
  });

  test("what time has freed is not freed again", () => {
    const meter = meterOf(limit);
    const its = reserved(meter, 2, 10_000, "1:00");
    meter.consume(2, at("1:10"));
    settle(meter, its, 0, "1:11");
    expect(remainingAt(meter, "1:11")).toBe(0);
  });

  test("reservations of different times do not disturb one another", () => {
    const meter = meterOf({ ...limit, limit: 6 });
    const all = ["1:00", "1:00", "1:05"].map((time, index) =>
      reserved(meter, 2, [50_000, 20_000, 15_000][index] ?? 0, time),
    );
    expect(meter.look(1, at("1:06")).retryAfterMs).toBe(14_000);
    const [first] = all;
    if (first !== undefined) settle(meter, first, 1, "1:06");
    expect(remainingAt(meter, "1:06")).toBe(2);
    expect(remainingAt(meter, "1:19.999")).toBe(2);
    expect(remainingAt(meter, "1:20")).toBe(6);
  });

  test("a clock that was far ahead frees a slot once, and no other", () => {
    const meter = meterOf(limit);
    const its = reserved(meter, 1, 30_000, "9:00");
    meter.consume(1, at("1:00"));
    expect(remainingAt(meter, "1:00")).toBe(0);
    settle(meter, its, 1, "1:01");
    expect(remainingAt(meter, "1:01")).toBe(1);
  });

  test("is decided with other limits, all or nothing", () => {
    const meter = meterOf([limit, { limit: 3, window: "1h", strategy: "fixed-window" }]);
    const first = reserved(meter, 2, 30_000, "1:00");
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
] as const)("%s", (strategy, refilled) => {
  const limit = { limit: 10, window: "1m", strategy };

  test("gets back what was not used", () => {
    const meter = meterOf(limit);
    const its = reserved(meter, 8, 30_000, "1:00");
    expect(remainingAt(meter, "1:06")).toBe(2 + refilled);
    settle(meter, its, 3, "1:06");
    expect(remainingAt(meter, "1:06")).toBe(7 + refilled);
  });

  test("is charged what was used beyond it, and may be left in debt", () => {
    const meter = meterOf(limit);
    const its = reserved(meter, 5, 30_000, "1:00");
    settle(meter, its, 7, "1:06");
    expect(remainingAt(meter, "1:06")).toBe(3 + refilled);
    const other = reserved(meter, 1, 30_000, "1:06");
    settle(meter, other, 21, "1:06");
    const { allowed, limits } = meter.look(1, at("1:06"));
    expect([allowed, limits[0]?.remaining]).toEqual([false, 0]);
  });

  test("a settlement to the reserved cost leaves the meter as if that had been spent", () => {
    const [meter, other] = [meterOf(limit), meterOf(limit)];
    const its = reserved(meter, 5, 30_000, "1:00");
    other.consume(5, at("1:00"));
    settle(meter, its, 5, "1:06");
    expect(meter.look(1, at("1:06"))).toEqual(other.look(1, at("1:06")));
    // Nothing is left of the reservation.
    for (const each of [meter, other]) each.consume(1, at("1:06"));
    expect(meter.snapshot()).toStrictEqual(other.snapshot());
    const { changes } = meter;
    settle(meter, its, 5, "1:07");
    expect(meter.changes).toBe(changes);
  });

  test("returns nothing of a window that is over", () => {
    const meter = meterOf(limit);
    const its = reserved(meter, 10, 30_000, "1:00");
    meter.consume(10, at("2:00"));
    settle(meter, its, 0, "2:00");
    expect(remainingAt(meter, "2:00")).toBe(0);
  });
});

describe("a leaky-bucket queue", () => {
  test("returns the last slot only", () => {
    const meter = meterOf({ limit: 6, window: "1m", strategy: "leaky-bucket" });
    const [first, second] = [1, 1].map((cost) => reserved(meter, cost, 30_000, "1:00"));
    if (first === undefined || second === undefined) throw new Error("two were reserved");
    expect(meter.look(1, at("1:00")).delayMs).toBe(20_000);
    settle(meter, first, 0, "1:00.001");
    const left = meter.look(1, at("1:00.001")).delayMs;
    settle(meter, second, 0, "1:00.001");
    // At one instant they cannot be told apart: with both the queue is empty.
    expect([left, meter.look(1, at("1:00.001")).delayMs]).toEqual([9_999, 0]);
    const [third] = [1, 1].map((cost, index) => reserved(meter, cost, 30_000, `2:0${index}`));
    const before = meter.look(1, at("2:02")).delayMs;
    if (third !== undefined) settle(meter, third, 0, "2:02");
    expect(meter.look(1, at("2:02")).delayMs).toBe(before);
  });
});

describe("an argument", () => {
  test("that is none is an error that changes nothing", () => {
    const meter = meterOf({ limit: 5, window: "1m", strategy: "concurrency" });
    const its = reserved(meter, 2, 30_000, "1:00");
    const before = meter.snapshot();
    const nowMs = at("1:01");
    const open = { ...its, cost: 1, actualCost: 1 };
    const held = { cost: 1, heldAtMs: its.spentAtMs, ttlMs: 1_000 };
    for (const value of [-1, 0.5, Number.NaN, Infinity, 2 ** 53]) {
      for (const call of [
        () => meter.reserve({ cost: value, ttlMs: 1_000 }, nowMs),
        () => meter.reserve({ cost: 1, ttlMs: value }, nowMs),
        () => meter.reserve({ cost: 1, ttlMs: 1_000 }, value),
        () => meter.reserve({ cost: 1, ttlMs: 1_000 }, nowMs, value),
        () => meter.settle({ ...open, cost: value }, nowMs),
        () => meter.settle({ ...open, actualCost: value }, nowMs),
        () => meter.settle({ ...open, spentAtMs: value }, nowMs),
        () => meter.settle({ ...open, ttlMs: value }, nowMs),
        () => meter.settle({ ...open, heldAtMs: value }, nowMs),
        () => meter.settle(open, value),
        () => meter.renew({ ...held, cost: value }, nowMs),
        () => meter.renew({ ...held, heldAtMs: value }, nowMs),
        () => meter.renew({ ...held, ttlMs: value }, nowMs),
        () => meter.renew(held, value),
      ]) {
        expect(call).toThrow(RangeError);
      }
    }
    expect(() => meter.reserve({ cost: 1, ttlMs: 0 }, nowMs)).toThrow(RangeError);
    expect(meter.snapshot()).toStrictEqual(before);
  });

  test("of no cost spends nothing and settles nothing", () => {
    const meter = meterOf({ limit: 5, window: "1m", strategy: "concurrency" });
    expect(meter.reserve({ cost: 0, ttlMs: 1_000 }, at("1:00")).allowed).toBe(true);
    meter.settle({ cost: 0, actualCost: 0, spentAtMs: at("1:00"), ttlMs: 1_000 }, at("1:01"));
    expect([meter.changes, meter.seenMs]).toEqual([0, 0]);
  });
});

const releases = ({ strategy }: Variant): boolean => strategy === "concurrency";

const told = (story: Scenario): ScenarioRun => {
  const teller = new ScenarioRun(createMeter(story.limits), story.startMs, story.longestWindowMs);
  teller.applyAll(story.steps);
  return teller;
};

const remainders = (meter: Meter, nowMs: number): number[] =>
  meter.look(1, nowMs).limits.map(({ remaining }) => remaining);

describe.each(limitSets)("a reservation: $title", (cast) => {
  test(
    "that is settled to its cost is a request",
    forAll([scenarios(cast), fc.nat(8), fc.nat(4), fc.nat(20)], (story, cost, heldUnits, ticks) => {
      const { meter, nowMs } = told(story);
      const other = createMeter(story.limits, meter.snapshot());
      // No sooner than leases end.
      const ttlMs = story.longestWindowMs + ticks * story.tickMs;
      const decision = meter.reserve({ cost, ttlMs }, nowMs, heldUnits);
      expectSame(decision, other.consume(cost, nowMs, heldUnits));
      if (story.variants.some(releases)) return;
      if (decision.allowed)
        meter.settle({ cost, actualCost: cost, spentAtMs: meter.seenMs, ttlMs }, nowMs);
      expectSame(meter.snapshot(), other.snapshot());
    }),
  );

  test(
    "tells waits that are enough, and no longer than need be",
    forAll(
      [scenarios(cast), fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 9 })],
      (story, cost, ticks) => {
        const { meter, nowMs } = told(story);
        const reserve = meter.reserve(
          { cost, ttlMs: Math.ceil((ticks * story.tickMs) / 3) },
          nowMs,
        );
        const decision = meter.look(cost, nowMs);
        const waitMs = decision.retryAfterMs;
        expectSame(
          remainders(meter, nowMs),
          decision.limits.map(({ remaining }) => remaining),
        );
        expectSame(
          reserve.limits.map(({ remaining }) => remaining),
          remainders(meter, nowMs),
        );
        if (waitMs === null || waitMs === 0) return;
        expectSame(meter.look(cost, nowMs + waitMs - 1).allowed, false);
        expectSame(meter.look(cost, nowMs + waitMs).allowed, true);
      },
    ),
  );
});

describe.each(inelasticLimitSets)("a reservation that is settled: $title", (cast) => {
  test(
    "for less, with nothing between, leaves no more than had only so much been spent",
    forAll(
      [
        scenarios(cast, ["consume", "fill", "book"]),
        fc.integer({ min: 1, max: 6 }),
        fc.nat(6),
        fc.array(fc.nat(9), { minLength: 1, maxLength: 5 }),
      ],
      (story, cost, part, ticks) => {
        const { meter, nowMs } = told(story);
        const other = createMeter(story.limits, meter.snapshot());
        const actualCost = part % cost;
        const ttlMs = 4 * story.tickMs;
        if (!meter.reserve({ cost, ttlMs }, nowMs).allowed) return;
        if (actualCost > 0) expectSame(other.consume(actualCost, nowMs).allowed, true);
        const { seenMs } = meter;
        let atMs = Math.max(nowMs, seenMs);
        ticks.forEach((idle, index) => {
          atMs += idle * story.tickMs;
          if (index === 0) meter.settle({ cost, actualCost, spentAtMs: seenMs, ttlMs }, atMs);
          // Slots are free, whatever the work took: what the other has spent of them may still be held.
          const [left, most] = [remainders(meter, atMs), remainders(other, atMs)];
          left.forEach((remaining, limit) => {
            const form = story.variants[limit];
            if (form === undefined || releases(form)) return;
            expectSame(remaining <= (most[limit] ?? Number.NaN), true);
          });
        });
      },
    ),
  );
});

/** Those of which law 10 is told path by path. */
const steady = variants
  .filter(({ options, isElastic }) => options["refill"] !== "interval" && !isElastic)
  .map((form) => ({ title: form.title, variants: [form], fewest: 1, most: 1 }));

describe.each(steady)("a reservation that is settled, others between: $title", (cast) => {
  test(
    "for less leaves no more than had only so much been spent",
    forAll(
      [
        scenarios(cast, ["consume", "consume", "fill"]),
        fc.integer({ min: 1, max: 5 }),
        fc.nat(5),
        fc.array(fc.nat(9), { maxLength: 4 }),
      ],
      (story, cost, part, ticks) => {
        const [meter, other] = [createMeter(story.limits), createMeter(story.limits)];
        const teller = new ScenarioRun(meter, story.startMs, 0);
        const tellBoth = (steps: Scenario["steps"]): void => {
          for (const step of steps) {
            const before = teller.spends.length;
            teller.apply({ ...step, idleMs: Math.max(0, step.idleMs) });
            for (const { units } of teller.spends.slice(before))
              other.book(units, teller.nowMs, teller.nowMs);
          }
        };
        tellBoth(story.steps.slice(0, 5));
        const ttlMs = 5 * story.tickMs;
        if (!meter.reserve({ cost, ttlMs }, teller.nowMs).allowed) return;
        const spentAtMs = meter.seenMs;
        const actualCost = releases(cast.variants[0] as Variant) ? 0 : part % cost;
        other.book(actualCost, spentAtMs, spentAtMs);
        tellBoth(story.steps.slice(5));
        const before = JSON.stringify(meter.look(1, teller.nowMs));
        meter.settle({ cost, actualCost, spentAtMs, ttlMs }, teller.nowMs);
        // What time has given back all of is not given again: the spend stands.
        if (JSON.stringify(meter.look(1, teller.nowMs)) === before) return;
        let nowMs = teller.nowMs;
        for (const idle of [0, ...ticks]) {
          nowMs += idle * story.tickMs;
          const [left = 0] = remainders(meter, nowMs);
          const [most = 0] = remainders(other, nowMs);
          expectSame([left, left <= most || most], [left, true]);
        }
      },
    ),
  );
});
