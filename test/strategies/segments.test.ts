/** Long logs are stored in sealed segments. A correction changes as few segments as possible. */
import { serialize } from "node:v8";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  attachSegments,
  createMeter,
  detachSegments,
  type Limit,
  type Meter,
  parseLimits,
  strategies,
} from "../../src/strategies/index.ts";
import { forAll } from "../for-all.ts";
import { expectSame, limitFrom, packed, remainders, remainingAt, startMs } from "./meters.ts";

const limitsOf = (text: string, strategy = "sliding-log") => parseLimits(text, { strategy });

/** A meter that has spent `count` single units, `stepMs` apart. */
function spentEvery(stepMs: number, count: number, limits: readonly Limit[]): Meter {
  const meter = createMeter(limits);
  for (let unit = 0; unit < count; unit++) meter.consume(1, startMs + unit * stepMs);
  return meter;
}

/** The texts in the snapshot of a single limit: the sealed segments, and then the tail. */
function textsOf(meter: Meter): string[] {
  const [, , state] = meter.snapshot() as [number, number, [string, number, string | string[]]];
  return [state[2]].flat();
}

const sealedOf = (meter: Meter): string[] => textsOf(meter).slice(0, -1);

describe("the segments of a long log", () => {
  const limits = limitsOf("10000 per 100 seconds");

  test("a sealed segment is stored with the same text in all later snapshots", () => {
    const meter = spentEvery(10, 4_000, limits);
    const before = sealedOf(meter);
    expect(before.length).toBeGreaterThan(5);
    for (let unit = 0; unit < 700; unit++) meter.consume(1, startMs + 41_000 + unit);
    const after = sealedOf(meter);
    expect(after.slice(0, before.length)).toEqual(before);
    expect(after.length).toBe(before.length + 2);
  });

  test("a segment is dropped exactly when its last unit stops counting", () => {
    const meter = spentEvery(10, 4_000, limits);
    const [first, second] = sealedOf(meter);
    const lastOfFirstMs = startMs + 511 * 10;
    meter.consume(1, lastOfFirstMs + 99_999);
    expect(sealedOf(meter)[0]).toBe(first);
    meter.consume(1, lastOfFirstMs + 100_000);
    expect(sealedOf(meter)[0]).toBe(second);
  });

  test("a log that is restored from storage has the same segments", () => {
    const meter = spentEvery(10, 4_000, limits);
    meter.refund(1, startMs + 20_000, startMs + 40_000);
    const restored = createMeter(limits, structuredClone(meter.snapshot()));
    expect(restored.refused).toBeNull();
    expect(textsOf(restored)).toEqual(textsOf(meter));
    for (const each of [meter, restored]) each.book(2, startMs + 30_005, startMs + 41_000);
    expect(textsOf(restored)).toEqual(textsOf(meter));
  });

  test("a correction in the middle of a log changes one segment", () => {
    const meter = spentEvery(10, 4_000, limits);
    const before = sealedOf(meter);
    meter.refund(1, startMs + 20_000, startMs + 40_000);
    const after = sealedOf(meter);
    expect(after.filter((text) => !before.includes(text))).toHaveLength(1);
    expect(remainingAt(meter, startMs + 40_000)).toBe(10_000 - 4_000 + 1);
    meter.book(3, startMs + 10_003, startMs + 40_000);
    expect(sealedOf(meter).filter((text) => !before.includes(text))).toHaveLength(2);
  });

  test("a segment is split when it grows to more than twice its size", () => {
    const meter = spentEvery(10_000, 9, limitsOf("100000 per 1000 seconds"));
    for (let unit = 0; unit < 2_000; unit++) meter.consume(1, startMs + 100_000 + unit * 100);
    const before = sealedOf(meter).length;
    for (let unit = 0; unit < 1_500; unit++) meter.book(1, startMs + 110_001 + unit * 2, startMs + 400_000);
    expect(sealedOf(meter).length).toBeGreaterThan(before + 1);
    expect(createMeter(limitsOf("100000 per 1000 seconds"), meter.snapshot()).refused).toBeNull();
  });

  test("a log of which refunds leave few units has no segments", () => {
    const slots = limitsOf("10000 per 100 seconds", "concurrency");
    const meter = spentEvery(10, 4_000, slots);
    for (let unit = 0; unit < 3_990; unit++) {
      const index = (unit * 7) % 3_990;
      meter.refund(1, startMs + index * 10, startMs + 40_000);
    }
    expect(remainingAt(meter, startMs + 40_000)).toBe(10_000 - 10);
    expect(textsOf(meter)).toHaveLength(1);
    expect(textsOf(meter)[0]?.length).toBeLessThan(50);
  });

  test.each([2, 100, 512, 513, 1_000, 5_000])(
    "a log of %i units over ten years takes less than mostStoredBytes",
    (units) => {
      const limit = limitFrom(`${units} per 3650 days`, "sliding-log");
      const meter = spentEvery(Math.floor(limit.windowMs / units), units, [limit]);
      expect(remainingAt(meter, startMs + limit.windowMs - 1)).toBe(0);
      const most = strategies.get("sliding-log")?.mostStoredBytes(limit);
      expect(serialize(meter.snapshot()).byteLength).toBeLessThan(most ?? 0);
    },
  );

  test("a long log that was stored as one text can be read, and is then stored in segments", () => {
    const strategy = strategies.get("sliding-log");
    const long = spentEvery(1, 3_000, limits);
    // One unit in each of 3,000 milliseconds, as the age of the first run, and then the step and units of each run.
    const text = packed(2_999, 1, ...Array.from({ length: 2 * 2_999 }, () => 1));
    const limit = limitFrom("10000 per 100 seconds", "sliding-log");
    const state = strategy?.restore(limit, text, startMs + 2_999);
    expect(state).not.toBeNull();
    expect(strategy?.store(limit, state, startMs + 2_999)).toEqual(textsOf(long));
  });
});

