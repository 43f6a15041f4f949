/** The sliding log: its size, the data that its versions share, and corrections in its middle. */
import { serialize } from "node:v8";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createMeter, type Meter, parseLimits, strategies } from "../../src/strategies/index.ts";
import { forAll } from "../for-all.ts";
import { expectSame, limitFrom, packed, remainingAt, startMs } from "./meters.ts";

const limitsOf = (text: string) => parseLimits(text, { strategy: "sliding-log" });

/** The number of bytes that a snapshot takes in storage. */
const sizeOf = (meter: Meter): number => serialize(meter.snapshot()).byteLength;

describe("a log of 100,000 units", () => {
  const limits = limitsOf("100000 per 100 seconds");

  /** A log with one unit in each millisecond, which has the greatest number of runs. */
  function full(): Meter {
    const meter = createMeter(limits);
    for (let offsetMs = 0; offsetMs < 100_000; offsetMs++) meter.consume(1, startMs + offsetMs);
    return meter;
  }

  // The test would take minutes if each decision walked through or copied the whole log.
  test("a full log of 100,000 units admits one unit for each unit that stops counting", () => {
    const meter = full();
    expect(meter.look(1, startMs + 99_999)).toMatchObject({
      allowed: false,
      retryAfterMs: 1,
      limits: [{ remaining: 0, replenishAfterMs: 1, resetAfterMs: 100_000 }],
    });
    expect(meter.look(50_000, startMs + 99_999).retryAfterMs).toBe(50_000);
    let wrongDecisions = 0;
    for (let offsetMs = 100_000; offsetMs < 250_000; offsetMs++) {
      if (meter.consume(2, startMs + offsetMs).allowed) wrongDecisions++;
      if (!meter.consume(1, startMs + offsetMs).allowed) wrongDecisions++;
    }
    expect(wrongDecisions).toBe(0);
    expect(remainingAt(meter, startMs + 249_999)).toBe(0);
    expect(remainingAt(meter, startMs + 349_998)).toBe(99_999);
    expect(meter.idleAtMs()).toBe(startMs + 349_999);
  });

  test("a log is stored in at most 3 bytes for each time with spends, and units that no longer count take none", () => {
    const meter = full();
    expect(sizeOf(meter)).toBeLessThan(3 * 100_000);
    for (let offsetMs = 100_000; offsetMs < 250_000; offsetMs++) meter.consume(1, startMs + offsetMs);
    expect(sizeOf(meter)).toBeLessThan(3 * 100_000);
    meter.consume(1, startMs + 349_998);
    expect(sizeOf(meter)).toBeLessThan(100);
  });

  test("a full log over the longest window takes less than mostStoredBytes in storage", () => {
    const limit = limitFrom("100000 per 3650 days", "sliding-log");
    const mostBytes = strategies.get("sliding-log")?.mostStoredBytes(limit) ?? 0;
    const stepMs = limit.windowMs / limit.limit;
    const meter = createMeter([limit]);
    for (let step = 0; step < limit.limit; step++) meter.consume(1, startMs + step * stepMs);
    expect(remainingAt(meter, startMs + limit.windowMs - 1)).toBe(0);
    expect(sizeOf(meter)).toBeLessThan(mostBytes);
  });

  test("a log stores one run for each time with spends, whatever the number of units", () => {
    const meter = createMeter(limits);
    for (let unit = 0; unit < 100_000; unit++) {
      meter.consume(1, startMs + 10_000 * Math.floor(unit / 10_000));
    }
    expect(remainingAt(meter, startMs + 90_000)).toBe(0);
    expect(sizeOf(meter)).toBeLessThan(150);
  });

  test("a full log makes the same decisions after it is restored", () => {
    const meter = full();
    const restored = createMeter(limits, structuredClone(meter.snapshot()));
    for (const offsetMs of [100_000, 100_001, 130_000, 199_998, 199_999]) {
      expect(restored.consume(7, startMs + offsetMs)).toStrictEqual(meter.consume(7, startMs + offsetMs));
    }
  });
});

