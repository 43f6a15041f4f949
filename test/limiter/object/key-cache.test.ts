/** The memory that keys take in one object, and in all objects of an isolate together. */
import { afterEach, describe, expect, it, vi } from "vitest";
import { KeyState } from "../../../src/limiter/object/key-state.ts";
import { IsolateBudget, KeyCache } from "../../../src/limiter/object/key-cache.ts";

const keyBytes = new KeyState("key", 0).sizeBytes();

/** Caches new keys, all of them in use. Returns how many keys are evicted to make room. */
const addKeys = (cache: KeyCache, count: number): number => {
  let evicted = 0;
  for (let key = 0; key < count; key++) {
    evicted += cache.keep(new KeyState(crypto.randomUUID(), 0), 0).length;
  }
  return evicted;
};

afterEach(() => void vi.unstubAllGlobals());

describe("the memory of an isolate", () => {
  it("32 busy objects of one isolate together stay within the isolate's memory budget", () => {
    const budget = new IsolateBudget(320 * keyBytes);
    const objects = Array.from({ length: 32 }, () => new KeyCache(budget));
    for (let round = 0; round < 5; round++) for (const object of objects) addKeys(object, 20);
    expect(objects.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)).toBe(budget.usedBytes);
    expect(budget.usedBytes).toBeLessThanOrEqual(321 * keyBytes);
    for (const { sizeBytes } of objects) expect(sizeBytes).toBeGreaterThan(5 * keyBytes);
  });

  it("one object may use the whole memory budget while the others use little", () => {
    const budget = new IsolateBudget(320 * keyBytes);
    const objects = Array.from({ length: 32 }, () => new KeyCache(budget));
    const [busy = new KeyCache(budget)] = objects;
    expect(addKeys(busy, 320)).toBe(0);
    expect(addKeys(busy, 1)).toBeGreaterThan(0);
  });

  it("when the memory budget is exceeded, each object has an equal part, and an ended object frees its memory", () => {
    const ends: (() => void)[] = [];
    /** A registry that treats an object as garbage-collected when the test calls `ends`. */
    class Registry<Value> {
      readonly #onEnd: (value: Value) => void;
      constructor(onEnd: (value: Value) => void) {
        this.#onEnd = onEnd;
      }
      register(_: object, value: Value): void {
        ends.push(() => this.#onEnd(value));
      }
    }
    vi.stubGlobal("FinalizationRegistry", Registry);
    const budget = new IsolateBudget(1_000);
    const [first, second, third] = [budget.join({}), budget.join({}), budget.join({})];
    budget.add(first, 600);
    budget.add(second, 400);
    expect(budget.bytesOfObject).toBe(1_000);
    budget.add(third, 1);
    expect(budget.bytesOfObject).toBe(333);
    budget.add(first, 900);
    const [endSecond] = ends.slice(1);
    endSecond?.();
    expect([budget.objects, budget.usedBytes, budget.bytesOfObject]).toEqual([2, 1_501, 500]);
  });
});
