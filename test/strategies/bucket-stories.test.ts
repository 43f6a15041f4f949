/** Timelines of sliding buckets, token buckets, leaky buckets and concurrency slots. */
import { describe, expect, test } from "vitest";
import type { LimitInput } from "../../src/strategies/index.ts";
import { meterOf } from "./meters.ts";
import { at, expectTimeline } from "./timeline.ts";

describe("timelines of sliding buckets: a window of one hour in buckets of one minute", () => {
  const anHour = { limit: 240, window: "1h", buckets: 60 };

  test("sliding buckets with edge = keep count a unit until the end of its minute is one hour old", () => {
    expectTimeline(anHour, "sliding-buckets", [
      ["10:00:01", 100, true, 140],
      ["10:00:59", 100, true, 40],
      ["10:30:30", 40, true, 0],
      ["11:00:00", 1, false, 0, 60_000],
      ["11:00:59.999", 1, false, 0, 1],
      ["11:01:00", 200, true, 0],
      ["11:01:00", 1, false, 0, 30 * 60_000],
    ]);
  });

  test("sliding buckets with edge = drop stop counting a unit up to one minute before it is one hour old", () => {
    expectTimeline({ ...anHour, edge: "drop" }, "sliding-buckets", [
      ["10:00:59", 240, true, 0],
      ["10:59:59.999", 1, false, 0, 1],
      // The unit is now 59 minutes and a second old.
      ["11:00:00", 240, true, 0],
    ]);
  });

  test("sliding buckets do not admit twice the limit around the full hour, unlike clock-aligned windows", () => {
    expectTimeline(anHour, "sliding-buckets", [
      ["10:59:59", 240, true, 0],
      ["11:00:00", 1, false, 0, 60 * 60_000],
      ["11:59:59.999", 1, false, 0, 1],
      ["12:00:00", 240, true, 0],
    ]);
    expectTimeline({ limit: 240, window: "1h", align: "clock" }, "fixed-window", [
      ["10:59:59", 240, true, 0],
      ["11:00:00", 240, true, 0],
    ]);
  });

  test("the number of sliding buckets follows precision, and defaults to the greatest divisor of the window up to 60", () => {
    const snapshotOf = (limit: LimitInput): unknown => {
      const meter = meterOf(limit, "sliding-buckets");
      meter.consume(1, at("0:00"));
      return JSON.stringify(meter.snapshot());
    };
    const [by60, by12, by7] = ["1h", "12ms", "7s"].map((window) => ({ limit: 5, window }));
    if (by60 === undefined || by12 === undefined || by7 === undefined) throw new Error("expected three limits");
    expect(snapshotOf(by60)).toBe(snapshotOf({ ...by60, precision: "1m" }));
    expect(snapshotOf(by12)).toBe(snapshotOf({ ...by12, buckets: 12 }));
    expect(snapshotOf(by7)).toBe(snapshotOf({ ...by7, buckets: 56 }));
  });
});

describe("timelines of token buckets", () => {
  test("a token bucket of 10 per minute admits its burst at once, then one request every 6 s", () => {
    expectTimeline({ limit: 10, window: "1m", burst: 20 }, "token-bucket", [
      ["0:00", 20, true, 0],
      ["0:00", 1, false, 0, 6_000],
      ["0:05.999", 1, false, 0, 1],
      ["0:06", 1, true, 0],
      // A fraction of a token allows no request and is not lost.
      ["0:13.500", 1, true, 0],
      ["0:13.500", 1, false, 0, 4_500],
      ["0:18", 1, true, 0],
      ["1:18", 11, false, 10, 6_000],
      ["1:18", 10, true, 0],
    ]);
  });

  test("an interval refill adds all tokens at once, one window after the first spend from a full bucket", () => {
    expectTimeline({ limit: 10, window: "1m", refill: "interval" }, "token-bucket", [
      ["0:30", 3, true, 7],
      ["1:10", 7, true, 0],
      ["1:29.999", 1, false, 0, 1],
      ["1:30", 10, true, 0],
      ["2:29.999", 1, false, 0, 1],
      ["2:30", 4, true, 6],
      // The bucket is full at 3:30, which ends the sequence of refill times. The next spend begins a new one.
      ["3:45", 10, true, 0],
      ["4:44.999", 1, false, 0, 1],
      ["4:45", 1, true, 9],
    ]);
  });

  test("filling a bucket whose burst exceeds the limit takes several interval refills", () => {
    expectTimeline({ limit: 2, window: "1s", burst: 5, refill: "interval" }, "token-bucket", [
      ["0:00", 5, true, 0],
      ["0:00.500", 3, false, 0, 1_500],
      ["0:01", 1, true, 1],
      ["0:02", 5, false, 3, 1_000],
      ["0:03", 5, true, 0],
      ["0:03.999", 1, false, 0, 1],
    ]);
  });

  test.each(["continuous", "interval"])("an idle bucket never holds more than its burst (%s)", (refill) => {
    expectTimeline({ limit: 3, window: "1m", refill }, "token-bucket", [
      ["0:00:00", 3, true, 0],
      ["1:00:00", 1, true, 2],
      ["1:00:00", 1, true, 1],
      ["1:00:00", 1, true, 0],
      ["1:00:00", 1, false, 0],
      // A refill for the idle hour must not be added a second time.
      ["1:00:01", 1, false, 0],
      ["9:00:00", 3, true, 0],
      ["9:00:00", 1, false, 0],
    ]);
  });
});