describe("a log of few units", () => {
  test.each([
    ["sliding-log", 100],
    ["sliding-log", 256],
    ["concurrency", 256],
  ])("a %s of %i units has no segments after 3,000 spends", (strategy, limit) => {
    const meter = createMeter(limitsOf(`${limit} per ${limit} seconds`, strategy));
    let most = 0;
    for (let unit = 0; unit < 3_000; unit++) {
      expectSame(meter.consume(1, startMs + unit * 1_000).allowed, true);
      most = Math.max(most, textsOf(meter).length);
    }
    expect(most).toBe(1);
  });

  test("a long log has no segments when few of its units still count", () => {
    const meter = spentEvery(10, 4_000, limitsOf("10000 per 100 seconds"));
    meter.look(1, startMs + 139_000);
    meter.consume(1, startMs + 137_500);
    expect(textsOf(meter)).toHaveLength(1);
    expect(10_000 - remainingAt(meter, startMs + 137_500)).toBeLessThan(257);
  });
});

describe("the validation of stored segments", () => {
  const limit = limitFrom("10000 per 100 seconds", "sliding-log");
  const strategy = strategies.get("sliding-log");
  const seenMs = startMs + 20_000;
  const texts = textsOf(spentEvery(10, 2_001, [limit]));
  const restoreLog = (value: unknown): unknown => strategy?.restore(limit, value, seenMs);
  const [first = "", second = "", third = ""] = texts;
  const tail = texts.at(-1) ?? "";

  test("valid stored segments are restored", () => {
    expect(texts).toHaveLength(4);
    const state = restoreLog(texts);
    expect(state).not.toBeNull();
    expect(strategy?.store(limit, state, seenMs)).toEqual(texts);
  });

  test.each([
    ["are empty", []],
    ["have no tail", [first, second, third]],
    ["have an empty tail", [first, second, third, ""]],
    ["have nothing before the tail", [tail]],
    ["are in another order", [second, first, third, tail]],
    ["contain a segment twice", [first, first, second, third, tail]],
    ["contain an empty segment", [first, "", second, third, tail]],
    ["contain a truncated segment", [first.slice(0, -1), second, third, tail]],
    ["contain a number", [first, 2, third, tail]],
    ["contain a list", [first, [second], third, tail]],
    ["continue after the latest time seen", [first, second, third, `A${"BB".repeat(9)}`]],
    ["contain a character outside the alphabet", [`${first}!`, second, third, tail]],
    ["contain a segment that is too long", [first + "BB".repeat(2_000), tail]],
  ])("stored segments that %s are refused", (_title, stored) => {
    expect(restoreLog(stored)).toBeNull();
  });
});

