import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { RateLimiter } from "../../../src/limiter/object/rate-limiter.ts";
import { randomFrom } from "../../random.ts";
import {
  at,
  call,
  charge,
  counted,
  eventsOf,
  newObject,
  remaining,
  startMs,
  stored,
} from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => void vi.useRealTimers());

const minute = 60_000;

describe("the alarm", () => {
  it("is set with the first row, later than it could be by as long as that is to last", async () => {
    const object = newObject();
    await object.check(call(charge("5/minute")));
    expect(await stored(object)).toEqual([["k k"], 2 * minute]);
    at(1_000);
    await object.check(call(charge("5/hour"), "other"));
    expect(await stored(object)).toEqual([["k k", "k other"], 2 * minute]);
  });

  it("finds out by itself what is left", async () => {
    const object = newObject();
    await object.check(call(charge("5/minute")));
    at(1_000);
    await object.check(call(charge("5/hour"), "other"));
    at(2 * minute);
    await runDurableObjectAlarm(object);
    expect(await stored(object)).toEqual([
      ["k other"],
      1_000 + 60 * minute + (60 * minute - 119_000),
    ]);
  });

  it("sweeps the last row, the database and itself", async () => {
    const object = newObject();
    await object.check(call(charge("5/minute", 5)));
    const written = await counted(object);
    at(2 * minute);
    await runDurableObjectAlarm(object);
    expect(await stored(object)).toEqual([[], null]);
    expect(written.deletedAll).toBe(1);
    expect(await remaining(object, charge("5/minute"))).toBe(5);
  });

  it("is not put off by coming early, twice, late or after an eviction", async () => {
    const object = newObject();
    await object.check(call(charge("5/minute", 5)));
    at(30_000);
    await runDurableObjectAlarm(object);
    const [rows, dueMs] = await stored(object);
    expect([rows, dueMs]).toEqual([["k k"], 90_000]);
    await runDurableObjectAlarm(object);
    expect(await stored(object)).toEqual([["k k"], 90_000]);
    expect(await remaining(object, charge("5/minute"))).toBe(0);
    await evictDurableObject(object);
    at(500_000);
    await object.check(call(charge("5/minute", 2)));
    await runDurableObjectAlarm(object);
    expect((await stored(object))[0]).toEqual(["k k"]);
    expect(await remaining(object, charge("5/minute"))).toBe(3);
    at(90 * minute);
    await runDurableObjectAlarm(object);
    expect(await stored(object)).toEqual([[], null]);
  });

  it("comes seldom for a key that lives long: at most once more for each doubling of its life, and each hour", async () => {
    const object = newObject();
    const written = await counted(object);
    let dueMs = 0;
    for (let second = 0; second <= 4 * 3_600; second += 20) {
      at(second * 1_000);
      // oxlint-disable no-await-in-loop
      if (second * 1_000 > dueMs && dueMs > 0) await runDurableObjectAlarm(object);
      await object.check(call(charge("100/minute", 1, "p", "sliding-log")));
      dueMs = (await stored(object))[1] ?? 0;
      // oxlint-enable no-await-in-loop
    }
    expect(written.alarms).toBeLessThanOrEqual(11);
  });

  it("is set again when the one of its rows is lost, by the next that is written", async () => {
    const object = newObject();
    await object.check(call(charge("5/minute")));
    await runInDurableObject(object, (_, { storage }) => storage.deleteAlarm());
    await evictDurableObject(object);
    await object.check(call(charge("5/minute")));
    expect(await stored(object)).toEqual([["k k"], 2 * minute]);
  });

  it("is set anew after everything was forgotten", async () => {
    const object = newObject();
    await object.check(call(charge("5/minute")));
    await object.forget({ key: "k", policy: "p" });
    expect(await stored(object)).toEqual([[], null]);
    await object.check(call(charge("5/minute")));
    expect(await stored(object)).toEqual([["k k"], 2 * minute]);
  });

  it("writes what is waiting before it looks at what is left", async () => {
    const object = newObject();
    await object.check(call(charge("5/minute"), "early"));
    for (const key of ["a", "b", "c", "d"]) {
      // oxlint-disable-next-line no-await-in-loop
      await object.check(call(charge("5/hour", 5), key));
    }
    at(2 * minute);
    await runDurableObjectAlarm(object);
    expect((await stored(object))[0]).toEqual(["k a", "k b", "k c", "k d"]);
    await evictDurableObject(object);
    expect(await remaining(object, charge("5/hour"), "d")).toBe(0);
  });

  it("is brought forward for rows that are idle long before it", async () => {
    const object = newObject();
    await object.check(call(charge("1000/year"), "lasting"));
    for (const evict of [false, true]) {
      // oxlint-disable no-await-in-loop
      const [, lateMs] = await stored(object);
      expect(lateMs).toBeGreaterThan(300 * 86_400_000);
      at(1_000);
      if (evict) await evictDurableObject(object);
      await object.check(call(charge("5/minute"), "short"));
      expect(await stored(object)).toEqual([["k lasting", "k short"], 3_601_000]);
      // Not for each of them.
      const written = await counted(object);
      at(2_000);
      await object.check(call(charge("5/minute"), "another"));
      expect(written.alarms).toBe(0);
      at(3_601_000);
      await runDurableObjectAlarm(object);
      expect((await stored(object))[0]).toEqual(["k lasting"]);
      // oxlint-enable no-await-in-loop
    }
  });

  it("is set no further away than the platform takes, for debts that last for centuries", async () => {
    const object = newObject();
    const each = charge("5/day", 0, "p", "token-bucket");
    for (const id of ["a", "b"]) {
      // oxlint-disable no-await-in-loop
      await object.reserve({ ...call(each), id, ttlMs: 1_000 });
      await object.settle({ key: "k", id, cost: 1_000_000 });
      // oxlint-enable no-await-in-loop
    }
    const year = 366 * 86_400_000;
    await object.check(call(charge("5/day"), "other"));
    at(3 * 86_400_000);
    await runDurableObjectAlarm(object);
    expect(await stored(object)).toEqual([["k k"], 3 * 86_400_000 + year]);
    expect(await eventsOf(() => evictDurableObject(object))).toBe("");
  });

  it("goes through many rows a part at a time, and forgets none that is written meanwhile", async () => {
    const object = newObject();
    await runInDurableObject<RateLimiter, void>(object, (instance) => {
      for (let key = 0; key < 5_000; key++) instance.check(call(charge("5/minute"), `key-${key}`));
    });
    await evictDurableObject(object);
    expect((await stored(object))[0]).toHaveLength(5_000);
    at(120_000);
    await runDurableObjectAlarm(object);
    expect((await stored(object))[0]).toHaveLength(3_000);
    expect((await stored(object))[1]).toBe(121_000);
    // Behind where the sweep is.
    await object.check(call(charge("5/minute"), "a"));
    at(121_000);
    await runDurableObjectAlarm(object);
    at(122_000);
    await runDurableObjectAlarm(object);
    expect((await stored(object))[0]).toEqual(["k a"]);
    at(300_000);
    await runDurableObjectAlarm(object);
    expect(await stored(object)).toEqual([[], null]);
  });

  it("is set once, whatever the number of lives that write before it", async () => {
    const object = newObject();
    let alarms = 0;
    for (let life = 0; life < 4; life++) {
      // oxlint-disable no-await-in-loop
      const written = await counted(object);
      await object.check(call(charge("50/hour"), `key-${life}`));
      await object.check(call(charge("50/hour")));
      alarms += written.alarms;
      await evictDurableObject(object);
      // oxlint-enable no-await-in-loop
    }
    expect(alarms).toBe(1);
  });

  it("leaves no row behind that is written in the turn of its end", async () => {
    const object = newObject();
    await object.check(call(charge("5/minute")));
    at(2 * minute);
    await runInDurableObject<RateLimiter, void>(object, async (instance) => {
      const swept = instance.alarm();
      instance.check(call(charge("5/minute"), "late"));
      await swept;
    });
    expect(await stored(object)).toEqual([["k late"], 4 * minute]);
  });
});

