/** Shares in an object. tree-traces.test.ts also compares them with a naive reference. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Charge, ChargeShare, CheckReply } from "../../../src/limiter/protocol.ts";
import { call, charge, confirmed, eventsOf, logOf } from "../../fakes/calls.ts";
import { TestObject } from "../../fakes/test-object.ts";
import { forAll } from "../../for-all.ts";
import { parseLimits } from "../../../src/strategies/index.ts";
import * as previous from "../../previous-version/app.js";

/** A request of a tenant: the charges of the provider's quota, 100 units a minute, and of the tenant. */
const tree = (
  tenant: string,
  cost: number,
  share: Partial<ChargeShare> = {},
  parent = logOf(cost, "quota"),
): Charge[] => [
  { ...parent, cost },
  {
    ...charge("1000/minute", cost, "tenant", "sliding-log"),
    key: `k ${tenant}`,
    share: { parent: "quota", limit: 0, guaranteed: "fair", weight: 1, ...share },
  },
];

const ask = (
  object: TestObject,
  tenant: string,
  cost: number,
  share?: Partial<ChargeShare>,
  parent?: Charge,
): CheckReply => object.limiter.check(call(tree(tenant, cost, share, parent)));

const isAllowed = ({ decisions }: CheckReply): boolean => decisions.every(({ allowed }) => allowed);

const left = (object: TestObject, tenant: string): number | undefined =>
  object.limiter.look(call(tree(tenant, 1))).decisions[0]?.limits[0]?.remaining;

describe("a shared limit", () => {
  it("a tenant cannot use what another active one is guaranteed, and the denial names the share", () => {
    const object = new TestObject();
    ask(object, "a", 40);
    ask(object, "b", 10);
    const denied = ask(object, "a", 11);
    expect(denied).toMatchObject({ decisions: [{ allowed: false, reason: "share" }, { allowed: true }] });
    expect(denied.isFirm).toBeUndefined();
    expect([isAllowed(ask(object, "a", 10)), isAllowed(ask(object, "b", 40)), left(object, "a")]).toEqual([
      true,
      true,
      0,
    ]);
  });

  it("a request of the parent alone leaves what active tenants are guaranteed", () => {
    const object = new TestObject();
    ask(object, "a", 10, { guaranteed: 30 });
    const alone = (cost: number) => isAllowed(object.limiter.check(call(logOf(cost, "quota"))));
    expect([alone(71), alone(70), isAllowed(ask(object, "a", 20, { guaranteed: 30 }))]).toEqual([false, true, true]);
  });

  it("weights divide a fair share", () => {
    const object = new TestObject();
    ask(object, "a", 1, { weight: 3 });
    ask(object, "b", 1);
    expect([
      left(object, "b"),
      isAllowed(ask(object, "b", 25)),
      isAllowed(ask(object, "a", 74, { weight: 3 })),
    ]).toEqual([
      // A look states the weight 1.
      24,
      false,
      true,
    ]);
  });

  it("a tenant that sends no request for 10 s withholds nothing, allowed or denied", () => {
    const object = new TestObject();
    ask(object, "a", 1);
    ask(object, "b", 101);
    object.at(9_999);
    expect(left(object, "a")).toBe(49);
    object.at(10_000);
    expect(left(object, "a")).toBe(99);
  });

  it("a tenant in a dry run is guaranteed nothing, and is denied by no share", () => {
    const object = new TestObject();
    const asDryRun = (tenant: string, cost: number) =>
      object.limiter.check(
        call(tree(tenant, cost).map((each, index) => (index === 0 ? each : { ...each, isDryRun: true }))),
      );
    asDryRun("a", 40);
    asDryRun("b", 10);
    expect([isAllowed(asDryRun("a", 11)), isAllowed(asDryRun("a", 39))]).toEqual([true, true]);
  });

  it("a look and an explanation do not make a tenant active", () => {
    const object = new TestObject();
    ask(object, "a", 1);
    object.limiter.look(call(tree("b", 1)));
    object.limiter.explainTree(call(tree("b", 1)));
    ask(object, "b", 0);
    expect(isAllowed(ask(object, "a", 99))).toBe(true);
  });

  it("more than 10,000 active tenants are reported once", async () => {
    const object = new TestObject();
    const events = await eventsOf(async () => {
      const parent = charge("100000/minute", 1, "quota", "sliding-window-counter");
      for (let tenant = 0; tenant < 10_005; tenant++) ask(object, `${tenant}`, 1, { guaranteed: 5 }, parent);
      await Promise.resolve();
    });
    expect(events.match(/shares-full/g)).toHaveLength(1);
    expect(events).toContain('"policy":"quota"');
  });

  it(
    "with one active tenant, an object decides like one without shares",
    forAll(
      [fc.array(fc.tuple(fc.integer({ min: 0, max: 40 }), fc.constantFrom(0, 10, 3_000, 30_000)), { maxLength: 40 })],
      (steps) => {
        const [shared, plain] = [new TestObject(), new TestObject()];
        for (const [cost, afterMs] of steps) {
          shared.advance(afterMs);
          plain.advance(afterMs);
          const withoutShare = tree("a", cost).map((each) => {
            const { share: _, ...charged } = each;
            return charged;
          });
          expect(ask(shared, "a", cost, { guaranteed: 20 })).toEqual(plain.limiter.check(call(withoutShare)));
        }
      },
    ),
  );
});

