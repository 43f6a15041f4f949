/** The state that a meter keeps, how long it keeps it, and how it validates a stored state. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createMeter, type Limit, type LimitDecision, type Meter, parseLimits } from "../../src/strategies/index.ts";
import { forAll } from "../for-all.ts";
import { expectSame, minuteMs as windowMs, remainders, remainingAt, restored, startMs } from "./meters.ts";
import { forAllScenarios, limitSets, ScenarioRun, scenarios, startRun, testEach } from "./scenario.ts";
import { limitOf, plainVariants } from "./variants.ts";

/** A meter that has spent `units` units of each limit at the start. */
function spent(units: number, ...limits: Limit[]): Meter {
  const meter = createMeter(limits);
  expect(meter.consume(units, startMs).allowed).toBe(true);
  return meter;
}

const handedOver = (meter: Meter, ...limits: Limit[]): Meter => restored(meter, limits);

function snapshotOf(meter: Meter): unknown[] {
  const snapshot = meter.snapshot();
  if (!Array.isArray(snapshot)) throw new TypeError("expected a snapshot that is a list");
  return snapshot as unknown[];
}

describe.each(plainVariants)("state across configurations: $title", (variant) => {
  test("spent units stay spent when only the number or the name of a limit changes", () => {
    const meter = spent(8, limitOf(variant, 10, windowMs));
    const raised = handedOver(meter, limitOf(variant, 20, windowMs));
    expect(remainingAt(raised, startMs)).toBe(12);
    const lowered = handedOver(meter, limitOf(variant, 5, windowMs));
    expect(remainingAt(lowered, startMs)).toBe(0);
    expect(lowered.consume(1, startMs).allowed).toBe(false);
    const renamed = handedOver(meter, limitOf(variant, 10, windowMs, "another"));
    expect(remainingAt(renamed, startMs)).toBe(2);
    expect([raised.refused, lowered.refused, renamed.refused]).toEqual([null, null, null]);
  });

  test("spent units stay spent when the order of the limits changes", () => {
    const minute = limitOf(variant, 10, windowMs, "minute");
    const hour = limitOf(variant, 50, 60 * windowMs, "hour");
    const meter = handedOver(spent(8, minute, hour), hour, minute);
    const { limits } = meter.look(1, startMs);
    expect(limits.map(({ name, remaining }) => [name, remaining])).toEqual([
      ["hour", 42],
      ["minute", 2],
    ]);
  });

  test("a limit with another window starts with an empty state", () => {
    const meter = spent(8, limitOf(variant, 10, windowMs));
    const other = handedOver(meter, limitOf(variant, 10, 2 * windowMs));
    expect(remainingAt(other, startMs)).toBe(10);
    expect(other.refused).toBeNull();
  });

  test("a limit with another strategy or option starts with an empty state", () => {
    const meter = spent(8, limitOf(variant, 10, windowMs));
    for (const otherVariant of plainVariants.filter((each) => each !== variant)) {
      const other = handedOver(meter, limitOf(otherVariant, 10, windowMs));
      expect(remainingAt(other, startMs)).toBe(10);
      expect(other.refused).toBeNull();
    }
  });
});

