/** Renewals of reservations, and settlements of several charges. */
import { describe, expect, it } from "vitest";
import { call, charge, confirmed } from "../../fakes/calls.ts";
import { startMs } from "../../fakes/isolate.ts";
import { TestObject } from "../../fakes/test-object.ts";

const slots = charge("2/minute", 1, "slots", "concurrency");
const log = charge("5/hour", 1, "log", "sliding-log");
const ttlMs = 60_000;
const id = "r";
const key = "k";

describe("renew", () => {
  it("a renewed reservation keeps its slots for its ttl from the renewal on", () => {
    const object = new TestObject();
    object.limiter.reserve({ ...call(slots), id, ttlMs });
    object.at(30_000);
    expect(object.limiter.renew({ key, id })).toEqual({ isOpen: true });
    object.at(89_999);
    expect(object.remaining(slots)).toBe(1);
    object.at(90_000);
    expect(object.remaining(slots)).toBe(2);
    expect(object.limiter.settle({ key, id, cost: 1 })).toEqual({ settled: false });
  });

  it("a reservation that was renewed several times frees each of its slots only once", () => {
    const object = new TestObject();
    object.limiter.reserve({ ...call({ ...slots, cost: 2 }), id, ttlMs });
    for (const atMs of [20_000, 40_000, 60_000]) {
      object.at(atMs);
      object.limiter.renew({ key, id });
    }
    object.at(70_000);
    expect(object.remaining(slots)).toBe(0);
    expect(object.limiter.settle({ key, id, cost: 2 })).toEqual({ settled: true });
    expect(object.remaining(slots)).toBe(2);
    object.at(130_000);
    expect(object.remaining(slots)).toBe(2);
  });

  it("settling a renewed reservation refunds to the time of the original spend", () => {
    const object = new TestObject();
    const both = [slots, { ...log, cost: 3 }];
    object.limiter.reserve({ ...call(both), id, ttlMs });
    object.at(50_000);
    object.limiter.renew({ key, id });
    object.at(100_000);
    object.limiter.settle({ key, id, cost: 1 });
    expect(object.remaining(log)).toBe(4);
    // The unit that remains spent was spent at the start.
    object.at(3_600_000 - 1);
    expect(object.remaining(log)).toBe(4);
    object.at(3_600_000);
    expect(object.remaining(log)).toBe(5);
  });

  it("renewing a reservation whose slots have expired takes slots again, even if others have taken them", () => {
    const object = new TestObject();
    const short = charge("1/5s", 1, "short", "concurrency");
    object.limiter.reserve({ ...call(short), id, ttlMs });
    object.at(5_000);
    expect(object.limiter.check(call(short)).decisions[0]?.allowed).toBe(true);
    object.limiter.renew({ key, id });
    object.limiter.settle({ key, id, cost: 1 });
    expect(object.remaining(short)).toBe(0);
    object.at(10_000);
    expect(object.remaining(short)).toBe(1);
  });

  it("a renewal survives an eviction of the object", async () => {
    const object = new TestObject();
    object.limiter.reserve({ ...confirmed(slots), id, ttlMs });
    object.at(40_000);
    object.limiter.renew({ key, id });
    await object.evict();
    object.at(80_000);
    expect(object.remaining(slots)).toBe(1);
    expect(object.limiter.settle({ key, id, cost: 1 })).toEqual({ settled: true });
    expect(object.remaining(slots)).toBe(2);
  });

  it("an expired, settled or unknown reservation cannot be renewed", () => {
    const object = new TestObject();
    object.limiter.reserve({ ...call(slots), id, ttlMs });
    object.at(ttlMs);
    expect(object.limiter.renew({ key, id })).toEqual({ isOpen: false });
    expect(object.remaining(slots)).toBe(2);
    expect(object.limiter.renew({ key, id: "none" })).toEqual({ isOpen: false });
    object.limiter.reserve({ ...call(slots), id: "s", ttlMs });
    object.limiter.settle({ key, id: "s", cost: 1 });
    expect(object.limiter.renew({ key, id: "s" })).toEqual({ isOpen: false });
  });
});

describe("settle", () => {
  it("a reservation of several policies settles each policy at its own cost, above or below the reserved cost", () => {
    const object = new TestObject();
    const other = charge("9/hour", 1, "other", "fixed-window");
    const charges = [{ ...log, cost: 2 }, slots, { ...other, cost: 2 }];
    object.limiter.reserve({ ...call(charges), id, ttlMs });
    object.limiter.settle({ key, id, cost: 7, costs: [0, 1, 5] });
    expect(object.remaining(log)).toBe(5);
    expect(object.remaining(slots)).toBe(2);
    expect(object.remaining(other)).toBe(4);
  });

  it("a settlement returns its charges and their times only if the call asks for them", () => {
    const object = new TestObject();
    const other = charge("9/hour", 1, "other", "fixed-window");
    object.limiter.reserve({ ...call([{ ...log, cost: 2 }, other]), id, ttlMs });
    object.at(250);
    const settling = { key, id, cost: 7, costs: [3, 0], wantsCharges: true };
    const times = { spentAtMs: startMs, settledAtMs: startMs + 250 };
    expect(object.limiter.settle(settling)).toEqual({
      settled: true,
      charges: [
        { policy: "log", cost: 2, actualCost: 3, ...times },
        { policy: "other", cost: 1, actualCost: 0, ...times },
      ],
    });
    expect(object.limiter.settle(settling)).toEqual({ settled: false });
  });

  it("a settlement does not return charges of policies that were forgotten", () => {
    const object = new TestObject();
    object.limiter.reserve({ ...call([log, slots]), id, ttlMs });
    object.limiter.forget({ key, policy: "log" });
    const { charges } = object.limiter.settle({ key, id, cost: 1, wantsCharges: true });
    expect(charges?.map(({ policy }) => policy)).toEqual(["slots"]);
  });
});
