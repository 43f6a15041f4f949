import { evictDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { at, call, charge, confirmed, newObject, remaining, startMs } from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => void vi.useRealTimers());

const slots = charge("2/minute", 1, "slots", "concurrency");
const log = charge("5/hour", 1, "log", "sliding-log");
const ttlMs = 60_000;
const id = "r";
const key = "k";

describe("a reservation that is renewed", () => {
  it("holds its slots for its ttl from then on", async () => {
    const object = newObject();
    await object.reserve({ ...call(slots), id, ttlMs });
    at(30_000);
    expect(await object.renew({ key, id })).toEqual({ isOpen: true });
    at(89_999);
    expect(await remaining(object, slots)).toBe(1);
    at(90_000);
    expect(await remaining(object, slots)).toBe(2);
    expect(await object.settle({ key, id, cost: 1 })).toEqual({ settled: false });
  });

  it("gives back each slot once, whenever it was renewed last", async () => {
    const object = newObject();
    await object.reserve({ ...call({ ...slots, cost: 2 }), id, ttlMs });
    for (const atMs of [20_000, 40_000, 60_000]) {
      at(atMs);
      // oxlint-disable-next-line no-await-in-loop
      await object.renew({ key, id });
    }
    at(70_000);
    expect(await remaining(object, slots)).toBe(0);
    expect(await object.settle({ key, id, cost: 2 })).toEqual({ settled: true });
    expect(await remaining(object, slots)).toBe(2);
    at(130_000);
    expect(await remaining(object, slots)).toBe(2);
  });

  it("corrects other limits to the instant of its spend", async () => {
    const object = newObject();
    const both = [slots, { ...log, cost: 3 }];
    await object.reserve({ ...call(both), id, ttlMs });
    at(50_000);
    await object.renew({ key, id });
    at(100_000);
    await object.settle({ key, id, cost: 1 });
    expect(await remaining(object, log)).toBe(4);
    // The unit that stays spent was spent at the beginning.
    at(3_600_000 - 1);
    expect(await remaining(object, log)).toBe(4);
    at(3_600_000);
    expect(await remaining(object, log)).toBe(5);
  });

  it("counts its slots again where its lease was over, though others have taken them", async () => {
    const object = newObject();
    const short = charge("1/5s", 1, "short", "concurrency");
    await object.reserve({ ...call(short), id, ttlMs });
    at(5_000);
    expect((await object.check(call(short))).decisions[0]?.allowed).toBe(true);
    await object.renew({ key, id });
    await object.settle({ key, id, cost: 1 });
    expect(await remaining(object, short)).toBe(0);
    at(10_000);
    expect(await remaining(object, short)).toBe(1);
  });

  it("lasts when its object is put out of memory", async () => {
    const object = newObject();
    await object.reserve({ ...confirmed(slots), id, ttlMs });
    at(40_000);
    await object.renew({ key, id });
    await evictDurableObject(object);
    at(80_000);
    expect(await remaining(object, slots)).toBe(1);
    expect(await object.settle({ key, id, cost: 1 })).toEqual({ settled: true });
    expect(await remaining(object, slots)).toBe(2);
  });

  it("is not, once it is over, settled or unknown", async () => {
    const object = newObject();
    await object.reserve({ ...call(slots), id, ttlMs });
    at(ttlMs);
    expect(await object.renew({ key, id })).toEqual({ isOpen: false });
    expect(await remaining(object, slots)).toBe(2);
    expect(await object.renew({ key, id: "none" })).toEqual({ isOpen: false });
    await object.reserve({ ...call(slots), id: "s", ttlMs });
    await object.settle({ key, id: "s", cost: 1 });
    expect(await object.renew({ key, id: "s" })).toEqual({ isOpen: false });
  });
});

describe("a reservation of several charges", () => {
  it("is settled at a cost for each, up and down", async () => {
    const object = newObject();
    const other = charge("9/hour", 1, "other", "fixed-window");
    const charges = [{ ...log, cost: 2 }, slots, { ...other, cost: 2 }];
    await object.reserve({ ...call(charges), id, ttlMs });
    await object.settle({ key, id, cost: 7, costs: [0, 1, 5] });
    expect(await remaining(object, log)).toBe(5);
    expect(await remaining(object, slots)).toBe(2);
    expect(await remaining(object, other)).toBe(4);
  });
});