describe.each(plainVariants)("the state of a limit that is absent from a call: $title", (variant) => {
  const ours = limitOf(variant, 10, windowMs, "ours");
  const [otherVariant = variant] = plainVariants;
  const theirs = limitOf(otherVariant, 100, 2 * windowMs, "theirs");

  test("the state of an absent limit is kept while other limits are spent", () => {
    const meter = handedOver(spent(8, ours), theirs);
    meter.consume(30, startMs + 1);
    const back = handedOver(handedOver(meter), ours, theirs);
    const { limits } = back.look(1, startMs + 1);
    expect(limits.map((limit) => limit.remaining)).toEqual([2, 70]);
  });

  test("the state of an absent limit is kept when the clock steps back by more than the windows of the other limits", () => {
    const short = limitOf(otherVariant, 100, 1_000, "short");
    const meter = handedOver(spent(10, ours), short);
    meter.consume(1, startMs - 1_001);
    const back = handedOver(handedOver(meter), ours);
    expect(back.refused).toBeNull();
    expect(remainingAt(back, startMs - 1_001)).toBe(0);
    expect(remainingAt(back, startMs)).toBe(0);
  });

  test("a meter's idleAtMs takes the state of an absent limit into account", () => {
    const meter = spent(8, ours);
    expect(handedOver(meter).idleAtMs()).toBe(meter.idleAtMs());
    expect(meter.idleAtMs()).toBeGreaterThan(startMs);
  });

  test("the snapshot contains the state of an absent limit until exactly its idleAtMs", () => {
    const meter = spent(8, ours);
    const bare = (atMs: number): unknown => {
      const other = createMeter([theirs]);
      other.consume(1, atMs);
      return other.snapshot();
    };
    const snapshotAt = (atMs: number): unknown => {
      const other = handedOver(meter, theirs);
      other.consume(1, atMs);
      return other.snapshot();
    };
    expect(snapshotAt(meter.idleAtMs())).toStrictEqual(bare(meter.idleAtMs()));
    expect(snapshotAt(meter.idleAtMs() - 1)).not.toStrictEqual(bare(meter.idleAtMs() - 1));
  });
});

describe.each(plainVariants)("a stored value that was not written by a meter: $title", (variant) => {
  const limits = [limitOf(variant, 5, windowMs), limitOf(variant, 9, 3 * windowMs, "long")];

  /** Expects that the meter decides within its limits and does not throw, whatever state was stored. */
  function expectSane(meter: Meter): void {
    for (const nowMs of [startMs, startMs + 1, startMs - 5 * windowMs, startMs + 9 * windowMs]) {
      const { limits: decided } = meter.consume(1, nowMs);
      const isSane = ({ remaining, capacity }: LimitDecision): boolean =>
        Number.isSafeInteger(remaining) && remaining >= 0 && remaining <= capacity;
      expectSame(
        decided.filter((limit) => !isSane(limit)),
        [],
      );
    }
    meter.book(1, startMs, startMs);
    meter.refund(1, startMs, startMs);
    expect(Number.isSafeInteger(meter.idleAtMs())).toBe(true);
    expect(createMeter(limits, structuredClone(meter.snapshot())).refused).toBeNull();
  }

  const isEmptySnapshot = (value: unknown): boolean => Array.isArray(value) && value.length === 2 && value[0] === 2;

  test(
    "a meter refuses any value that is not a snapshot and starts empty",
    forAll([fc.anything({ withNullPrototype: true, withDate: true, withMap: true })], (stored) => {
      fc.pre(stored !== undefined && !isEmptySnapshot(stored));
      const meter = createMeter(limits, stored);
      expect(meter.refused).not.toBeNull();
      expectSame(meter.look(1, startMs), createMeter(limits).look(1, startMs));
      expectSane(meter);
    }),
  );

  /** The snapshot with another value at this path. */
  function altered(value: unknown, path: readonly number[], other: unknown): unknown {
    const [step, ...rest] = path;
    if (!Array.isArray(value) || value.length === 0 || step === undefined) return other;
    const index = step % value.length;
    return value.map((item: unknown, position) => (position === index ? altered(item, rest, other) : item));
  }

  const replacement = fc.oneof(
    fc.anything(),
    fc.integer({ min: -3, max: 3 }),
    fc.constantFrom(-1, 0.5, Number.NaN, Infinity, 2 ** 53, Number.MAX_SAFE_INTEGER, -0, "1", null),
    fc.array(fc.oneof(fc.nat(9), fc.double()), { maxLength: 6 }),
    fc.uint8Array({ maxLength: 12 }),
  );

  test(
    "a snapshot with one replaced value is refused or decides within the limits",
    forAll(
      [fc.array(fc.nat(9), { minLength: 1, maxLength: 3 }), replacement],
      (path, other) => {
        const meter = spent(2, ...limits);
        meter.consume(1, startMs + windowMs + 7);
        expectSane(createMeter(limits, altered(meter.snapshot(), path, other)));
      },
      250,
    ),
  );

  test("a snapshot of another version is refused, and its state is not used", () => {
    const [version, ...rest] = snapshotOf(spent(5, ...limits));
    for (const other of [Number(version) + 1, 0, String(version), null]) {
      const meter = createMeter(limits, [other, ...rest]);
      expect(meter.refused).toBe("not a snapshot of this version");
      expect(remainingAt(meter, startMs)).toBe(5);
    }
  });

  test("a snapshot of this version with malformed states is refused", () => {
    const snapshot = snapshotOf(spent(2, ...limits));
    const [version, seenMs, state, other] = snapshot;
    if (!Array.isArray(state)) throw new TypeError("expected a state that is a list");
    const [identity, idleAtMs, data]: unknown[] = state;
    for (const stored of [
      [version],
      [version, -1],
      [version, seenMs, other, "no state"],
      [version, seenMs, other, [identity, idleAtMs]],
      [version, seenMs, other, [5, idleAtMs, data]],
      [version, seenMs, other, [identity, -1, data]],
      [version, seenMs, other, [identity, String(idleAtMs), data]],
      [version, seenMs, other, [identity, idleAtMs, data, 0.5]],
      [version, seenMs, other, [identity, idleAtMs, data, seenMs, 1]],
      { version, seenMs, states: [] },
      JSON.stringify(snapshot),
    ]) {
      expect(createMeter(limits, stored).refused).not.toBeNull();
    }
  });

  test("when the stored state of one limit is refused, the state of the other limit is still used", () => {
    const snapshot = snapshotOf(spent(2, ...limits));
    const meter = createMeter(limits, altered(snapshot, [2, 2], ["nonsense"]));
    expect(meter.refused).not.toBeNull();
    expect(remainders(meter, startMs)).toEqual([5, 7]);
  });
});

