import { afterEach, describe, expect, it, vi } from "vitest";
import { KeyState } from "../../../src/limiter/object/key-state.ts";
import { KeyCache } from "../../../src/limiter/object/key-cache.ts";
import { IsolateBudget } from "../../../src/limiter/object/isolate-budget.ts";
import { BoundedMap } from "../../../src/limiter/bounded-map.ts";

const accountBytes = new KeyState("key", 0).sizeBytes();

/** Has an object hold new keys, all of them in use. @returns how many had to go */
const hold = (accounts: KeyCache, count: number): number => {
  let gone = 0;
  for (let key = 0; key < count; key++) {
    gone += accounts.keep(new KeyState(crypto.randomUUID(), 0), 0).length;
  }
  return gone;
};

afterEach(() => void vi.unstubAllGlobals());

describe("the memory of the objects of one isolate", () => {
  it("is bounded in sum: 32 busy objects hold no more than the budget together", () => {
    const budget = new IsolateBudget(320 * accountBytes);
    const objects = Array.from({ length: 32 }, () => new KeyCache(budget));
    for (let round = 0; round < 5; round++) for (const object of objects) hold(object, 20);
    expect(objects.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)).toBe(budget.usedBytes);
    expect(budget.usedBytes).toBeLessThanOrEqual(321 * accountBytes);
    for (const { sizeBytes } of objects) expect(sizeBytes).toBeGreaterThan(5 * accountBytes);
  });

  it("may be that of one object while the others hold little", () => {
    const budget = new IsolateBudget(320 * accountBytes);
    const objects = Array.from({ length: 32 }, () => new KeyCache(budget));
    const [busy = new KeyCache(budget)] = objects;
    expect(hold(busy, 320)).toBe(0);
    expect(hold(busy, 1)).toBeGreaterThan(0);
  });

  it("is an equal part for each when all of them hold too much, and free again where one ends", () => {
    const ends: (() => void)[] = [];
    /** The garbage collector, which takes an object when the test says so. */
    class Registry<Held> {
      readonly #onEnd: (held: Held) => void;
      constructor(onEnd: (held: Held) => void) {
        this.#onEnd = onEnd;
      }
      register(_: object, held: Held): void {
        ends.push(() => this.#onEnd(held));
      }
    }
    vi.stubGlobal("FinalizationRegistry", Registry);
    const budget = new IsolateBudget(1_000);
    const [first, second, third] = [budget.join({}), budget.join({}), budget.join({})];
    first.add(600);
    second.add(400);
    expect(third.budgetBytes).toBe(1_000);
    third.add(1);
    expect([first, second, third].map(({ budgetBytes }) => budgetBytes)).toEqual([333, 333, 333]);
    first.add(900);
    const [endSecond] = ends.slice(1);
    endSecond?.();
    expect([budget.objects, budget.usedBytes, first.budgetBytes]).toEqual([2, 1_501, 500]);
  });
});

describe("a map with a budget of bytes", () => {
  it("drops what was set longest ago, and keeps the latest value however large it is", () => {
    const map = new BoundedMap<number>(10, { mostBytes: 100, bytesOf: (size) => size });
    map.set("a", 40);
    map.set("b", 40);
    map.set("a", 50);
    expect([map.sizeBytes, map.size]).toEqual([90, 2]);
    expect(map.set("c", 20)).toEqual([40]);
    expect([map.get("a"), map.get("b"), map.get("c")]).toEqual([50, undefined, 20]);
    expect(map.set("d", 500)).toEqual([50, 20]);
    expect([map.sizeBytes, map.size]).toEqual([500, 1]);
  });
});
