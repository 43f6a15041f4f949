/**
 * `withLimits` gives a meter other limits without a snapshot. It then decides like a meter that is restored from a
 * snapshot.
 */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { attachSegments, createMeter, type Limit, type Meter, parseLimits } from "../../src/strategies/index.ts";
import {
  dayMs,
  expectSame,
  hourMs,
  minuteMs as windowMs,
  remainders,
  remainingAt,
  restored,
  startMs,
} from "./meters.ts";
import {
  forAllScenarios,
  type LimitSet,
  ScenarioRun,
  scenarios,
  singleLimits,
  startRun,
  testEach,
} from "./scenario.ts";
import { limitOf, plainVariants, variants } from "./variants.ts";

const changes = ["keep", "keep", "copy", "raise", "lower", "rename", "drop"] as const;
type Change = (typeof changes)[number];

/** The limit as the next configuration has it; an empty list when the limit is dropped. */
function changedLimit(limit: Limit, change: Change): Limit[] {
  if (change === "drop") return [];
  if (change === "copy") return [structuredClone(limit)];
  if (change === "rename") return [{ ...limit, name: `${limit.name}-again` }];
  if (change === "keep" || (limit.limit === 1 && change === "lower")) return [limit];
  return [{ ...limit, limit: limit.limit + (change === "raise" ? 3 : -1) }];
}

const limitSets: readonly LimitSet[] = [
  ...singleLimits(variants),
  { title: "two to four limits", variants, fewest: 2, most: 4 },
];

testEach(
  limitSets,
  "a meter given other limits decides like one restored from its snapshot with these limits",
  (limitSet) => {
    let comparisons = 0;
    const check = forAllScenarios(
      [
        scenarios(limitSet),
        fc.array(fc.array(fc.constantFrom(...changes), { minLength: 4, maxLength: 4 }), {
          minLength: 1,
          maxLength: 5,
        }),
        fc.boolean(),
      ],
      (scenario, configurations, isReversed) => {
        const start = () => new ScenarioRun(createMeter([]), scenario.startMs, scenario.longestWindowMs);
        const [live, restoring] = [start(), start()];
        const steps = [...scenario.steps, ...scenario.laterSteps];
        const stepsPerTurn = Math.ceil(steps.length / (configurations.length + 1));
        [[], ...configurations].forEach((configuration, turn) => {
          const limits = scenario.limits.flatMap((limit, index) => changedLimit(limit, configuration[index] ?? "keep"));
          if (isReversed && turn % 2 === 1) limits.reverse();
          const { changes: before } = live.meter;
          live.meter = live.meter.withLimits(limits);
          restoring.meter = restored(restoring.meter, limits);
          expectSame(live.meter.changes >= before, true);
          expectSame(live.meter.refused, null);
          expectSame(live.meter.seenMs, restoring.meter.seenMs);
          expectSame(live.meter.look(1, live.nowMs), restoring.meter.look(1, restoring.nowMs));
          if (limits.length === 0) return;
          for (const step of steps.slice(turn * stepsPerTurn, (turn + 1) * stepsPerTurn)) {
            expectSame(live.apply(step), restoring.apply(step));
            comparisons++;
          }
          expectSame(live.meter.snapshot(), restoring.meter.snapshot());
        });
      },
    );
    return async () => {
      await check();
      expect(comparisons).toBeGreaterThan(120);
    };
  },
);

testEach(limitSets, "a meter decides as before after another meter was made of it and has spent", (limitSet) =>
  forAllScenarios([scenarios(limitSet)], (scenario) => {
    const [copied, untouched] = [startRun(scenario), startRun(scenario)];
    for (const step of [...scenario.steps, ...scenario.laterSteps]) {
      const other = copied.meter.withLimits(scenario.limits);
      other.book(step.cost, copied.nowMs, copied.nowMs + step.agoMs);
      other.consume(1, copied.nowMs + step.agoMs + 1);
      expectSame(copied.apply(step), untouched.apply(step));
      expectSame(copied.meter.snapshot(), untouched.meter.snapshot());
    }
  }),
);

