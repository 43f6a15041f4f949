/** Stored states: rounding when limits change, states of absent limits, clock corrections and validation. */
import { describe, expect, test } from "vitest";
import { createMeter, type Limit, type Meter, parseLimits as limitsOf } from "../../src/strategies/index.ts";
import { minuteMs, packed, remainingAt, startMs, stored } from "./meters.ts";

const identitiesOf = (meter: Meter): unknown[] =>
  stored(meter)
    .slice(2)
    .map((state) => (Array.isArray(state) ? state[0] : state));

describe.each([
  { strategy: "token-bucket" },
  { strategy: "leaky-bucket", mode: "police" },
  { strategy: "leaky-bucket", mode: "queue" },
])("a debt of %j", (form) => {
  // One unit costs 10 credits of the first limit, and 2 credits of the second.
  const slow = limitsOf({ ...form, limit: 3, window: "10ms", name: "bucket" });
  const fast = limitsOf({ ...form, limit: 5, window: "10ms", name: "bucket" });

  test("a debt is rounded up when the new limit has another common divisor with the window", () => {
    const meter = createMeter(slow);
    meter.consume(1, startMs);
    // 10 − 3 + 10 = 17 credits of the first limit are 3.4 credits of the second.
    meter.consume(1, startMs + 1);
    const [live, read] = [meter.withLimits(fast), createMeter(fast, stored(meter))];
    expect(live.look(1, startMs + 1).limits[0]?.resetAfterMs).toBe(4);
    expect(read.look(1, startMs + 1)).toEqual(live.look(1, startMs + 1));
  });
});

describe("a settlement after the limit of a bucket has changed", () => {
  test("after a change of the limit, a refund is rounded down to whole units that the reservation certainly still occupies", () => {
    const slow = limitsOf({ strategy: "token-bucket", limit: 3, window: "10ms", name: "bucket" });
    const fast = limitsOf({ strategy: "token-bucket", limit: 5, window: "10ms", name: "bucket" });
    const meter = createMeter(slow);
    const ttlMs = 10_000;
    meter.reserve({ cost: 1, ttlMs }, startMs);
    // 7 credits of the reservation have not been returned yet. They are 1.4 credits of the other limit.
    meter.consume(1, startMs + 1);
    for (const other of [meter.withLimits(fast), createMeter(fast, stored(meter))]) {
      other.settle({ cost: 1, actualCost: 0, spentAtMs: startMs, ttlMs }, startMs + 1);
      // 4 − 1 credits.
      expect(other.look(1, startMs + 1).limits[0]?.resetAfterMs).toBe(3);
    }
  });
});

test("a bucket whose refund leaves less owed than an earlier spend found is restored and stored again as the same text", () => {
  const limits = limitsOf({ limit: 3, window: "1ms", strategy: "token-bucket", refill: "interval" });
  const meter = createMeter(limits);
  meter.consume(3, startMs + 1);
  meter.book(11, startMs, startMs + 2);
  meter.book(2, startMs + 1, startMs + 2);
  meter.refund(3, startMs + 1, startMs + 3);
  expect(stored(createMeter(limits, stored(meter)))).toEqual(stored(meter));
});

describe("states of limits that are absent", () => {
  test("when there are more than 256 states of absent limits, those with the earliest idleAtMs are dropped", () => {
    let meter = createMeter([]);
    const seconds = Array.from({ length: 300 }, (_, index) => 401 + ((index * 7) % 300));
    for (const each of seconds) {
      meter = meter.withLimits(limitsOf({ limit: 10, window: `${each}s`, strategy: "fixed-window" }));
      meter.consume(1, startMs);
    }
    const restored = createMeter([], stored(meter.withLimits([])));
    const kept = new Set(identitiesOf(restored).map((identity) => String(identity)));
    expect(kept.size).toBe(256);
    for (const each of seconds.toSorted((one, other) => other - one).slice(0, 255)) {
      const window = each % 60 === 0 ? `${each / 60}m` : `${each}s`;
      expect(kept).toContain(`fixed-window ${window}`);
    }
  });

  test("when states take more than one megabyte, those with the earliest idleAtMs are dropped, but at least 8 are kept", () => {
    let meter = createMeter([]);
    const hours = [9, 3, 12, 5, 1, 8, 11, 2, 7, 10, 4, 6];
    let nowMs = startMs;
    for (const hour of hours) {
      meter = meter.withLimits(limitsOf({ limit: 100_000, window: `${hour}h`, strategy: "sliding-log" }));
      for (let unit = 0; unit < 12_000; unit++) meter.consume(1, nowMs++);
    }
    const kept = identitiesOf(meter.withLimits([]));
    expect(kept.length).toBeLessThan(12);
    expect(kept.length).toBeGreaterThanOrEqual(8);
    const longest = [12, 11, 10, 9, 8, 7, 6, 5].map((hour) => `sliding-log ${hour}h`);
    expect(kept.map(String)).toEqual(expect.arrayContaining(longest));
  });
});

