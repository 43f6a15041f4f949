/** Key rules by which an object blocks a key, or allows the key without a charge. */
import { describe, expect, it } from "vitest";
import { readPolicy } from "../../../src/policy/policy.ts";
import { decidingRule, limitsUnder } from "../../../src/limiter/object/runtime-key-rules.ts";
import type { Charge, KeyRule } from "../../../src/limiter/protocol.ts";
import { parseLimits } from "../../../src/strategies/index.ts";
import { call, charge, confirmed } from "../../fakes/calls.ts";
import { startMs } from "../../fakes/isolate.ts";
import { allow, allowedOf, block, check, limits, ruled, setRules, until } from "../../fakes/ruled-object.ts";
import { TestObject } from "../../fakes/test-object.ts";

const perMinute = charge("10/minute");
const other = charge("10/minute", 1, "q");
const elastic = charge({ limit: 1, window: "1m", elastic: true }, 1, "e");

const bannable: Charge = (() => {
  const policy = readPolicy(
    "",
    "",
    { name: "p", limits: "1/hour", ban: { after: 2, within: "10m", for: "1h" } },
    () => undefined,
  );
  if (policy?.ban == null) throw new Error("a ban was configured");
  return { ...charge("1/hour"), ban: policy.ban };
})();

describe("precedence", () => {
  const base = parseLimits("1/s");
  const low = limits("5/minute", "low");
  const high = limits("9/minute", "high");

  it.for<[string, boolean, KeyRule[], string | null, readonly unknown[]]>([
    ["no rule", false, [], null, base],
    ["a limits rule", false, [low], "low", low.limits],
    ["two limits rules, the newest first", false, [high, low], "high", high.limits],
    ["an allow rule", false, [allow], "a", base],
    ["an allow rule that is older than a limits rule", false, [low, allow], "a", low.limits],
    ["a block rule that is older than all others", false, [low, allow, block], "b", low.limits],
    ["a ban without rules", true, [], null, base],
    ["a ban and a block rule", true, [block], null, base],
    ["a ban and an allow rule", true, [allow], null, base],
    ["a ban and all rules", true, [block, allow, low], "low", low.limits],
  ])("%s: the first of ban, block, allow and limits decides", ([, isBanned, rules, id, effective]) => {
    expect(decidingRule(rules, isBanned)?.id ?? null).toBe(id);
    expect(limitsUnder(rules, base)).toBe(effective);
  });

  it("a ban denies a key even if a rule allows the key", () => {
    const object = new TestObject();
    for (let count = 0; count < 3; count++) check(object, bannable);
    setRules(object, 1, allow);
    const { decisions, keyRules } = check(object, bannable);
    expect([decisions[0]?.allowed, decisions[0]?.bannedForMs, keyRules]).toEqual([false, 3_600_000, undefined]);
  });
});

describe("a block rule", () => {
  it("a block denies the next request, charges no policy, and its denial names the rule", () => {
    const object = ruled(block);
    const reply = check(object, other, perMinute);
    expect(allowedOf(reply)).toEqual([true, false]);
    expect(reply.keyRules).toEqual([null, block]);
    expect(reply.decisions[1]?.retryAfterMs).toBeNull();
    expect([object.remaining(other), object.remaining(perMinute)]).toEqual([10, 10]);
  });

  it("a block applies only to its own policy and key", () => {
    const object = ruled(block);
    expect(allowedOf(check(object, other))).toEqual([true]);
    expect(object.limiter.check(call(perMinute, "k2")).decisions[0]?.allowed).toBe(true);
  });

  it("a blocked request does not count towards a ban, restarts no elastic window and writes no row", async () => {
    const object = new TestObject();
    check(object, elastic);
    setRules(object, 1, block);
    await object.pass(30_000);
    const writes = object.storage.countWrites();
    for (let count = 0; count < 5; count++) check(object, bannable, elastic);
    setRules(object, 2);
    expect(check(object, { ...bannable, cost: 0 }).decisions[0]?.bannedForMs).toBe(0);
    expect(writes.rows).toBe(1);
    await object.pass(30_000);
    expect(allowedOf(check(object, elastic))).toEqual([true]);
  });

  it("a block ends exactly at its expiry", () => {
    const object = ruled({ ...block, ...until(60_000) });
    object.at(59_999);
    expect(check(object, perMinute).decisions[0]).toMatchObject({
      allowed: false,
      retryAfterMs: 1,
    });
    object.at(60_000);
    const reply = check(object, perMinute);
    expect([allowedOf(reply), reply.keyRules]).toEqual([[true], undefined]);
  });

  it("a denial by a block may be cached, but not beyond the time when a rule expires", () => {
    const object = ruled({ ...block, ...until(60_000) });
    object.limiter.reserve({ ...call(other), id: "r", ttlMs: 60_000 });
    expect(check(object, perMinute)).toMatchObject({ isFirm: true });
    expect(check(object, perMinute).firmForMs).toBeUndefined();
    object.at(59_700);
    expect(check(object, perMinute)).toMatchObject({ isFirm: true, firmForMs: 300 });
  });

  it("a dry run reports that a key is blocked, and denies nothing", () => {
    const object = ruled(block);
    const reply = check(object, { ...perMinute, isDryRun: true }, other);
    expect([allowedOf(reply), reply.keyRules]).toEqual([
      [false, true],
      [block, null],
    ]);
    expect([object.remaining(perMinute), object.remaining(other)]).toEqual([10, 9]);
  });

  it("a key that is blocked in a dry run is not banned", () => {
    const object = ruled(block);
    for (let count = 0; count < 5; count++) check(object, { ...bannable, isDryRun: true }, other);
    setRules(object, 2);
    expect(check(object, bannable).decisions[0]?.bannedForMs).toBe(0);
  });

  it("a blocked key gets no new reservation or slice, and keeps its open ones", () => {
    const object = new TestObject();
    const hour = charge("100/hour");
    object.limiter.reserve({ ...call(hour), id: "open", ttlMs: 60_000 });
    const lent = object.lease(hour);
    setRules(object, 1, block);
    const reserved = object.limiter.reserve({ ...call(hour), id: "r", ttlMs: 60_000 });
    expect([reserved.isOpen, reserved.keyRules]).toEqual([false, [block]]);
    expect(object.lease({ ...hour, cost: 0 }).lentUnits).toBe(0);
    expect(object.limiter.settle({ key: "k", id: "open", cost: 0 }).settled).toBe(true);
    expect(object.giveBack(lent.id, 2).settled).toHaveLength(1);
    expect(object.remaining(hour)).toBe(97);
  });
});

