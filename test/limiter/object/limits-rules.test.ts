/** Key rules by which an object gives a key other limits, until the rule expires by the object's clock. */
import { describe, expect, it } from "vitest";
import type { Charge, KeyRule } from "../../../src/limiter/protocol.ts";
import { parseLimits } from "../../../src/strategies/index.ts";
import { call, charge, confirmed, remainingOf } from "../../fakes/calls.ts";
import { allow, allowedOf, block, check, limits, ruled, setRules, until } from "../../fakes/ruled-object.ts";
import { TestObject } from "../../fakes/test-object.ts";

const perMinute = charge("10/minute");
const other = charge("10/minute", 1, "q");

describe("a limits rule", () => {
  it("the limits of a rule replace those of the policy, keep the count, and are in the reply", () => {
    const object = new TestObject();
    check(object, { ...perMinute, cost: 8 });
    const boost = limits("20/minute");
    setRules(object, 1, boost);
    const reply = check(object, { ...perMinute, cost: 8 });
    expect([allowedOf(reply), reply.keyRules, remainingOf(reply.decisions)]).toEqual([[true], [boost], 4]);
    expect(reply.decisions[0]?.limits[0]?.limit).toBe(20);
    setRules(object, 2);
    expect(allowedOf(check(object, perMinute))).toEqual([false]);
  });

  it("when a newer rule that raises a key's limits expires, an older permanent rule applies again", () => {
    const object = ruled({ ...limits("20/minute", "boost"), ...until(30_000) }, limits("5/minute"));
    check(object, { ...perMinute, cost: 12 });
    object.at(29_999);
    expect(object.remaining(perMinute)).toBe(8);
    object.at(30_000);
    expect(object.remaining(perMinute)).toBe(0);
    object.at(60_000);
    expect(object.remaining(perMinute)).toBe(5);
  });

  it("the wait of a denial takes into account that higher limits expire before its end", () => {
    const object = ruled({ ...limits("20/minute", "l", "sliding-log"), ...until(30_000) });
    const log = charge("10/minute", 1, "p", "sliding-log");
    check(object, { ...log, cost: 15 });
    object.at(10_000);
    check(object, { ...log, cost: 5 });
    // At 60 s, 5 units still count in the log: a cost of 6 would fit in 20, but not in 10.
    const { decisions } = check(object, { ...log, cost: 6 });
    expect(decisions[0]?.retryAfterMs).toBe(60_000);
    object.at(69_999);
    expect(allowedOf(check(object, { ...log, cost: 6 }))).toEqual([false]);
    object.at(70_000);
    expect(allowedOf(check(object, { ...log, cost: 6 }))).toEqual([true]);
  });

  it("a cost that fits only the policy's own limits waits until the rule expires", () => {
    const object = ruled({ ...limits("2/minute"), ...until(45_000) });
    expect(check(object, { ...perMinute, cost: 5 }).decisions[0]?.retryAfterMs).toBe(45_000);
    object.at(45_000);
    expect(allowedOf(check(object, { ...perMinute, cost: 5 }))).toEqual([true]);
  });

  it("a cached denial does not outlast the rule", () => {
    const object = ruled({ ...limits("2/minute"), ...until(45_000) });
    check(object, { ...perMinute, cost: 2 });
    expect(check(object, perMinute)).toMatchObject({ isFirm: true });
    object.at(44_600);
    expect(check(object, perMinute)).toMatchObject({ isFirm: true, firmForMs: 400 });
    const slots = parseLimits("1/minute", { policy: "p", strategy: "concurrency" });
    const rule: KeyRule = { id: "slots", kind: "limits", limits: slots };
    setRules(object, 2, rule);
    expect(check(object, { ...perMinute, cost: 2 }).isFirm).toBeUndefined();
  });

  it("a denial may be cached only until the rule expires, even if a provisional spend would allow longer", () => {
    const object = ruled({ ...limits("2/minute"), ...until(45_000) });
    object.at(44_950);
    object.limiter.check({ ...call({ ...perMinute, cost: 2 }), provisionalMs: 1_000 });
    expect(check(object, perMinute)).toMatchObject({ isFirm: true, firmForMs: 50 });
  });

  it("under a rule with a concurrency limit, a provisional spend takes its slots for the whole window", () => {
    const object = ruled(limits("5/minute", "slots", "concurrency"));
    object.limiter.check({ ...call(perMinute), provisionalMs: 1_000 });
    object.at(59_999);
    expect(object.remaining(perMinute)).toBe(4);
    object.at(60_000);
    expect(object.remaining(perMinute)).toBe(5);
  });

  it("a slice never outlasts the rule under which it was lent", () => {
    const object = ruled({ ...limits("1000/hour"), ...until(60_000) });
    object.at(58_000);
    expect(object.lease(charge("10/hour", 0), { ttlMs: 2_000 }).lentUnits).toBe(10);
    object.at(58_001);
    expect(object.lease(charge("10/hour", 0), { ttlMs: 2_000 }).lentUnits).toBe(0);
  });

  it("refunds and settlements apply to the limits in effect", () => {
    const object = ruled(limits("7/hour"));
    const { spentAtMs } = check(object, { ...perMinute, cost: 3 });
    expect(object.remaining(perMinute)).toBe(4);
    const charges = [{ ...perMinute, cost: 3, spentAtMs: spentAtMs[0] ?? 0 }];
    object.limiter.refund({ key: "k", charges });
    expect(object.remaining(perMinute)).toBe(7);
    const provisional = { ...call({ ...perMinute, cost: 3 }), provisionalMs: 1_000 };
    object.limiter.check(provisional);
    object.limiter.refund({ key: "k", charges, provisionalMs: 1_000 });
    object.limiter.reserve({ ...call({ ...perMinute, cost: 5 }), id: "r", ttlMs: 60_000 });
    setRules(object, 2, limits("9/hour"));
    object.limiter.settle({ key: "k", id: "r", cost: 1 });
    expect(object.remaining(perMinute)).toBe(8);
  });

  it("a refund changes nothing under limits that were not in effect when the cost was spent", () => {
    const log = charge("10/minute", 1, "p", "sliding-log");
    const object = new TestObject();
    const { spentAtMs } = check(object, log);
    setRules(object, 1, limits("100/hour", "l", "sliding-log"));
    check(object, { ...log, cost: 50 });
    const charges = [{ ...log, spentAtMs: spentAtMs[0] ?? 0 }];
    object.limiter.refund({ key: "k", charges, hasLimitsInEffect: true });
    expect(object.remaining(log)).toBe(50);
    setRules(object, 2);
    expect(object.remaining(log)).toBe(10);
  });

  it("waits are long enough even while slices are open under a rule that expires", () => {
    const object = ruled({ ...limits("100/minute"), ...until(20_000) });
    check(object, { ...perMinute, cost: 92 });
    expect(object.lease({ ...perMinute, cost: 0 }, { units: 10, ttlMs: 5_000 }).lentUnits).toBe(1);
    const waitOf = (cost: number) => check(object, { ...perMinute, cost }).decisions[0]?.retryAfterMs;
    expect([waitOf(8), waitOf(15)]).toEqual([60_000, null]);
    object.at(59_999);
    expect(allowedOf(check(object, { ...perMinute, cost: 8 }))).toEqual([false]);
    object.at(60_000);
    expect(allowedOf(check(object, { ...perMinute, cost: 8 }))).toEqual([true]);
  });
});