/** A parent with these limits, and its share in the limit over a minute. */
const quotaOf = (...limits: string[]): Charge => ({
  ...logOf(1, "quota"),
  limits: parseLimits(limits, { policy: "quota", strategy: "sliding-log" }),
});
const ofMinute: Partial<ChargeShare> = { windowMs: 60_000 };
const minuteFirst = quotaOf("100/minute", "1000/hour");

const usedBy = (object: TestObject, tenant: string, parent: Charge): number | undefined =>
  object.limiter.explainTree(call(tree(tenant, 1, ofMinute, parent))).charges[1]?.share?.usedUnits;

describe("a parent whose limits change", () => {
  it("a rule of the policy that puts the shared window in another place does not share another limit", () => {
    const object = new TestObject();
    const ruled = quotaOf("1000/hour", "100/minute");
    ask(object, "a", 40, ofMinute, ruled);
    ask(object, "b", 10, ofMinute, ruled);
    expect(ask(object, "a", 11, ofMinute, ruled).decisions[0]).toMatchObject({ allowed: false, reason: "share" });
  });

  it("a spend under a key rule with another order of limits is given back to the part of the tenant", () => {
    const object = new TestObject();
    const ruled = quotaOf("500/hour", "100/minute");
    const { limits } = ruled;
    object.limiter.setRules("k", "quota", [{ id: "rule", kind: "limits", limits }], { epoch: 1, version: 1 });
    const { spentAtMs } = object.limiter.check({ ...call(tree("a", 30, ofMinute, minuteFirst)), provisionalMs: 1_000 });
    const charges = tree("a", 30, ofMinute, ruled).map((each, index) => ({
      ...each,
      spentAtMs: spentAtMs[index] ?? 0,
    }));
    object.limiter.refundTree({ key: "k", charges, provisionalMs: 1_000, hasLimitsInEffect: true });
    expect(usedBy(object, "a", minuteFirst)).toBe(0);
  });

  it.each([false, true])(
    "a settlement under earlier limits of the parent keeps what a tenant has used since (after a restart: %s)",
    async (isRestarted) => {
      const object = new TestObject();
      object.limiter.reserveTree({ ...call(tree("a", 40, ofMinute, minuteFirst)), id: "1", ttlMs: 30_000 });
      const { limits } = quotaOf("500/hour", "80/minute");
      object.limiter.setRules("k", "quota", [{ id: "rule", kind: "limits", limits }], { epoch: 1, version: 1 });
      ask(object, "a", 20, ofMinute, minuteFirst);
      if (isRestarted) await object.evict();
      object.at(12_000);
      object.limiter.settle({ key: "k", id: "1", cost: 0 });
      expect(usedBy(object, "a", minuteFirst)).toBe(20);
    },
  );

  it("requests with other limits of the parent, as by an override for a plan, do not end the guarantees of the rest", () => {
    const object = new TestObject();
    const guaranteed = { ...ofMinute, guaranteed: 40 };
    ask(object, "a", 10, guaranteed);
    ask(object, "b", 1, guaranteed);
    ask(object, "c", 1, guaranteed, quotaOf("200/minute"));
    expect(ask(object, "a", 60, guaranteed).decisions[0]).toMatchObject({ allowed: false, reason: "share" });
  });
});

