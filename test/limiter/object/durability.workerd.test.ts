import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { hardBudgetBytes } from "../../../src/limiter/object/key-cache.ts";
import { Limiter } from "../../../src/limiter/object/limiter.ts";
import {
  at,
  call,
  charge,
  confirmed,
  counted,
  newObject,
  remaining,
  startMs,
  stored,
} from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => void vi.useRealTimers());

const strategies = [
  "fixed-window",
  "sliding-log",
  "sliding-window-counter",
  "sliding-buckets",
  "token-bucket",
  "leaky-bucket",
  "concurrency",
];

describe("what was counted", () => {
  it.each(strategies)("outlives an eviction right after a burst: %s", async (strategy) => {
    const object = newObject();
    const each = charge("1000/hour", 1, "p", strategy);
    for (let spend = 0; spend < 100; spend++) {
      at(spend);
      // oxlint-disable-next-line no-await-in-loop
      await object.check(call(each));
    }
    const before = await remaining(object, each);
    await evictDurableObject(object);
    expect(await remaining(object, each)).toBe(before);
    expect(before).toBe(strategy === "leaky-bucket" ? 901 : 900);
  });

  it("outlives it for every key that shares the object", async () => {
    const object = newObject();
    const keys = Array.from({ length: 300 }, (_, index) => `key-${index}`);
    await Promise.all(
      keys.map((key, index) => object.check(call(charge("1000/hour", index + 1), key))),
    );
    await evictDurableObject(object);
    const left = await Promise.all(keys.map((key) => remaining(object, charge("1000/hour"), key)));
    expect(left).toEqual(keys.map((_, index) => 999 - index));
  });
});

describe("confirmed", () => {
  it("writes every change in its own turn, and the answer waits for it", async () => {
    const object = newObject();
    const written = await counted(object);
    for (let spend = 0; spend < 5; spend++) {
      // oxlint-disable-next-line no-await-in-loop
      await object.check(confirmed(charge("3/second")));
    }
    // Denials change nothing.
    expect(written).toMatchObject({ puts: [1, 1, 1], confirmedPuts: 3, alarms: 1 });
  });

  it("is what a reservation stays, in its settling and in other lives of the object", async () => {
    const object = newObject();
    const each = charge("10/hour", 3);
    for (const id of ["a", "b"]) {
      // oxlint-disable-next-line no-await-in-loop
      await object.reserve({ ...confirmed(each), id, ttlMs: 60_000 });
    }
    const written = await counted(object);
    await object.settle({ key: "k", id: "a", cost: 1 });
    await object.forget({ key: "other", policy: "p" });
    expect(written).toMatchObject({ puts: [1], confirmedPuts: 1 });
    await evictDurableObject(object);
    const again = await counted(object);
    await object.settle({ key: "k", id: "b", cost: 1 });
    expect(again).toMatchObject({ puts: [1], confirmedPuts: 1 });
  });

  it("is what a refund is, too, when its check was", async () => {
    const object = newObject();
    const { spentAtMs } = await object.check(confirmed(charge("10/hour", 3)));
    const written = await counted(object);
    const charges = [{ ...charge("10/hour", 2), spentAtMs: spentAtMs[0] ?? 0 }];
    await object.refund({ key: "k", charges, durability: "confirmed" });
    expect(written).toMatchObject({ puts: [1], confirmedPuts: 1 });
  });

  it("makes sure of what other policies of the key have waiting", async () => {
    const object = newObject();
    const relaxed = charge("100/hour", 1, "relaxed");
    for (let spend = 0; spend < 5; spend++) {
      // oxlint-disable-next-line no-await-in-loop
      await object.check(call(relaxed));
    }
    const written = await counted(object);
    await object.check(confirmed([relaxed, charge("10/hour", 1, "sure")]));
    expect(written).toMatchObject({ puts: [1], confirmedPuts: 1 });
    await evictDurableObject(object);
    expect(await remaining(object, relaxed)).toBe(94);
  });
});

describe("accounts that are put out of memory", () => {
  it("are those longest unused, and no others", async () => {
    const object = newObject();
    const each = charge("10/10s");
    await runInDurableObject(object, (_, { storage }) => {
      let nowMs = startMs;
      const limiter = new Limiter({ storage, now: () => nowMs, after: () => () => undefined });
      for (let key = 0; key < 3_000; key++) {
        nowMs += 2;
        limiter.check(call(each, `key-${key}`));
        if (key % 100 === 0) limiter.check(call(each, "regular"));
      }
    });
    const [rows] = await stored(object);
    expect(rows).toContain("k key-0");
    expect(rows).not.toContain("k regular");
    expect(rows).not.toContain("k key-2999");
  });
});

describe("limits that an idle object's memory outlasts", () => {
  it.each([
    ["10/10s", "fixed-window"],
    ["10/10s", "sliding-log"],
    ["10/5s", "sliding-window-counter"],
    ["10/second", "token-bucket"],
  ])("are not written: %s, %s", async (limits, strategy) => {
    const object = newObject();
    await object.check(call(charge(limits, 5, "p", strategy)));
    expect(await stored(object)).toEqual([[], null]);
    expect(await remaining(object, charge(limits, 1, "p", strategy))).toBe(5);
  });

  it.each([
    ["10/6s", "sliding-window-counter"],
    [{ limit: 10, window: "1s", burst: 200 }, "token-bucket"],
    ["10/second; 1000/day", "fixed-window"],
  ])("are written where they last longer than their window: %j, %s", async (limits, strategy) => {
    const object = newObject();
    await object.check(call(charge(limits, 5, "p", strategy)));
    expect(await stored(object)).toMatchObject([["k k"], expect.any(Number)]);
  });

  it("are written while they carry a debt, or a reservation", async () => {
    const object = newObject();
    const each = charge("10/second", 1, "p", "token-bucket");
    await object.reserve({ ...call(each), id: "r", ttlMs: 5_000 });
    expect((await stored(object))[0]).toEqual(["k k"]);
    await object.settle({ key: "k", id: "r", cost: 500 });
    await evictDurableObject(object);
    expect(await remaining(object, each)).toBe(0);
  });

  it("are written when they are put out of memory, and decide as before", async () => {
    const object = newObject();
    const each = charge("10/10s", 7);
    const mostHeld = await runInDurableObject(object, (_, { storage }) => {
      const limiter = new Limiter({ storage, now: () => Date.now(), after: () => () => undefined });
      limiter.check(call(each, "first"));
      const held = Array.from({ length: 5_000 }, (__, key) => {
        limiter.check(call(each, `key-${key}`));
        return limiter.cachedBytes;
      });
      return Math.max(...held);
    });
    expect(mostHeld).toBeGreaterThan(hardBudgetBytes / 2);
    expect(mostHeld).toBeLessThanOrEqual(hardBudgetBytes);
    expect((await stored(object))[0]).toContain("k first");
    expect(await remaining(object, each, "first")).toBe(3);
    expect(await remaining(object, each, "key-0")).toBe(3);
    at(10_000);
    expect(await remaining(object, each, "first")).toBe(10);
  });
});