describe("segments in rows of their own", () => {
  const limits = [
    ...limitsOf("10000 per 100 seconds"),
    ...limitsOf("5/minute", "fixed-window"),
    ...limitsOf("10000 per 200 seconds", "concurrency"),
  ];

  /** Numbers texts, as the storage rows of segments are numbered. */
  function segmentRows() {
    const texts: string[] = [];
    const numberOf = (text: string): number => {
      const known = texts.indexOf(text);
      return known === -1 ? texts.push(text) - 1 : known;
    };
    return { texts, numberOf, textOf: (number: number) => texts[number] };
  }

  test("detached segments can be attached again, whether or not their limits are in use", () => {
    const meter = createMeter(limits.filter((_, index) => index !== 1));
    for (let unit = 0; unit < 2_000; unit++) meter.consume(1, startMs + unit);
    const { texts, numberOf, textOf } = segmentRows();
    const snapshot = meter.snapshot();
    const copy = structuredClone(snapshot);
    const detached: unknown = JSON.parse(JSON.stringify(detachSegments(snapshot, numberOf)));
    expect(snapshot).toStrictEqual(copy);
    // Both logs contain the same times, so they share their segments.
    expect(texts).toHaveLength(3);
    expect(JSON.stringify(detached).length).toBeLessThan(2_500);
    const attached = attachSegments(detached, textOf);
    expect(attached).toStrictEqual(snapshot);
    const foreign = createMeter([], attached);
    expect(foreign.refused).toBeNull();
    expect(detachSegments(foreign.snapshot(), numberOf)).toStrictEqual(detached);
    expect(createMeter(limits, foreign.snapshot()).look(1, startMs + 2_000).limits).toStrictEqual(
      createMeter(limits, snapshot).look(1, startMs + 2_000).limits,
    );
  });

  test("a lost segment resets the state of its own limit only", () => {
    const meter = createMeter(limits);
    meter.book(1, startMs, startMs);
    for (let unit = 0; unit < 2_000; unit++) meter.book(1, startMs + unit, startMs + unit);
    const { numberOf, textOf } = segmentRows();
    const detached = detachSegments(meter.snapshot(), numberOf);
    const attached = attachSegments(detached, (number) => (number === 1 ? undefined : textOf(number)));
    const found = createMeter(limits, attached);
    expect(found.refused).not.toBeNull();
    expect(remainders(found, startMs + 2_000)).toEqual([10_000, 0, 10_000]);
    // The snapshot no longer contains the number of the segment, which a later segment may get.
    const foreign = createMeter([], attached);
    expect(foreign.refused).not.toBeNull();
    expect(createMeter(limits, foreign.snapshot()).refused).toBeNull();
  });

  test(
    "detachSegments and attachSegments accept any value without throwing",
    forAll([fc.anything({ withNullPrototype: true, withSparseArray: true })], (value) => {
      const snapshots = [value, [2, startMs, value], [2, startMs, ["x", 5, value]]];
      for (const each of snapshots) {
        detachSegments(each, () => 7);
        createMeter(
          limits,
          attachSegments(each, () => undefined),
        );
        createMeter(
          limits,
          attachSegments(each, () => "BB"),
        );
      }
    }),
  );
});