describe("parts of a shared limit", () => {
  it("a changed guarantee starts the shares of the parent anew, and its limit goes on", () => {
    const object = new TestObject();
    ask(object, "a", 30, { guaranteed: 30 });
    ask(object, "b", 1, { guaranteed: 20 });
    // The units of a were spent under the guarantee of 30.
    ask(object, "a", 1, { guaranteed: 20 });
    const { decisions } = ask(object, "b", 60, { guaranteed: 20 });
    expect(decisions[0]).toMatchObject({ allowed: false, reason: "share", limits: [{ remaining: 49 }] });
  });

  it("a parent that is forgotten starts its shares anew, also for tenants that are read from storage later", async () => {
    const object = new TestObject();
    ask(object, "a", 50);
    await object.evict();
    object.limiter.look(call(logOf(1, "quota")));
    object.limiter.forget({ key: "k", policy: "quota" });
    ask(object, "b", 1);
    ask(object, "a", 1);
    expect([left(object, "b"), left(object, "a")]).toEqual([49, 49]);
  });

  it("a parent that was forgotten and idle keeps the parts that are counted later over a restart", async () => {
    const object = new TestObject();
    ask(object, "a", 50);
    object.limiter.forget({ key: "k", policy: "quota" });
    await object.pass(115_000);
    ask(object, "a", 101);
    await object.pass(6_000);
    expect(object.alarms).toBe(1);
    ask(object, "a", 45);
    await object.evict();
    ask(object, "b", 1);
    ask(object, "a", 1);
    expect([left(object, "a"), left(object, "b")]).toEqual([4, 49]);
  });

  it("a reservation without cost that is settled to units counts them as a part of the tenant", () => {
    const object = new TestObject();
    object.limiter.reserveTree({ ...call(tree("a", 0)), id: "r", ttlMs: 60_000 });
    object.limiter.settle({ key: "k", id: "r", cost: 45 });
    ask(object, "b", 1);
    ask(object, "a", 1);
    expect([left(object, "a"), left(object, "b")]).toEqual([4, 49]);
  });

  it("a restart keeps the used part of a tenant, and forgets that it was active", async () => {
    const object = new TestObject();
    ask(object, "a", 30);
    ask(object, "b", 10);
    await object.evict();
    expect(left(object, "a")).toBe(60);
    ask(object, "b", 1);
    ask(object, "a", 1);
    // A tenant has used 31 of its 50 units, or 11.
    expect([left(object, "a"), left(object, "b")]).toEqual([19, 39]);
  });

  it("a crash keeps the part of a confirmed request", () => {
    const object = new TestObject();
    object.limiter.check(confirmed(tree("a", 45)));
    object.crash();
    ask(object, "b", 1);
    ask(object, "a", 1);
    expect([left(object, "a"), left(object, "b")]).toEqual([4, 49]);
  });

  it("a denied request of a new tenant writes no row", async () => {
    const object = new TestObject();
    ask(object, "a", 101);
    expect([await object.stored(), object.storage.written.rows]).toEqual([[[], null], 0]);
  });

  it("a tenant that a rule exempts has a part of what its parent is charged", () => {
    const object = new TestObject();
    object.limiter.setRules("k a", "tenant", [{ id: "rule", kind: "allow" }], { epoch: 1, version: 1 });
    ask(object, "a", 50);
    ask(object, "b", 1);
    expect([left(object, "a"), left(object, "b")]).toEqual([0, 49]);
  });

  it("tenants that were evicted from memory keep their guarantees and their parts", () => {
    const object = new TestObject();
    const parent = charge("100000/hour", 1, "quota", "sliding-window-counter");
    const tenants = 9_000;
    for (let tenant = 0; tenant < tenants; tenant++) {
      ask(object, `${tenant}`, 1, { guaranteed: 10 }, parent);
      if (tenant % 1_000 === 0) object.advance(1);
    }
    const { decisions } = object.limiter.look(call({ ...parent, cost: 1 }));
    expect(decisions[0]?.limits[0]?.remaining).toBe(100_000 - 10 * tenants);
    ask(object, "0", 3, { guaranteed: 10 }, parent);
    const [, explained] = object.limiter.explainTree(call(tree("0", 1, { guaranteed: 10 }, parent))).charges;
    expect(explained?.share).toMatchObject({ usedUnits: 4, isActive: true });
  });

  it("slots of a reservation are part of a tenant until it is settled, and renewed with it", () => {
    const slots = charge("4/minute", 1, "quota", "concurrency");
    const reserve = (object: TestObject, tenant: string, id: string) =>
      object.limiter.reserveTree({ ...call(tree(tenant, 1, {}, slots)), id, ttlMs: 20_000 }).isOpen;
    const object = new TestObject();
    expect([reserve(object, "a", "1"), reserve(object, "b", "2"), reserve(object, "a", "3")]).toEqual([
      true,
      true,
      true,
    ]);
    expect(reserve(object, "a", "4")).toBe(false);
    object.at(15_000);
    object.limiter.renew({ key: "k", id: "1" });
    object.at(20_000);
    // The slots 2 and 3 are free. The slot 1 is part of a until 35 s.
    expect([reserve(object, "b", "5"), reserve(object, "a", "6"), reserve(object, "a", "7")]).toEqual([
      true,
      true,
      false,
    ]);
    object.limiter.settle({ key: "k", id: "1", cost: 0 });
    expect([reserve(object, "a", "8"), reserve(object, "a", "9"), reserve(object, "b", "10")]).toEqual([
      true,
      false,
      true,
    ]);
  });

  it("the part of a tenant ends together with the window that a request of another has opened", () => {
    const windowed = charge("100/minute", 1, "quota");
    const object = new TestObject();
    ask(object, "a", 10, {}, windowed);
    object.at(50_000);
    ask(object, "b", 50, {}, windowed);
    object.at(60_000);
    ask(object, "a", 1, {}, windowed);
    ask(object, "b", 1, {}, windowed);
    const { decisions } = object.limiter.look(call(tree("a", 1, {}, windowed)));
    expect(decisions[0]?.limits[0]?.remaining).toBe(49);
  });
});