describe("withLimits", () => {
  const log = parseLimits("10000 per 100 seconds", { strategy: "sliding-log" });
  const day = parseLimits("5/day", { strategy: "fixed-window" });

  function longLog(): Meter {
    const meter = createMeter(log);
    for (let unit = 0; unit < 3_000; unit++) meter.consume(1, startMs + unit);
    return meter;
  }

  test("withLimits keeps a log when it gets the same limit object or an equal one", () => {
    const snapshot = longLog().snapshot();
    expect(longLog().withLimits(structuredClone(log)).snapshot()).toStrictEqual(snapshot);
    const withoutLog = longLog().withLimits(day);
    withoutLog.consume(1, startMs + 5_000);
    const both = withoutLog.withLimits([...log, ...day]);
    expect(remainders(both, startMs + 5_000)).toEqual([7_000, 4]);
  });

  test("a meter keeps the state of an absent limit until the state is idle, in memory and in storage", () => {
    const absent = longLog().withLimits([]).withLimits(day);
    absent.consume(1, startMs + 50_000);
    const stored = createMeter(day, absent.snapshot());
    expect(stored.snapshot()).toStrictEqual(absent.snapshot());
    expect(remainingAt(stored.withLimits(log), startMs + 50_000)).toBe(7_000);
    absent.consume(1, startMs + 102_999);
    expect(absent.snapshot()).toHaveLength(3);
    expect(remainingAt(absent.withLimits(log), startMs + 102_999)).toBe(10_000);
  });

  test("a meter keeps at most 256 states of absent limits", () => {
    let meter = createMeter([]);
    for (let seconds = 1; seconds <= 300; seconds++) {
      const limits = parseLimits(`10 per ${seconds + 400} seconds`);
      meter = meter.withLimits(limits);
      meter.consume(1, startMs);
    }
    const stored = createMeter([], meter.snapshot());
    expect(meter.withLimits([]).snapshot()).toStrictEqual(stored.snapshot());
    expect(meter.withLimits([]).snapshot()).toHaveLength(2 + 256);
  });

  test("withLimits refuses a stored state that it cannot read", () => {
    const snapshot = longLog().snapshot();
    const broken = JSON.parse(JSON.stringify(snapshot).replaceAll("BBBB", "BABB")) as unknown;
    const meter = createMeter([], broken);
    expect(meter.refused).toBeNull();
    const refusing = meter.withLimits(log);
    expect(refusing.refused).not.toBeNull();
    expect(remainingAt(refusing, startMs + 3_000)).toBe(10_000);
    expect(
      createMeter(
        [],
        attachSegments([2, startMs, ["x", 9, [1, "B"]]], () => undefined),
      ).refused,
    ).not.toBeNull();
  });

  test("withLimits keeps the count of changes, including units that a clock correction has booked again", () => {
    const meter = longLog();
    expect(meter.withLimits([...log, ...day]).changes).toBe(3_000);
    const corrected = meter.withLimits(day);
    corrected.consume(1, startMs - 2 * dayMs);
    const together = corrected.withLimits([...log, ...day]);
    expect(together.seenMs).toBe(startMs + 2_999);
    expect(together.changes).toBeGreaterThan(corrected.changes);
  });
});

/**
 * How long a meter of 10 per minute remembers a spend of its whole capacity. Variants that are absent remember it for
 * one window.
 */
const retentionsMs: Readonly<Record<string, number>> = {
  "sliding-window-counter first-request": 2 * windowMs,
  "sliding-window-counter clock": 2 * windowMs,
  "sliding-buckets keep": windowMs + windowMs / 60,
  "sliding-buckets keep buckets 1": 2 * windowMs,
  "token-bucket continuous burst 5": windowMs / 2,
  "leaky-bucket queue": (11 * windowMs) / 10,
  "leaky-bucket queue burst 3": (4 * windowMs) / 10,
  "leaky-bucket police burst 3": (3 * windowMs) / 10,
};

