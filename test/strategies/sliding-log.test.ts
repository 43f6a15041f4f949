/** What only a log can get wrong: its size, what its versions share, and corrections in its midst. */
import { serialize } from "node:v8";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createMeter, type Meter, parseLimits, strategies } from "../../src/strategies/index.ts";
import { forAll } from "../for-all.ts";
import { expectSame, remainingOf } from "./meters.ts";

const startMs = Date.UTC(2026, 2, 14);

const limitsOf = (text: string) => parseLimits(text, { strategy: "sliding-log" });

const remainingAt = (meter: Meter, nowMs: number): number => remainingOf(meter.look(1, nowMs));

/** The bytes that a snapshot takes in storage. */
const sizeOf = (meter: Meter): number => serialize(meter.snapshot()).byteLength;

describe("a log of 100,000 units", () => {
  const limits = limitsOf("100000 per 100 seconds");

  /** One unit in each millisecond: as many runs as a log can have. */
  function full(): Meter {
    const meter = createMeter(limits);
    for (let offsetMs = 0; offsetMs < 100_000; offsetMs++) meter.consume(1, startMs + offsetMs);
    return meter;
  }

  // Were the whole log walked or copied at each decision, this would take minutes.
  test("is filled unit by unit, and goes on one for one", () => {
    const meter = full();
    expect(meter.look(1, startMs + 99_999)).toMatchObject({
      allowed: false,
      retryAfterMs: 1,
      limits: [{ remaining: 0, replenishAfterMs: 1, resetAfterMs: 100_000 }],
    });
    expect(meter.look(50_000, startMs + 99_999).retryAfterMs).toBe(50_000);
    let surprises = 0;
    for (let offsetMs = 100_000; offsetMs < 250_000; offsetMs++) {
      if (meter.consume(2, startMs + offsetMs).allowed) surprises++;
      if (!meter.consume(1, startMs + offsetMs).allowed) surprises++;
    }
    expect(surprises).toBe(0);
    expect(remainingAt(meter, startMs + 249_999)).toBe(0);
    expect(remainingAt(meter, startMs + 349_998)).toBe(99_999);
    expect(meter.idleAtMs()).toBe(startMs + 349_999);
  });

  test("is stored in a few bytes for each instant, and none for what counts no more", () => {
    const meter = full();
    expect(sizeOf(meter)).toBeLessThan(3 * 100_000);
    for (let offsetMs = 100_000; offsetMs < 250_000; offsetMs++)
      meter.consume(1, startMs + offsetMs);
    expect(sizeOf(meter)).toBeLessThan(3 * 100_000);
    meter.consume(1, startMs + 349_998);
    expect(sizeOf(meter)).toBeLessThan(100);
  });

  test("takes no more bytes than its strategy says, over the longest window there is", () => {
    const [limit] = limitsOf("100000 per 3650 days");
    const strategy = strategies.get("sliding-log");
    if (limit === undefined || strategy === undefined) throw new Error("no log to test");
    const stepMs = limit.windowMs / limit.limit;
    const meter = createMeter([limit]);
    for (let step = 0; step < limit.limit; step++) meter.consume(1, startMs + step * stepMs);
    expect(remainingAt(meter, startMs + limit.windowMs - 1)).toBe(0);
    expect(sizeOf(meter)).toBeLessThan(strategy.mostStoredBytes(limit));
  });

  test("is stored as one run for each instant, however many units it has", () => {
    const meter = createMeter(limits);
    for (let unit = 0; unit < 100_000; unit++) {
      meter.consume(1, startMs + 10_000 * Math.floor(unit / 10_000));
    }
    expect(remainingAt(meter, startMs + 90_000)).toBe(0);
    expect(sizeOf(meter)).toBeLessThan(150);
  });

  test("decides the same when revived", () => {
    const meter = full();
    const revived = createMeter(limits, structuredClone(meter.snapshot()));
    for (const offsetMs of [100_000, 100_001, 130_000, 199_998, 199_999]) {
      expect(revived.consume(7, startMs + offsetMs)).toStrictEqual(
        meter.consume(7, startMs + offsetMs),
      );
    }
  });
});

