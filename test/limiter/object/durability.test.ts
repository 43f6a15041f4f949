/** When changes are written, depending on durability and on how long they affect decisions. */
import { describe, expect, it } from "vitest";
import { hardBudgetBytes } from "../../../src/limiter/object/key-cache.ts";
import { call, charge, confirmed } from "../../fakes/calls.ts";
import { TestObject } from "../../fakes/test-object.ts";

const strategies = [
  "fixed-window",
  "sliding-log",
  "sliding-window-counter",
  "sliding-buckets",
  "token-bucket",
  "leaky-bucket",
  "concurrency",
];

describe("eviction from memory", () => {
  it.each(strategies)("%s loses no spend when its object is evicted after a burst", async (strategy) => {
    const object = new TestObject();
    const each = charge("1000/hour", 1, "p", strategy);
    for (let spend = 0; spend < 100; spend++) {
      object.at(spend);
      object.limiter.check(call(each));
    }
    const before = object.remaining(each);
    await object.evict();
    expect(object.remaining(each)).toBe(before);
    expect(before).toBe(strategy === "leaky-bucket" ? 901 : 900);
  });

  it("when an object with many keys is evicted, none of its keys loses a spend", async () => {
    const object = new TestObject();
    const keys = Array.from({ length: 300 }, (_, index) => `key-${index}`);
    for (const [index, key] of keys.entries()) {
      object.limiter.check(call(charge("1000/hour", index + 1), key));
    }
    await object.evict();
    const left = keys.map((key) => object.remaining(charge("1000/hour"), key));
    expect(left).toEqual(keys.map((_, index) => 999 - index));
  });

  it("the least recently used keys are evicted first", async () => {
    const object = new TestObject();
    const each = charge("10/10s");
    for (let key = 0; key < 3_000; key++) {
      object.at(2 * key);
      object.limiter.check(call(each, `key-${key}`));
      if (key % 100 === 0) object.limiter.check(call(each, "regular"));
    }
    const [rows] = await object.stored();
    expect(rows).toContain("k key-0");
    expect(rows).not.toContain("k regular");
    expect(rows).not.toContain("k key-2999");
  });
});

describe("confirmed durability", () => {
  it("each confirmed change is written at once and separately, and a denial writes nothing", () => {
    const object = new TestObject();
    for (let spend = 0; spend < 5; spend++) object.limiter.check(confirmed(charge("3/second")));
    expect(object.storage.written).toMatchObject({ puts: [1, 1, 1], confirmedPuts: 3, alarms: 1 });
  });

  it("a settlement of a confirmed reservation is written confirmed, even after an eviction", async () => {
    const object = new TestObject();
    const each = charge("10/hour", 3);
    for (const id of ["a", "b"]) object.limiter.reserve({ ...confirmed(each), id, ttlMs: 60_000 });
    const written = object.storage.countWrites();
    object.limiter.settle({ key: "k", id: "a", cost: 1 });
    object.limiter.forget({ key: "other", policy: "p" });
    expect(written).toMatchObject({ puts: [1], confirmedPuts: 1 });
    await object.evict();
    const writtenAfter = object.storage.countWrites();
    object.limiter.settle({ key: "k", id: "b", cost: 1 });
    expect(writtenAfter).toMatchObject({ puts: [1], confirmedPuts: 1 });
  });

  it("a refund with confirmed durability waits for its write", () => {
    const object = new TestObject();
    const { spentAtMs } = object.limiter.check(confirmed(charge("10/hour", 3)));
    const written = object.storage.countWrites();
    const charges = [{ ...charge("10/hour", 2), spentAtMs: spentAtMs[0] ?? 0 }];
    object.limiter.refund({ key: "k", charges, durability: "confirmed" });
    expect(written).toMatchObject({ puts: [1], confirmedPuts: 1 });
  });

  it("a confirmed write includes pending changes of other policies on the key", async () => {
    const object = new TestObject();
    const relaxed = charge("100/hour", 1, "relaxed");
    for (let spend = 0; spend < 5; spend++) object.limiter.check(call(relaxed));
    const written = object.storage.countWrites();
    object.limiter.check(confirmed([relaxed, charge("10/hour", 1, "confirmed")]));
    expect(written).toMatchObject({ puts: [1], confirmedPuts: 1 });
    await object.evict();
    expect(object.remaining(relaxed)).toBe(94);
  });
});

describe("limits that affect decisions for at most ten seconds", () => {
  it.each([
    ["10/10s", "fixed-window"],
    ["10/10s", "sliding-log"],
    ["10/5s", "sliding-window-counter"],
    ["10/second", "token-bucket"],
  ])("a spend of the short limit %s (%s) is not written", async (limits, strategy) => {
    const object = new TestObject();
    object.limiter.check(call(charge(limits, 5, "p", strategy)));
    expect(await object.stored()).toEqual([[], null]);
    expect(object.remaining(charge(limits, 1, "p", strategy))).toBe(5);
  });

  it.each([
    ["10/6s", "sliding-window-counter"],
    [{ limit: 10, window: "1s", burst: 200 }, "token-bucket"],
    ["10/second; 1000/day", "fixed-window"],
  ])("a spend of %j (%s), which counts for longer, is written", async (limits, strategy) => {
    const object = new TestObject();
    object.limiter.check(call(charge(limits, 5, "p", strategy)));
    expect(await object.stored()).toMatchObject([["k k"], expect.any(Number)]);
  });

  it("a limit of one second is written while it has an open reservation or a debt", async () => {
    const object = new TestObject();
    const each = charge("10/second", 1, "p", "token-bucket");
    object.limiter.reserve({ ...call(each), id: "r", ttlMs: 5_000 });
    expect((await object.stored())[0]).toEqual(["k k"]);
    object.limiter.settle({ key: "k", id: "r", cost: 500 });
    await object.evict();
    expect(object.remaining(each)).toBe(0);
  });

  it("a key with a limit of ten seconds is written when it is evicted from memory, and decides as before", async () => {
    const object = new TestObject();
    const each = charge("10/10s", 7);
    object.limiter.check(call(each, "first"));
    let mostBytes = 0;
    for (let key = 0; key < 8_000; key++) {
      object.limiter.check(call(each, `key-${key}`));
      mostBytes = Math.max(mostBytes, object.limiter.cachedBytes);
    }
    expect(mostBytes).toBeGreaterThan(hardBudgetBytes / 2);
    expect(mostBytes).toBeLessThanOrEqual(hardBudgetBytes);
    expect((await object.stored())[0]).toContain("k first");
    await object.evict();
    expect(object.remaining(each, "first")).toBe(3);
    expect(object.remaining(each, "key-0")).toBe(3);
    object.at(10_000);
    expect(object.remaining(each, "first")).toBe(10);
  });
});