describe("a synced charge", () => {
  it("a sync reply contains the rule of each charge, and a snapshot under the limits in effect", () => {
    const boost = limits("20/minute");
    const object = ruled(boost);
    const sync = (charges: Charge[]) =>
      object.limiter.sync({
        isolate: "i",
        key: "k",
        batch: 0,
        charges: charges.map((each) => ({ ...each, spends: [] })),
      });
    expect(sync([other, perMinute]).keyRules).toEqual([null, boost]);
    setRules(object, 2, block, boost);
    expect(sync([perMinute]).keyRules).toEqual([block]);
    expect(sync([other]).keyRules).toBeUndefined();
  });

  it("spends that a sync brings count in the limits of a rule", () => {
    const object = ruled(limits("20/hour"));
    const spends = [[0, 15]] as const;
    object.limiter.sync({ isolate: "i", key: "k", batch: 1, charges: [{ ...perMinute, spends }] });
    expect(object.remaining(perMinute)).toBe(5);
  });
});

describe("the clock and restarts", () => {
  it("rules are enforced after the object has lost its memory", async () => {
    const object = ruled({ ...block, ...until(3_600_000) });
    object.crash();
    expect(allowedOf(check(object, perMinute))).toEqual([false]);
    await object.evict();
    object.at(3_599_999);
    expect(allowedOf(check(object, perMinute))).toEqual([false]);
    await object.evict();
    object.at(3_600_000);
    expect(allowedOf(check(object, perMinute))).toEqual([true]);
  });

  it("an expired rule stays expired when the clock steps back", () => {
    const object = ruled({ ...limits("20/minute"), ...until(10_000) });
    object.at(10_000);
    check(object, { ...perMinute, cost: 10 });
    object.at(5_000);
    expect(allowedOf(check(object, perMinute))).toEqual([false]);
  });

  it("rules of the same version that are sent again restore a rule that expired by a wrong clock", () => {
    const object = ruled({ ...block, ...until(10_000) });
    object.at(86_400_000);
    object.limiter.check(confirmed(other));
    object.at(1_000);
    expect(allowedOf(check(object, perMinute))).toEqual([true]);
    const rules = [{ ...block, ...until(10_000) }];
    setRules(object, 1, ...rules);
    expect(allowedOf(check(object, perMinute))).toEqual([false]);
  });

  it("an object with many keys applies the rules of each key separately", async () => {
    const object = new TestObject();
    for (const key of ["k1", "k2", "k3"]) object.limiter.check(call(perMinute, key));
    object.limiter.setRules("k1", "p", [block], { epoch: 1, version: 1 });
    object.limiter.setRules("k2", "p", [limits("99/minute")], { epoch: 1, version: 2 });
    await object.evict();
    const reply = ["k1", "k2", "k3"].map((key) => object.limiter.check(call(perMinute, key)));
    expect(reply.map(({ keyRules }) => keyRules?.[0]?.id)).toEqual(["b", "l", undefined]);
    expect(reply.map(allowedOf)).toEqual([[false], [true], [true]]);
    expect(reply.map(({ decisions }) => remainingOf(decisions))).toEqual([9, 97, 8]);
  });

  it("rules count towards the estimated memory of an object", () => {
    const object = new TestObject();
    check(object, perMinute);
    const before = object.limiter.cachedBytes;
    object.limiter.setRules("k", "p", [block, allow, limits("20/minute")], {
      epoch: 1,
      version: 1,
    });
    expect(object.limiter.cachedBytes - before).toBeGreaterThan(500);
  });
});
