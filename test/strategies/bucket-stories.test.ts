/** What sliding, token and leaky buckets do, and slots in flight, told as timelines. */
import { describe, expect, test } from "vitest";
import { createMeter, type LimitInput, parseLimits } from "../../src/strategies/index.ts";
import { at, expectTimeline } from "./timeline.ts";

describe("sliding-buckets: an hour in minutes", () => {
  const anHour = { limit: 240, window: "1h", buckets: 60 };

  test("what is kept counts until the minute it was spent in is an hour old", () => {
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

  test("with dropped edges it is forgotten with the minute: up to a minute too early", () => {
    expectTimeline({ ...anHour, edge: "drop" }, "sliding-buckets", [
      ["10:00:59", 240, true, 0],
      ["10:59:59.999", 1, false, 0, 1],
      // 59 minutes and a second later.
      ["11:00:00", 240, true, 0],
    ]);
  });

  test("cannot be doubled at the hour, as a window by the clock can", () => {
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

  test("are as many as the precision says, or the most up to 60 that divide the window", () => {
    const identities = (limit: LimitInput): unknown => {
      const meter = createMeter(parseLimits({ ...limit, strategy: "sliding-buckets" }));
      meter.consume(1, at("0:00"));
      return JSON.stringify(meter.snapshot());
    };
    const [by60, by12, by7] = ["1h", "12ms", "7s"].map((window) => ({ limit: 5, window }));
    if (by60 === undefined || by12 === undefined || by7 === undefined) throw new Error("three");
    expect(identities(by60)).toBe(identities({ ...by60, precision: "1m" }));
    expect(identities(by12)).toBe(identities({ ...by12, buckets: 12 }));
    expect(identities(by7)).toBe(identities({ ...by7, buckets: 56 }));
  });
});

describe("token-bucket", () => {
  test("a burst is let in at once; then a token comes with every sixth second", () => {
    expectTimeline({ limit: 10, window: "1m", burst: 20 }, "token-bucket", [
      ["0:00", 20, true, 0],
      ["0:00", 1, false, 0, 6_000],
      ["0:05.999", 1, false, 0, 1],
      ["0:06", 1, true, 0],
      // A part of a token is no token, and is not lost.
      ["0:13.500", 1, true, 0],
      ["0:13.500", 1, false, 0, 4_500],
      ["0:18", 1, true, 0],
      ["1:18", 11, false, 10, 6_000],
      ["1:18", 10, true, 0],
    ]);
  });

  test("tokens by interval come all at once, a minute after the spend that found the bucket full", () => {
    expectTimeline({ limit: 10, window: "1m", refill: "interval" }, "token-bucket", [
      ["0:30", 3, true, 7],
      ["1:10", 7, true, 0],
      ["1:29.999", 1, false, 0, 1],
      ["1:30", 10, true, 0],
      ["2:29.999", 1, false, 0, 1],
      ["2:30", 4, true, 6],
      // Full again at 3:30: the beat is forgotten, and begins anew with the next spend.
      ["3:45", 10, true, 0],
      ["4:44.999", 1, false, 0, 1],
      ["4:45", 1, true, 9],
    ]);
  });

  test("a small refill by interval takes several of them to fill a large bucket", () => {
    expectTimeline({ limit: 2, window: "1s", burst: 5, refill: "interval" }, "token-bucket", [
      ["0:00", 5, true, 0],
      ["0:00.500", 3, false, 0, 1_500],
      ["0:01", 1, true, 1],
      ["0:02", 5, false, 3, 1_000],
      ["0:03", 5, true, 0],
      ["0:03.999", 1, false, 0, 1],
    ]);
  });

  test.each(["continuous", "interval"])("an idle time banks no more than a burst: %s", (refill) => {
    expectTimeline({ limit: 3, window: "1m", refill }, "token-bucket", [
      ["0:00:00", 3, true, 0],
      ["1:00:00", 1, true, 2],
      ["1:00:00", 1, true, 1],
      ["1:00:00", 1, true, 0],
      ["1:00:00", 1, false, 0],
      // The hour is spent: it does not pay out again.
      ["1:00:01", 1, false, 0],
      ["9:00:00", 3, true, 0],
      ["9:00:00", 1, false, 0],
    ]);
  });
});

describe("leaky-bucket as a queue", () => {
  type Departure = readonly [time: string, cost: number, delayMs: number | "denied"];

  function expectDepartures(limit: LimitInput, rows: readonly Departure[]): void {
    const meter = createMeter(parseLimits(limit, { strategy: "leaky-bucket" }));
    const told = rows.map(([time, cost]): Departure => {
      const { allowed, delayMs } = meter.consume(cost, at(time));
      return [time, cost, allowed ? delayMs : "denied"];
    });
    expect(told).toEqual(rows);
  }

  test("who finds it idle goes at once; those after them wait for their slots in turn", () => {
    expectDepartures({ limit: 2, window: "1s", burst: 3 }, [
      ["0:00", 1, 0],
      ["0:00", 1, 500],
      ["0:00.100", 1, 900],
      ["0:00.200", 1, 1_300],
      // Slots at 0:02 and after would be a wait of more than 1.5 seconds.
      ["0:00.200", 1, "denied"],
      ["0:00.499", 1, "denied"],
      ["0:00.500", 1, 1_500],
      ["0:02.500", 1, 0],
      ["0:02.600", 1, 400],
    ]);
  });

  test("a request takes a slot for each unit, and waits for the first", () => {
    expectDepartures({ limit: 10, window: "1s" }, [
      ["0:00", 4, 0],
      ["0:00", 5, 400],
      ["0:00", 3, "denied"],
      ["0:00", 2, 900],
      ["0:00", 1, "denied"],
      ["0:00.100", 1, 1_000],
    ]);
  });

  test("the wait that a denial tells is the one after which there is room", () => {
    expectTimeline({ limit: 3, window: "1s" }, "leaky-bucket", [
      ["0:00", 4, true, 0],
      ["0:00", 1, false, 0, 334],
      ["0:00.333", 1, false, 0, 1],
      ["0:00.334", 1, true, 0],
      // The slot after it is no later for the third of a millisecond that was waited too long.
      ["0:00.666", 1, false, 0, 1],
      ["0:00.667", 1, true, 0],
      ["0:00.667", 4, false, 0, 1_333],
      ["0:00.667", 5, false, 0, null],
    ]);
  });

  test("slots of a third of a second do not drift", () => {
    const limits = parseLimits({ limit: 3, window: "1s", burst: 3_000, strategy: "leaky-bucket" });
    const meter = createMeter(limits);
    const delays = Array.from({ length: 3_001 }, () => meter.consume(1, at("0:00")).delayMs);
    expect(delays).toEqual(delays.map((_, index) => Math.ceil((index * 1_000) / 3)));
    expect(meter.consume(1, at("0:00")).allowed).toBe(false);
    expect(meter.look(1, at("16:40")).delayMs).toBe(334);
  });
});

describe("leaky-bucket as a police", () => {
  test("lets nothing wait, and denies what would overflow", () => {
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

describe("concurrency", () => {
  const meterOf = () =>
    createMeter(parseLimits({ limit: 2, window: "30s", strategy: "concurrency" }));

  test("holds a slot until it is given back", () => {
    const meter = meterOf();
    expect(meter.consume(1, at("0:00")).allowed).toBe(true);
    expect(meter.consume(1, at("0:01")).allowed).toBe(true);
    expect(meter.consume(1, at("0:02"))).toMatchObject({ allowed: false, retryAfterMs: 28_000 });
    meter.refund(1, at("0:01"), at("0:03"));
    expect(meter.consume(1, at("0:03")).allowed).toBe(true);
    expect(meter.consume(1, at("0:03"))).toMatchObject({ allowed: false, retryAfterMs: 27_000 });
  });

  test("takes it back when its lease is over, and what is given back then is no one else's", () => {
    const meter = meterOf();
    meter.consume(2, at("0:00"));
    expect(meter.consume(1, at("0:29.999")).allowed).toBe(false);
    expect(meter.consume(2, at("0:30")).allowed).toBe(true);
    meter.refund(2, at("0:00"), at("0:31"));
    expect(meter.consume(1, at("0:31")).allowed).toBe(false);
    meter.refund(5, at("0:30"), at("0:32"));
    expect(meter.look(1, at("0:32")).limits[0]?.remaining).toBe(2);
  });
});
