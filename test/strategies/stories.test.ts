/** What each strategy does, told as timelines. */
import { describe, expect, test } from "vitest";
import { createMeter, parseLimits } from "../../src/strategies/index.ts";
import { at, expectTimeline } from "./timeline.ts";

describe("fixed-window", () => {
  test("a window opens with the first request and lasts its full length", () => {
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

  test("ten at the end of a window and ten at the start of the next make twenty at once", () => {
    expectTimeline("10/minute", "fixed-window", [
      ["0:00", 1, true, 9],
      ["0:59.999", 9, true, 0],
      ["0:59.999", 1, false, 0, 1],
      ["1:00", 10, true, 0],
      ["1:00", 1, false, 0, 60_000],
    ]);
  });

  test("after an idle time the next window opens with the request that ends it", () => {
    expectTimeline("2/minute", "fixed-window", [
      ["0:00", 2, true, 0],
      ["1:30", 1, true, 1],
      ["2:00", 1, true, 0],
      ["2:29.999", 1, false, 0, 1],
      ["2:30", 1, true, 1],
    ]);
  });

  const byTheClock = { limit: 5, window: "1m", align: "clock" };

  test("windows by the clock begin with the minute: five late in one and five early in the next", () => {
    expectTimeline(byTheClock, "fixed-window", [
      ["11:00:40", 5, true, 0],
      ["11:00:59.999", 1, false, 0, 1],
      ["11:01:15", 5, true, 0],
      ["11:01:15", 1, false, 0, 45_000],
      ["11:01:59.999", 1, false, 0, 1],
      ["11:02:00", 1, true, 4],
    ]);
  });

  test("an elastic window is over only when nobody has asked for all of its length", () => {
    expectTimeline({ limit: 2, window: "1m", elastic: true }, "fixed-window", [
      ["0:00", 1, true, 1],
      ["0:30", 1, true, 0],
      // The minute begins again with every request, be it denied.
      ["1:29", 1, false, 0, 60_000],
      ["2:28.999", 1, false, 0, 60_000],
      ["2:29", 0, true, 0],
      ["3:28.999", 1, true, 1],
    ]);
  });
});

describe("sliding-log", () => {
  test("every unit leaves exactly one window after it was spent", () => {
    expectTimeline("10/minute", "sliding-log", [
      ["0:10", 1, true, 9],
      ["0:20", 2, true, 7],
      ["0:30", 4, true, 3],
      ["0:50", 3, true, 0],
      ["1:09.999", 1, false, 0, 1],
      // The unit of 0:10 has left; those of 0:20 will at 1:20.
      ["1:11", 1, true, 0],
      ["1:12", 1, false, 0, 8_000],
      ["1:12", 3, false, 0, 18_000],
      ["1:19.999", 2, false, 0, 1],
      ["1:20", 2, true, 0],
    ]);
  });

  test("one a second and five a minute on one key: each denies in its turn", () => {
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

  test("no burst gets through where a fixed window would end", () => {
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

describe("sliding-window-counter", () => {
  test("the bucket before counts by the part of it that the last minute still covers", () => {
    expectTimeline("100/minute", "sliding-window-counter", [
      ["0:00", 40, true, 60],
      // 30 s into the bucket half of the 40 still count.
      ["1:30", 80, true, 0],
      // 40 × 30/60 + 80 = 100
      ["1:30", 1, false, 0, 1],
      ["1:30.001", 1, true, 0],
    ]);
    expectTimeline("100/minute", "sliding-window-counter", [
      ["0:00", 40, true, 60],
      ["1:30", 80, true, 0],
      // 40 × 20/60 + 80 = 93.3, counted as 93; this one makes 94.
      ["1:40", 1, true, 6],
    ]);
  });

  test("a full bucket after a full one admits twice the limit in one window at worst", () => {
    expectTimeline("10/minute", "sliding-window-counter", [
      ["0:00", 1, true, 9],
      ["0:59.999", 9, true, 0],
      ["1:00", 1, false, 0, 1],
      ["1:59.998", 10, true, 0],
    ]);
  });

  test("two windows after it opened a bucket is forgotten", () => {
    expectTimeline("10/minute", "sliding-window-counter", [
      ["0:30", 10, true, 0],
      ["1:30", 1, false, 0, 1],
      ["2:29.999", 10, true, 0],
      ["2:30", 1, false, 0, 1],
      ["5:00", 10, true, 0],
    ]);
  });

  test("buckets by the clock begin with the minute", () => {
    expectTimeline({ limit: 10, window: "1m", align: "clock" }, "sliding-window-counter", [
      ["0:30", 10, true, 0],
      ["1:00", 1, false, 0, 1],
      ["1:30", 5, true, 0],
      ["2:00", 6, false, 5, 1],
      ["2:00", 5, true, 0],
    ]);
  });
});

describe("every strategy that counts by windows", () => {
  test.each(["fixed-window", "sliding-log"])(
    "a limit of 1 admits one per window: %s",
    (strategy) => {
      expectTimeline("1/second", strategy, [
        ["0:00", 1, true, 0],
        ["0:00.999", 1, false, 0, 1],
        ["0:01", 1, true, 0],
        ["0:01.999", 1, false, 0, 1],
        ["0:02", 1, true, 0],
      ]);
    },
  );

  test("a limit of 1 as a counter: a whole unit is gone as soon as less than all of it counts", () => {
    expectTimeline("1/second", "sliding-window-counter", [
      ["0:00", 1, true, 0],
      ["0:01", 1, false, 0, 1],
      ["0:01.001", 1, true, 0],
      ["0:02", 1, false, 0, 1],
    ]);
  });

  const counting = ["fixed-window", "sliding-log", "sliding-window-counter"];

  test.each(counting)(
    "what costs more than the limit never fits and spends nothing: %s",
    (strategy) => {
      expectTimeline("5/minute", strategy, [
        ["0:00", 6, false, 5, null],
        ["0:00", 5, true, 0],
        ["0:01", 6, false, 0, null],
      ]);
    },
  );

  test.each(counting)("a cost of 0 looks and spends nothing: %s", (strategy) => {
    expectTimeline("2/minute", strategy, [
      ["0:00", 0, true, 2, 0],
      ["0:00", 2, true, 0],
      ["0:30", 0, true, 0, 0],
      ["2:00", 0, true, 2, 0],
    ]);
  });
});

describe("several limits on one key", () => {
  const meterOf = () =>
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

  test("all spend what all allow", () => {
    expect(meterOf().consume(2, at("0:00"))).toStrictEqual({
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

  test("none is charged for what one denies, and each says what it alone would have said", () => {
    const meter = meterOf();
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

  test("the longest wait is told, and none at all when one limit can never admit", () => {
    const meter = meterOf();
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

  test("the order of the limits is the order of the answer", () => {
    const meter = createMeter(parseLimits("1/second; 7/hour; 5/minute", { policy: "api" }));
    expect(meter.look(1, at("0:00")).limits.map((limit) => limit.name)).toEqual([
      "api.1-per-1s",
      "api.7-per-1h",
      "api.5-per-1m",
    ]);
  });
});
