/** Slices: units that an object lends to isolates, which then spend these units without calls. */
import { describe, expect, it } from "vitest";
import type { CheckReply } from "../../../src/limiter/protocol.ts";
import type { LimitDecision } from "../../../src/strategies/index.ts";
import { call, charge, logOf } from "../../fakes/calls.ts";
import { TestObject } from "../../fakes/test-object.ts";

const allowed = ({ decisions }: CheckReply): boolean[] => decisions.map(({ allowed: isAllowed }) => isAllowed);

const limitOf = ({ decisions }: CheckReply): LimitDecision | undefined => decisions[0]?.limits[0];

describe("lease", () => {
  it("a lease call spends its charges, and borrows at most an eighth of what remains", () => {
    const object = new TestObject();
    const { decisions, lentUnits } = object.lease(logOf(20), { units: 50 });
    expect([decisions[0]?.limits[0]?.remaining, lentUnits]).toEqual([80, 10]);
    expect(object.remaining(logOf(1))).toBe(70);
    expect(object.lease(logOf(0), { units: 3 }).lentUnits).toBe(3);
    expect(object.remaining(logOf(1))).toBe(67);
  });

  it("a lease call for several policies lends the same number of units of each, as few as the scarcest policy allows", () => {
    const object = new TestObject();
    const charges = [logOf(1, "wide"), charge("1000/hour; 41/day", 1, "narrow")];
    expect(object.lease(charges).lentUnits).toBe(5);
    expect(object.remaining(logOf(1, "wide"))).toBe(94);
    expect(object.remaining(charge("41/day", 1, "narrow"))).toBe(35);
  });

  it("a lease call near the limit lends nothing and opens no slice", () => {
    const object = new TestObject();
    const { lentUnits } = object.lease(charge("8/hour"));
    expect(lentUnits).toBe(0);
    expect(object.remaining(charge("8/hour"))).toBe(7);
    // The denial may be cached, which shows that no slice is open.
    expect(object.limiter.check(call(charge("8/hour", 8))).isFirm).toBe(true);
  });

  it("a denied lease call lends nothing and spends nothing", async () => {
    const object = new TestObject();
    const charges = [logOf(60, "wide"), charge("50/hour", 60, "narrow")];
    const leased = object.lease(charges);
    expect([allowed(leased), leased.lentUnits]).toEqual([[true, false], 0]);
    expect(await object.stored()).toEqual([[], null]);
  });

  it("a lease call with a dry-run policy lends nothing", () => {
    const object = new TestObject();
    const dryRun = { ...charge("1000/hour", 1, "dry"), isDryRun: true };
    expect(object.lease([logOf(1), dryRun]).lentUnits).toBe(0);
    expect(object.remaining(logOf(1))).toBe(99);
  });

  it("a lease call that asks for no units is a check", () => {
    const object = new TestObject();
    const leased = object.limiter.lease({ ...call(logOf(1)), wanted: null });
    expect([allowed(leased), leased.lentUnits]).toEqual([[true], 0]);
    expect(object.remaining(logOf(1))).toBe(99);
  });

  it("a lease call of cost 0 is allowed on an exhausted key, and lends units of a key that has some left", () => {
    const object = new TestObject();
    const full = charge("2/hour", 2, "full");
    object.limiter.check(call(full));
    const looked = object.lease({ ...full, cost: 0 });
    expect([allowed(looked), looked.lentUnits]).toEqual([[true], 0]);
    expect(object.lease(logOf(0)).lentUnits).toBe(10);
  });

  it("a lease call that the platform delivers twice lends once", () => {
    const object = new TestObject();
    const { id, lentUnits } = object.lease(logOf(0));
    expect(object.lease(logOf(0), { id }).lentUnits).toBe(lentUnits);
    expect(object.remaining(logOf(1))).toBe(90);
    object.giveBack(id, 0);
    expect(object.remaining(logOf(1))).toBe(100);
  });
});

