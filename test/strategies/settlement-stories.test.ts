/** Examples of law 10: quotas after many reservations, the exceptions of the law, and the storage of reservations. */
import { describe, expect, test, vi } from "vitest";
import { createMeter, type LimitInput, type Meter, parseLimits, strategies } from "../../src/strategies/index.ts";
import { randomFrom } from "../random.ts";
import { dayMs, expectSame, limitFrom, meterOf, minuteMs, remainingAt, stored } from "./meters.ts";
import { Trace, withoutReservations } from "./reservation-traces.ts";

const startMs = Date.UTC(2026, 2, 1);

function randomBelow(seed: number): (bound: number) => number {
  const random = randomFrom(seed);
  return (bound) => Math.floor(random() * bound);
}

const limitForms: readonly (LimitInput & { readonly burst?: number })[] = [
  { strategy: "fixed-window", limit: 100, window: "1m" },
  { strategy: "fixed-window", align: "clock", limit: 100, window: "1m" },
  { strategy: "fixed-window", align: "calendar", limit: 100, window: "1d" },
  { strategy: "sliding-log", limit: 100, window: "1m" },
  { strategy: "sliding-window-counter", limit: 100, window: "1m" },
  { strategy: "sliding-window-counter", align: "clock", limit: 100, window: "1m" },
  { strategy: "sliding-buckets", limit: 100, window: "1m" },
  { strategy: "sliding-buckets", edge: "drop", limit: 100, window: "1m" },
  { strategy: "token-bucket", limit: 100, window: "1m" },
  { strategy: "token-bucket", burst: 100, limit: 7, window: "1m" },
  { strategy: "token-bucket", refill: "interval", limit: 100, window: "1m" },
  { strategy: "leaky-bucket", mode: "police", limit: 100, window: "1m" },
  { strategy: "concurrency", limit: 100, window: "1m" },
].map((limit) => ({ ...limit, name: "limit" }));

const burstOf = (limit: LimitInput & { readonly burst?: number }, burst: number) =>
  limit.burst === undefined ? {} : { burst };

const titledForms = limitForms.map((limit) => {
  const { name: _, limit: units, window, strategy, ...options } = { ...limit };
  return { title: [strategy, ...Object.values(options), `${units}/${window}`].join(" "), limit };
});