describe("an explanation", () => {
  it("an explanation states the share of a tenant, and what its parent withholds", () => {
    const object = new TestObject();
    ask(object, "a", 30);
    ask(object, "b", 10, { weight: 3 });
    const [quota, tenant] = object.limiter.explainTree(call(tree("a", 1))).charges;
    expect(quota?.sharedLimits).toEqual([{ limit: 0, activeChildren: 2, withheldUnits: 65 }]);
    expect(tenant?.share).toMatchObject({ parent: "quota", guaranteedUnits: 25, usedUnits: 30, isActive: true });
    expect([quota?.share, tenant?.sharedLimits]).toEqual([undefined, undefined]);
  });
});

describe("the previous version", () => {
  it("the previous version reads rows with parts, and this version reads rows without them", async () => {
    const object = new TestObject();
    ask(object, "a", 45);
    ask(object, "b", 20);
    await object.evict();
    const events = await eventsOf(async () => {
      const limiter = new previous.Limiter({
        storage: object.storage,
        isolate: new previous.IsolateBudget(previous.isolateBudgetBytes),
        now: () => object.nowMs,
        after: () => () => undefined,
      });
      const [, own] = tree("a", 5);
      if (own !== undefined) limiter.check(confirmed({ ...own }, "k a"));
      await object.alarmAtMs();
    });
    object.crash();
    ask(object, "b", 1);
    ask(object, "a", 1);
    // The part of b is kept. That of a was dropped with its row, so that more is withheld for a.
    expect([events, left(object, "b"), left(object, "a")]).toEqual(["", 29, 33]);
  });
});
