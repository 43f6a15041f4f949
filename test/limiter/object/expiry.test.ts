/** The alarm of an object, and the sweep that deletes the rows of idle keys. */
import { describe, expect, it } from "vitest";
import { randomFrom } from "../../random.ts";
import { call, charge, eventsOf } from "../../fakes/calls.ts";
import { TestObject } from "../../fakes/test-object.ts";

const minute = 60_000;

describe("the alarm", () => {
  it("the first row sets an alarm after twice the time until the row is idle", async () => {
    const object = new TestObject();
    object.limiter.check(call(charge("5/minute")));
    expect(await object.stored()).toEqual([["k k"], 2 * minute]);
    object.at(1_000);
    object.limiter.check(call(charge("5/hour"), "other"));
    expect(await object.stored()).toEqual([["k k", "k other"], 2 * minute]);
  });

  it("the alarm keeps rows that are in use, and sets the next alarm for them", async () => {
    const object = new TestObject();
    object.limiter.check(call(charge("5/minute")));
    object.at(1_000);
    object.limiter.check(call(charge("5/hour"), "other"));
    object.at(2 * minute);
    await object.runAlarm();
    expect(await object.stored()).toEqual([["k other"], 1_000 + 60 * minute + (60 * minute - 119_000)]);
  });

  it("when the alarm deletes the last row, it also deletes the database and its own alarm", async () => {
    const object = new TestObject();
    object.limiter.check(call(charge("5/minute", 5)));
    const written = object.storage.countWrites();
    object.at(2 * minute);
    await object.runAlarm();
    expect(await object.stored()).toEqual([[], null]);
    expect(written.deletedAll).toBe(1);
    expect(object.remaining(charge("5/minute"))).toBe(5);
  });

  it("an alarm that comes early, twice, late or after an eviction deletes only idle rows", async () => {
    const object = new TestObject();
    object.limiter.check(call(charge("5/minute", 5)));
    object.at(30_000);
    await object.runAlarm();
    const [rows, dueMs] = await object.stored();
    expect([rows, dueMs]).toEqual([["k k"], 90_000]);
    await object.runAlarm();
    expect(await object.stored()).toEqual([["k k"], 90_000]);
    expect(object.remaining(charge("5/minute"))).toBe(0);
    await object.evict();
    object.at(500_000);
    object.limiter.check(call(charge("5/minute", 2)));
    await object.runAlarm();
    expect((await object.stored())[0]).toEqual(["k k"]);
    expect(object.remaining(charge("5/minute"))).toBe(3);
    object.at(90 * minute);
    await object.runAlarm();
    expect(await object.stored()).toEqual([[], null]);
  });

  it("a key that is used for four hours costs at most 11 alarms", async () => {
    const object = new TestObject();
    const written = object.storage.countWrites();
    let dueMs = 0;
    for (let second = 0; second <= 4 * 3_600; second += 20) {
      object.at(second * 1_000);
      // oxlint-disable no-await-in-loop
      if (second * 1_000 > dueMs && dueMs > 0) await object.runAlarm();
      object.limiter.check(call(charge("100/minute", 1, "p", "sliding-log")));
      dueMs = (await object.stored())[1] ?? 0;
      // oxlint-enable no-await-in-loop
    }
    expect(written.alarms).toBeLessThanOrEqual(11);
  });

  it("when the alarm is lost, the next write sets it again", async () => {
    const object = new TestObject();
    object.limiter.check(call(charge("5/minute")));
    await object.storage.deleteAlarm();
    await object.evict();
    object.limiter.check(call(charge("5/minute")));
    expect(await object.stored()).toEqual([["k k"], 2 * minute]);
  });

  it("after all keys were deleted, the next write sets the alarm again", async () => {
    const object = new TestObject();
    object.limiter.check(call(charge("5/minute")));
    object.limiter.forget({ key: "k", policy: "p" });
    expect(await object.stored()).toEqual([[], null]);
    object.limiter.check(call(charge("5/minute")));
    expect(await object.stored()).toEqual([["k k"], 2 * minute]);
  });

  it("the alarm writes pending changes before it sweeps", async () => {
    const object = new TestObject();
    object.limiter.check(call(charge("5/minute"), "early"));
    for (const key of ["a", "b", "c", "d"]) {
      object.limiter.check(call(charge("5/hour", 5), key));
    }
    object.at(2 * minute);
    await object.runAlarm();
    expect((await object.stored())[0]).toEqual(["k a", "k b", "k c", "k d"]);
    await object.evict();
    expect(object.remaining(charge("5/hour"), "d")).toBe(0);
  });

  it("a row that becomes idle long before the alarm moves the alarm forward", async () => {
    const object = new TestObject();
    object.limiter.check(call(charge("1000/year"), "lasting"));
    for (const evict of [false, true]) {
      // oxlint-disable no-await-in-loop
      const [, lateMs] = await object.stored();
      expect(lateMs).toBeGreaterThan(300 * 86_400_000);
      object.at(1_000);
      if (evict) await object.evict();
      object.limiter.check(call(charge("5/minute"), "short"));
      expect(await object.stored()).toEqual([["k lasting", "k short"], 3_601_000]);
      // A further row of this kind does not move the alarm again.
      const written = object.storage.countWrites();
      object.at(2_000);
      object.limiter.check(call(charge("5/minute"), "another"));
      expect(written.alarms).toBe(0);
      object.at(3_601_000);
      await object.runAlarm();
      expect((await object.stored())[0]).toEqual(["k lasting"]);
      // oxlint-enable no-await-in-loop
    }
  });

  it("the alarm is set at most 366 days ahead for a debt that lasts for centuries", async () => {
    const object = new TestObject();
    const each = charge("5/day", 0, "p", "token-bucket");
    for (const id of ["a", "b"]) {
      object.limiter.reserve({ ...call(each), id, ttlMs: 1_000 });
      object.limiter.settle({ key: "k", id, cost: 1_000_000 });
    }
    const year = 366 * 86_400_000;
    object.limiter.check(call(charge("5/day"), "other"));
    object.at(3 * 86_400_000);
    await object.runAlarm();
    expect(await object.stored()).toEqual([["k k"], 3 * 86_400_000 + year]);
    expect(await eventsOf(() => object.evict())).toBe("");
  });

  it("a sweep of many rows takes several alarms, and rows written in the meantime are swept later", async () => {
    const object = new TestObject();
    for (let key = 0; key < 5_000; key++) {
      object.limiter.check(call(charge("5/minute"), `key-${key}`));
    }
    await object.evict();
    expect((await object.stored())[0]).toHaveLength(5_000);
    object.at(120_000);
    await object.runAlarm();
    expect((await object.stored())[0]).toHaveLength(3_000);
    expect((await object.stored())[1]).toBe(121_000);
    // The sweep has already passed the name of this row.
    object.limiter.check(call(charge("5/minute"), "a"));
    object.at(121_000);
    await object.runAlarm();
    object.at(122_000);
    await object.runAlarm();
    expect((await object.stored())[0]).toEqual(["k a"]);
    object.at(300_000);
    await object.runAlarm();
    expect(await object.stored()).toEqual([[], null]);
  });

  it("the alarm is set once, even if the object is evicted between writes", async () => {
    const object = new TestObject();
    let alarms = 0;
    for (let life = 0; life < 4; life++) {
      // oxlint-disable no-await-in-loop
      const written = object.storage.countWrites();
      object.limiter.check(call(charge("50/hour"), `key-${life}`));
      object.limiter.check(call(charge("50/hour")));
      alarms += written.alarms;
      await object.evict();
      // oxlint-enable no-await-in-loop
    }
    expect(alarms).toBe(1);
  });

  it("a row that is written while the last sweep ends is kept, and has an alarm", async () => {
    const object = new TestObject();
    object.limiter.check(call(charge("5/minute")));
    object.at(2 * minute);
    const swept = object.runAlarm();
    object.limiter.check(call(charge("5/minute"), "late"));
    await swept;
    expect(await object.stored()).toEqual([["k late"], 4 * minute]);
  });
});

describe("many keys", () => {
  it("after all keys of an object are idle, its database is empty and has no alarm", async () => {
    const object = new TestObject();
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
      object.at(offsetMs);
      // oxlint-disable no-await-in-loop
      if (dueMs !== null && offsetMs >= dueMs) await object.runAlarm();
      const [limits, strategy] = rules[Math.floor(next() * rules.length)] ?? rules[0];
      const key = `key-${Math.floor(next() * 80)}`;
      const { decisions } = object.limiter.check(call(charge(limits, 1, strategy, strategy), key));
      if (decisions[0]?.allowed === true) spent++;
      if (step % 97 === 0) await object.evict();
      dueMs = (await object.stored())[1];
      // oxlint-enable no-await-in-loop
    }
    expect(spent).toBeGreaterThan(300);
    let alarms = 0;
    for (; dueMs !== null && alarms < 50; alarms++) {
      object.at(dueMs);
      // oxlint-disable no-await-in-loop
      await object.runAlarm();
      dueMs = (await object.stored())[1];
      // oxlint-enable no-await-in-loop
    }
    expect(await object.stored()).toEqual([[], null]);
    expect(alarms).toBeLessThan(10);
  });
});
