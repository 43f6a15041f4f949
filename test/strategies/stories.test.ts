/** Timelines of window strategies, and of several limits on one key. */
import { describe, expect, test } from "vitest";
import { createMeter, parseLimits } from "../../src/strategies/index.ts";
import { at, expectTimeline } from "./timeline.ts";

describe("timelines of fixed windows", () => {
  test("a fixed window opens with the first request and lasts its full length", () => {
    expectTimeline("10/minute", "fixed-window", [
      ["0:45", 1, true, 9],
      ["1:00", 4, true, 5],
      ["1:30", 4, true, 1],
      ["1:44", 1, true, 0],
      ["1:44", 1, false, 0, 1_000],
      ["1:44.999", 1, false, 0, 1],
      ["1:45", 10, true, 0],
      ["2:44.999", 1, false, 0, 1],
      ["2:45", 1, true, 9],
    ]);
  });

  test("a fixed window admits up to twice the limit around its boundary", () => {
    expectTimeline("10/minute", "fixed-window", [
      ["0:00", 1, true, 9],
      ["0:59.999", 9, true, 0],
      ["0:59.999", 1, false, 0, 1],
      ["1:00", 10, true, 0],
      ["1:00", 1, false, 0, 60_000],
    ]);
  });

  test("after a pause, the next request opens the next fixed window", () => {
    expectTimeline("2/minute", "fixed-window", [
      ["0:00", 2, true, 0],
      ["1:30", 1, true, 1],
      ["2:00", 1, true, 0],
      ["2:29.999", 1, false, 0, 1],
      ["2:30", 1, true, 1],
    ]);
  });

  const clockAligned = { limit: 5, window: "1m", align: "clock" };

  test("clock-aligned windows of one minute begin with each minute", () => {
    expectTimeline(clockAligned, "fixed-window", [
      ["11:00:40", 5, true, 0],
      ["11:00:59.999", 1, false, 0, 1],
      ["11:01:15", 5, true, 0],
      ["11:01:15", 1, false, 0, 45_000],
      ["11:01:59.999", 1, false, 0, 1],
      ["11:02:00", 1, true, 4],
    ]);
  });

  test("an elastic window ends only after its full length without a request", () => {
    expectTimeline({ limit: 2, window: "1m", elastic: true }, "fixed-window", [
      ["0:00", 1, true, 1],
      ["0:30", 1, true, 0],
      // A denied request also restarts the minute.
      ["1:29", 1, false, 0, 60_000],
      ["2:28.999", 1, false, 0, 60_000],
      ["2:29", 0, true, 0],
      ["3:28.999", 1, true, 1],
    ]);
  });
});

describe("timelines of a sliding log", () => {
  test("each unit of a sliding log counts for exactly one window", () => {
    expectTimeline("10/minute", "sliding-log", [
      ["0:10", 1, true, 9],
      ["0:20", 2, true, 7],
      ["0:30", 4, true, 3],
      ["0:50", 3, true, 0],
      ["1:09.999", 1, false, 0, 1],
      // The unit of 0:10 no longer counts, and the units of 0:20 count until 1:20.
      ["1:11", 1, true, 0],
      ["1:12", 1, false, 0, 8_000],
      ["1:12", 3, false, 0, 18_000],
      ["1:19.999", 2, false, 0, 1],
      ["1:20", 2, true, 0],
    ]);
  });

  test("two limits on one key, 1 per second and 5 per minute, each deny in turn", () => {
    expectTimeline("1/second; 5/minute", "sliding-log", [
      ["0:00", 1, true],
      ["0:00", 1, false, 0, 1_000],
      ["0:01", 1, true],
      ["0:02", 1, true],
      ["0:03", 1, true],
      ["0:04", 1, true],
      ["0:05", 1, false, 0, 55_000],
      ["1:06", 1, true],
    ]);
  });

  test("a sliding log admits no burst across the boundary of a fixed window", () => {
    expectTimeline("10/minute", "sliding-log", [
      ["0:00", 1, true, 9],
      ["0:59.999", 9, true, 0],
      ["1:00", 10, false, 1, 59_999],
      ["1:00", 1, true, 0],
      ["1:59.998", 1, false, 0, 1],
      ["1:59.999", 9, true, 0],
    ]);
  });
});

describe("timelines of a sliding window counter", () => {
  test("a counter weights its previous bucket by the share of the bucket that lies in the last minute", () => {
    expectTimeline("100/minute", "sliding-window-counter", [
      ["0:00", 40, true, 60],
      // 30 s into the current bucket, half of the 40 units count.
      ["1:30", 80, true, 0],
      // 40 × 30/60 + 80 = 100
      ["1:30", 1, false, 0, 1],
      ["1:30.001", 1, true, 0],
    ]);
    expectTimeline("100/minute", "sliding-window-counter", [
      ["0:00", 40, true, 60],
      ["1:30", 80, true, 0],
      // 40 × 20/60 + 80 = 93.3, counted as 93. This request makes it 94.
      ["1:40", 1, true, 6],
    ]);
  });

  test("two full buckets of a counter, one after the other, admit at most twice the limit in one window", () => {
    expectTimeline("10/minute", "sliding-window-counter", [
      ["0:00", 1, true, 9],
      ["0:59.999", 9, true, 0],
      ["1:00", 1, false, 0, 1],
      ["1:59.998", 10, true, 0],
    ]);
  });

  test("a bucket of a counter no longer counts two windows after it opened", () => {
    expectTimeline("10/minute", "sliding-window-counter", [
      ["0:30", 10, true, 0],
      ["1:30", 1, false, 0, 1],
      ["2:29.999", 10, true, 0],
      ["2:30", 1, false, 0, 1],
      ["5:00", 10, true, 0],
    ]);
  });

  test("clock-aligned buckets of a counter begin with each minute", () => {
    expectTimeline({ limit: 10, window: "1m", align: "clock" }, "sliding-window-counter", [
      ["0:30", 10, true, 0],
      ["1:00", 1, false, 0, 1],
      ["1:30", 5, true, 0],
      ["2:00", 6, false, 5, 1],
      ["2:00", 5, true, 0],
    ]);
  });
});