describe("two meters made of one snapshot", () => {
  test("do not hear of one another", () => {
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

  test("nor does one of what it only looks at with units held", () => {
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

/** When each of the units that count will have left, in milliseconds since the start. */
function leavingAt(meter: Meter, nowMs: number): number[] {
  const counted = 10 - remainingAt(meter, nowMs);
  return Array.from({ length: counted }, (_, index) => {
    const waitMs = meter.look(10 - counted + index + 1, nowMs).retryAfterMs ?? Number.NaN;
    return nowMs + waitMs - startMs;
  });
}

describe("a booking in the past", () => {
  test("counts from then on, wherever it falls", () => {
    const meter = spentAt(100, 300, 500);
    meter.book(2, startMs + 200, startMs + 600);
    meter.book(1, startMs + 300, startMs + 600);
    meter.book(1, startMs + 50, startMs + 600);
    meter.book(1, startMs + 550, startMs + 600);
    expect(leavingAt(meter, startMs + 600)).toEqual([
      1_050, 1_100, 1_200, 1_200, 1_300, 1_300, 1_500, 1_550,
    ]);
  });

  test("that is a window old counts no more, and one a millisecond younger does", () => {
    const meter = spentAt(500);
    meter.book(1, startMs, startMs + 1_000);
    expect(remainingAt(meter, startMs + 1_000)).toBe(9);
    meter.book(1, startMs + 1, startMs + 1_000);
    expect(leavingAt(meter, startMs + 1_000)).toEqual([1_001, 1_500]);
  });

  test("of more than there is room for delays what comes after", () => {
    const meter = spentAt(100, 300);
    meter.book(15, startMs + 200, startMs + 400);
    expect(meter.look(1, startMs + 400)).toMatchObject({ allowed: false, retryAfterMs: 800 });
    expect(remainingAt(meter, startMs + 1_199)).toBe(0);
    expect(remainingAt(meter, startMs + 1_200)).toBe(9);
  });
});

describe("a refund", () => {
  test("in the midst leaves the others where they are", () => {
    const meter = spentAt(100, 200, 200, 200, 300);
    meter.refund(2, startMs + 200, startMs + 400);
    expect(leavingAt(meter, startMs + 400)).toEqual([1_100, 1_200, 1_300]);
    meter.refund(1, startMs + 200, startMs + 400);
    expect(leavingAt(meter, startMs + 400)).toEqual([1_100, 1_300]);
    meter.refund(1, startMs + 100, startMs + 400);
    meter.refund(1, startMs + 300, startMs + 400);
    expect(leavingAt(meter, startMs + 400)).toEqual([]);
    expect(meter.idleAtMs()).toBe(0);
  });

  test("of what counts no more gives nothing back", () => {
    const meter = spentAt(100, 300);
    meter.refund(1, startMs + 100, startMs + 1_100);
    expect(leavingAt(meter, startMs + 1_100)).toEqual([1_300]);
  });

  test("of a spend whose clock lagged is taken from where it was counted", () => {
    const meter = spentAt(500);
    expect(meter.consume(2, startMs + 200).allowed).toBe(true);
    expect(leavingAt(meter, startMs + 500)).toEqual([1_500, 1_500, 1_500]);
    meter.refund(2, startMs + 200, startMs + 600);
    expect(leavingAt(meter, startMs + 600)).toEqual([1_500]);
  });
});

describe("a stored log", () => {
  const [limit] = limitsOf("6/minute");
  const strategy = strategies.get("sliding-log");
  const seenMs = 1_000;
  const revive = (stored: unknown): unknown =>
    limit === undefined ? undefined : strategy?.restore(limit, stored, seenMs);

  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  /** Five bits a character, the lowest first; the sixth says that more follow. */
  const written = (integers: readonly number[]): string =>
    integers
      .flatMap((integer) =>
        integer
          .toString(32)
          .split("")
          .toReversed()
          .map((digit, index, all) => parseInt(digit, 32) + (index + 1 < all.length ? 32 : 0)),
      )
      .map((value) => digits.charAt(value))
      .join("");

  // The age of the first run and its units, then step and units of each other.
  test.each([
    ["without runs", []],
    ["with a run", [990, 2]],
    ["with a run at the epoch", [1_000, 1]],
    ["with two runs", [990, 2, 5, 1]],
    ["with integers of several characters", [990, 1_000_000, 480, 33]],
    ["with a run at the latest time seen", [990, 2, 990, 7]],
  ])("%s is revived", (_title, integers) => {
    const state = revive(written(integers));
    expect(state).not.toBeNull();
    expect(limit && strategy?.store(limit, state, seenMs)).toBe(written(integers));
  });

  test.each([
    ["ends within a run", written([990, 2, 5])],
    ["ends within an integer", `${written([990, 2, 5])}-`],
    ["holds a run without units", written([990, 0])],
    ["holds a run without units after another", written([990, 2, 5, 0])],
    ["holds an instant twice", written([990, 2, 0, 1])],
    ["begins before the epoch", written([1_001, 1])],
    ["goes on after the latest time seen", written([990, 2, 991, 7])],
    ["holds more units than a number does", `${written([990])}${"_".repeat(10)}P`],
    ["holds an integer without end", `${written([990])}${"g".repeat(20)}B`],
    ["holds another character", `${written([990, 2])}!B`],
  ])("that %s is refused", (_title, text) => {
    expect(revive(text)).toBeNull();
  });

  test("that is no text is refused", () => {
    for (const stored of [[10, 2], { 0: 10, 1: 2 }, new Uint8Array([10, 2]), null, 990]) {
      expect(revive(stored)).toBeNull();
    }
  });
});

describe("versions of a log", () => {
  const [limit] = limitsOf("6/10ms");
  const strategy = strategies.get("sliding-log");

  interface Version {
    readonly log: unknown;
    /** The instants of all units spent, of which the log may forget those that count no more. */
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
    "share what they have in common, and none ever changes another",
    forAll(
      [fc.array(move, { maxLength: 60 })],
      (moves) => {
        if (limit === undefined || strategy === undefined) throw new Error("no log to test");
        const versions: Version[] = [{ log: strategy.fresh(), units: [], nowMs: startMs }];
        for (const { pick, idleMs, agoMs, units, isRefund } of moves) {
          // Mostly the latest go on, now and then one long left behind.
          const from = versions[Math.max(0, versions.length - 1 - (pick % 7) * (pick % 5))];
          if (from === undefined) continue;
          const nowMs = from.nowMs + idleMs;
          const given = isRefund ? from.units.at(pick % Math.max(1, from.units.length)) : undefined;
          if (given === undefined) {
            const atMs = nowMs - agoMs;
            const log = strategy.spend(limit, from.log, units, atMs, nowMs);
            const added = Array.from({ length: units }, () => atMs);
            versions.push({ log, units: [...from.units, ...added], nowMs });
          } else {
            const log = strategy.refund(limit, from.log, 1, given, nowMs);
            versions.push({
              log,
              units: from.units.toSpliced(from.units.indexOf(given), 1),
              nowMs,
            });
          }
        }
        for (const { log, units, nowMs } of versions) {
          for (const atMs of [nowMs, nowMs + 1, nowMs + 4, nowMs + 9, nowMs + 10]) {
            const counted = units.filter((unit) => atMs - unit < limit.windowMs);
            expectSame(strategy.used(limit, log, atMs), counted.length);
          }
          const leaving = units.map((unit) => unit + limit.windowMs).toSorted((a, b) => a - b);
          const room = (atMs: number): number =>
            limit.limit - leaving.filter((at) => at > atMs).length;
          const fitsAtMs = [nowMs, ...leaving].find((atMs) => atMs >= nowMs && room(atMs) >= 3);
          // A wait is asked for only where the cost does not fit.
          if (fitsAtMs === nowMs) continue;
          expectSame(strategy.waitMs(limit, log, 3, nowMs), (fitsAtMs ?? Number.NaN) - nowMs);
        }
      },
      2_000,
    ),
  );
});