describe("lent units", () => {
  it("all kinds of calls count lent units as spent", () => {
    const object = new TestObject();
    object.lease(charge("16/hour", 0));
    const [fits, tooMany] = [charge("16/hour", 14), charge("16/hour", 15)];
    expect(allowed(object.limiter.look(call(tooMany)))).toEqual([false]);
    expect(allowed(object.limiter.check(call(tooMany)))).toEqual([false]);
    expect(allowed(object.limiter.check(call([tooMany, logOf(1)])))).toEqual([false, true]);
    expect(allowed(object.limiter.look(call(fits)))).toEqual([true]);
    const reserved = object.limiter.reserve({ ...call(tooMany), id: "r", ttlMs: 5_000 });
    expect(reserved.isOpen).toBe(false);
    expect(allowed(object.lease(tooMany))).toEqual([false]);
    expect(allowed(object.limiter.check(call(fits)))).toEqual([true]);
  });

  it("the used units of a slice count as spent at the time of its return", () => {
    const object = new TestObject();
    const { id } = object.lease(logOf(0));
    object.at(3_000);
    object.giveBack(id, 4);
    expect(object.remaining(logOf(1))).toBe(96);
    object.at(62_999);
    expect(object.remaining(logOf(1))).toBe(96);
    object.at(63_000);
    expect(object.remaining(logOf(1))).toBe(100);
  });

  it("a lease call settles the slices that it returns before it lends the next slice", () => {
    const object = new TestObject();
    const { id } = object.lease(charge("80/hour", 0));
    const returned = [{ id, used: 10 }];
    const next = object.lease(charge("80/hour", 6), { returned, units: 100 });
    expect([limitOf(next)?.remaining, next.lentUnits]).toEqual([64, 8]);
    expect(object.remaining(charge("80/hour"))).toBe(56);
  });

  it("a slice that is not returned counts as spent completely, exactly from its end on", () => {
    const object = new TestObject();
    object.lease(logOf(0));
    object.at(4_999);
    expect(object.remaining(logOf(1))).toBe(90);
    object.at(30_000);
    expect(object.remaining(logOf(1))).toBe(90);
    object.at(64_999);
    expect(object.remaining(logOf(1))).toBe(90);
    object.at(65_000);
    expect(object.remaining(logOf(1))).toBe(100);
  });

  it("a slice counts in the window in which it ends, even if the object notices the end later", () => {
    const object = new TestObject();
    const each = charge("80/minute", 1);
    object.lease(each);
    object.at(60_000);
    expect(object.remaining(each)).toBe(80);
  });

  it("slices that have ended since the last call are booked in the order in which they ended", () => {
    const object = new TestObject();
    const each = charge({ limit: 80, window: "2500ms" }, 0);
    object.lease(each, { ttlMs: 3_000 });
    object.lease(each, { ttlMs: 1_000 });
    object.at(3_499);
    expect(object.remaining(each)).toBe(62);
    object.at(3_500);
    expect(object.remaining(each)).toBe(80);
  });

  it("the return of a slice books at most the lent units, only once, and only before the slice ends", () => {
    const object = new TestObject();
    const { id, lentUnits } = object.lease(logOf(0));
    const late = object.lease(logOf(0), { ttlMs: 1_000 });
    object.at(500);
    object.giveBack(id, 1_000);
    object.giveBack(id, 1_000);
    object.giveBack("unknown", 1_000);
    object.at(1_000);
    object.giveBack(late.id, 0);
    expect(object.remaining(logOf(1))).toBe(100 - lentUnits - late.lentUnits);
  });

  it("forgetting a policy ends the part of a slice that belongs to this policy, and no other part", () => {
    const object = new TestObject();
    const charges = [logOf(0, "a"), logOf(0, "b")];
    const { id } = object.lease(charges);
    object.limiter.forget({ key: "k", policy: "a" });
    expect(object.remaining(logOf(1, "a"))).toBe(100);
    expect(object.remaining(logOf(1, "b"))).toBe(90);
    object.giveBack(id, 7);
    expect(object.remaining(logOf(1, "a"))).toBe(100);
    expect(object.remaining(logOf(1, "b"))).toBe(93);
  });

  it("a slice counts under the current limits until its return, which is booked under the limits at the time of lending", async () => {
    const object = new TestObject();
    const { id } = object.lease(charge("80/hour", 0));
    await object.evict();
    expect(object.remaining(charge("100/hour; 500/day"))).toBe(90);
    object.giveBack(id, 6);
    expect(object.remaining(charge("100/hour; 500/day"))).toBe(94);
  });
});