describe("meters that share parts of a log", () => {
  test("two meters created from one snapshot do not affect each other", () => {
    const limits = limitsOf("10/minute");
    const meter = createMeter(limits);
    for (let offsetMs = 0; offsetMs < 5; offsetMs++) meter.consume(1, startMs + offsetMs);
    const snapshot = meter.snapshot();
    const [one, other] = [createMeter(limits, snapshot), createMeter(limits, snapshot)];
    one.consume(3, startMs + 10);
    other.consume(1, startMs + 20);
    one.refund(1, startMs + 2, startMs + 30);
    other.book(2, startMs + 3, startMs + 40);
    expect(remainingAt(one, startMs + 50)).toBe(3);
    expect(remainingAt(other, startMs + 50)).toBe(2);
    expect(remainingAt(createMeter(limits, snapshot), startMs + 50)).toBe(5);
    expect(remainingAt(meter, startMs + 50)).toBe(5);
    expect(one.look(5, startMs + 50).retryAfterMs).toBe(60_000 - 49);
    expect(other.look(5, startMs + 50).retryAfterMs).toBe(60_000 - 48);
  });

  test("a look that counts lent units as spent does not affect later decisions", () => {
    const limits = limitsOf("10/minute");
    const [disturbed, undisturbed] = [createMeter(limits), createMeter(limits)];
    for (let step = 0; step < 12; step++) {
      const nowMs = startMs + 1_000 * step;
      disturbed.look(2, nowMs, 3);
      disturbed.look(1, nowMs + 500, 1);
      expect(disturbed.consume(1, nowMs)).toStrictEqual(undisturbed.consume(1, nowMs));
      disturbed.look(1, nowMs, 5);
    }
    expect(disturbed.snapshot()).toStrictEqual(undisturbed.snapshot());
  });
});

const spentAt = (...offsetsMs: number[]): Meter => {
  const meter = createMeter(limitsOf("10/second"));
  for (const offsetMs of offsetsMs) meter.consume(1, startMs + offsetMs);
  return meter;
};

/** The times at which the used units stop counting, in milliseconds since the start. */
function endsOf(meter: Meter, nowMs: number): number[] {
  const used = 10 - remainingAt(meter, nowMs);
  return Array.from({ length: used }, (_, index) => {
    const waitMs = meter.look(10 - used + index + 1, nowMs).retryAfterMs ?? Number.NaN;
    return nowMs + waitMs - startMs;
  });
}

describe("a late booking in a sliding log", () => {
  test("a booking in a log counts from its own time on, before, between and at earlier spends", () => {
    const meter = spentAt(100, 300, 500);
    meter.book(2, startMs + 200, startMs + 600);
    meter.book(1, startMs + 300, startMs + 600);
    meter.book(1, startMs + 50, startMs + 600);
    meter.book(1, startMs + 550, startMs + 600);
    expect(endsOf(meter, startMs + 600)).toEqual([1_050, 1_100, 1_200, 1_200, 1_300, 1_300, 1_500, 1_550]);
  });

  test("a booking in a log does not count when it is one window old, and counts when it is a millisecond younger", () => {
    const meter = spentAt(500);
    meter.book(1, startMs, startMs + 1_000);
    expect(remainingAt(meter, startMs + 1_000)).toBe(9);
    meter.book(1, startMs + 1, startMs + 1_000);
    expect(endsOf(meter, startMs + 1_000)).toEqual([1_001, 1_500]);
  });

  test("a booking beyond the limit of a log leaves a debt, which delays later requests", () => {
    const meter = spentAt(100, 300);
    meter.book(15, startMs + 200, startMs + 400);
    expect(meter.look(1, startMs + 400)).toMatchObject({ allowed: false, retryAfterMs: 800 });
    expect(remainingAt(meter, startMs + 1_199)).toBe(0);
    expect(remainingAt(meter, startMs + 1_200)).toBe(9);
  });
});

describe("a refund to a sliding log", () => {
  test("a refund in the middle of a log leaves the other runs unchanged", () => {
    const meter = spentAt(100, 200, 200, 200, 300);
    meter.refund(2, startMs + 200, startMs + 400);
    expect(endsOf(meter, startMs + 400)).toEqual([1_100, 1_200, 1_300]);
    meter.refund(1, startMs + 200, startMs + 400);
    expect(endsOf(meter, startMs + 400)).toEqual([1_100, 1_300]);
    meter.refund(1, startMs + 100, startMs + 400);
    meter.refund(1, startMs + 300, startMs + 400);
    expect(endsOf(meter, startMs + 400)).toEqual([]);
    expect(meter.idleAtMs()).toBe(0);
  });

  test("a refund of a unit that no longer counts has no effect", () => {
    const meter = spentAt(100, 300);
    meter.refund(1, startMs + 100, startMs + 1_100);
    expect(endsOf(meter, startMs + 1_100)).toEqual([1_300]);
  });

  test("a refund of a spend with a lagging clock applies to the time at which the spend counts", () => {
    const meter = spentAt(500);
    expect(meter.consume(2, startMs + 200).allowed).toBe(true);
    expect(endsOf(meter, startMs + 500)).toEqual([1_500, 1_500, 1_500]);
    meter.refund(2, startMs + 200, startMs + 600);
    expect(endsOf(meter, startMs + 600)).toEqual([1_500]);
  });
});

