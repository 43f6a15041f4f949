/** Slices when their object is evicted, its clock is wrong, or its stored row is damaged. */
import { describe, expect, it } from "vitest";
import { call, charge, confirmed, eventsOf, logOf } from "../../fakes/calls.ts";
import { TestObject } from "../../fakes/test-object.ts";

describe("slices in storage", () => {
  it("a slice is confirmed in storage, and a lease call that lends nothing has the durability of its policies", () => {
    const object = new TestObject();
    const written = object.storage.countWrites();
    const { id } = object.lease(logOf(1));
    expect(written).toMatchObject({ puts: [1], confirmedPuts: 1, alarms: 1 });
    object.limiter.lease({ ...call(logOf(1)), wanted: null, returned: [{ id, used: 0 }] });
    expect(written).toMatchObject({ puts: [1, 1], confirmedPuts: 1 });
    object.limiter.lease({ ...confirmed(logOf(1)), wanted: null });
    expect(written).toMatchObject({ puts: [1, 1, 1], confirmedPuts: 2 });
  });

  it("slices survive an eviction, and are then returned or booked whole", async () => {
    const object = new TestObject();
    const [first] = [object.lease(logOf(0)), object.lease(logOf(0), { units: 3 })];
    await object.evict();
    expect(object.remaining(logOf(1))).toBe(87);
    object.giveBack(first.id, 2);
    await object.evict();
    expect(object.remaining(logOf(1))).toBe(95);
    object.giveBack(first.id, 2);
    object.at(20_000);
    await object.evict();
    expect(object.remaining(logOf(1))).toBe(95);
    object.at(65_000);
    expect(object.remaining(logOf(1))).toBe(100);
  });

  it("a slice of a limit of one second is stored until it is settled", async () => {
    const object = new TestObject();
    const each = charge("80/second", 0);
    const { id } = object.lease(each);
    expect((await object.stored())[0]).toEqual(["k k"]);
    await object.evict();
    expect(object.remaining(each)).toBe(70);
    object.giveBack(id, 0);
    expect(await object.stored()).toEqual([[], null]);
  });

  it("the spends of a limit of one second are stored while one of its slices is open", async () => {
    const object = new TestObject();
    const each = charge("80/second", 1);
    object.lease(each);
    object.limiter.check(call(each));
    await object.evict();
    expect(object.remaining(each)).toBe(69);
  });

  it("the row of a slice is kept exactly until its units no longer count", async () => {
    const object = new TestObject();
    object.lease(logOf(0));
    for (const afterMs of [30_000, 64_999]) {
      object.at(afterMs);
      // oxlint-disable-next-line no-await-in-loop
      await object.runAlarm();
      // oxlint-disable-next-line no-await-in-loop
      await object.evict();
    }
    expect(object.remaining(logOf(1))).toBe(90);
    object.at(65_000);
    await object.runAlarm();
    expect(await object.stored()).toEqual([[], null]);
  });

  it("a row stores slices beside reservations", async () => {
    const object = new TestObject();
    object.limiter.reserve({ ...call(logOf(8)), id: "r", ttlMs: 60_000 });
    await object.evict();
    expect(object.remaining(logOf(1))).toBe(92);
    object.lease(logOf(0), { units: 2 });
    await object.evict();
    expect(object.limiter.settle({ key: "k", id: "r", cost: 0 })).toEqual({ settled: true });
    expect(object.remaining(logOf(1))).toBe(98);
  });

  it.each([
    ["later-invented", /("strategy":")sliding-log/, "$1later-invented"],
    ["no units", /("slice-\d+"),10,/, "$1,0,"],
    ["no end", /\["p",0,\d+\]\]\]\]$/, '["p",0,null]]]]'],
    ["no policy", /,\["p",0,\d+\]\]\]\]$/, "]]]"],
    ["no slices", /\[\[\[\{[^[]*\[.*$/, "7]"],
  ])("a damaged stored slice is refused, and the rest of the row is kept: %s", async (_, pattern, wrong) => {
    const object = new TestObject();
    object.limiter.check(call(charge("10/hour", 7, "other")));
    object.lease(logOf(0));
    await object.evict();
    const row = object.storage.rows.get("k k") ?? "";
    expect(row).toMatch(pattern);
    object.storage.rows.set("k k", row.replace(pattern, wrong));
    await object.evict();
    const events = await eventsOf(() => {
      expect(object.remaining(charge("10/hour", 1, "other"))).toBe(3);
    });
    expect(events).toContain("slices are not of this version");
    expect(object.remaining(logOf(1))).toBe(100);
  });
});

describe("open slices", () => {
  it("a key has at most 1,000 open slices until one is returned or ends", () => {
    const object = new TestObject();
    const each = charge("1000000/hour", 0);
    const { id } = object.lease(each, { units: 1 });
    for (let open = 1; open < 1_000; open++) {
      expect(object.lease(each, { units: 1 }).lentUnits).toBe(1);
    }
    expect(object.lease({ ...each, cost: 1 }).lentUnits).toBe(0);
    expect(object.remaining(each)).toBe(998_999);
    object.giveBack(id, 1);
    expect(object.lease(each, { units: 1 }).lentUnits).toBe(1);
    expect(object.lease(each, { units: 1 }).lentUnits).toBe(0);
    object.at(5_000);
    expect(object.lease(each, { units: 1 }).lentUnits).toBe(1);
    expect(object.remaining(each)).toBe(998_997);
  });

  it("slices that were lent while the clock was ahead end one ttl after the clock is corrected", () => {
    const object = new TestObject();
    object.at(400 * 86_400_000);
    object.lease(logOf(1));
    object.lease(charge("80/hour", 0, "unseen"));
    object.at(0);
    const { decisions } = object.limiter.check(call(logOf(100)));
    expect(decisions[0]?.limits[0]).toMatchObject({ remaining: 89, retryAfterMs: 65_000 });
    expect(object.remaining(charge("80/hour", 0, "unseen"))).toBe(70);
    object.at(5_000);
    expect(object.remaining(logOf(1))).toBe(89);
    object.at(65_000);
    expect(object.remaining(logOf(1))).toBe(100);
    object.at(3_605_000);
    expect(object.remaining(charge("80/hour", 0, "unseen"))).toBe(80);
  });

  it("slices of many different policies are refused before the key's row becomes too large for storage", async () => {
    const object = new TestObject();
    const charges = Array.from({ length: 60 }, (_, index) =>
      charge("1000000/hour", 0, `a-policy-of-quite-a-long-name-that-says-what-it-is-for-${index}`),
    );
    let refused = 0;
    for (let open = 0; open < 120; open++) {
      if (object.lease(charges).lentUnits === 0) refused++;
    }
    expect(refused).toBeGreaterThan(20);
    expect(refused).toBeLessThan(80);
    const row = object.storage.rows.get("k k");
    expect(row?.length).toBeGreaterThan(200_000);
    expect(row?.length).toBeLessThan(600_000);
  });

  it("open slices count towards the memory of the object", () => {
    const { limiter } = new TestObject();
    limiter.check(call(logOf(1)));
    const { cachedBytes } = limiter;
    const id = "of-128-random-bits-as-text";
    limiter.lease({ ...call(logOf(0)), wanted: { id, units: 5, ttlMs: 5_000 } });
    expect(limiter.cachedBytes).toBeGreaterThan(cachedBytes + 200);
    limiter.giveBackSlices({ key: "k", returned: [{ id, used: 0 }] });
    expect(limiter.cachedBytes).toBeLessThan(cachedBytes + 50);
  });

  it("a slice that is lent while the clock lags ends one ttl after the clock steps further back by more than a window", () => {
    const object = new TestObject();
    object.lease(logOf(1));
    object.at(4_000);
    object.limiter.check(call(logOf(1)));
    object.at(-57_000);
    object.limiter.check(call(logOf(1)));
    object.at(7_999);
    expect(object.remaining(logOf(1))).toBe(90);
    object.at(8_000);
    expect(object.remaining(logOf(1))).toBe(100);
  });

  it("the ttl of a slice that is lent while the clock lags starts at the latest time seen", () => {
    const object = new TestObject();
    object.limiter.check(call(logOf(1)));
    object.at(-10_000);
    object.lease(logOf(0));
    object.at(64_999);
    expect(object.remaining(logOf(1))).toBe(90);
    object.at(65_000);
    expect(object.remaining(logOf(1))).toBe(100);
  });
});