describe("concurrency slots reserved while the clock was ahead", () => {
  const limits = limitsOf({ limit: 3, window: "1m", strategy: "concurrency" });

  test("after a clock correction, a settlement frees the reserved slot once", () => {
    const meter = createMeter(limits);
    const aheadMs = startMs + 70_000;
    const ttlMs = 1_000;
    expect(meter.reserve({ cost: 1, ttlMs }, aheadMs).allowed).toBe(true);
    // The clock has stepped back by more than one window, so the meter books the spent units again at this time.
    meter.consume(1, startMs);
    meter.consume(1, startMs + 15_000);
    const remainingAfter = (ms: number): number => remainingAt(meter, startMs + ms);
    expect(remainingAfter(30_000)).toBe(0);
    meter.settle({ cost: 1, actualCost: 1, spentAtMs: aheadMs, ttlMs }, startMs + 30_000);
    expect(remainingAfter(30_000)).toBe(1);
    // The freed slot was the oldest one, and not the one taken at 15 s.
    expect(remainingAfter(minuteMs)).toBe(2);
    expect(remainingAfter(75_000)).toBe(3);
  });

  test("without a clock correction, a settlement frees the slot that was taken at its own time", () => {
    const meter = createMeter(limits);
    const ttlMs = 30_000;
    meter.reserve({ cost: 1, ttlMs }, startMs);
    meter.consume(1, startMs + 1);
    meter.settle({ cost: 1, actualCost: 1, spentAtMs: startMs, ttlMs }, startMs + 10_000);
    expect(remainingAt(meter, startMs + 10_000)).toBe(2);
    expect(remainingAt(meter, startMs + minuteMs)).toBe(2);
    expect(remainingAt(meter, startMs + minuteMs + 1)).toBe(3);
  });
});

describe("the validation of sealed segments", () => {
  const limits = limitsOf({ limit: 10_000, window: "1h", strategy: "sliding-log" });
  const run = (atMs: number, units = 1): readonly number[] => [atMs, units];
  const tail = packed(500, 1);
  const nowMs = startMs + 10_000;

  const meterOf = (...texts: readonly string[]): Meter =>
    createMeter(limits, [2, nowMs, ["sliding-log 1h", 3_600_000, texts]]);

  test("stored segments in the right order can be read", () => {
    const meter = meterOf(packed(...run(startMs), 5, 2), packed(startMs + 9, 1), tail);
    expect(meter.refused).toBeNull();
    expect(remainingAt(meter, nowMs)).toBe(10_000 - 5);
  });

  test.each([
    ["no integers", [""]],
    ["an incomplete run", [packed(startMs)]],
    ["a run of 0 units", [packed(...run(startMs, 0))]],
    ["two runs at the same instant", [packed(...run(startMs), 0, 1)]],
    ["a character outside the alphabet", ["%%"]],
    ["an unfinished integer", [`${packed(...run(startMs))}g`]],
    ["an integer beyond 2^53", [packed(...run(startMs), 1, 2 ** 53)]],
    ["units that add up to more than 2^53", [packed(startMs, 2 ** 53 - 1, 1, 2 ** 53 - 1)]],
    ["an instant after the tail", [packed(...run(nowMs))]],
    ["an instant before the previous segment", [packed(...run(startMs + 9)), packed(...run(startMs))]],
    ["the last instant of the previous segment", [packed(...run(startMs)), packed(...run(startMs))]],
    ["more runs than a segment holds", [packed(startMs, 1, ...Array.from({ length: 5_000 }, () => [1, 1]).flat())]],
  ])("sealed segments with %s are refused", (_, texts) => {
    const meter = meterOf(...texts, tail);
    expect(meter.refused).not.toBeNull();
    expect(remainingAt(meter, nowMs)).toBe(10_000);
  });

  test.each([
    ["is missing", [packed(...run(startMs))]],
    ["is empty", [packed(...run(startMs)), ""]],
    ["is later than now", [packed(...run(startMs)), packed(2 ** 45, 1)]],
    ["has a run of 0 units", [packed(...run(startMs)), packed(500, 0)]],
  ])("sealed segments are refused when the tail after them %s", (_, texts) => {
    expect(meterOf(...texts).refused).not.toBeNull();
  });
});