describe("a long log with random corrections", () => {
  const limit = limitFrom("5000 per 3 seconds", "concurrency");
  const strategy = strategies.get("concurrency");

  interface LogVersion {
    readonly log: unknown;
    /** The units that count, by the time of their spend. */
    readonly runs: Map<number, number>;
    readonly nowMs: number;
  }

  const move = fc.record({
    kind: fc.constantFrom("spend", "spend", "book", "refund", "refund", "drain", "restore", "back"),
    idleMs: fc.constantFrom(0, 0, 1, 1, 5, 40, 300, 1_200),
    place: fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
    count: fc.integer({ min: 1, max: 400 }),
  });

  test(
    "a long log and its earlier versions decide like a plain list of units",
    forAll(
      [fc.integer({ min: 0, max: 2_500 }), fc.array(move, { maxLength: 25 })],
      (filled, moves) => {
        if (strategy === undefined) throw new Error("expected a registered strategy");
        let nowMs = startMs;
        let log = strategy.fresh();
        let runs = new Map<number, number>();
        const versions: LogVersion[] = [];
        const spend = (atMs: number): void => {
          log = strategy.spend(limit, log, { atMs, units: 1 }, nowMs);
          if (nowMs - atMs < limit.windowMs) runs.set(atMs, (runs.get(atMs) ?? 0) + 1);
        };
        const refund = (atMs: number): void => {
          log = strategy.refund(limit, log, { atMs, units: 1 }, nowMs);
          const left = (runs.get(atMs) ?? 0) - 1;
          if (left > 0) runs.set(atMs, left);
          else runs.delete(atMs);
        };
        for (let unit = 0; unit < filled; unit++) spend((nowMs += 1));
        for (const { kind, idleMs, place, count } of moves) {
          nowMs += idleMs;
          for (const atMs of runs.keys()) if (nowMs - atMs >= limit.windowMs) runs.delete(atMs);
          versions.push({ log, runs: new Map(runs), nowMs });
          const instants = [...runs.keys()].toSorted((a, b) => a - b);
          const from = Math.floor(place * instants.length);
          if (kind === "spend") for (let unit = 0; unit < count; unit++) spend((nowMs += unit % 2));
          const agoMs = Math.floor(place * 3_100);
          if (kind === "book") for (let unit = 0; unit < count; unit++) spend(nowMs - Math.max(0, agoMs - 3 * unit));
          if (kind === "refund") for (const atMs of instants.slice(from, from + 3)) refund(atMs);
          if (kind === "drain")
            for (const atMs of instants.slice(from, from + 2 * count)) while (runs.has(atMs)) refund(atMs);
          if (kind === "restore") {
            const stored = structuredClone(strategy.store(limit, log, nowMs));
            log = strategy.restore(limit, stored, nowMs);
            expectSame(strategy.store(limit, log, nowMs), stored);
          }
          const version = versions[Math.floor(place * versions.length)];
          if (kind === "back" && version !== undefined)
            ({ log, runs, nowMs } = { ...version, runs: new Map(version.runs) });
        }
        versions.push({ log, runs, nowMs });
        for (const version of versions) expectLikeList(version);
      },
      40,
    ),
  );

  function expectLikeList({ log, runs, nowMs }: LogVersion): void {
    if (strategy === undefined) return;
    const all = [...runs].filter(([atMs]) => nowMs - atMs < limit.windowMs).toSorted(([a], [b]) => a - b);
    for (const atMs of [nowMs, nowMs + 700, nowMs + 2_999]) {
      const used = all.reduce((sum, [at, units]) => sum + (atMs - at < limit.windowMs ? units : 0), 0);
      expectSame(strategy.used(limit, log, atMs), used);
    }
    const used = strategy.used(limit, log, nowMs);
    for (const part of [0, 0.3, 0.7, 1]) {
      const leaving = Math.ceil(part * used);
      if (leaving === 0) continue;
      let left = leaving;
      const last = all.find(([, units]) => (left -= units) <= 0);
      // A cost that fits once `leaving` units have stopped counting.
      const cost = limit.limit - used + leaving;
      expectSame(strategy.waitMs(limit, log, cost, nowMs), (last?.[0] ?? 0) + limit.windowMs - nowMs);
    }
    const stored = [strategy.store(limit, log, nowMs)].flat();
    expectSame(all.length > 256 || stored.length === 1, true);
    expectSame(stored.join("").length <= strategy.mostStoredBytes(limit), true);
  }
});