describe("many keys of one object", () => {
  it("live, end one after the other, and leave an empty database and no alarm", async () => {
    const object = newObject();
    const next = randomFrom(7);
    const rules = [
      ["20/minute", "fixed-window"],
      ["20/minute", "sliding-window-counter"],
      ["40/2 minutes", "sliding-log"],
      ["9/30s", "token-bucket"],
      ["50/10 minutes", "sliding-buckets"],
      ["3/minute", "concurrency"],
      ["5/second", "fixed-window"],
    ] as const;
    let dueMs: number | null = null;
    let spent = 0;
    for (let step = 0; step < 600; step++) {
      const offsetMs = step * 1_500;
      at(offsetMs);
      // oxlint-disable no-await-in-loop
      if (dueMs !== null && offsetMs >= dueMs) await runDurableObjectAlarm(object);
      const [limits, strategy] = rules[Math.floor(next() * rules.length)] ?? rules[0];
      const key = `key-${Math.floor(next() * 80)}`;
      const { decisions } = await object.check(call(charge(limits, 1, strategy, strategy), key));
      if (decisions[0]?.allowed === true) spent++;
      if (step % 97 === 0) await evictDurableObject(object);
      dueMs = (await stored(object))[1];
      // oxlint-enable no-await-in-loop
    }
    expect(spent).toBeGreaterThan(300);
    let alarms = 0;
    for (; dueMs !== null && alarms < 50; alarms++) {
      at(dueMs);
      // oxlint-disable no-await-in-loop
      await runDurableObjectAlarm(object);
      dueMs = (await stored(object))[1];
      // oxlint-enable no-await-in-loop
    }
    expect(await stored(object)).toEqual([[], null]);
    expect(alarms).toBeLessThan(10);
  });
});
