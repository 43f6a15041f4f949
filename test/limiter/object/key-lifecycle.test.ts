/** Keys from the first spend to the last, across evictions, refunds and changed limits. */
import { describe, expect, it } from "vitest";
import type { Charge } from "../../../src/limiter/protocol.ts";
import { parseLimits } from "../../../src/strategies/index.ts";
import { call, charge, eventsOf } from "../../fakes/calls.ts";
import { TestObject } from "../../fakes/test-object.ts";

describe("a key", () => {
  it("a denial by one policy restarts the elastic window of another policy on the same key", () => {
    const object = new TestObject();
    const elastic = { limit: 5, window: "10s", strategy: "fixed-window", elastic: true };
    const both: Charge[] = [
      { policy: "elastic", limits: parseLimits(elastic), cost: 1 },
      charge("1/hour", 1, "strict"),
    ];
    object.limiter.check(call(both));
    object.at(4_000);
    const { decisions } = object.limiter.check(call(both));
    expect(decisions).toMatchObject([
      { allowed: true, limits: [{ remaining: 4, resetAfterMs: 10_000 }] },
      { allowed: false, limits: [{ remaining: 0 }] },
    ]);
  });

  it("looks and denials write nothing, and the database is empty until the first spend", async () => {
    const object = new TestObject();
    object.limiter.look(call(charge("1/minute")));
    object.limiter.check(call(charge("1/minute", 2)));
    expect(await object.stored()).toEqual([[], null]);
    object.limiter.check(call(charge("1/minute")));
    expect(await object.stored()).toEqual([["k k"], 120_000]);
  });

  it("keys in one object are counted, forgotten and stored separately", async () => {
    const object = new TestObject();
    object.limiter.check(call(charge("5/minute", 5), "one"));
    object.limiter.check(call(charge("5/minute", 2), "two"));
    expect(object.remaining(charge("5/minute"), "one")).toBe(0);
    expect(object.remaining(charge("5/minute"), "two")).toBe(3);
    expect(object.remaining(charge("5/minute"), "three")).toBe(5);
    object.limiter.forget({ key: "one", policy: "p" });
    await object.evict();
    expect(object.remaining(charge("5/minute"), "one")).toBe(5);
    expect(object.remaining(charge("5/minute"), "two")).toBe(3);
  });

  it("all policies of a key are stored in one row", async () => {
    const object = new TestObject();
    object.limiter.check(call([charge("5/minute", 1, "a"), charge("9/hour", 1, "b")]));
    expect(await object.stored()).toEqual([["k k"], 3_600_000 + 3_600_000]);
    object.limiter.forget({ key: "k", policy: "a" });
    await object.evict();
    expect(object.remaining(charge("5/minute", 1, "a"))).toBe(5);
    expect(object.remaining(charge("9/hour", 1, "b"))).toBe(8);
  });

  it("after everything is refunded, nothing is left in storage, even if the key was forgotten in between", async () => {
    const object = new TestObject();
    const each = charge("5/minute");
    const { spentAtMs } = object.limiter.check(call(each));
    const refund = { key: "k", charges: [{ ...each, spentAtMs: spentAtMs[0] ?? 0 }] };
    object.limiter.refund(refund);
    expect(await object.stored()).toEqual([[], null]);
    // The refund of a call that was answered late may come after the key was forgotten.
    object.limiter.check(call(each));
    object.limiter.forget({ key: "k", policy: "p" });
    object.limiter.refund(refund);
    expect(await object.stored()).toEqual([[], null]);
  });

  it("a refund restores what was spent while the clock was behind", () => {
    const object = new TestObject();
    const each = charge("10/minute", 4);
    object.limiter.check(call(each));
    object.at(-500);
    const { spentAtMs } = object.limiter.check(call(each));
    object.limiter.refund({ key: "k", charges: [{ ...each, spentAtMs: spentAtMs[0] ?? 0 }] });
    expect(object.remaining(charge("10/minute"))).toBe(6);
  });

  it("a clock that steps back adds no quota, and makes the waits longer by the step", () => {
    const object = new TestObject();
    object.limiter.check(call(charge("1/minute")));
    object.at(-20_000);
    const { decisions } = object.limiter.check(call(charge("1/minute")));
    expect(decisions[0]).toMatchObject({ allowed: false, retryAfterMs: 80_000 });
  });

  it("the object ignores unknown fields of a newer Worker, and has defaults for fields that an older Worker does not send", () => {
    const object = new TestObject();
    const newer = { ...call(charge("5/minute")), durability: "eventual", isUrgent: true };
    const { decisions } = object.limiter.check(newer as never);
    expect(decisions[0]?.allowed).toBe(true);
    const { durability: _, ...older } = call(charge("5/minute"));
    expect(object.limiter.check(older).decisions[0]?.limits[0]?.remaining).toBe(3);
  });
});

