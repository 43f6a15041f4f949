/** Long logs: what is sealed is stored once, and a correction in the midst changes what it must and no more. */
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
import { expectSame, remainingOf } from "./meters.ts";

const startMs = Date.UTC(2026, 2, 14);

const limitsOf = (text: string, strategy = "sliding-log") => parseLimits(text, { strategy });

const remainingAt = (meter: Meter, nowMs: number): number => remainingOf(meter.look(1, nowMs));

/** A meter that has spent one unit every so often. */
function spentEvery(stepMs: number, count: number, limits: readonly Limit[]): Meter {
  const meter = createMeter(limits);
  for (let unit = 0; unit < count; unit++) meter.consume(1, startMs + unit * stepMs);
  return meter;
}

/** The texts of what the snapshot of a single limit holds: sealed segments, then what still changes. */
function textsOf(meter: Meter): string[] {
  const [, , state] = meter.snapshot() as [number, number, [string, number, string | string[]]];
  return [state[2]].flat();
}

const sealedOf = (meter: Meter): string[] => textsOf(meter).slice(0, -1);

describe("a long log", () => {
  const limits = limitsOf("10000 per 100 seconds");

  test("seals what it holds in segments, which are the same whenever they are written", () => {
    const meter = spentEvery(10, 4_000, limits);
    const before = sealedOf(meter);
    expect(before.length).toBeGreaterThan(5);
    for (let unit = 0; unit < 700; unit++) meter.consume(1, startMs + 41_000 + unit);
    const after = sealedOf(meter);
    expect(after.slice(0, before.length)).toEqual(before);
    expect(after.length).toBe(before.length + 2);
  });

  test("drops a segment once none of it counts, and not before", () => {
    const meter = spentEvery(10, 4_000, limits);
    const [first, second] = sealedOf(meter);
    const lastOfFirstMs = startMs + 511 * 10;
    meter.consume(1, lastOfFirstMs + 99_999);
    expect(sealedOf(meter)[0]).toBe(first);
    meter.consume(1, lastOfFirstMs + 100_000);
    expect(sealedOf(meter)[0]).toBe(second);
  });

  test("knows its segments when it is revived", () => {
    const meter = spentEvery(10, 4_000, limits);
    meter.refund(1, startMs + 20_000, startMs + 40_000);
    const revived = createMeter(limits, structuredClone(meter.snapshot()));
    expect(revived.refused).toBeNull();
    expect(textsOf(revived)).toEqual(textsOf(meter));
    for (const each of [meter, revived]) each.book(2, startMs + 30_005, startMs + 41_000);
    expect(textsOf(revived)).toEqual(textsOf(meter));
  });

  test("changes one segment where it is corrected in its midst", () => {
    const meter = spentEvery(10, 4_000, limits);
    const before = sealedOf(meter);
    meter.refund(1, startMs + 20_000, startMs + 40_000);
    const after = sealedOf(meter);
    expect(after.filter((text) => !before.includes(text))).toHaveLength(1);
    expect(remainingAt(meter, startMs + 40_000)).toBe(10_000 - 4_000 + 1);
    meter.book(3, startMs + 10_003, startMs + 40_000);
    expect(sealedOf(meter).filter((text) => !before.includes(text))).toHaveLength(2);
  });

  test("splits a segment that has grown to more than twice its size", () => {
    const meter = spentEvery(10_000, 9, limitsOf("100000 per 1000 seconds"));
    for (let unit = 0; unit < 2_000; unit++) meter.consume(1, startMs + 100_000 + unit * 100);
    const before = sealedOf(meter).length;
    for (let unit = 0; unit < 1_500; unit++)
      meter.book(1, startMs + 110_001 + unit * 2, startMs + 400_000);
    expect(sealedOf(meter).length).toBeGreaterThan(before + 1);
    expect(createMeter(limitsOf("100000 per 1000 seconds"), meter.snapshot()).refused).toBeNull();
  });

  test("that is given back but for a few needs no segments any more", () => {
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
    "of %i units over ten years takes no more bytes than its strategy says",
    (units) => {
      const [limit] = limitsOf(`${units} per 3650 days`);
      if (limit === undefined) throw new Error("one limit was asked for");
      const meter = spentEvery(Math.floor(limit.windowMs / units), units, [limit]);
      expect(remainingAt(meter, startMs + limit.windowMs - 1)).toBe(0);
      const most = strategies.get("sliding-log")?.mostStoredBytes(limit);
      expect(serialize(meter.snapshot()).byteLength).toBeLessThan(most ?? 0);
    },
  );

  test("that was stored as one text is read, and stored in segments from then on", () => {
    const strategy = strategies.get("sliding-log");
    const long = spentEvery(1, 3_000, limits);
    const text = wholeText(3_000);
    const [limit] = limits;
    const state = limit && strategy?.restore(limit, text, startMs + 2_999);
    expect(state).not.toBeNull();
    expect(limit && strategy?.store(limit, state, startMs + 2_999)).toEqual(textsOf(long));
  });
});

/** One unit in each of so many milliseconds, the last of them now, in one text. */
function wholeText(count: number): string {
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  let age = "";
  let rest = count - 1;
  for (; rest >= 32; rest = Math.floor(rest / 32)) age += digits.charAt(32 + (rest % 32));
  return `${age}${digits.charAt(rest)}B${"BB".repeat(count - 1)}`;
}

describe("a short log", () => {
  test.each([
    ["sliding-log", 100],
    ["sliding-log", 256],
    ["concurrency", 256],
  ])("%s of %i has no segments, however long it is used", (strategy, limit) => {
    const meter = createMeter(limitsOf(`${limit} per ${limit} seconds`, strategy));
    let most = 0;
    for (let unit = 0; unit < 3_000; unit++) {
      expectSame(meter.consume(1, startMs + unit * 1_000).allowed, true);
      most = Math.max(most, textsOf(meter).length);
    }
    expect(most).toBe(1);
  });

  test("that was long has none either, once few of it count", () => {
    const meter = spentEvery(10, 4_000, limitsOf("10000 per 100 seconds"));
    meter.look(1, startMs + 139_000);
    meter.consume(1, startMs + 137_500);
    expect(textsOf(meter)).toHaveLength(1);
    expect(10_000 - remainingAt(meter, startMs + 137_500)).toBeLessThan(257);
  });
});

describe("stored segments", () => {
  const [limit] = limitsOf("10000 per 100 seconds");
  const strategy = strategies.get("sliding-log");
  const seenMs = startMs + 20_000;
  const texts = textsOf(spentEvery(10, 2_001, limit === undefined ? [] : [limit]));
  const revive = (stored: unknown): unknown => limit && strategy?.restore(limit, stored, seenMs);
  const [first = "", second = "", third = ""] = texts;
  const tail = texts.at(-1) ?? "";

  test("are revived", () => {
    expect(texts).toHaveLength(4);
    const state = revive(texts);
    expect(state).not.toBeNull();
    expect(limit && strategy?.store(limit, state, seenMs)).toEqual(texts);
  });

  test.each([
    ["are none", []],
    ["have no tail", [first, second, third]],
    ["have an empty tail", [first, second, third, ""]],
    ["have nothing before the tail", [tail]],
    ["are in another order", [second, first, third, tail]],
    ["are there twice", [first, first, second, third, tail]],
    ["are empty", [first, "", second, third, tail]],
    ["lack an end", [first.slice(0, -1), second, third, tail]],
    ["have a number among them", [first, 2, third, tail]],
    ["have a list among them", [first, [second], third, tail]],
    ["go on after the latest time seen", [first, second, third, `A${"BB".repeat(9)}`]],
    ["hold other characters", [`${first}!`, second, third, tail]],
    ["are too long for a segment", [first + "BB".repeat(2_000), tail]],
  ])("that %s are refused", (_title, stored) => {
    expect(revive(stored)).toBeNull();
  });
});

describe("segments in rows of their own", () => {
  const limits = [
    ...limitsOf("10000 per 100 seconds"),
    ...limitsOf("5/minute", "fixed-window"),
    ...limitsOf("10000 per 200 seconds", "concurrency"),
  ];

  function keeper() {
    const texts: string[] = [];
    const numberOf = (text: string): number => {
      const known = texts.indexOf(text);
      return known === -1 ? texts.push(text) - 1 : known;
    };
    return { texts, numberOf, textOf: (number: number) => texts[number] };
  }

  test("are found again, whether their limits are given or not", () => {
    const meter = createMeter(limits.filter((_, index) => index !== 1));
    for (let unit = 0; unit < 2_000; unit++) meter.consume(1, startMs + unit);
    const { texts, numberOf, textOf } = keeper();
    const snapshot = meter.snapshot();
    const copy = structuredClone(snapshot);
    const detached: unknown = JSON.parse(JSON.stringify(detachSegments(snapshot, numberOf)));
    expect(snapshot).toStrictEqual(copy);
    // Both limits were spent at the same instants.
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

  test("that are lost cost the state of their limit, and no other", () => {
    const meter = createMeter(limits);
    meter.book(1, startMs, startMs);
    for (let unit = 0; unit < 2_000; unit++) meter.book(1, startMs + unit, startMs + unit);
    const { numberOf, textOf } = keeper();
    const detached = detachSegments(meter.snapshot(), numberOf);
    const attached = attachSegments(detached, (number) =>
      number === 1 ? undefined : textOf(number),
    );
    const found = createMeter(limits, attached);
    expect(found.refused).not.toBeNull();
    expect(found.look(1, startMs + 2_000).limits.map(({ remaining }) => remaining)).toEqual([
      10_000, 0, 10_000,
    ]);
    // Nor is a number passed on, which may stand for something else by then.
    const foreign = createMeter([], attached);
    expect(foreign.refused).not.toBeNull();
    expect(createMeter(limits, foreign.snapshot()).refused).toBeNull();
  });

  test(
    "are none of what is no snapshot",
    forAll([fc.anything({ withNullPrototype: true, withSparseArray: true })], (rubbish) => {
      const wrapped = [rubbish, [2, startMs, rubbish], [2, startMs, ["x", 5, rubbish]]];
      for (const value of wrapped) {
        detachSegments(value, () => 7);
        createMeter(
          limits,
          attachSegments(value, () => undefined),
        );
        createMeter(
          limits,
          attachSegments(value, () => "BB"),
        );
      }
    }),
  );
});

describe("a long log that is corrected at random", () => {
  const [limit] = limitsOf("5000 per 3 seconds", "concurrency");
  const strategy = strategies.get("concurrency");

  const move = fc.record({
    kind: fc.constantFrom("spend", "spend", "book", "refund", "refund", "drain", "revive", "back"),
    idleMs: fc.constantFrom(0, 0, 1, 1, 5, 40, 300, 1_200),
    place: fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
    count: fc.integer({ min: 1, max: 400 }),
  });

  test(
    "answers as a plain list of its units would, and so do its older versions",
    forAll(
      [fc.integer({ min: 0, max: 2_500 }), fc.array(move, { maxLength: 25 })],
      (filled, moves) => {
        if (limit === undefined || strategy === undefined) throw new Error("no log to test");
        let nowMs = startMs;
        let log = strategy.fresh();
        let runs = new Map<number, number>();
        const versions: { log: unknown; runs: Map<number, number>; nowMs: number }[] = [];
        const spend = (atMs: number): void => {
          log = strategy.spend(limit, log, 1, atMs, nowMs);
          if (nowMs - atMs < limit.windowMs) runs.set(atMs, (runs.get(atMs) ?? 0) + 1);
        };
        const refund = (atMs: number): void => {
          log = strategy.refund(limit, log, 1, atMs, nowMs);
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
          if (kind === "book")
            for (let unit = 0; unit < count; unit++) spend(nowMs - Math.max(0, agoMs - 3 * unit));
          if (kind === "refund") for (const atMs of instants.slice(from, from + 3)) refund(atMs);
          if (kind === "drain")
            for (const atMs of instants.slice(from, from + 2 * count))
              while (runs.has(atMs)) refund(atMs);
          if (kind === "revive") {
            const stored = structuredClone(strategy.store(limit, log, nowMs));
            log = strategy.restore(limit, stored, nowMs);
            expectSame(strategy.store(limit, log, nowMs), stored);
          }
          const version = versions[Math.floor(place * versions.length)];
          if (kind === "back" && version !== undefined)
            ({ log, runs, nowMs } = { ...version, runs: new Map(version.runs) });
        }
        versions.push({ log, runs, nowMs });
        for (const version of versions) expectAsTold(limit, version);
      },
      150,
    ),
  );

  function expectAsTold(
    its: Limit,
    { log, runs, nowMs }: { log: unknown; runs: Map<number, number>; nowMs: number },
  ): void {
    if (strategy === undefined) return;
    const all = [...runs]
      .filter(([atMs]) => nowMs - atMs < its.windowMs)
      .toSorted(([a], [b]) => a - b);
    for (const atMs of [nowMs, nowMs + 700, nowMs + 2_999]) {
      const used = all.reduce(
        (sum, [at, units]) => sum + (atMs - at < its.windowMs ? units : 0),
        0,
      );
      expectSame(strategy.used(its, log, atMs), used);
    }
    const used = strategy.used(its, log, nowMs);
    for (const part of [0, 0.3, 0.7, 1]) {
      const leaving = Math.ceil(part * used);
      if (leaving === 0) continue;
      let left = leaving;
      const last = all.find(([, units]) => (left -= units) <= 0);
      // A cost for which so many have to leave.
      const cost = its.limit - used + leaving;
      expectSame(strategy.waitMs(its, log, cost, nowMs), (last?.[0] ?? 0) + its.windowMs - nowMs);
    }
    const stored = [strategy.store(its, log, nowMs)].flat();
    expectSame(all.length > 256 || stored.length === 1, true);
    expectSame(stored.join("").length <= strategy.mostStoredBytes(its), true);
  }
});