test("a number that is not an integer of at least 0 causes a RangeError and leaves the meter unchanged", () => {
  const calls: readonly ((meter: Meter, value: number) => unknown)[] = [
    (meter, value) => meter.consume(value, startMs),
    (meter, value) => meter.consume(1, value),
    (meter, value) => meter.consume(1, startMs, value),
    (meter, value) => meter.look(value, startMs),
    (meter, value) => meter.look(1, value),
    (meter, value) => meter.look(1, startMs, value),
    (meter, value) => meter.book(value, startMs, startMs),
    (meter, value) => meter.book(1, value, startMs),
    (meter, value) => meter.book(1, startMs, value),
    (meter, value) => meter.refund(value, startMs, startMs),
    (meter, value) => meter.refund(1, value, startMs),
    (meter, value) => meter.refund(1, startMs, value),
  ];
  for (const variant of plainVariants) {
    const meter = spent(2, limitOf(variant, 5, windowMs));
    const before = structuredClone(meter.snapshot());
    const { changes } = meter;
    for (const value of [-1, 0.5, Number.NaN, Infinity, -Infinity, 2 ** 53]) {
      for (const call of calls) expect(() => call(meter, value)).toThrow(RangeError);
    }
    expect(meter.snapshot()).toStrictEqual(before);
    expect(meter.changes).toBe(changes);
  }
});

testEach(limitSets, "changes grows whenever the last written snapshot would decide otherwise", (limitSet) =>
  forAllScenarios([scenarios(limitSet)], (scenario) => {
    const started = startRun(scenario);
    let changes = 0;
    let written = started.meter.snapshot();
    for (const step of scenario.steps) {
      started.apply(step);
      const { meter } = started;
      if (meter.changes > changes) written = meter.snapshot();
      ({ changes } = meter);
      const atMs = meter.seenMs;
      expectSame(createMeter(scenario.limits, written).look(1, atMs), meter.look(1, atMs));
    }
  }),
);