describe("reservations in a window that a request opens", () => {
  test.each(["fixed-window", "sliding-window-counter"])(
    "overlapping reservations that are all settled to 0 leave the full quota (%s)",
    (strategy) => {
      const meter = meterOf({ limit: 100, window: "1m", strategy });
      const ttlMs = 10_000;
      const reserve = (atMs: number): void => {
        expect(meter.reserve({ cost: 1, ttlMs }, startMs + atMs).allowed).toBe(true);
      };
      const settle = (atMs: number, nowMs: number): void =>
        meter.settle({ cost: 1, actualCost: 0, spentAtMs: startMs + atMs, ttlMs }, startMs + nowMs);
      for (const atMs of [1, 2, 3, 4, 5]) reserve(atMs);
      settle(1, 6);
      reserve(7);
      for (const atMs of [2, 3, 4, 5, 7]) settle(atMs, 8);
      expect(remainingAt(meter, startMs + 8)).toBe(100);
      expect(meter.idleAtMs()).toBe(0);
    },
  );

  test("settling the first reservation to 0 moves the window to the earliest remaining spend", () => {
    const limits = parseLimits({ limit: 10, window: "1m", strategy: "fixed-window" });
    const meter = createMeter(limits);
    const ttlMs = 50_000;
    meter.reserve({ cost: 1, ttlMs }, startMs);
    meter.reserve({ cost: 1, ttlMs }, startMs + 5_000);
    meter.consume(1, startMs + 9_000);
    meter.reserve({ cost: 1, ttlMs }, startMs + 12_000);
    const resetsAt = (): number => startMs + 20_000 + (meter.look(1, startMs + 20_000).limits[0]?.resetAfterMs ?? 0);
    const settle = (spentAtMs: number, actualCost: number): number => {
      meter.settle({ cost: 1, actualCost, spentAtMs, ttlMs }, startMs + 20_000);
      return resetsAt() - startMs - minuteMs;
    };
    expect(resetsAt()).toBe(startMs + minuteMs);
    expect(settle(startMs + 12_000, 0)).toBe(0);
    expect(settle(startMs, 0)).toBe(5_000);
    expect(settle(startMs + 5_000, 0)).toBe(9_000);
  });

  test("a settlement after the end of a counter's bucket does not move the buckets", () => {
    const limits = parseLimits({ limit: 10, window: "1m", strategy: "sliding-window-counter" });
    const meter = createMeter(limits);
    const ttlMs = 600_000;
    meter.reserve({ cost: 6, ttlMs }, startMs);
    meter.consume(2, startMs + 70_000);
    // 6 × 50/60 + 2 units are in use.
    expect(remainingAt(meter, startMs + 70_000)).toBe(3);
    meter.settle({ cost: 6, actualCost: 3, spentAtMs: startMs, ttlMs }, startMs + 70_000);
    // 3 × 50/60 + 2 units are in use, rounded down.
    expect(remainingAt(meter, startMs + 70_000)).toBe(6);
    const before = meter.look(1, startMs + 70_000).limits[0]?.resetAfterMs;
    expect(before).toBe(110_000 - 30_000 + 1);
  });

  const openedAt = (meter: Meter, atMs: number): number => {
    const { limits } = meter.look(1, startMs + atMs);
    return atMs + (limits[0]?.resetAfterMs ?? 0) - minuteMs;
  };

  test("after refunds without reservations, the window opens no later than with the earliest remaining spend", () => {
    const meter = meterOf({ limit: 10, window: "1m", strategy: "fixed-window" });
    for (const atMs of [1, 2, 3, 4, 5]) meter.consume(1, startMs + atMs);
    meter.refund(1, startMs + 1, startMs + 6);
    expect(openedAt(meter, 6)).toBe(2);
    meter.consume(1, startMs + 7);
    for (const atMs of [2, 3]) meter.refund(1, startMs + atMs, startMs + 8);
    // The meter no longer knows that the earliest remaining spend was at 4 ms.
    expect(openedAt(meter, 8)).toBe(3);
    expect(remainingAt(meter, startMs + 8)).toBe(7);
  });

  test("a settlement does not move the window while a late booking could be older than the next open reservation", () => {
    const meter = meterOf({ limit: 10, window: "1m", strategy: "fixed-window" });
    const ttlMs = 10_000;
    meter.reserve({ cost: 1, ttlMs }, startMs + 5);
    meter.book(1, startMs + 3, startMs + 6);
    meter.reserve({ cost: 1, ttlMs }, startMs + 7);
    meter.settle({ cost: 1, actualCost: 0, spentAtMs: startMs + 5, ttlMs }, startMs + 8);
    expect(openedAt(meter, 8)).toBe(5);
    meter.settle({ cost: 1, actualCost: 0, spentAtMs: startMs + 7, ttlMs }, startMs + 9);
    expect([openedAt(meter, 9), remainingAt(meter, startMs + 9)]).toEqual([5, 9]);
  });

  test("a reservation that is never settled counts as spent after ttlMs", () => {
    for (const form of [{ strategy: "fixed-window" }, { strategy: "token-bucket", refill: "interval" }]) {
      const meter = meterOf({ limit: 10, window: "1m", ...form });
      meter.reserve({ cost: 1, ttlMs: 1_000 }, startMs);
      const ttlMs = 30_000;
      for (const atMs of [500, 5_000]) meter.reserve({ cost: 1, ttlMs }, startMs + atMs);
      const restored = createMeter(parseLimits({ limit: 10, window: "1m", ...form }), stored(meter));
      for (const each of [meter, restored]) {
        each.settle({ cost: 1, actualCost: 0, spentAtMs: startMs + 500, ttlMs }, startMs + 6_000);
        each.settle({ cost: 1, actualCost: 0, spentAtMs: startMs + 5_000, ttlMs }, startMs + 6_000);
        expect([openedAt(each, 6_000), remainingAt(each, startMs + 6_000)]).toEqual([0, 9]);
      }
    }
  });

  test("a settlement after the end of a fixed window refunds nothing and leaves the next window unchanged", () => {
    const meter = meterOf({ limit: 10, window: "1m", strategy: "fixed-window" });
    const ttlMs = 600_000;
    meter.reserve({ cost: 6, ttlMs }, startMs);
    meter.consume(4, startMs + minuteMs);
    meter.settle({ cost: 6, actualCost: 0, spentAtMs: startMs, ttlMs }, startMs + minuteMs);
    expect(meter.look(1, startMs + minuteMs).limits[0]).toMatchObject({
      remaining: 6,
      resetAfterMs: minuteMs,
    });
  });
});