describe("timelines of a leaky-bucket queue", () => {
  type Departure = readonly [time: string, cost: number, delayMs: number | "denied"];

  function expectDepartures(limit: LimitInput, rows: readonly Departure[]): void {
    const meter = meterOf(limit, "leaky-bucket");
    const actual = rows.map(([time, cost]): Departure => {
      const { allowed, delayMs } = meter.consume(cost, at(time));
      return [time, cost, allowed ? delayMs : "denied"];
    });
    expect(actual).toEqual(rows);
  }

  test("the first request in an idle queue departs at once, and later requests wait for the following slots", () => {
    expectDepartures({ limit: 2, window: "1s", burst: 3 }, [
      ["0:00", 1, 0],
      ["0:00", 1, 500],
      ["0:00.100", 1, 900],
      ["0:00.200", 1, 1_300],
      // The next slot is at 0:02, which is a wait of more than 1.5 s.
      ["0:00.200", 1, "denied"],
      ["0:00.499", 1, "denied"],
      ["0:00.500", 1, 1_500],
      ["0:02.500", 1, 0],
      ["0:02.600", 1, 400],
    ]);
  });

  test("a request takes one departure slot per unit, and delayMs is the wait until its first slot", () => {
    expectDepartures({ limit: 10, window: "1s" }, [
      ["0:00", 4, 0],
      ["0:00", 5, 400],
      ["0:00", 3, "denied"],
      ["0:00", 2, 900],
      ["0:00", 1, "denied"],
      ["0:00.100", 1, 1_000],
    ]);
  });

  test("retryAfterMs of a queue is the shortest wait after which the request is admitted", () => {
    expectTimeline({ limit: 3, window: "1s" }, "leaky-bucket", [
      ["0:00", 4, true, 0],
      ["0:00", 1, false, 0, 334],
      ["0:00.333", 1, false, 0, 1],
      ["0:00.334", 1, true, 0],
      // Rounding the wait up to 334 ms does not delay the next slot.
      ["0:00.666", 1, false, 0, 1],
      ["0:00.667", 1, true, 0],
      ["0:00.667", 4, false, 0, 1_333],
      ["0:00.667", 5, false, 0, null],
    ]);
  });

  test("departure slots one third of a second apart do not drift", () => {
    const meter = meterOf({ limit: 3, window: "1s", burst: 3_000 }, "leaky-bucket");
    const delays = Array.from({ length: 3_001 }, () => meter.consume(1, at("0:00")).delayMs);
    expect(delays).toEqual(delays.map((_, index) => Math.ceil((index * 1_000) / 3)));
    expect(meter.consume(1, at("0:00")).allowed).toBe(false);
    expect(meter.look(1, at("16:40")).delayMs).toBe(334);
  });
});

describe("timelines of a leaky bucket in police mode", () => {
  test("a leaky bucket with mode = police delays no request and denies those that would overflow it", () => {
    expectTimeline({ limit: 10, window: "1m", burst: 3, mode: "police" }, "leaky-bucket", [
      ["0:00", 3, true, 0],
      ["0:00", 1, false, 0, 6_000],
      ["0:06", 1, true, 0],
      ["0:11.999", 1, false, 0, 1],
      ["0:24", 3, true, 0],
      ["0:24", 4, false, 0, null],
    ]);
  });
});

describe("timelines of concurrency slots", () => {
  test("a request occupies its concurrency slot until the refund", () => {
    const meter = meterOf({ limit: 2, window: "30s", strategy: "concurrency" });
    expect(meter.consume(1, at("0:00")).allowed).toBe(true);
    expect(meter.consume(1, at("0:01")).allowed).toBe(true);
    expect(meter.consume(1, at("0:02"))).toMatchObject({ allowed: false, retryAfterMs: 28_000 });
    meter.refund(1, at("0:01"), at("0:03"));
    expect(meter.consume(1, at("0:03")).allowed).toBe(true);
    expect(meter.consume(1, at("0:03"))).toMatchObject({ allowed: false, retryAfterMs: 27_000 });
  });

  test("a slot is freed at the end of the window, and a later refund does not free the slot of another request", () => {
    const meter = meterOf({ limit: 2, window: "30s", strategy: "concurrency" });
    meter.consume(2, at("0:00"));
    expect(meter.consume(1, at("0:29.999")).allowed).toBe(false);
    expect(meter.consume(2, at("0:30")).allowed).toBe(true);
    meter.refund(2, at("0:00"), at("0:31"));
    expect(meter.consume(1, at("0:31")).allowed).toBe(false);
    meter.refund(5, at("0:30"), at("0:32"));
    expect(meter.look(1, at("0:32")).limits[0]?.remaining).toBe(2);
  });
});