testEach(limitSets, "changes grows with a request exactly when its snapshot changes", (limitSet) => {
  const seen = { same: 0, different: 0 };
  const check = forAllScenarios([scenarios(limitSet, ["consume", "fill", "look"])], (scenario) => {
    const { limits, startMs: firstMs, tickMs, steps, laterSteps } = scenario;
    // The clock may step back by more than the longest window. Then even a denial changes the snapshot.
    const started = new ScenarioRun(createMeter(limits), firstMs, 20 * tickMs);
    for (const step of [...steps, ...laterSteps]) {
      const { meter } = started;
      const { changes } = meter;
      const before = JSON.stringify(meter.snapshot());
      started.apply(step);
      const isSame = JSON.stringify(meter.snapshot()) === before;
      expectSame(meter.changes > changes, !isSame);
      seen[isSame ? "same" : "different"]++;
    }
  });
  return async () => {
    await check();
    expect(Math.min(...Object.values(seen))).toBeGreaterThan(50);
  };
});

describe.each(plainVariants)("edge cases of a meter: $title", (variant) => {
  const limits = [limitOf(variant, 5, windowMs)];

  test("a meter can spend, restore and refund at the first millisecond of the Unix epoch", () => {
    const meter = createMeter(limits);
    expect(remainingAt(meter, 0)).toBe(5);
    expect(meter.consume(2, 0).allowed).toBe(true);
    const revived = handedOver(meter, ...limits);
    expect(revived.refused).toBeNull();
    expect(remainingAt(revived, 0)).toBe(3);
    expect(remainingAt(revived, 1)).toBe(remainingAt(meter, 1));
    meter.refund(2, 0, 1);
    expect(remainingAt(meter, 1)).toBe(5);
  });

  test("booking or refunding 0 units changes nothing at any time", () => {
    const meter = spent(2, ...limits);
    const before = meter.snapshot();
    for (const nowMs of [startMs, startMs + 1, startMs + 9 * windowMs, startMs - 9 * windowMs]) {
      meter.book(0, nowMs, nowMs);
      meter.refund(0, nowMs, nowMs);
    }
    expect(meter.snapshot()).toStrictEqual(before);
    expect(meter.changes).toBe(1);
  });
});

describe("edge cases of a meter", () => {
  const everything: readonly Limit[] = plainVariants.map((variant, index) =>
    limitOf(variant, 5, windowMs, `limit-${index}`),
  );

  test("a meter that has spent nothing has idleAtMs 0 and no changes", () => {
    const meter = createMeter(everything);
    meter.look(1, startMs);
    expect(meter.idleAtMs()).toBe(0);
    expect(meter.changes).toBe(0);
    expect(meter.refused).toBeNull();
  });

  test("a meter without limits allows every request", () => {
    const meter = createMeter([]);
    expect(meter.consume(1, startMs)).toStrictEqual({
      allowed: true,
      cost: 1,
      delayMs: 0,
      retryAfterMs: 0,
      bannedForMs: 0,
      limits: [],
    });
  });

  test("a snapshot shares no state with the meter that returned it, nor with a meter that is created from it", () => {
    const meter = spent(2, ...everything);
    const snapshot = meter.snapshot();
    const copy = structuredClone(snapshot);
    const other = createMeter(everything, snapshot);
    other.consume(2, startMs + 1);
    meter.consume(1, startMs + 2);
    expect(snapshot).toStrictEqual(copy);
    expect(remainingAt(other, startMs + 1)).toBe(1);
    expect(remainingAt(meter, startMs + 2)).toBe(2);
  });

  test("createMeter throws a RangeError for an unknown strategy", () => {
    const [limit] = parseLimits("1/minute");
    if (limit === undefined) throw new Error("expected one limit");
    expect(() => createMeter([{ ...limit, strategy: "unknown" }])).toThrow(RangeError);
  });
});