describe.each(titledForms)("reservations of $title", ({ limit }) => {
  test("after 2,000 reservations that are settled to 0, at most 20 of them open at a time, the full quota is left", () => {
    const trace = new Trace(parseLimits(limit), startMs);
    const below = randomBelow(7);
    let denied = 0;
    for (let request = 0; request < 2_000; request++) {
      trace.nowMs += below(3);
      if (trace.open.length === 20) {
        const spend = trace.open[below(20)];
        if (spend !== undefined) trace.settle(spend, 0);
      }
      if (!trace.reserve(1)) denied++;
    }
    for (const spend of trace.open) trace.settle(spend, 0);
    expect(denied).toBe(0);
    expect(trace.settled.nothing).toBe(2_000);
    expect(remainingAt(trace.meter, trace.nowMs)).toBe(100);
  });

  test("after 1,000 open reservations are settled in any order, decisions are the same as without reservations", () => {
    const one = limitFrom({ ...limit, limit: 3_000, ...burstOf(limit, 4_000) });
    const trace = new Trace([one], startMs);
    const below = randomBelow(11);
    for (let spend = 0; spend < 1_000; spend++) {
      trace.nowMs += below(7);
      expect(trace.reserve(1 + below(2))).toBe(true);
      if (below(5) === 0) trace.consume(1);
      if (below(200) === 0) trace.restart();
    }
    expect(trace.mostOpen).toBe(1_000);
    const expectNoOtherEffect = (): void => {
      const other = withoutReservations(one, trace);
      for (const waitMs of [0, 1, 77, 1_000, 20_000, 59_000, 70_000, 130_000]) {
        const atMs = trace.nowMs + waitMs;
        expectSame(trace.meter.look(1, atMs).limits[0], other.look(1, atMs).limits[0]);
      }
    };
    for (let left = 1_000; left > 0; left--) {
      trace.nowMs += below(5);
      const spend = trace.open[below(left)];
      const actualCost = [0, 0, 1, below(4)][below(4)] ?? 0;
      if (spend !== undefined) trace.settle(spend, actualCost);
      if (left % 100 === 0) expectNoOtherEffect();
      if (left % 300 === 0) trace.restart();
    }
    expect(trace.open).toEqual([]);
    expect(Math.min(...Object.values(trace.settled))).toBeGreaterThan(50);
    expectNoOtherEffect();
  });

  test.each([1, 10, 1_000])("each of %i open reservations adds at most 24 bytes to the stored row", (count) => {
    const limits = parseLimits({ ...limit, limit: 2_000, ...burstOf(limit, 2_000) });
    const [reserving, spending] = [createMeter(limits), createMeter(limits)];
    for (let each = 0; each < count; each++) {
      const nowMs = startMs + each * 13;
      expect(reserving.reserve({ cost: 1, ttlMs: dayMs }, nowMs).allowed).toBe(true);
      // In both meters, slots are occupied for the whole window, so both logs have the same runs.
      spending.consume(1, nowMs);
    }
    const bytesOf = (meter: Meter): number => JSON.stringify(meter.snapshot()).length;
    expect(bytesOf(reserving) - bytesOf(spending)).toBeLessThanOrEqual(24 * count);
  });

  test("the snapshot contains no data of a reservation that is settled or older than its ttlMs", () => {
    const limits = parseLimits({ ...limit, limit: 2_000, ...burstOf(limit, 2_000) });
    const [reserving, spending] = [createMeter(limits), createMeter(limits)];
    const openTexts = (meter: Meter): number => JSON.stringify(meter.snapshot()).split('"+"').length - 1;
    for (let each = 0; each < 50; each++) {
      const nowMs = startMs + each;
      reserving.reserve({ cost: 1, ttlMs: each < 25 ? 2_000 : 600_000 }, nowMs);
      spending.consume(1, nowMs);
    }
    for (let each = 25; each < 50; each++) {
      const spentAtMs = startMs + each;
      reserving.settle({ cost: 1, actualCost: 1, spentAtMs, ttlMs: 600_000 }, startMs + 100);
    }
    for (const meter of [reserving, spending]) meter.consume(1, startMs + 4_000);
    expect(openTexts(reserving)).toBe(0);
    if (limit.strategy !== "concurrency") {
      expectSame(reserving.look(1, startMs + 4_000), spending.look(1, startMs + 4_000));
    }
  });
});