describe("timelines of all window strategies", () => {
  test.each(["fixed-window", "sliding-log"])("a limit of 1 admits one request per window (%s)", (strategy) => {
    expectTimeline("1/second", strategy, [
      ["0:00", 1, true, 0],
      ["0:00.999", 1, false, 0, 1],
      ["0:01", 1, true, 0],
      ["0:01.999", 1, false, 0, 1],
      ["0:02", 1, true, 0],
    ]);
  });

  test("a counter with limit 1 admits the next request as soon as the previous unit weighs less than 1", () => {
    expectTimeline("1/second", "sliding-window-counter", [
      ["0:00", 1, true, 0],
      ["0:01", 1, false, 0, 1],
      ["0:01.001", 1, true, 0],
      ["0:02", 1, false, 0, 1],
    ]);
  });

  const windowStrategies = ["fixed-window", "sliding-log", "sliding-window-counter"];

  test.each(windowStrategies)("a cost above the limit never fits and spends nothing (%s)", (strategy) => {
    expectTimeline("5/minute", strategy, [
      ["0:00", 6, false, 5, null],
      ["0:00", 5, true, 0],
      ["0:01", 6, false, 0, null],
    ]);
  });

  test.each(windowStrategies)("a cost of 0 is allowed and spends nothing (%s)", (strategy) => {
    expectTimeline("2/minute", strategy, [
      ["0:00", 0, true, 2, 0],
      ["0:00", 2, true, 0],
      ["0:30", 0, true, 0, 0],
      ["2:00", 0, true, 2, 0],
    ]);
  });
});

describe("decisions of several limits on one key", () => {
  const twoLimits = () =>
    createMeter(
      parseLimits(
        [
          { limit: 10, window: "1m", strategy: "fixed-window" },
          { limit: 2, window: "1s", strategy: "sliding-log", name: "burst" },
        ],
        { policy: "api" },
      ),
    );
  const perMinute = {
    name: "api.10-per-1m",
    strategy: "fixed-window",
    limit: 10,
    capacity: 10,
    windowMs: 60_000,
  };
  const burst = {
    name: "burst",
    strategy: "sliding-log",
    limit: 2,
    capacity: 2,
    windowMs: 1_000,
  };

  test("when all limits allow a cost, all of them spend it", () => {
    expect(twoLimits().consume(2, at("0:00"))).toStrictEqual({
      allowed: true,
      cost: 2,
      delayMs: 0,
      retryAfterMs: 0,
      bannedForMs: 0,
      limits: [
        {
          ...perMinute,
          allowed: true,
          remaining: 8,
          retryAfterMs: 0,
          replenishAfterMs: 60_000,
          resetAfterMs: 60_000,
        },
        {
          ...burst,
          allowed: true,
          remaining: 0,
          retryAfterMs: 0,
          replenishAfterMs: 1_000,
          resetAfterMs: 1_000,
        },
      ],
    });
  });

  test("when one limit denies, no limit spends, and each LimitDecision states whether its limit alone would have allowed", () => {
    const meter = twoLimits();
    meter.consume(1, at("0:00"));
    meter.consume(1, at("0:00.400"));
    expect(meter.consume(1, at("0:00.700"))).toStrictEqual({
      allowed: false,
      cost: 1,
      delayMs: 0,
      retryAfterMs: 300,
      bannedForMs: 0,
      limits: [
        {
          ...perMinute,
          allowed: true,
          remaining: 8,
          retryAfterMs: 0,
          replenishAfterMs: 59_300,
          resetAfterMs: 59_300,
        },
        {
          ...burst,
          allowed: false,
          remaining: 0,
          retryAfterMs: 300,
          replenishAfterMs: 300,
          resetAfterMs: 700,
        },
      ],
    });
  });

  test("the field retryAfterMs is the longest wait of all limits, and null when one of them can never allow the cost", () => {
    const meter = twoLimits();
    for (let second = 0; second < 5; second++) meter.consume(2, at(`0:0${second}`));
    expect(meter.look(2, at("0:04.500"))).toMatchObject({
      allowed: false,
      retryAfterMs: 55_500,
      limits: [{ retryAfterMs: 55_500 }, { retryAfterMs: 500 }],
    });
    expect(meter.look(3, at("0:04.500"))).toMatchObject({
      allowed: false,
      retryAfterMs: null,
      limits: [{ retryAfterMs: 55_500 }, { retryAfterMs: null }],
    });
  });

  test("a decision lists the limits in the order of the policy", () => {
    const meter = createMeter(parseLimits("1/second; 7/hour; 5/minute", { policy: "api" }));
    expect(meter.look(1, at("0:00")).limits.map((limit) => limit.name)).toEqual([
      "api.1-per-1s",
      "api.7-per-1h",
      "api.5-per-1m",
    ]);
  });
});
