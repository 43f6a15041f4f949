/** Late bookings and refunds, and the window or bucket in which each strategy counts them. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createMeter, type LimitInput, parseLimits, strategies } from "../../src/strategies/index.ts";
import { compiledLimit } from "../../src/strategies/compiled-limit.ts";
import { forAll, forAllCounted } from "../for-all.ts";
import { expectSame, remainingAt } from "./meters.ts";
import { at } from "./timeline.ts";
import { limitOf, variants } from "./variants.ts";

/**
 * An action at the time `now` for units that were spent at `time`, and what remains afterwards. Only `book` and
 * `refund` use `time`.
 */
type Row = readonly [
  now: string,
  action: "spend" | "book" | "refund" | "look",
  units: number,
  time: string,
  remaining: number,
];

function expectCorrections(limit: LimitInput, rows: readonly Row[]): void {
  const meter = createMeter(parseLimits(limit));
  const actual = rows.map(([now, action, units, time]): Row => {
    if (action === "spend") meter.consume(units, at(now));
    if (action === "book") meter.book(units, at(time), at(now));
    if (action === "refund") meter.refund(units, at(time), at(now));
    return [now, action, units, time, remainingAt(meter, at(now))];
  });
  expect(actual).toEqual(rows);
}

describe("late bookings and refunds of a fixed window opened by the first request", () => {
  const limit = { limit: 10, window: "1m", strategy: "fixed-window" };

  test("a late booking counts in the current fixed window if its spend is younger than one window length", () => {
    expectCorrections(limit, [
      ["1:00", "spend", 1, "", 9],
      ["1:10", "book", 2, "0:30", 7],
      ["1:10", "book", 2, "0:10", 7],
      ["1:10", "book", 2, "0:10.001", 5],
      ["1:59.999", "look", 0, "", 5],
      ["2:00", "look", 0, "", 10],
    ]);
  });

  test("a booking in a fixed window opens the window that its request would have opened", () => {
    expectCorrections(limit, [
      ["1:10", "book", 2, "0:10", 10],
      ["1:10", "book", 2, "0:30", 8],
      ["1:29.999", "spend", 8, "", 0],
      ["1:30", "look", 0, "", 10],
    ]);
  });

  test("a refund after the end of a fixed window refunds nothing", () => {
    expectCorrections(limit, [
      ["0:00", "spend", 1, "", 9],
      ["0:30", "spend", 5, "", 4],
      ["1:00", "refund", 5, "0:30", 10],
      ["1:00", "spend", 3, "", 7],
      ["1:10", "refund", 5, "0:30", 7],
      ["1:10", "refund", 2, "1:00", 9],
      ["2:00", "look", 0, "", 10],
    ]);
  });

  test("after all units of a fixed window are refunded, the window closes, and the next request opens a new one", () => {
    expectCorrections(limit, [
      ["0:00", "spend", 2, "", 8],
      ["0:10", "refund", 2, "0:00", 10],
      ["0:20", "spend", 3, "", 7],
      ["1:19.999", "look", 0, "", 7],
      ["1:20", "look", 0, "", 10],
    ]);
  });
});

describe("late bookings and refunds of a clock-aligned fixed window", () => {
  const limit = { limit: 10, window: "1m", strategy: "fixed-window", align: "clock" };

  test("a booking counts only in the clock-aligned window of its time", () => {
    expectCorrections(limit, [
      ["1:10", "book", 2, "0:59.999", 10],
      ["1:10", "book", 2, "1:05", 8],
      ["1:10", "book", 2, "0:59.999", 8],
      ["1:10", "book", 2, "1:00", 6],
      ["1:59.999", "look", 0, "", 6],
      ["2:00", "look", 0, "", 10],
    ]);
  });

  test("a refund returns units only to the clock-aligned window of its spend", () => {
    expectCorrections(limit, [
      ["0:59", "spend", 5, "", 5],
      ["1:00", "spend", 5, "", 5],
      ["1:10", "refund", 5, "0:59", 5],
      ["1:10", "refund", 5, "1:00", 10],
    ]);
  });
});

