import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Charge } from "../../../src/limiter/protocol.ts";
import { parseLimits } from "../../../src/strategies/index.ts";
import { at, call, charge, eventsOf, newObject, remaining, startMs, stored } from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => void vi.useRealTimers());

describe("an object", () => {
  it("restarts the elastic window of one policy when another denies the request", async () => {
    const object = newObject();
    const elastic = { limit: 5, window: "10s", strategy: "fixed-window", elastic: true };
    const both: Charge[] = [
      { policy: "elastic", limits: parseLimits(elastic), cost: 1 },
      charge("1/hour", 1, "strict"),
    ];
    await object.check(call(both));
    at(4_000);
    const { decisions } = await object.check(call(both));
    expect(decisions).toMatchObject([
      { allowed: true, limits: [{ remaining: 4, resetAfterMs: 10_000 }] },
      { allowed: false, limits: [{ remaining: 0 }] },
    ]);
  });

  it("writes nothing for looks and denials, and has an empty database until it spends", async () => {
    const object = newObject();
    await object.look(call(charge("1/minute")));
    await object.check(call(charge("1/minute", 2)));
    expect(await stored(object)).toEqual([[], null]);
    await object.check(call(charge("1/minute")));
    expect(await stored(object)).toEqual([["k k"], 120_000]);
  });

  it("holds many keys, and tells them apart", async () => {
    const object = newObject();
    await object.check(call(charge("5/minute", 5), "one"));
    await object.check(call(charge("5/minute", 2), "two"));
    expect(await remaining(object, charge("5/minute"), "one")).toBe(0);
    expect(await remaining(object, charge("5/minute"), "two")).toBe(3);
    expect(await remaining(object, charge("5/minute"), "three")).toBe(5);
    await object.forget({ key: "one", policy: "p" });
    await evictDurableObject(object);
    expect(await remaining(object, charge("5/minute"), "one")).toBe(5);
    expect(await remaining(object, charge("5/minute"), "two")).toBe(3);
  });

  it("keeps all policies of a key in one row", async () => {
    const object = newObject();
    await object.check(call([charge("5/minute", 1, "a"), charge("9/hour", 1, "b")]));
    expect(await stored(object)).toEqual([["k k"], 3_600_000 + 3_600_000]);
    await object.forget({ key: "k", policy: "a" });
    await evictDurableObject(object);
    expect(await remaining(object, charge("5/minute", 1, "a"))).toBe(5);
    expect(await remaining(object, charge("9/hour", 1, "b"))).toBe(8);
  });

  it("leaves nothing behind when all that was spent is given back", async () => {
    const object = newObject();
    const each = charge("5/minute");
    const { spentAtMs } = await object.check(call(each));
    const undo = { key: "k", charges: [{ ...each, spentAtMs: spentAtMs[0] ?? 0 }] };
    await object.refund(undo);
    expect(await stored(object)).toEqual([[], null]);
    // Given back after it was forgotten, as a late answer may be.
    await object.check(call(each));
    await object.forget({ key: "k", policy: "p" });
    await object.refund(undo);
    expect(await stored(object)).toEqual([[], null]);
  });

  it("gives back what was spent while its clock was behind", async () => {
    const object = newObject();
    const each = charge("10/minute", 4);
    await object.check(call(each));
    at(-500);
    const { spentAtMs } = await object.check(call(each));
    await object.refund({ key: "k", charges: [{ ...each, spentAtMs: spentAtMs[0] ?? 0 }] });
    expect(await remaining(object, charge("10/minute"))).toBe(6);
  });

  it("adds no quota when its clock steps back, and counts the step into the waits", async () => {
    const object = newObject();
    await object.check(call(charge("1/minute")));
    at(-20_000);
    const { decisions } = await object.check(call(charge("1/minute")));
    expect(decisions[0]).toMatchObject({ allowed: false, retryAfterMs: 80_000 });
  });

  it("ignores what a newer Worker adds to a call, and does without what an older one leaves out", async () => {
    const object = newObject();
    const newer = { ...call(charge("5/minute")), durability: "eventual", isUrgent: true };
    const { decisions } = await object.check(newer as never);
    expect(decisions[0]?.allowed).toBe(true);
    const { durability: _, ...older } = call(charge("5/minute"));
    expect((await object.check(older)).decisions[0]?.limits[0]?.remaining).toBe(3);
  });
});

