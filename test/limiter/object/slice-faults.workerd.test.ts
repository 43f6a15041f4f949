/** What becomes of slices when the object is evicted, its clock is wrong, or what it has stored is. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Limiter } from "../../../src/limiter/object/limiter.ts";
import { MemoryStorage } from "../../fakes/memory-storage.ts";
import {
  at,
  call,
  charge,
  confirmed,
  counted,
  eventsOf,
  giveBack,
  lease,
  logOf,
  newObject,
  remaining,
  startMs,
  stored,
} from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => void vi.useRealTimers());

describe("slices in storage", () => {
  it("are there before the answer is; of what lends nothing the call says how sure it is", async () => {
    const object = newObject();
    const written = await counted(object);
    const { id } = await lease(object, logOf(1));
    expect(written).toMatchObject({ puts: [1], confirmedPuts: 1, alarms: 1 });
    await object.lease({ ...call(logOf(1)), wanted: null, returned: [{ id, used: 0 }] });
    expect(written).toMatchObject({ puts: [1, 1], confirmedPuts: 1 });
    await object.lease({ ...confirmed(logOf(1)), wanted: null });
    expect(written).toMatchObject({ puts: [1, 1, 1], confirmedPuts: 2 });
  });

  it("outlive an eviction, and are spent or returned in the next life", async () => {
    const object = newObject();
    const [first] = [await lease(object, logOf(0)), await lease(object, logOf(0), { units: 3 })];
    await evictDurableObject(object);
    expect(await remaining(object, logOf(1))).toBe(87);
    await giveBack(object, first.id, 2);
    await evictDurableObject(object);
    expect(await remaining(object, logOf(1))).toBe(95);
    await giveBack(object, first.id, 2);
    at(20_000);
    await evictDurableObject(object);
    expect(await remaining(object, logOf(1))).toBe(95);
    at(65_000);
    expect(await remaining(object, logOf(1))).toBe(100);
  });

  it("are written of limits too that memory outlasts, until they are settled", async () => {
    const object = newObject();
    const each = charge("80/second", 0);
    const { id } = await lease(object, each);
    expect((await stored(object))[0]).toEqual(["k k"]);
    await evictDurableObject(object);
    expect(await remaining(object, each)).toBe(70);
    await giveBack(object, id, 0);
    expect(await stored(object)).toEqual([[], null]);
  });

  it("have what is spent beside them written too", async () => {
    const object = newObject();
    const each = charge("80/second", 1);
    await lease(object, each);
    await object.check(call(each));
    await evictDurableObject(object);
    expect(await remaining(object, each)).toBe(69);
  });

  it("keep the row until what they stand for is over, and nothing of it for longer", async () => {
    const object = newObject();
    await lease(object, logOf(0));
    for (const afterMs of [30_000, 64_999]) {
      at(afterMs);
      // oxlint-disable-next-line no-await-in-loop
      await runDurableObjectAlarm(object);
      // oxlint-disable-next-line no-await-in-loop
      await evictDurableObject(object);
    }
    expect(await remaining(object, logOf(1))).toBe(90);
    at(65_000);
    await runDurableObjectAlarm(object);
    expect(await stored(object)).toEqual([[], null]);
  });

  it("stand beside reservations, and rows without them are read as before", async () => {
    const object = newObject();
    await object.reserve({ ...call(logOf(8)), id: "r", ttlMs: 60_000 });
    await evictDurableObject(object);
    expect(await remaining(object, logOf(1))).toBe(92);
    await lease(object, logOf(0), { units: 2 });
    await evictDurableObject(object);
    expect(await object.settle({ key: "k", id: "r", cost: 0 })).toEqual({ settled: true });
    expect(await remaining(object, logOf(1))).toBe(98);
  });

  it.each([
    ["later-invented", /("strategy":")sliding-log/, "$1later-invented"],
    ["no units", /("slice-\d+"),10,/, "$1,0,"],
    ["no end", /\["p",0,\d+\]\]\]\]$/, '["p",0,null]]]]'],
    ["no policy", /,\["p",0,\d+\]\]\]\]$/, "]]]"],
    ["no slices", /\[\[\[\{[^[]*\[.*$/, "7]"],
  ])("that cannot be any cost nothing but themselves: %s", async (_, pattern, wrong) => {
    const object = newObject();
    await object.check(call(charge("10/hour", 7, "other")));
    await lease(object, logOf(0));
    await evictDurableObject(object);
    await runInDurableObject(object, (__, { storage }) => {
      const row = storage.kv.get<string>("k k") ?? "";
      expect(row).toMatch(pattern);
      storage.kv.put("k k", row.replace(pattern, wrong));
    });
    await evictDurableObject(object);
    const said = await eventsOf(async () => {
      expect(await remaining(object, charge("10/hour", 1, "other"))).toBe(3);
    });
    expect(said).toContain("slices are not of this version");
    expect(await remaining(object, logOf(1))).toBe(100);
  });
});

describe("open slices", () => {
  it("are at most 1,000 for a key; beyond that nothing is lent until one is over", async () => {
    const object = newObject();
    const each = charge("1000000/hour", 0);
    const { id } = await lease(object, each, { units: 1 });
    for (let open = 1; open < 1_000; open++) {
      // oxlint-disable-next-line no-await-in-loop
      expect((await lease(object, each, { units: 1 })).lentUnits).toBe(1);
    }
    expect((await lease(object, { ...each, cost: 1 })).lentUnits).toBe(0);
    expect(await remaining(object, each)).toBe(998_999);
    await giveBack(object, id, 1);
    expect((await lease(object, each, { units: 1 })).lentUnits).toBe(1);
    expect((await lease(object, each, { units: 1 })).lentUnits).toBe(0);
    at(5_000);
    expect((await lease(object, each, { units: 1 })).lentUnits).toBe(1);
    expect(await remaining(object, each)).toBe(998_997);
  });

  it("lent while the clock was ahead end their ttl after it was set right", async () => {
    const object = newObject();
    at(400 * 86_400_000);
    await lease(object, logOf(1));
    await lease(object, charge("80/hour", 0, "unseen"));
    at(0);
    const { decisions } = await object.check(call(logOf(100)));
    expect(decisions[0]?.limits[0]).toMatchObject({ remaining: 89, retryAfterMs: 65_000 });
    expect(await remaining(object, charge("80/hour", 0, "unseen"))).toBe(70);
    at(5_000);
    expect(await remaining(object, logOf(1))).toBe(89);
    at(65_000);
    expect(await remaining(object, logOf(1))).toBe(100);
    at(3_605_000);
    expect(await remaining(object, charge("80/hour", 0, "unseen"))).toBe(80);
  });

  it("of very many policies are refused before the key's row is larger than storage takes", async () => {
    const object = newObject();
    const charges = Array.from({ length: 60 }, (_, index) =>
      charge("1000000/hour", 0, `a-policy-of-quite-a-long-name-that-says-what-it-is-for-${index}`),
    );
    let refused = 0;
    for (let open = 0; open < 120; open++) {
      // oxlint-disable-next-line no-await-in-loop
      if ((await lease(object, charges)).lentUnits === 0) refused++;
    }
    expect(refused).toBeGreaterThan(20);
    expect(refused).toBeLessThan(80);
    const row = await runInDurableObject(object, (_, { storage }) => storage.kv.get<string>("k k"));
    expect(row?.length).toBeGreaterThan(200_000);
    expect(row?.length).toBeLessThan(600_000);
  });

  it("count in the memory that an object takes", () => {
    const limiter = new Limiter({
      storage: new MemoryStorage(),
      now: () => startMs,
      after: () => () => undefined,
    });
    limiter.check(call(logOf(1)));
    const { cachedBytes } = limiter;
    const id = "of-128-random-bits-as-text";
    limiter.lease({ ...call(logOf(0)), wanted: { id, units: 5, ttlMs: 5_000 } });
    expect(limiter.cachedBytes).toBeGreaterThan(cachedBytes + 200);
    limiter.giveBackSlices({ key: "k", returned: [{ id, used: 0 }] });
    expect(limiter.cachedBytes).toBeLessThan(cachedBytes + 50);
  });

  it("end with what a meter has booked again, though they were lent before the clock was ahead", async () => {
    const object = newObject();
    await lease(object, logOf(1));
    at(4_000);
    await object.check(call(logOf(1)));
    at(-57_000);
    await object.check(call(logOf(1)));
    at(7_999);
    expect(await remaining(object, logOf(1))).toBe(90);
    at(8_000);
    expect(await remaining(object, logOf(1))).toBe(100);
  });

  it("last from the latest time that was seen, when they are lent while the clock lags behind", async () => {
    const object = newObject();
    await object.check(call(logOf(1)));
    at(-10_000);
    await lease(object, logOf(0));
    at(64_999);
    expect(await remaining(object, logOf(1))).toBe(90);
    at(65_000);
    expect(await remaining(object, logOf(1))).toBe(100);
  });
});