describe("the validation of a stored log", () => {
  const limit = limitFrom("6/minute", "sliding-log");
  const strategy = strategies.get("sliding-log");
  const seenMs = 1_000;
  const restoreLog = (value: unknown): unknown => strategy?.restore(limit, value, seenMs);

  // The integers are the age and units of the first run, and then the step and units of each further run.
  test.each([
    ["without runs", []],
    ["with a run", [990, 2]],
    ["with a run at the epoch", [1_000, 1]],
    ["with two runs", [990, 2, 5, 1]],
    ["with integers of several characters", [990, 1_000_000, 480, 33]],
    ["with a run at the latest time seen", [990, 2, 990, 7]],
  ])("a stored log %s is restored", (_title, integers) => {
    const state = restoreLog(packed(...integers));
    expect(state).not.toBeNull();
    expect(strategy?.store(limit, state, seenMs)).toBe(packed(...integers));
  });

  test.each([
    ["ends within a run", packed(990, 2, 5)],
    ["ends within an integer", `${packed(990, 2, 5)}-`],
    ["contains a run of 0 units", packed(990, 0)],
    ["contains a later run of 0 units", packed(990, 2, 5, 0)],
    ["contains an instant twice", packed(990, 2, 0, 1)],
    ["begins before the epoch", packed(1_001, 1)],
    ["continues after the latest time seen", packed(990, 2, 991, 7)],
    ["contains more units than a safe integer", `${packed(990)}${"_".repeat(10)}P`],
    ["contains an endless integer", `${packed(990)}${"g".repeat(20)}B`],
    ["contains a character outside the alphabet", `${packed(990, 2)}!B`],
  ])("a stored log that %s is refused", (_title, text) => {
    expect(restoreLog(text)).toBeNull();
  });

  test("a stored log that is not a text is refused", () => {
    for (const value of [[10, 2], { 0: 10, 1: 2 }, new Uint8Array([10, 2]), null, 990]) {
      expect(restoreLog(value)).toBeNull();
    }
  });
});

describe("versions of a log", () => {
  const limit = limitFrom("6/10ms", "sliding-log");
  const strategy = strategies.get("sliding-log");

  interface Version {
    readonly log: unknown;
    /** The times of all spent units, including units that no longer count. */
    readonly units: readonly number[];
    readonly nowMs: number;
  }

  const move = fc.record({
    pick: fc.nat(60),
    idleMs: fc.constantFrom(0, 0, 1, 2, 3, 7, 12),
    agoMs: fc.constantFrom(0, 0, 0, 0, 1, 2, 5, 11),
    units: fc.integer({ min: 1, max: 4 }),
    isRefund: fc.constantFrom(false, false, false, true),
  });

  test(
    "a change to one version of a log does not change any other version",
    forAll(
      [fc.array(move, { maxLength: 60 })],
      (moves) => {
        if (strategy === undefined) throw new Error("expected a registered strategy");
        const versions: Version[] = [{ log: strategy.fresh(), units: [], nowMs: startMs }];
        for (const { pick, idleMs, agoMs, units, isRefund } of moves) {
          // Most changes start from a recent version, and a few from an old one.
          const from = versions[Math.max(0, versions.length - 1 - (pick % 7) * (pick % 5))];
          if (from === undefined) continue;
          const nowMs = from.nowMs + idleMs;
          const refundedAtMs = isRefund ? from.units.at(pick % Math.max(1, from.units.length)) : undefined;
          if (refundedAtMs === undefined) {
            const atMs = nowMs - agoMs;
            const log = strategy.spend(limit, from.log, { atMs, units }, nowMs);
            const added = Array.from({ length: units }, () => atMs);
            versions.push({ log, units: [...from.units, ...added], nowMs });
          } else {
            const log = strategy.refund(limit, from.log, { atMs: refundedAtMs, units: 1 }, nowMs);
            versions.push({
              log,
              units: from.units.toSpliced(from.units.indexOf(refundedAtMs), 1),
              nowMs,
            });
          }
        }
        for (const { log, units, nowMs } of versions) {
          for (const atMs of [nowMs, nowMs + 1, nowMs + 4, nowMs + 9, nowMs + 10]) {
            const used = units.filter((unit) => atMs - unit < limit.windowMs);
            expectSame(strategy.used(limit, log, atMs), used.length);
          }
          const leaving = units.map((unit) => unit + limit.windowMs).toSorted((a, b) => a - b);
          const room = (atMs: number): number => limit.limit - leaving.filter((at) => at > atMs).length;
          const fitsAtMs = [nowMs, ...leaving].find((atMs) => atMs >= nowMs && room(atMs) >= 3);
          // waitMs is defined only for a cost that does not fit.
          if (fitsAtMs === nowMs) continue;
          expectSame(strategy.waitMs(limit, log, 3, nowMs), (fitsAtMs ?? Number.NaN) - nowMs);
        }
      },
      500,
    ),
  );
});