describe("when limits change between calls or deploys", () => {
  it("keeps what is spent when only the number changes, and begins afresh with the window", async () => {
    const object = newObject();
    await object.check(call(charge("10/minute", 8)));
    for (const evict of [() => Promise.resolve(), () => evictDurableObject(object)]) {
      // oxlint-disable no-await-in-loop
      expect(await remaining(object, charge("20/minute"))).toBe(12);
      await evict();
      expect(await remaining(object, charge("5/minute"))).toBe(0);
      expect(await remaining(object, charge("10/hour"))).toBe(10);
      await evict();
      expect(await remaining(object, charge("10/minute"))).toBe(2);
      // oxlint-enable no-await-in-loop
    }
  });

  it("keeps the state of a limit that is away for a while, through evictions", async () => {
    const object = newObject();
    await object.check(call(charge("10/hour; 20/day", 7)));
    await object.check(call(charge("30/week", 1)));
    await evictDurableObject(object);
    await object.check(call(charge("30/week", 1)));
    await evictDurableObject(object);
    const { decisions } = await object.look(call(charge("30/week; 20/day; 10/hour")));
    expect(decisions[0]?.limits.map((limit) => limit.remaining)).toEqual([28, 13, 3]);
  });

  it.each([
    ["of another version", "[99,4102444860000,4102444800000,0,[]]"],
    ["that is no text", { other: "shape" }],
    ["that is no JSON", "[1,4102444860000,4102444800000,0,["],
    ["with rubbish for a snapshot", '[1,4102444860000,4102444800000,0,[["p",{"a":1}]]]'],
    [
      "with rubbish for a state",
      '[1,4102444860000,4102444800000,0,[["p",[2,4102444800000,["fixed-window 1m",60000,"!"]]]]]',
    ],
    [
      "with a segment that is gone",
      '[1,4102444860000,4102444800000,0,[["p",[2,4102444800000,["sliding-log 1m",60000,[7,"AB"]]]]]]',
    ],
    ["with rubbish for reservations", '[1,4102444860000,4102444800000,0,[],[[],["id"]]]'],
  ])("refuses a row %s, says so, and replaces it", async (_of, row) => {
    const object = newObject();
    const each = charge(
      "5/minute",
      1,
      "p",
      JSON.stringify(row).includes("log") ? "sliding-log" : "fixed-window",
    );
    await runInDurableObject(object, (_, { storage }) => storage.put("k k", row));
    const said = await eventsOf(async () => {
      const { decisions } = await object.check(call(each));
      expect(decisions).toMatchObject([{ allowed: true, limits: [{ remaining: 4 }] }]);
    });
    expect(said).toContain('"event":"state-refused"');
    expect(await eventsOf(() => evictDurableObject(object))).toBe("");
    expect(await eventsOf(async () => expect(await remaining(object, each)).toBe(4))).toBe("");
  });
});

describe("charges of several policies", () => {
  it("are decided together: all spend or none does", async () => {
    const object = newObject();
    const charges = [charge("5/minute", 1, "a"), charge("1/minute", 1, "b")];
    const first = await object.check(call(charges));
    expect(first.decisions.map(({ allowed }) => allowed)).toEqual([true, true]);
    const second = await object.check(call(charges));
    expect(second.decisions.map(({ allowed }) => allowed)).toEqual([true, false]);
    expect(await remaining(object, charge("5/minute", 1, "a"))).toBe(4);
  });

  it("can be given back", async () => {
    const object = newObject();
    const charges = [charge("5/minute", 2, "a"), charge("5/minute", 2, "b", "sliding-log")];
    const { spentAtMs } = await object.check(call(charges));
    at(10);
    const spent = charges.map((each, index) => ({ ...each, spentAtMs: spentAtMs[index] ?? 0 }));
    await object.refund({ key: "k", charges: spent });
    await evictDurableObject(object);
    for (const each of charges) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await remaining(object, each)).toBe(5);
    }
  });
});