describe.each(titledForms)("withLimits with another number of units: $title", ({ limit }) => {
  test("when only the number of units of a limit changes, withLimits uses its state in memory without encoding it", () => {
    const strategy = strategies.get(limit.strategy ?? "");
    if (strategy === undefined) throw new Error("expected a registered strategy");
    const [few, many] = [4_000, 6_000].map((units) => parseLimits({ ...limit, limit: units }));
    if (few === undefined || many === undefined) throw new Error("expected two lists of limits");
    let meter = createMeter(many);
    for (let unit = 0; unit < 2_000; unit++) meter.consume(1, startMs + unit);
    const nowMs = startMs + 2_000;
    const usedOf = (each: Meter): number => {
      const { capacity, remaining } = each.look(1, nowMs).limits[0] ?? {
        capacity: 0,
        remaining: 0,
      };
      return capacity - remaining;
    };
    const used = usedOf(meter);
    const [store, revive] = [vi.spyOn(strategy, "store"), vi.spyOn(strategy, "restore")];
    for (let turn = 1; turn <= 100; turn++) {
      meter = meter.withLimits(turn % 2 === 0 ? many : few);
      meter.look(1, nowMs);
    }
    expect([store.mock.calls.length, revive.mock.calls.length]).toEqual([0, 0]);
    vi.restoreAllMocks();
    // The used units are rounded up only once, by less than one unit.
    expect(used).toBeGreaterThan(0);
    expect(usedOf(meter)).toBeGreaterThanOrEqual(used);
    expect(usedOf(meter)).toBeLessThanOrEqual(used + 1);
  });
});

describe("the declared exceptions of law 10", () => {
  test("a settlement in an elastic window refunds units, but the restart of the window remains", () => {
    const limits = parseLimits({
      limit: 10,
      window: "1m",
      strategy: "fixed-window",
      elastic: true,
    });
    const meter = createMeter(limits);
    const ttlMs = 30_000;
    meter.consume(1, startMs);
    meter.reserve({ cost: 5, ttlMs }, startMs + 20_000);
    meter.settle({ cost: 5, actualCost: 0, spentAtMs: startMs + 20_000, ttlMs }, startMs + 30_000);
    expect(meter.look(1, startMs + 30_000).limits[0]).toMatchObject({
      remaining: 9,
      resetAfterMs: 50_000,
    });
  });

  test("a settlement after an interval refill refunds only units that no refill has returned yet, and keeps the refill times", () => {
    const limits = parseLimits({
      limit: 10,
      window: "1m",
      burst: 100,
      strategy: "token-bucket",
      refill: "interval",
    });
    const meter = createMeter(limits);
    const ttlMs = 600_000;
    for (let unit = 0; unit < 50; unit++) meter.reserve({ cost: 1, ttlMs }, startMs + unit);
    meter.consume(1, startMs + 50);
    for (let unit = 0; unit < 50; unit++) {
      meter.settle({ cost: 1, actualCost: 0, spentAtMs: startMs + unit, ttlMs }, startMs + 61_000);
    }
    // The refill returned 10 of the 51 spent units, and the settlements returned the other 41.
    expect(meter.look(1, startMs + 61_000).limits[0]).toMatchObject({ remaining: 100 });
    meter.consume(1, startMs + 61_000);
    expect(remainingAt(meter, startMs + 61_000)).toBe(99);
  });
});