describe("an allow rule", () => {
  it("a key that a rule allows is not charged, even when its limits are exhausted", () => {
    const object = new TestObject();
    for (let count = 0; count < 12; count++) check(object, perMinute);
    setRules(object, 1, allow);
    const reply = check(object, perMinute, other);
    expect([allowedOf(reply), reply.keyRules]).toEqual([
      [true, true],
      [allow, null],
    ]);
    expect(reply.decisions[0]).toMatchObject({ cost: 1, retryAfterMs: 0 });
    expect([reply.spentAtMs, object.remaining(other)]).toEqual([[0, startMs], 9]);
    setRules(object, 2);
    expect(object.remaining(perMinute)).toBe(0);
  });

  it("a rule that allows a key does not lift a denial by another policy", () => {
    const object = ruled(allow);
    const reply = check(object, perMinute, { ...other, cost: 11 });
    expect([allowedOf(reply), reply.isFirm]).toEqual([[true, false], true]);
  });

  it("a key that a rule allows has no wait, even with a debt and open slices", () => {
    const object = ruled(limits("100/minute"));
    check(object, { ...perMinute, cost: 50 });
    expect(object.lease({ ...perMinute, cost: 0 }).lentUnits).toBe(6);
    setRules(object, 2, allow);
    expect(check(object, perMinute).decisions[0]).toMatchObject({ allowed: true, retryAfterMs: 0 });
  });

  it("when a rule allows a request whose cost can never fit, no limit is reported as denying", () => {
    const { decisions } = check(ruled(allow), { ...perMinute, cost: 11 });
    expect(decisions[0]?.limits.map(({ allowed }) => allowed)).toEqual([true]);
  });

  it("a denial by another policy restarts no elastic window of an allowed key, and may be cached whatever the key's limits are", () => {
    const object = new TestObject();
    const ruledElastic = { ...elastic, policy: "p" };
    check(object, ruledElastic);
    setRules(object, 1, allow);
    object.at(30_000);
    const denial = check(object, ruledElastic, { ...other, cost: 11 });
    expect([allowedOf(denial), denial.isFirm]).toEqual([[true, false], true]);
    setRules(object, 2);
    object.at(60_000);
    expect(allowedOf(check(object, ruledElastic))).toEqual([true]);
  });

  it("denials of a key that a rule allows do not count towards a ban", () => {
    const object = ruled(allow);
    for (let count = 0; count < 9; count++) check(object, bannable);
    setRules(object, 2);
    expect(allowedOf(check(object, bannable))).toEqual([true]);
  });

  it("a refund of a request that was not charged changes nothing", () => {
    const object = new TestObject();
    check(object, { ...perMinute, cost: 4 });
    setRules(object, 1, allow);
    const { spentAtMs } = object.limiter.check({ ...call(perMinute), provisionalMs: 1_000 });
    const charges = [{ ...perMinute, spentAtMs: spentAtMs[0] ?? Number.NaN }];
    object.limiter.refund({ key: "k", charges });
    object.limiter.refund({ key: "k", charges, provisionalMs: 1_000 });
    expect(object.remaining(perMinute)).toBe(6);
  });

  it("a reservation omits policies that do not charge it, and settles the other policies", async () => {
    const object = ruled(allow);
    const { isOpen } = object.limiter.reserve({
      ...confirmed([perMinute, { ...other, cost: 3 }]),
      id: "r",
      ttlMs: 60_000,
    });
    expect(isOpen).toBe(true);
    await object.evict();
    expect(object.limiter.settle({ key: "k", id: "r", cost: 5, costs: [1] }).settled).toBe(true);
    expect([object.remaining(perMinute), object.remaining(other)]).toEqual([10, 9]);
  });

  it("a request that no policy charges needs no reservation, even if the key has the maximum of open reservations", () => {
    const object = new TestObject();
    const hour = charge("100000/hour");
    for (let count = 0; count < 1_000; count++) {
      object.limiter.reserve({ ...call(hour), id: `r${count}`, ttlMs: 60_000 });
    }
    const reserving = { ...call(hour), id: "more", ttlMs: 60_000 };
    expect(object.limiter.reserve(reserving).fullForMs).toBe(60_000);
    setRules(object, 1, allow);
    const { isOpen, fullForMs, decisions } = object.limiter.reserve(reserving);
    expect([isOpen, fullForMs, decisions[0]?.allowed]).toEqual([false, 0, true]);
  });

  it("a key that a rule allows gets no slice, because its requests must reach the object that has the rule", () => {
    const object = ruled(allow);
    expect(object.lease(charge("1000/hour", 0)).lentUnits).toBe(0);
  });
});
