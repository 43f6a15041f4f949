/** What a meter keeps: for which limits, for how long, and what it takes for a stored state. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  createMeter,
  type Limit,
  type LimitDecision,
  type Meter,
  parseLimits,
} from "../../src/strategies/index.ts";
import { forAll } from "../for-all.ts";
import { expectSame, remainingOf } from "./meters.ts";
import { limitSets, scenarios, ScenarioRun } from "./scenario.ts";
import { limitOf, plainVariants } from "./variants.ts";

const windowMs = 60_000;
const startMs = 7_000 * windowMs;

const remainingAt = (meter: Meter, nowMs: number): number => remainingOf(meter.look(1, nowMs));

/** A meter whose limits have each spent so many units at the start. */
function spent(units: number, ...limits: Limit[]): Meter {
  const meter = createMeter(limits);
  expect(meter.consume(units, startMs).allowed).toBe(true);
  return meter;
}

const handedOver = (meter: Meter, ...limits: Limit[]): Meter =>
  createMeter(limits, structuredClone(meter.snapshot()));

describe.each(plainVariants)("a limit that changes: $title", (variant) => {
  test("keeps what is spent when only its number or its name does", () => {
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

  test("keeps what is spent wherever it stands in the list", () => {
    const minute = limitOf(variant, 10, windowMs, "minute");
    const hour = limitOf(variant, 50, 60 * windowMs, "hour");
    const meter = handedOver(spent(8, minute, hour), hour, minute);
    const { limits } = meter.look(1, startMs);
    expect(limits.map(({ name, remaining }) => [name, remaining])).toEqual([
      ["hour", 42],
      ["minute", 2],
    ]);
  });

  test("starts afresh when its window does", () => {
    const meter = spent(8, limitOf(variant, 10, windowMs));
    const other = handedOver(meter, limitOf(variant, 10, 2 * windowMs));
    expect(remainingAt(other, startMs)).toBe(10);
    expect(other.refused).toBeNull();
  });

  test("starts afresh when its strategy or an option does", () => {
    const meter = spent(8, limitOf(variant, 10, windowMs));
    for (const form of plainVariants.filter((other) => other !== variant)) {
      const other = handedOver(meter, limitOf(form, 10, windowMs));
      expect(remainingAt(other, startMs)).toBe(10);
      expect(other.refused).toBeNull();
    }
  });
});

describe.each(plainVariants)(
  "the state of a limit that a meter is not given: $title",
  (variant) => {
    const ours = limitOf(variant, 10, windowMs, "ours");
    const [otherForm = variant] = plainVariants;
    const theirs = limitOf(otherForm, 100, 2 * windowMs, "theirs");

    test("survives what the others spend", () => {
      const meter = handedOver(spent(8, ours), theirs);
      meter.consume(30, startMs + 1);
      const back = handedOver(handedOver(meter), ours, theirs);
      const { limits } = back.look(1, startMs + 1);
      expect(limits.map((limit) => limit.remaining)).toEqual([2, 70]);
    });

    test("survives a clock that steps back further than the windows of the others", () => {
      const short = limitOf(otherForm, 100, 1_000, "short");
      const meter = handedOver(spent(10, ours), short);
      meter.consume(1, startMs - 1_001);
      const back = handedOver(handedOver(meter), ours);
      expect(back.refused).toBeNull();
      expect(remainingAt(back, startMs - 1_001)).toBe(0);
      expect(remainingAt(back, startMs)).toBe(0);
    });

    test("decides when the whole may be forgotten", () => {
      const meter = spent(8, ours);
      expect(handedOver(meter).idleAtMs()).toBe(meter.idleAtMs());
      expect(meter.idleAtMs()).toBeGreaterThan(startMs);
    });

    test("is gone from the snapshot once it is idle, and not a millisecond earlier", () => {
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
  },
);

describe.each(plainVariants)("a stored value that no meter wrote: $title", (variant) => {
  const limits = [limitOf(variant, 5, windowMs), limitOf(variant, 9, 3 * windowMs, "long")];

  /** It may hold what an attacker likes, but it decides within its limits and does not throw. */
  function expectSane(meter: Meter): void {
    for (const nowMs of [startMs, startMs + 1, startMs - 5 * windowMs, startMs + 9 * windowMs]) {
      const { limits: said } = meter.consume(1, nowMs);
      const isSane = ({ remaining, capacity }: LimitDecision): boolean =>
        Number.isSafeInteger(remaining) && remaining >= 0 && remaining <= capacity;
      expectSame(
        said.filter((limit) => !isSane(limit)),
        [],
      );
    }
    meter.book(1, startMs, startMs);
    meter.refund(1, startMs, startMs);
    expect(Number.isSafeInteger(meter.idleAtMs())).toBe(true);
    expect(createMeter(limits, structuredClone(meter.snapshot())).refused).toBeNull();
  }

  const isEmptySnapshot = (value: unknown): boolean =>
    Array.isArray(value) && value.length === 2 && value[0] === 2;

  test(
    "is refused",
    forAll([fc.anything({ withNullPrototype: true, withDate: true, withMap: true })], (stored) => {
      fc.pre(stored !== undefined && !isEmptySnapshot(stored));
      const meter = createMeter(limits, stored);
      expect(meter.refused).not.toBeNull();
      expectSame(meter.look(1, startMs), createMeter(limits).look(1, startMs));
      expectSane(meter);
    }),
  );

  /** A snapshot in which one value, at some depth, is another. */
  function altered(value: unknown, path: readonly number[], other: unknown): unknown {
    const [step, ...rest] = path;
    if (!Array.isArray(value) || value.length === 0 || step === undefined) return other;
    const index = step % value.length;
    return value.map((item: unknown, position) =>
      position === index ? altered(item, rest, other) : item,
    );
  }

  const oddity = fc.oneof(
    fc.anything(),
    fc.integer({ min: -3, max: 3 }),
    fc.constantFrom(-1, 0.5, Number.NaN, Infinity, 2 ** 53, Number.MAX_SAFE_INTEGER, -0, "1", null),
    fc.array(fc.oneof(fc.nat(9), fc.double()), { maxLength: 6 }),
    fc.uint8Array({ maxLength: 12 }),
  );

  test(
    "does no harm where it differs from a true one in a single place",
    forAll(
      [fc.array(fc.nat(9), { minLength: 1, maxLength: 3 }), oddity],
      (path, other) => {
        const meter = spent(2, ...limits);
        meter.consume(1, startMs + windowMs + 7);
        expectSane(createMeter(limits, altered(meter.snapshot(), path, other)));
      },
      1_000,
    ),
  );

  test("of another version is refused, and what it held is not taken over", () => {
    const snapshot = spent(5, ...limits).snapshot();
    if (!Array.isArray(snapshot)) throw new TypeError("a snapshot is a list");
    const [version, ...rest]: unknown[] = snapshot;
    for (const other of [Number(version) + 1, 0, String(version), null]) {
      const meter = createMeter(limits, [other, ...rest]);
      expect(meter.refused).toBe("not a snapshot of this version");
      expect(remainingAt(meter, startMs)).toBe(5);
    }
  });

  test("of the right version and another form is refused", () => {
    const snapshot = spent(2, ...limits).snapshot();
    if (!Array.isArray(snapshot)) throw new TypeError("a snapshot is a list");
    const [version, seenMs, state, other]: unknown[] = snapshot;
    if (!Array.isArray(state)) throw new TypeError("the state of a limit is a list");
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

  test("in the place of one limit leaves the others what they have spent", () => {
    const snapshot = spent(2, ...limits).snapshot();
    if (!Array.isArray(snapshot)) throw new TypeError("a snapshot is a list");
    const meter = createMeter(limits, altered(snapshot, [2, 2], ["nonsense"]));
    expect(meter.refused).not.toBeNull();
    expect(meter.look(1, startMs).limits.map(({ remaining }) => remaining)).toEqual([5, 7]);
  });
});

describe.each(plainVariants)(
  "an argument that is no whole number of at least 0: $title",
  (variant) => {
    const bad = [-1, 0.5, Number.NaN, Infinity, -Infinity, 2 ** 53];
    const calls: readonly (readonly [
      name: string,
      call: (meter: Meter, value: number) => unknown,
    ])[] = [
      ["the cost of consume", (meter, value) => meter.consume(value, startMs)],
      ["the time of consume", (meter, value) => meter.consume(1, value)],
      ["the held units of consume", (meter, value) => meter.consume(1, startMs, value)],
      ["the cost of look", (meter, value) => meter.look(value, startMs)],
      ["the time of look", (meter, value) => meter.look(1, value)],
      ["the held units of look", (meter, value) => meter.look(1, startMs, value)],
      ["the cost of book", (meter, value) => meter.book(value, startMs, startMs)],
      ["the instant of book", (meter, value) => meter.book(1, value, startMs)],
      ["the time of book", (meter, value) => meter.book(1, startMs, value)],
      ["the cost of refund", (meter, value) => meter.refund(value, startMs, startMs)],
      ["the instant of refund", (meter, value) => meter.refund(1, value, startMs)],
      ["the time of refund", (meter, value) => meter.refund(1, startMs, value)],
    ];

    test.each(calls)("is an error that changes nothing: %s", (_name, call) => {
      const meter = spent(2, limitOf(variant, 5, windowMs));
      const before = structuredClone(meter.snapshot());
      const { changes } = meter;
      for (const value of bad) {
        expect(() => call(meter, value)).toThrow(RangeError);
      }
      expect(meter.snapshot()).toStrictEqual(before);
      expect(meter.changes).toBe(changes);
    });
  },
);

describe.each(limitSets)("changes: $title", (cast) => {
  test(
    "grows whenever what was written before would decide otherwise",
    forAll([scenarios(cast)], (story) => {
      const teller = new ScenarioRun(
        createMeter(story.limits),
        story.startMs,
        story.longestWindowMs,
      );
      let changes = 0;
      let written = teller.meter.snapshot();
      for (const step of story.steps) {
        teller.apply(step);
        const { meter } = teller;
        if (meter.changes > changes) written = meter.snapshot();
        ({ changes } = meter);
        const atMs = meter.seenMs;
        expectSame(createMeter(story.limits, written).look(1, atMs), meter.look(1, atMs));
      }
    }),
  );

  test(
    "stays when a request leaves the snapshot as it was",
    forAll([scenarios(cast, ["consume", "fill", "look"])], (story) => {
      // The clock may step back by more than the longest window: then even a denial changes what is kept.
      const teller = new ScenarioRun(createMeter(story.limits), story.startMs, 20 * story.tickMs);
      for (const step of [...story.steps, ...story.laterSteps]) {
        const { meter } = teller;
        const { changes } = meter;
        const before = JSON.stringify(meter.snapshot());
        teller.apply(step);
        expect(meter.changes > changes).toBe(JSON.stringify(meter.snapshot()) !== before);
      }
    }),
  );
});

describe.each(plainVariants)("a meter: $title", (variant) => {
  const limits = [limitOf(variant, 5, windowMs)];

  test("works from the first millisecond of the epoch", () => {
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

  test("is not changed by booking or giving back nothing, whatever the time", () => {
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

describe("a meter", () => {
  const everything: readonly Limit[] = plainVariants.map((variant, index) =>
    limitOf(variant, 5, windowMs, `limit-${index}`),
  );

  test("that has spent nothing has nothing to keep", () => {
    const meter = createMeter(everything);
    meter.look(1, startMs);
    expect(meter.idleAtMs()).toBe(0);
    expect(meter.changes).toBe(0);
    expect(meter.refused).toBeNull();
  });

  test("without limits allows everything", () => {
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

  test("does not hear of what becomes of a snapshot it has answered or was made of", () => {
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

  test("refuses a limit of a strategy that it does not know", () => {
    const [limit] = parseLimits("1/minute");
    if (limit === undefined) throw new Error("one limit was asked for");
    expect(() => createMeter([{ ...limit, strategy: "of tomorrow" }])).toThrow(RangeError);
  });
});
