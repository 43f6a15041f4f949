/** Reservations of several keys, which a call on the root's key settles and renews. */
import { describe, expect, it } from "vitest";
import type { Charge } from "../../../src/limiter/protocol.ts";
import { call, charge, logOf } from "../../fakes/calls.ts";
import { TestObject } from "../../fakes/test-object.ts";

const on = (key: string, each: Charge): Charge => ({ ...each, key });

const levels = (cost = 5): Charge[] => [
  logOf(cost, "org"),
  on("k t", logOf(cost, "team")),
  on("k u", logOf(cost, "user")),
];

const left = (object: TestObject, charges = levels()): (number | undefined)[] =>
  object.limiter.look(call(charges)).decisions.map(({ limits }) => limits[0]?.remaining);

const reserve = (object: TestObject, charges: readonly Charge[] = levels(), id = "r", ttlMs = 60_000) =>
  object.limiter.reserveTree({ ...call(charges), id, ttlMs });

const settle = (object: TestObject, costs: number[], key = "k", id = "r"): boolean =>
  object.limiter.settle({ key, id, cost: Math.max(...costs), costs }).settled;

describe("a reservation of several keys", () => {
  it.for([false, true])(
    "a reservation of three levels is settled once, at a cost for each level (after a restart: %s)",
    async (isRestarted) => {
      const object = new TestObject();
      expect(reserve(object)).toMatchObject({ isOpen: true, fullForMs: 0 });
      expect(left(object)).toEqual([95, 95, 95]);
      if (isRestarted) await object.evict();
      expect([settle(object, [1, 2, 7]), settle(object, [0, 0, 0])]).toEqual([true, false]);
      expect(left(object)).toEqual([99, 98, 93]);
      await object.evict();
      expect([settle(object, [0, 0, 0]), left(object)]).toEqual([false, [99, 98, 93]]);
    },
  );

  it("a reservation of three levels is settled at one cost if no costs of levels are stated", () => {
    const object = new TestObject();
    reserve(object);
    expect(object.limiter.settle({ key: "k", id: "r", cost: 2, wantsCharges: true })).toMatchObject({
      settled: true,
      charges: [
        { policy: "org", cost: 5, actualCost: 2 },
        { policy: "team", key: "k t", cost: 5, actualCost: 2 },
        { policy: "user", key: "k u", cost: 5, actualCost: 2 },
      ],
    });
    expect(left(object)).toEqual([98, 98, 98]);
  });

  it("a reservation is settled at costs in the order of keys, the root's first, if a key has two policies", () => {
    const object = new TestObject();
    const charges = [on("k u", logOf(5, "user")), logOf(5, "org"), on("k u", logOf(5, "burst")), logOf(5, "all")];
    reserve(object, charges);
    settle(object, [1, 2, 3, 4]);
    expect(left(object, charges)).toEqual([97, 99, 96, 98]);
  });

  it("a reservation that one level denies charges no level and opens nothing", async () => {
    const object = new TestObject();
    const denied = [...levels(), on("k v", charge("1/hour", 2, "small"))];
    expect(reserve(object, denied)).toMatchObject({ isOpen: false, fullForMs: 0 });
    expect([left(object), settle(object, [0]), await object.stored()]).toEqual([[100, 100, 100], false, [[], null]]);
  });

  it("a reservation stays charged on every level after its ttl", () => {
    const object = new TestObject();
    reserve(object, levels(), "r", 5_000);
    object.at(5_000);
    expect([settle(object, [0, 0, 0]), left(object)]).toEqual([false, [95, 95, 95]]);
  });

  it("a reservation of other keys is settled by the root's key even if that key is not charged itself", async () => {
    const object = new TestObject();
    const dry = { ...charge("1/hour", 5, "org"), isDryRun: true };
    const [, team, user] = levels() as [Charge, Charge, Charge];
    expect(reserve(object, [dry, team, user])).toMatchObject({ isOpen: true, decisions: [{ allowed: false }, {}, {}] });
    await object.evict();
    expect(object.limiter.renew({ key: "k", id: "r" })).toEqual({ isOpen: true });
    expect([settle(object, [1, 2]), left(object, [dry, team, user])]).toEqual([true, [1, 99, 98]]);
  });

  it("a reservation of the root's key alone is stored as one without keys", async () => {
    const [object, other] = [new TestObject(), new TestObject()];
    reserve(object, [on("k", logOf(5, "org"))]);
    reserve(other, [logOf(5, "org")]);
    await Promise.all([object.evict(), other.evict()]);
    expect(object.storage.rows).toEqual(other.storage.rows);
  });

  it("a settlement corrects the levels that are left when one was forgotten, at their own costs", async () => {
    const object = new TestObject();
    reserve(object);
    object.limiter.forget({ key: "k t", policy: "team" });
    await object.evict();
    expect([settle(object, [1, 2, 3]), left(object)]).toEqual([true, [99, 100, 97]]);
  });

  it("a reservation is denied while any of its keys has no room, even if the root is not charged itself", () => {
    const object = new TestObject();
    const free = (policy: string): Charge => charge("100000/hour", 1, policy);
    const ofUser = [free("org"), on("k u", free("user"))];
    // Reservations of all users are in the row of the root.
    for (let count = 0; count < 1_000; count++) reserve(object, ofUser, `${count}`, 30_000);
    const denied = { isOpen: false, fullForMs: 30_000 };
    expect(reserve(object, [free("org"), on("k v", free("user"))])).toMatchObject(denied);
    expect(reserve(object, [on("k v", free("user"))])).toMatchObject(denied);
    expect(left(object, [free("org"), on("k v", free("user"))])).toEqual([99_000, 100_000]);
    object.at(30_000);
    expect(reserve(object, [on("k v", free("user"))])).toMatchObject({ isOpen: true, fullForMs: 0 });
  });
});

describe("slots of several keys", () => {
  const slots = ["k", "k t"].map((key, level) => on(key, charge("1 per minute", 1, `level-${level}`, "concurrency")));

  it("a renewal of the root's reservation holds the slots of every level, and settling frees all of them", async () => {
    const object = new TestObject();
    reserve(object, slots);
    for (const atMs of [50_000, 100_000]) {
      object.at(atMs);
      expect(object.limiter.renew({ key: "k", id: "r" })).toEqual({ isOpen: true });
      // oxlint-disable-next-line no-await-in-loop
      await object.evict();
      object.at(atMs + 59_999);
      expect(left(object, slots)).toEqual([0, 0]);
      object.at(atMs);
    }
    expect([settle(object, [0, 0]), left(object, slots)]).toEqual([true, [1, 1]]);
  });

  it("the slots of every level are free after the ttl of the last renewal", () => {
    const object = new TestObject();
    reserve(object, slots);
    object.at(50_000);
    object.limiter.renew({ key: "k", id: "r" });
    object.at(110_000);
    expect([object.limiter.renew({ key: "k", id: "r" }), left(object, slots)]).toEqual([{ isOpen: false }, [1, 1]]);
  });
});
