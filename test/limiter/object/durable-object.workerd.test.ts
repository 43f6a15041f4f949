/** The object on the platform: RPC, real storage, eviction and alarms. Its decisions are tested in plain Node. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { encodeChecks } from "../../../src/limiter/isolate/key-group.ts";
import type { Charge } from "../../../src/limiter/protocol.ts";
import { keyCheckOf } from "../../fakes/key-checks.ts";
import {
  at,
  call,
  charge,
  confirmed,
  countWrites,
  eventsOf,
  newObject,
  remaining,
  startMs,
  stored,
} from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => void vi.useRealTimers());

const key = "k";
const flat = (each: Charge) => encodeChecks([keyCheckOf([each])]);

describe("RPC", () => {
  it("a Worker can call every method of the object", async () => {
    const object = newObject();
    const each = charge("100/hour");
    const { spentAtMs } = await object.check(call(each));
    await object.refund({ key, charges: [{ ...each, spentAtMs: spentAtMs[0] ?? 0 }] });
    expect(await remaining(object, each)).toBe(100);
    const [texts, checks] = flat({ ...each, cost: 2 });
    expect(await object.decide(texts, checks)).not.toEqual([]);
    expect((await object.reserve({ ...call(each), id: "r", ttlMs: 60_000 })).isOpen).toBe(true);
    expect(await object.renew({ key, id: "r" })).toEqual({ isOpen: true });
    expect(await object.settle({ key, id: "r", cost: 5 })).toEqual({ settled: true });
    const wanted = { id: "s", units: 5, ttlMs: 5_000 };
    expect((await object.lease({ ...call(each), wanted })).lentUnits).toBe(5);
    const { settled } = await object.giveBackSlices({ key, returned: [{ id: "s", used: 2 }] });
    expect(settled).toHaveLength(1);
    const charges = [{ ...each, spends: [[0, 10] as const] }];
    expect((await object.sync({ isolate: "i", key, batch: 1, charges })).snapshots).toHaveLength(1);
    expect(await remaining(object, each)).toBe(100 - 2 - 5 - 1 - 2 - 10);
    await object.forget({ key, policy: "p" });
    expect(await remaining(object, each)).toBe(100);
  });

  it("rules are written before the reply, apply to the next check, and survive an eviction", async () => {
    const object = newObject();
    const block = { id: "b", kind: "block" } as const;
    const written = await countWrites(object);
    const version = { epoch: 1, version: 2 };
    expect(await object.setRules(key, "p", [block], version)).toEqual({ version });
    expect(written).toMatchObject({ puts: [1], confirmedPuts: 1, alarms: 1 });
    const denied = { decisions: [{ allowed: false }], keyRules: [block], isFirm: true };
    expect(await object.check(call(charge("9/hour")))).toMatchObject(denied);
    await evictDurableObject(object);
    expect(await object.check(call(charge("9/hour")))).toMatchObject(denied);
    const { charges } = await object.explain(call(charge("9/hour")));
    expect(charges).toMatchObject([{ keyRules: [block], keyRulesVersion: version }]);
  });

  it("concurrent checks are decided one after the other", async () => {
    const object = newObject();
    const checks = Array.from({ length: 30 }, () => object.check(call(charge("20/hour"))));
    const replies = await Promise.all(checks);
    expect(replies.filter(({ decisions }) => decisions[0]?.allowed)).toHaveLength(20);
  });

  it("a confirmed check is written before its reply, and a denial writes nothing", async () => {
    const object = newObject();
    const written = await countWrites(object);
    for (let spend = 0; spend < 5; spend++) {
      // oxlint-disable-next-line no-await-in-loop
      await object.check(confirmed(charge("3/second")));
    }
    expect(written).toMatchObject({ puts: [1, 1, 1], confirmedPuts: 3, alarms: 1 });
  });
});

describe("eviction", () => {
  it("spends, reservations, slices and keys survive an eviction right after a burst", async () => {
    const object = newObject();
    const log = charge("100/hour", 1, "log", "sliding-log");
    const slots = charge("3/hour", 1, "slots", "concurrency");
    for (let spend = 0; spend < 50; spend++) {
      at(spend);
      // oxlint-disable-next-line no-await-in-loop
      await object.check(call([charge("1000/hour"), log], `key-${spend % 3}`));
    }
    await object.reserve({ ...call(slots), id: "r", ttlMs: 60_000 });
    await object.lease({ ...call(log), wanted: { id: "s", units: 5, ttlMs: 5_000 } });
    await evictDurableObject(object);
    expect(await remaining(object, charge("1000/hour"), "key-0")).toBe(1_000 - 17);
    expect(await remaining(object, log, "key-2")).toBe(100 - 16);
    expect(await remaining(object, log)).toBe(94);
    expect(await remaining(object, slots)).toBe(2);
    expect(await object.settle({ key, id: "r", cost: 1 })).toEqual({ settled: true });
    await object.giveBackSlices({ key, returned: [{ id: "s", used: 0 }] });
    await evictDurableObject(object);
    expect([await remaining(object, log), await remaining(object, slots)]).toEqual([99, 3]);
  });

  it("a stored row that is not a text is refused, logged and replaced", async () => {
    const object = newObject();
    await runInDurableObject(object, (_, { storage }) => storage.put("k k", { other: "shape" }));
    const events = await eventsOf(() => object.check(call(charge("5/minute"))));
    expect(events).toContain('"event":"state-refused"');
    await evictDurableObject(object);
    expect(await eventsOf(() => remaining(object, charge("5/minute")))).toBe("");
    expect(await remaining(object, charge("5/minute"))).toBe(4);
  });
});

describe("the database", () => {
  it("when the alarm deletes the last row, it also deletes the database and its own alarm", async () => {
    const object = newObject();
    await object.check(call(charge("5/minute", 5)));
    const written = await countWrites(object);
    at(120_000);
    expect(await runDurableObjectAlarm(object)).toBe(true);
    expect(await stored(object)).toEqual([[], null]);
    expect(written.deletedAll).toBe(1);
    expect(await remaining(object, charge("5/minute"))).toBe(5);
  });
});