describe("waits with open slices", () => {
  it("waits assume that all lent units are spent at the end of the last slice", () => {
    const object = new TestObject();
    object.limiter.check(call(logOf(50)));
    object.lease(logOf(0), { units: 4, ttlMs: 2_000 });
    object.at(1_000);
    object.lease(logOf(0), { units: 4, ttlMs: 5_000 });
    object.at(2_000);
    const denied = object.limiter.check(call(logOf(45)));
    expect(denied.decisions).toMatchObject([
      {
        allowed: false,
        retryAfterMs: 58_000,
        limits: [{ remaining: 42, replenishAfterMs: 58_000, resetAfterMs: 64_000 }],
      },
    ]);
    expect(denied.isFirm).toBeUndefined();
    expect(limitOf(object.limiter.check(call(logOf(97))))?.retryAfterMs).toBe(64_000);
    expect(limitOf(object.limiter.check(call(logOf(101))))?.retryAfterMs).toBeNull();
    object.at(60_000);
    expect(allowed(object.limiter.check(call(logOf(45))))).toEqual([true]);
  });

  it("all kinds of calls report the same waits while a slice is open", () => {
    const object = new TestObject();
    object.lease(logOf(0));
    const all = call(logOf(100));
    const replies = [
      object.limiter.check(all),
      object.limiter.look(all),
      object.limiter.reserve({ ...all, id: "r", ttlMs: 1_000 }),
      object.lease(logOf(100)),
    ];
    expect(replies.map((reply) => limitOf(reply)?.retryAfterMs)).toEqual(replies.map(() => 65_000));
  });

  it("a cost that fits only after the last slice has ended waits exactly until its end", () => {
    const object = new TestObject();
    object.limiter.check(call(charge("20/second", 4)));
    object.lease(charge("20/second", 0), { ttlMs: 5_000 });
    const denied = object.limiter.check(call(charge("20/second", 16)));
    expect(denied.decisions[0]).toMatchObject({
      retryAfterMs: 5_000,
      limits: [{ remaining: 14, replenishAfterMs: 5_000, resetAfterMs: 6_000 }],
    });
  });

  it("a wait is long enough even if a slice is returned unused whose spend would have opened the window", () => {
    const object = new TestObject();
    const each = charge("16/12s", 0);
    const first = object.lease(each, { ttlMs: 10_000 });
    object.lease({ ...each, cost: 0 }, { ttlMs: 20_000, units: 1 });
    const denied = object.limiter.check(call({ ...each, cost: 16 }));
    expect(denied.decisions[0]?.retryAfterMs).toBe(32_000);
    object.giveBack(first.id, 0);
    object.at(31_999);
    expect(object.remaining(each)).toBe(15);
    object.at(32_000);
    expect(object.remaining(each)).toBe(16);
  });

  it("a slice of one policy leaves the waits of other policies unchanged", () => {
    const object = new TestObject();
    object.lease(logOf(0));
    const denied = object.limiter.check(call([charge("5/hour", 6, "q"), charge("3/hour", 1, "r")]));
    expect(denied.decisions.map(({ retryAfterMs }) => retryAfterMs)).toEqual([null, 0]);
  });

  it("while a slice is open, a clock that steps back makes waits longer by the step", () => {
    const object = new TestObject();
    object.limiter.check(call(logOf(1)));
    object.lease(logOf(0));
    object.at(-10_000);
    const { decisions } = object.limiter.look(call(logOf(100)));
    expect(decisions[0]?.limits[0]).toMatchObject({ remaining: 89, retryAfterMs: 75_000 });
    object.at(4_999);
    expect(object.remaining(logOf(1))).toBe(89);
  });
});
