/** The rows and alarms that an object writes and for which Cloudflare bills. */
import { describe, expect, it } from "vitest";
import { softBudgetBytes } from "../../../src/limiter/object/key-cache.ts";
import { call, charge, confirmed } from "../../fakes/calls.ts";
import { TestObject } from "../../fakes/test-object.ts";

const hourMs = 3_600_000;

/** Calls `act` `times` times, each after another `ms` milliseconds, and then lets pending writes happen. */
function every(object: TestObject, ms: number, times: number, act: (count: number) => unknown): void {
  for (let count = 1; count <= times; count++) {
    object.advance(ms);
    act(count);
  }
  object.advance(1_000);
}

describe.each(["fixed-window", "sliding-window-counter", "token-bucket", "sliding-log"])("%s", (strategy) => {
  it("a key with 1,000 decisions in a second costs at most 4 rows and one alarm", () => {
    const object = new TestObject();
    const each = call(charge("100000/hour", 1, "p", strategy));
    every(object, 1, 1_000, () => object.limiter.check(each));
    const segments = strategy === "sliding-log" ? 1 : 0;
    expect(object.storage.written).toMatchObject({ rows: 3 + segments, alarms: 1 });
  });

  it("a rarely used key costs one row for each decision, and one alarm until it is deleted", async () => {
    const object = new TestObject();
    const { written } = object.storage;
    const each = call(charge("1000/hour", 1, "p", strategy));
    every(object, 60_000, 30, (decision) => {
      object.limiter.check(each);
      expect(written.rows).toBe(decision);
    });
    object.at(2 * hourMs + 60_000);
    await object.runAlarm();
    expect(written).toMatchObject({ rows: 30, alarms: 1, deletedAll: 1 });
  });

  it("denials, looks and limits of up to ten seconds cost no row", () => {
    const object = new TestObject();
    object.limiter.check(call(charge("1/hour", 1, "p", strategy)));
    const written = object.storage.countWrites();
    const short = strategy === "sliding-window-counter" ? "10/5s" : "10/10s";
    every(object, 10, 100, () => {
      object.limiter.check(call(charge("1/hour", 1, "p", strategy)));
      object.limiter.look(call(charge("1000/hour", 1, "p", strategy)));
      object.limiter.check(call(charge(short, 1, "short", strategy), "other"));
    });
    object.advance(1_000);
    expect(written).toMatchObject({ rows: 0, alarms: 0 });
  });
});

describe("calls that change nothing", () => {
  it("confirmed denials cost no row while a change of another policy waits to be written", () => {
    const object = new TestObject();
    every(object, 1, 500, () => {
      object.limiter.check(call(charge("1000/hour", 1, "relaxed")));
      object.limiter.check(confirmed(charge("1/hour", 2, "confirmed")));
      object.limiter.check(confirmed(charge("1/second", 2, "short")));
    });
    expect(object.storage.written).toMatchObject({ rows: 3, alarms: 1 });
  });

  it("refunds and settlements that change nothing cost no row", () => {
    const object = new TestObject();
    const each = charge("5/minute");
    const [spentAtMs = 0] = object.limiter.check(call(each)).spentAtMs;
    object.advance(60_000);
    object.limiter.check(call(each));
    every(object, 100, 50, () => {
      object.limiter.refund({ key: "k", charges: [{ ...each, spentAtMs }] });
      object.limiter.settle({ key: "k", id: "unknown", cost: 3 });
    });
    expect(object.storage.written.rows).toBe(2);
  });

  it("reads of unknown keys cost no row and evict no key from memory", () => {
    const object = new TestObject();
    for (let key = 0; key < 1_000; key++) object.limiter.check(call(charge("10/10s"), `key-${key}`));
    object.advance(2_000);
    const { cachedBytes } = object.limiter;
    for (let key = 0; key < 5_000; key++) {
      object.limiter.look(call(charge("10/10s"), `none-${key}`));
      object.limiter.forget({ key: `none-${key}`, policy: "p" });
      object.limiter.settle({ key: `none-${key}`, id: "none", cost: 1 });
    }
    expect(object.limiter.cachedBytes).toBe(cachedBytes);
    expect(object.storage.written).toMatchObject({ rows: 0, alarms: 0 });
  });
});

describe("long logs", () => {
  it("three long logs that are in use stay in memory beyond the memory budget, and cost at most 12 rows a second", () => {
    const object = new TestObject();
    const each = charge("100000/hour", 1, "p", "sliding-log");
    const keys = ["one", "two", "three"];
    for (let unit = 0; unit < 50_000; unit++) {
      object.at(unit * 20);
      for (const key of keys) object.limiter.check(call(each, key));
    }
    object.advance(1_000);
    expect(object.limiter.cachedBytes).toBeGreaterThan(softBudgetBytes);
    const written = object.storage.countWrites();
    every(object, 1, 1_000, (decision) => {
      object.limiter.check(call(each, keys[decision % 3]));
    });
    expect(written.rows).toBeLessThanOrEqual(12);
  });
});

describe("keys of a shard", () => {
  it("sweeping a key in a shard costs one row, the deletion", async () => {
    const object = new TestObject();
    const { written } = object.storage;
    every(object, 5, 200, (key) => {
      object.limiter.check(call(charge("5/minute"), `key-${key}`));
    });
    object.limiter.check(call(charge("5/day"), "lasting"));
    object.advance(1_000);
    expect(written).toMatchObject({ rows: 201, alarms: 1 });
    object.at(2 * 60_000 + 5);
    await object.runAlarm();
    expect(written).toMatchObject({ rows: 401, alarms: 2 });
  });

  it("one put writes at most 128 rows", () => {
    const object = new TestObject();
    for (let key = 0; key < 300; key++) object.limiter.check(call(charge("5/minute"), `key-${key}`));
    object.advance(1_000);
    expect(object.storage.written.puts).toEqual([1, 1, 128, 128, 42]);
  });
});