describe("changed limits", () => {
  it("when only a limit's number changes, its count is kept, and when its window changes, the count starts at zero", async () => {
    const object = new TestObject();
    object.limiter.check(call(charge("10/minute", 8)));
    for (const evict of [() => Promise.resolve(), () => object.evict()]) {
      // oxlint-disable no-await-in-loop
      expect(object.remaining(charge("20/minute"))).toBe(12);
      await evict();
      expect(object.remaining(charge("5/minute"))).toBe(0);
      expect(object.remaining(charge("10/hour"))).toBe(10);
      await evict();
      expect(object.remaining(charge("10/minute"))).toBe(2);
      // oxlint-enable no-await-in-loop
    }
  });

  it("calls without a limit keep the count of that limit, even across evictions", async () => {
    const object = new TestObject();
    object.limiter.check(call(charge("10/hour; 20/day", 7)));
    object.limiter.check(call(charge("30/week", 1)));
    await object.evict();
    object.limiter.check(call(charge("30/week", 1)));
    await object.evict();
    const { decisions } = object.limiter.look(call(charge("30/week; 20/day; 10/hour")));
    expect(decisions[0]?.limits.map((limit) => limit.remaining)).toEqual([28, 13, 3]);
  });

  it.each([
    ["of another version", "[99,4102444860000,4102444800000,0,[]]"],
    ["that is no JSON", "[1,4102444860000,4102444800000,0,["],
    ["with an unreadable snapshot", '[1,4102444860000,4102444800000,0,[["p",{"a":1}]]]'],
    [
      "with an unreadable state",
      '[1,4102444860000,4102444800000,0,[["p",[2,4102444800000,["fixed-window 1m",60000,"!"]]]]]',
    ],
    [
      "with a missing segment",
      '[1,4102444860000,4102444800000,0,[["p",[2,4102444800000,["sliding-log 1m",60000,[7,"AB"]]]]]]',
    ],
    ["with unreadable reservations", '[1,4102444860000,4102444800000,0,[],[[],["id"]]]'],
  ])("a stored row %s is refused, reported and replaced", async (_, row) => {
    const object = new TestObject();
    const each = charge("5/minute", 1, "p", row.includes("log") ? "sliding-log" : "fixed-window");
    object.storage.rows.set("k k", row);
    const events = await eventsOf(() => {
      const { decisions } = object.limiter.check(call(each));
      expect(decisions).toMatchObject([{ allowed: true, limits: [{ remaining: 4 }] }]);
    });
    expect(events).toContain('"event":"state-refused"');
    expect(await eventsOf(() => object.evict())).toBe("");
    expect(await eventsOf(async () => expect(object.remaining(each)).toBe(4))).toBe("");
  });
});

describe("several policies", () => {
  it("the charges of several policies in one call are decided together: all spend, or none does", () => {
    const object = new TestObject();
    const charges = [charge("5/minute", 1, "a"), charge("1/minute", 1, "b")];
    const first = object.limiter.check(call(charges));
    expect(first.decisions.map(({ allowed }) => allowed)).toEqual([true, true]);
    const second = object.limiter.check(call(charges));
    expect(second.decisions.map(({ allowed }) => allowed)).toEqual([true, false]);
    expect(object.remaining(charge("5/minute", 1, "a"))).toBe(4);
  });

  it("charges of several policies can be refunded together", async () => {
    const object = new TestObject();
    const charges = [charge("5/minute", 2, "a"), charge("5/minute", 2, "b", "sliding-log")];
    const { spentAtMs } = object.limiter.check(call(charges));
    object.at(10);
    const spent = charges.map((each, index) => ({ ...each, spentAtMs: spentAtMs[index] ?? 0 }));
    object.limiter.refund({ key: "k", charges: spent });
    await object.evict();
    for (const each of charges) {
      expect(object.remaining(each)).toBe(5);
    }
  });
});
