/** The laws of the sketches: every count has bounds, frequent keys are never lost, and both still hold after merges. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SpaceSaving, type TopList } from "../../src/control/space-saving.ts";
import { forAllCounted } from "../for-all.ts";
import { randomFrom } from "../random.ts";
import { partitionKeys, zipfFrom } from "./key-streams.ts";

const everything = 32_768;

type Exact = Map<string, number>;

const addExact = (exact: Exact, key: string, weight: number): void =>
  void exact.set(key, (exact.get(key) ?? 0) + weight);

/** Checks the bounds of every key, listed or not. @returns the number of checked keys */
function checkBounds({ keys, mostOther }: TopList, exact: Exact): number {
  const listed = new Map(keys.map((each) => [each.key, each]));
  expect(listed.size, "a key is listed once").toBe(keys.length);
  for (const [key, truth] of exact) {
    const { count, error } = listed.get(key) ?? { count: mostOther, error: mostOther };
    expect(count, `count of ${key}`).toBeGreaterThanOrEqual(truth);
    expect(count - error, `least count of ${key}`).toBeLessThanOrEqual(truth);
  }
  for (const [index, { count }] of keys.entries()) {
    expect(count).toBeLessThanOrEqual(keys[index - 1]?.count ?? Infinity);
    expect(count).toBeGreaterThanOrEqual(mostOther);
  }
  return exact.size;
}

/** Few distinct keys make ties, replacements and collisions frequent. */
const streams = fc.array(fc.tuple(fc.nat({ max: 60 }).map(String), fc.constantFrom(0, 1, 1, 1, 2, 7, 1_000)), {
  maxLength: 400,
  size: "max",
});

const fed = (mostKeys: number, stream: readonly (readonly [string, number])[], exact: Exact) => {
  const sketch = new SpaceSaving(mostKeys);
  for (const [key, weight] of stream) {
    sketch.add(key, weight);
    addExact(exact, key, weight);
  }
  return sketch;
};

describe("Space-Saving", () => {
  it("a sketch counts every key exactly while all keys have slots", () => {
    const sketch = new SpaceSaving(4);
    for (const key of ["a", "b", "a", "c", "a", "b"]) sketch.add(key, 1);
    expect(sketch.top(4)).toEqual({
      keys: [
        { key: "a", count: 3, error: 0 },
        { key: "b", count: 2, error: 0 },
        { key: "c", count: 1, error: 0 },
      ],
      mostOther: 0,
    });
    expect(sketch.top(1)).toMatchObject({ keys: [{ key: "a" }], mostOther: 2 });
  });

  it("a key that replaces the key with the smallest count has that count as its error", () => {
    const sketch = new SpaceSaving(2);
    for (const key of ["a", "a", "b", "b", "b", "c"]) sketch.add(key, 1);
    expect(sketch.top(2)).toEqual({
      keys: [
        { key: "b", count: 3, error: 0 },
        { key: "c", count: 3, error: 2 },
      ],
      mostOther: 3,
    });
    expect(sketch.slotOf("a")).toBe(-1);
  });

  it("a cleared sketch counts as a new one does", () => {
    const sketch = new SpaceSaving(2);
    for (const key of ["a", "b", "c", "d"]) sketch.add(key, 5);
    sketch.clear();
    sketch.add("e", 1);
    expect(sketch.top(2)).toEqual({ keys: [{ key: "e", count: 1, error: 0 }], mostOther: 0 });
  });

  it("the true count of every key is within its bounds, listed or not", async () => {
    let checked = 0;
    await forAllCounted([fc.integer({ min: 1, max: 20 }), fc.nat({ max: 25 }), streams], (slots, listed, stream) => {
      const exact: Exact = new Map();
      checked += checkBounds(fed(slots, stream, exact).top(listed), exact);
    })();
    expect(checked).toBeGreaterThan(2_000);
  });

  it("every key whose count exceeds the total weight divided by the number of slots has a slot", async () => {
    let frequent = 0;
    await forAllCounted([fc.integer({ min: 1, max: 20 }), streams], (slots, stream) => {
      const exact: Exact = new Map();
      const sketch = fed(slots, stream, exact);
      const sum = [...exact.values()].reduce((all, count) => all + count, 0);
      for (const [key, count] of exact) {
        if (count <= sum / slots) continue;
        expect(sketch.slotOf(key)).toBeGreaterThanOrEqual(0);
        frequent++;
      }
    })();
    expect(frequent).toBeGreaterThan(100);
  });

  it("the bounds hold when sketches are merged repeatedly, even from lists of a few keys", async () => {
    let checked = 0;
    const parts = fc.array(fc.tuple(fc.integer({ min: 1, max: 20 }), fc.nat({ max: 12 }), streams), {
      maxLength: 8,
    });
    await forAllCounted([fc.integer({ min: 1, max: 30 }), parts], (slots, each) => {
      const exact: Exact = new Map();
      const merged = new SpaceSaving(slots);
      for (const [own, listed, stream] of each) merged.merge(fed(own, stream, exact).top(listed));
      merged.add("9", 3);
      addExact(exact, "9", 3);
      checked += checkBounds(merged.top(everything), exact);
      const again = new SpaceSaving(slots);
      again.merge(merged.top(slots >> 1));
      checked += checkBounds(again.top(everything), exact);
    })();
    expect(checked).toBeGreaterThan(1_000);
  });
});

describe("the top keys of several isolates", () => {
  const isolates = 5;
  const beats = 120;
  const listed = 20;

  it.each([
    [1, 20],
    [2, 100],
    [3, 1_000],
  ])(
    "at least 9 of the top 10 of 20,000 Zipf keys are right after ten minutes (seed %d, %d denials per isolate and beat)",
    (seed, perBeat) => {
      const keys = partitionKeys(20_000);
      const draw = zipfFrom(randomFrom(seed), keys);
      const exact: Exact = new Map();
      const merged = new SpaceSaving(1_024);
      for (let batch = 0; batch < beats * isolates; batch++) {
        const sketch = new SpaceSaving(256);
        for (let denial = 0; denial < perBeat; denial++) {
          const key = draw();
          sketch.add(key, 1);
          addExact(exact, key, 1);
        }
        merged.merge(sketch.top(listed));
      }
      const truth = [...exact].toSorted(([, a], [, b]) => b - a).slice(0, 10);
      const top = merged.top(10);
      const found = new Set(top.keys.map(({ key }) => key));
      expect(truth.filter(([key]) => found.has(key)).length).toBeGreaterThanOrEqual(9);
      expect(checkBounds(merged.top(1_024), exact)).toBeGreaterThan(1_000);
    },
  );
});