describe("the validation of a limit's state", () => {
  const limits = limitsOf({ limit: 10, window: "1m", strategy: "fixed-window" });
  const state = (idleAfterMs: unknown, ...age: readonly unknown[]): unknown[] => [
    2,
    startMs,
    ["fixed-window 1m", idleAfterMs, packed(0, 4, 0, 0, 4), ...age],
  ];

  test("a stored state can be read with and without an age", () => {
    for (const snapshot of [state(minuteMs), state(minuteMs, 0), state(minuteMs, 5)]) {
      const meter = createMeter(limits, snapshot);
      expect(meter.refused).toBeNull();
      expect(remainingAt(meter, startMs)).toBe(6);
    }
  });

  test.each([
    ["a string as age", state(minuteMs, "5")],
    ["an age that reaches before 1970", state(minuteMs, startMs + 1)],
    ["an age later than every date", state(minuteMs, startMs - 2 ** 46 - 1)],
    ["a fractional age", state(minuteMs, 0.5)],
    ["an unsafe integer as idleAfterMs", state(Number.MAX_SAFE_INTEGER)],
    ["no idleAfterMs", state(undefined)],
  ])("a state with %s is refused", (_, snapshot) => {
    const meter = createMeter(limits, snapshot);
    expect(meter.refused).not.toBeNull();
    expect(remainingAt(meter, startMs)).toBe(10);
  });
});

describe("the validation of a sliding window counter", () => {
  test("stored counts of a counter are refused if their sum is not a safe integer", () => {
    const limits = limitsOf({ limit: 10, window: "1m", strategy: "sliding-window-counter" });
    const meterWith = (previous: number, current: number): Meter => {
      const data = packed(0, previous, current);
      return createMeter(limits, [2, startMs, ["sliding-window-counter 1m", minuteMs, data]]);
    };
    expect(meterWith(2, 3).refused).toBeNull();
    expect(meterWith(2 ** 52, 2 ** 52 - 1).refused).toBeNull();
    expect(meterWith(2 ** 52, 2 ** 52).refused).not.toBeNull();
  });
});

describe("the validation of open reservations", () => {
  const ttlMs = 100_000;

  const snapshotOf = (strategy: string): { limits: Limit[]; snapshot: unknown[] } => {
    const limits = limitsOf({ limit: 10, window: "1m", strategy });
    const meter = createMeter(limits);
    meter.reserve({ cost: 2, ttlMs }, startMs);
    meter.reserve({ cost: 1, ttlMs }, startMs + 5);
    return { limits, snapshot: stored(meter) };
  };

  describe.each(["fixed-window", "sliding-window-counter", "token-bucket"])("open reservations of a %s", (strategy) => {
    const { limits, snapshot } = snapshotOf(strategy);
    const [version, seenMs, state, open] = snapshot;
    const isBucket = strategy === "token-bucket";
    const head = isBucket ? [0] : [];
    const entry = (step: number, amount: number, seconds: number): number[] =>
      isBucket ? [step, amount, seconds, 0] : [step, amount, seconds];

    test("stored reservations are restored unchanged", () => {
      const meter = createMeter(limits, snapshot);
      expect(meter.refused).toBeNull();
      expect(stored(meter)).toEqual(snapshot);
      const text = packed(...head, ...entry(5, 2, 100), ...entry(5, 1, 100));
      expect(createMeter(limits, [version, seenMs, state, ["+", 0, text]]).refused).toBeNull();
    });

    test.each([
      ["are not a string", [5]],
      ["are an empty string", [""]],
      ["contain a character outside the alphabet", ["%%"]],
      ["end within an entry", [packed(...head, ...entry(5, 1, 100), 1)]],
      ["have an entry of 0 units", [packed(...head, ...entry(5, 0, 100))]],
      ["have two entries at one instant", [packed(...head, ...entry(5, 1, 100), ...entry(0, 1, 100))]],
      ["have an entry that has expired", [packed(...head, ...entry(5, 1, 0))]],
      ["have an entry of more than one day", [packed(...head, ...entry(5, 1, 86_403))]],
      ["have an entry later than now", [packed(...head, ...entry(5, 1, 100), ...entry(6, 1, 100))]],
      ["have an entry before 1970", [packed(...head, ...entry(2 ** 46, 1, 100))]],
      ["have no entries", [packed(...head)]],
    ])("stored reservations are refused when they %s", (_, [text]) => {
      const meter = createMeter(limits, [version, seenMs, state, ["+", 0, text]]);
      expect(meter.refused).not.toBeNull();
    });

    test("stored reservations are refused if the state that they belong to is missing, or if they occur twice", () => {
      expect(createMeter(limits, [version, seenMs, open, state]).refused).not.toBeNull();
      expect(createMeter(limits, [version, seenMs, state, open, open]).refused).not.toBeNull();
    });

    test("open reservations of an absent limit are kept with its state, in memory and in storage", () => {
      const day = limitsOf({ limit: 5, window: "1d", strategy: "sliding-log" });
      for (const meter of [
        createMeter(limits, snapshot).withLimits(day).withLimits(limits),
        createMeter(limits, stored(createMeter(day, snapshot))),
        createMeter([], stored(createMeter([], snapshot))).withLimits(limits),
      ]) {
        meter.settle({ cost: 2, actualCost: 0, spentAtMs: startMs, ttlMs }, startMs + 6);
        meter.settle({ cost: 1, actualCost: 0, spentAtMs: startMs + 5, ttlMs }, startMs + 6);
        expect(meter.look(1, startMs + 6).limits[0]).toMatchObject({ remaining: 10 });
      }
    });
  });

  test("stored reservations of a window are refused if they exceed the window's count", () => {
    const { limits, snapshot } = snapshotOf("fixed-window");
    const text = packed(5, 4, 100);
    const other = [...snapshot.slice(0, 3), ["+", 0, text]];
    expect(createMeter(limits, other).refused).not.toBeNull();
  });

  test("stored reservations of a bucket are refused if they have more units than the bucket has in use", () => {
    const { limits, snapshot } = snapshotOf("token-bucket");
    const text = packed(0, 5, 2, 100, 2 ** 40);
    const other = [...snapshot.slice(0, 3), ["+", 0, text]];
    expect(createMeter(limits, other).refused).not.toBeNull();
  });

  test("stored reservations of an interval refill are refused if a spend without a reservation is later than the latest time seen", () => {
    const limits = limitsOf({
      limit: 10,
      window: "1m",
      strategy: "token-bucket",
      refill: "interval",
    });
    const meter = createMeter(limits);
    meter.reserve({ cost: 2, ttlMs }, startMs);
    const snapshot = stored(meter).slice(0, 3);
    const textOf = (first: number): string => packed(first, 0, 1, 100, 2);
    for (const first of [0, 1, 2]) {
      expect(createMeter(limits, [...snapshot, ["+", 0, textOf(first)]]).refused).toBeNull();
    }
    expect(createMeter(limits, [...snapshot, ["+", 0, textOf(3)]]).refused).not.toBeNull();
  });
});