test.each(variants.filter(({ tickMs }) => tickMs === null))(
  "retentionMs is how long a meter remembers a spend of its whole capacity ($title)",
  (variant) => {
    const retentionMs = retentionsMs[variant.title] ?? windowMs;
    const meter = createMeter([limitOf(variant, 10, windowMs)]);
    expect(meter.retentionMs).toBe(retentionMs);
    const [{ capacity } = { capacity: 0 }] = meter.look(1, startMs).limits;
    meter.consume(capacity, startMs);
    expect(meter.idleAtMs()).toBe(startMs + retentionMs);
    // In the last milliseconds, the units of a counter together weigh less than 1.
    const mostRemaining = capacity - (variant.strategy === "sliding-window-counter" ? 0 : 1);
    expect(remainingAt(meter, startMs + retentionMs - 1)).toBeLessThanOrEqual(mostRemaining);
  },
);

describe("retentionMs and sizeBytes", () => {
  test("the retention time of a meter covers a calendar day that is longer because clocks are set back", () => {
    const limit = { limit: 5, window: "1d", align: "calendar", timezone: "Europe/Berlin" };
    const meter = createMeter(parseLimits({ ...limit, strategy: "fixed-window" }));
    const midnightMs = Date.UTC(2026, 9, 24, 22);
    meter.consume(1, midnightMs);
    expect(meter.idleAtMs()).toBe(midnightMs + 25 * hourMs);
    expect(meter.retentionMs).toBeGreaterThanOrEqual(25 * hourMs);
  });

  test("the retention time of several limits is the longest of theirs", () => {
    expect(createMeter(parseLimits("5/second; 100/hour; 20/minute")).retentionMs).toBe(7_200_000);
    expect(createMeter([]).retentionMs).toBe(0);
  });

  test("the sizeBytes of a log grows with its runs and with the texts of its segments", () => {
    const limits = parseLimits("100000 per 1000 seconds", { strategy: "sliding-log" });
    const meter = createMeter(limits);
    const emptyBytes = meter.sizeBytes();
    for (let unit = 0; unit < 10_000; unit++) meter.consume(1, startMs + unit);
    const fullBytes = meter.sizeBytes();
    expect(fullBytes - emptyBytes).toBeGreaterThan(160_000 - 16);
    expect(fullBytes - emptyBytes).toBeLessThan(180_000);
    meter.snapshot();
    expect(meter.sizeBytes() - fullBytes).toBeGreaterThan(19_000);
    const absent = createMeter([], meter.snapshot());
    expect(absent.sizeBytes()).toBeGreaterThan(20_000);
    expect(absent.sizeBytes()).toBeLessThan(25_000);
    expect(meter.withLimits([]).sizeBytes()).toBeGreaterThan(160_000);
  });

  // The heapUsed per meter after 0, 1, 5 and 300 spends, measured after gc() with 10,000 meters in Node 24 on x64.
  test.each([
    ["fixed-window", 220, 440, 700, 700],
    ["sliding-window-counter", 220, 420, 680, 700],
    ["token-bucket", 220, 370, 510, 530],
    ["leaky-bucket", 220, 370, 370, 390],
    ["sliding-log", 470, 540, 860, 6_330],
    ["sliding-buckets", 480, 550, 670, 1_290],
    ["concurrency", 480, 550, 860, 6_330],
  ])("sizeBytes is within a factor of 2 of the measured memory (%s)", (strategy, ...sizes) => {
    const limits = parseLimits({ limit: 400, window: "10m", strategy });
    sizes.forEach((measuredBytes, index) => {
      const meter = createMeter(limits);
      for (let unit = 0; unit < ([0, 1, 5, 300][index] ?? 0); unit++) meter.consume(1, startMs + unit * 997);
      expect(meter.sizeBytes()).toBeGreaterThan(measuredBytes / 2);
      expect(meter.sizeBytes()).toBeLessThan(measuredBytes * 2);
    });
  });

  test("the sizeBytes of a meter grows by at least 100 with each further limit", () => {
    const [one, ...others] = plainVariants.map((variant) => limitOf(variant, 5, windowMs));
    const few = createMeter(one === undefined ? [] : [one]).sizeBytes();
    const many = createMeter(others).sizeBytes();
    expect(many).toBeGreaterThan(few + 100 * (others.length - 1));
  });
});