describe("late bookings and refunds of a sliding window counter", () => {
  const limit = { limit: 10, window: "1m", strategy: "sliding-window-counter" };

  test("a booking counts in the current or the previous bucket of a counter, depending on its time, or not at all", () => {
    expectCorrections(limit, [
      ["1:00", "spend", 4, "", 6],
      // 4 × 30/60
      ["2:30", "look", 0, "", 8],
      ["2:30", "book", 3, "2:00", 5],
      ["2:30", "book", 2, "1:59.999", 4],
      ["2:30", "book", 2, "1:00", 3],
      ["2:30", "book", 2, "0:59.999", 3],
    ]);
  });

  test("a refund returns at most the units in the counter's bucket at the time of the spend", () => {
    expectCorrections(limit, [
      ["1:00", "spend", 4, "", 6],
      ["2:30", "spend", 6, "", 2],
      ["2:40", "refund", 4, "0:59.999", 3],
      ["2:40", "refund", 3, "1:00", 4],
      ["2:40", "refund", 9, "1:59.999", 4],
      ["2:40", "refund", 2, "2:30", 6],
      ["2:40", "refund", 9, "2:30", 10],
      ["3:00", "look", 0, "", 10],
    ]);
  });

  test("a booking in a counter opens the bucket that its request would have opened", () => {
    expectCorrections(limit, [
      ["2:30", "book", 6, "0:30", 10],
      // The bucket that opened at 0:31 ended at 1:31, so 1/60 of its units count.
      ["2:30", "book", 6, "0:31", 10],
      // 96 × 1/60
      ["2:30", "book", 90, "1:10", 9],
      ["2:31", "look", 0, "", 10],
    ]);
    expectCorrections(limit, [
      // 6 × 50/60
      ["1:40", "book", 6, "0:30", 5],
      ["2:30", "look", 0, "", 10],
    ]);
    expectCorrections({ ...limit, align: "clock" }, [
      // 6 × 20/60
      ["1:40", "book", 6, "0:30", 8],
      ["2:00", "look", 0, "", 10],
    ]);
  });
});

describe.each(variants)("the transitions of a strategy: $title", (variant) => {
  const strategy = strategies.get(variant.strategy);
  const move = fc.record({
    idleMs: fc.constantFrom(0, 0, 1, 2, 3, 9, 10, 11, 30),
    agoMs: fc.constantFrom(0, 0, 0, 1, 5, 12),
    units: fc.integer({ min: 1, max: 4 }),
    isRefund: fc.constantFrom(false, false, true),
  });

  test("the wait is exact for every cost that does not fit", async () => {
    let waits = 0;
    await forAllCounted([fc.array(move, { maxLength: 12 }), fc.integer({ min: 1, max: 5 })], (moves, units) => {
      if (strategy === undefined) throw new Error("expected a registered strategy");
      const limit = compiledLimit(limitOf(variant, units, 10)).limit;
      const capacity = strategy.capacity(limit);
      let nowMs = at("0:01");
      let state = strategy.fresh();
      for (const { idleMs, agoMs, units: spent, isRefund } of moves) {
        nowMs += idleMs;
        const atMs = nowMs - agoMs;
        state = isRefund
          ? strategy.refund(limit, state, { atMs, units: spent }, nowMs)
          : strategy.spend(limit, state, { atMs, units: spent }, nowMs);
        const used = strategy.used(limit, state, nowMs);
        for (let cost = Math.max(0, capacity - used + 1); cost <= capacity; cost++) {
          const fitsAtMs = nowMs + strategy.waitMs(limit, state, cost, nowMs);
          expectSame(strategy.used(limit, state, fitsAtMs) + cost <= capacity, true);
          expectSame(strategy.used(limit, state, fitsAtMs - 1) + cost <= capacity, false);
          waits++;
        }
      }
    })();
    expect(waits).toBeGreaterThan(100);
  });

  test(
    "used is 0 at idleAtMs",
    forAll([fc.array(move, { maxLength: 12 })], (moves) => {
      if (strategy === undefined) throw new Error("expected a registered strategy");
      const limit = compiledLimit(limitOf(variant, 5, 10)).limit;
      let nowMs = at("0:01");
      let state = strategy.fresh();
      expectSame(strategy.idleAtMs(limit, state), 0);
      for (const { idleMs, agoMs, units } of moves) {
        nowMs += idleMs;
        state = strategy.spend(limit, state, { atMs: nowMs - agoMs, units }, nowMs);
      }
      expectSame(strategy.used(limit, state, Math.max(nowMs, strategy.idleAtMs(limit, state))), 0);
    }),
  );
});