describe("the size of open reservations", () => {
  test.each(["fixed-window", "sliding-window-counter", "token-bucket"])(
    "sizeBytes includes open reservations, in memory and in storage (%s)",
    (strategy) => {
      const limits = limitsOf({ limit: 2_000, window: "1h", strategy });
      const [reserving, spending] = [createMeter(limits), createMeter(limits)];
      for (let each = 0; each < 1_000; each++) {
        reserving.reserve({ cost: 1, ttlMs: 60_000 }, startMs + each);
        spending.consume(1, startMs + each);
      }
      const more = (sizeOf: (meter: Meter) => number): number => sizeOf(reserving) - sizeOf(spending);
      const liveBytes = more((meter) => meter.sizeBytes());
      expect(liveBytes).toBeGreaterThan(1_000 * 50);
      expect(liveBytes).toBeLessThan(1_000 * 200);
      const textBytes = more((meter) => JSON.stringify(meter.snapshot()).length);
      const storedBytes = more((meter) => createMeter([], stored(meter)).sizeBytes());
      expect(Math.abs(storedBytes - textBytes)).toBeLessThan(100);
    },
  );
});

describe("the data of a renewed reservation", () => {
  test.each(["fixed-window", "sliding-window-counter", "token-bucket"])(
    "the snapshot keeps the data of a reservation while it is renewed (%s)",
    (strategy) => {
      const limits = limitsOf({ limit: 10, window: "10m", strategy });
      const meter = createMeter(limits);
      const ttlMs = 10_000;
      const isKept = (): boolean => JSON.stringify(meter.snapshot()).includes('"+"');
      meter.reserve({ cost: 1, ttlMs }, startMs);
      let heldAtMs = startMs;
      for (const seconds of [9, 18, 27]) {
        meter.renew({ cost: 1, heldAtMs, ttlMs }, startMs + seconds * 1_000);
        heldAtMs = startMs + seconds * 1_000;
        meter.consume(1, heldAtMs);
        expect(isKept()).toBe(true);
      }
      meter.consume(1, startMs + 38_000);
      expect(isKept()).toBe(false);
    },
  );
});
