import { evictDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { CheckReply } from "../../../src/limiter/protocol.ts";
import type { LimitDecision } from "../../../src/strategies/index.ts";
import {
  at,
  call,
  charge,
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

const allowed = ({ decisions }: CheckReply): boolean[] =>
  decisions.map(({ allowed: isAllowed }) => isAllowed);

const limitOf = ({ decisions }: CheckReply): LimitDecision | undefined => decisions[0]?.limits[0];

describe("a lease", () => {
  it("spends its charges, and lends an eighth of what is left at the most", async () => {
    const object = newObject();
    const { decisions, lentUnits } = await lease(object, logOf(20), { units: 50 });
    expect([decisions[0]?.limits[0]?.remaining, lentUnits]).toEqual([80, 10]);
    expect(await remaining(object, logOf(1))).toBe(70);
    expect((await lease(object, logOf(0), { units: 3 })).lentUnits).toBe(3);
    expect(await remaining(object, logOf(1))).toBe(67);
  });

  it("of several policies lends of each what the one with the least can spare", async () => {
    const object = newObject();
    const charges = [logOf(1, "wide"), charge("1000/hour; 41/day", 1, "narrow")];
    expect((await lease(object, charges)).lentUnits).toBe(5);
    expect(await remaining(object, logOf(1, "wide"))).toBe(94);
    expect(await remaining(object, charge("41/day", 1, "narrow"))).toBe(35);
  });

  it("lends nothing near the limit, and opens no slice for it", async () => {
    const object = newObject();
    const { lentUnits } = await lease(object, charge("8/hour"));
    expect(lentUnits).toBe(0);
    expect(await remaining(object, charge("8/hour"))).toBe(7);
    // A denial is firm: no slice is open.
    expect((await object.check(call(charge("8/hour", 8)))).isFirm).toBe(true);
  });

  it("that is denied lends nothing and spends nothing", async () => {
    const object = newObject();
    const charges = [logOf(60, "wide"), charge("50/hour", 60, "narrow")];
    const leased = await lease(object, charges);
    expect([allowed(leased), leased.lentUnits]).toEqual([[true, false], 0]);
    expect(await stored(object)).toEqual([[], null]);
  });

  it("with a dry run lends nothing", async () => {
    const object = newObject();
    const dryRun = { ...charge("1000/hour", 1, "dry"), isDryRun: true };
    expect((await lease(object, [logOf(1), dryRun])).lentUnits).toBe(0);
    expect(await remaining(object, logOf(1))).toBe(99);
  });

  it("that wants nothing is a check", async () => {
    const object = newObject();
    const leased = await object.lease({ ...call(logOf(1)), wanted: null });
    expect([allowed(leased), leased.lentUnits]).toEqual([[true], 0]);
    expect(await remaining(object, logOf(1))).toBe(99);
  });

  it("of no cost only looks: it is allowed of what is full, and lends what there is", async () => {
    const object = newObject();
    const full = charge("2/hour", 2, "full");
    await object.check(call(full));
    const looked = await lease(object, { ...full, cost: 0 });
    expect([allowed(looked), looked.lentUnits]).toEqual([[true], 0]);
    expect((await lease(object, logOf(0))).lentUnits).toBe(10);
  });

  it("made twice by the platform lends once", async () => {
    const object = newObject();
    const { id, lentUnits } = await lease(object, logOf(0));
    expect((await lease(object, logOf(0), { id })).lentUnits).toBe(lentUnits);
    expect(await remaining(object, logOf(1))).toBe(90);
    await giveBack(object, id, 0);
    expect(await remaining(object, logOf(1))).toBe(100);
  });
});

describe("units that are lent", () => {
  it("count as spent for every kind of call", async () => {
    const object = newObject();
    await lease(object, charge("16/hour", 0));
    const [fits, tooMany] = [charge("16/hour", 14), charge("16/hour", 15)];
    expect(allowed(await object.look(call(tooMany)))).toEqual([false]);
    expect(allowed(await object.check(call(tooMany)))).toEqual([false]);
    expect(allowed(await object.check(call([tooMany, logOf(1)])))).toEqual([false, true]);
    const batch = await object.batch({ calls: [call(tooMany), call({ ...fits, cost: 0 })] });
    expect(batch.flatMap(allowed)).toEqual([false, true]);
    const reserved = await object.reserve({ ...call(tooMany), id: "r", ttlMs: 5_000 });
    expect(reserved.isOpen).toBe(false);
    expect(allowed(await lease(object, tooMany))).toEqual([false]);
    expect(allowed(await object.check(call(fits)))).toEqual([true]);
  });

  it("are spent when they are returned, as far as they were used", async () => {
    const object = newObject();
    const { id } = await lease(object, logOf(0));
    at(3_000);
    await giveBack(object, id, 4);
    expect(await remaining(object, logOf(1))).toBe(96);
    at(62_999);
    expect(await remaining(object, logOf(1))).toBe(96);
    at(63_000);
    expect(await remaining(object, logOf(1))).toBe(100);
  });

  it("are returned before the next are lent, in one call", async () => {
    const object = newObject();
    const { id } = await lease(object, charge("80/hour", 0));
    const returned = [{ id, used: 10 }];
    const next = await lease(object, charge("80/hour", 6), { returned, units: 100 });
    expect([limitOf(next)?.remaining, next.lentUnits]).toEqual([64, 8]);
    expect(await remaining(object, charge("80/hour"))).toBe(56);
  });

  it("are all spent at their end, to the millisecond, where nobody has returned them", async () => {
    const object = newObject();
    await lease(object, logOf(0));
    at(4_999);
    expect(await remaining(object, logOf(1))).toBe(90);
    at(30_000);
    expect(await remaining(object, logOf(1))).toBe(90);
    at(64_999);
    expect(await remaining(object, logOf(1))).toBe(90);
    at(65_000);
    expect(await remaining(object, logOf(1))).toBe(100);
  });

  it("are spent in the window in which they end, however late that is noticed", async () => {
    const object = newObject();
    const each = charge("80/minute", 1);
    await lease(object, each);
    at(60_000);
    expect(await remaining(object, each)).toBe(80);
  });

  it("are spent in the order of their ends, when several are over at once", async () => {
    const object = newObject();
    const each = charge({ limit: 80, window: "2500ms" }, 0);
    await lease(object, each, { ttlMs: 3_000 });
    await lease(object, each, { ttlMs: 1_000 });
    at(3_499);
    expect(await remaining(object, each)).toBe(62);
    at(3_500);
    expect(await remaining(object, each)).toBe(80);
  });

  it("are no more than were lent, whatever is returned, and whenever, and how often", async () => {
    const object = newObject();
    const { id, lentUnits } = await lease(object, logOf(0));
    const late = await lease(object, logOf(0), { ttlMs: 1_000 });
    at(500);
    await giveBack(object, id, 1_000);
    await giveBack(object, id, 1_000);
    await giveBack(object, "unknown", 1_000);
    at(1_000);
    await giveBack(object, late.id, 0);
    expect(await remaining(object, logOf(1))).toBe(100 - lentUnits - late.lentUnits);
  });

  it("are forgotten with their policy's count, and with no other's", async () => {
    const object = newObject();
    const charges = [logOf(0, "a"), logOf(0, "b")];
    const { id } = await lease(object, charges);
    await object.forget({ key: "k", policy: "a" });
    expect(await remaining(object, logOf(1, "a"))).toBe(100);
    expect(await remaining(object, logOf(1, "b"))).toBe(90);
    await giveBack(object, id, 7);
    expect(await remaining(object, logOf(1, "a"))).toBe(100);
    expect(await remaining(object, logOf(1, "b"))).toBe(93);
  });

  it("are spent by the limits they were lent by, and held for whatever limits there are now", async () => {
    const object = newObject();
    const { id } = await lease(object, charge("80/hour", 0));
    await evictDurableObject(object);
    expect(await remaining(object, charge("100/hour; 500/day"))).toBe(90);
    await giveBack(object, id, 6);
    expect(await remaining(object, charge("100/hour; 500/day"))).toBe(94);
  });
});

describe("waits while slices are open", () => {
  it("are as if all that is lent were spent when the last of it ends", async () => {
    const object = newObject();
    await object.check(call(logOf(50)));
    await lease(object, logOf(0), { units: 4, ttlMs: 2_000 });
    at(1_000);
    await lease(object, logOf(0), { units: 4, ttlMs: 5_000 });
    at(2_000);
    const denied = await object.check(call(logOf(45)));
    expect(denied.decisions).toMatchObject([
      {
        allowed: false,
        retryAfterMs: 58_000,
        limits: [{ remaining: 42, replenishAfterMs: 58_000, resetAfterMs: 64_000 }],
      },
    ]);
    expect(denied.isFirm).toBeUndefined();
    expect(limitOf(await object.check(call(logOf(97))))?.retryAfterMs).toBe(64_000);
    expect(limitOf(await object.check(call(logOf(101))))?.retryAfterMs).toBeNull();
    at(60_000);
    expect(allowed(await object.check(call(logOf(45))))).toEqual([true]);
  });

  it("are told alike by every kind of call", async () => {
    const object = newObject();
    await lease(object, logOf(0));
    const all = call(logOf(100));
    const told = [
      await object.check(all),
      await object.look(all),
      await object.reserve({ ...all, id: "r", ttlMs: 1_000 }),
      await lease(object, logOf(100)),
      ...(await object.batch({ calls: [all] })),
    ];
    expect(told.map((verdict) => limitOf(verdict)?.retryAfterMs)).toEqual(told.map(() => 65_000));
  });

  it("are no shorter than until the last end, and no longer where the cost fits then", async () => {
    const object = newObject();
    await object.check(call(charge("20/second", 4)));
    await lease(object, charge("20/second", 0), { ttlMs: 5_000 });
    const denied = await object.check(call(charge("20/second", 16)));
    expect(denied.decisions[0]).toMatchObject({
      retryAfterMs: 5_000,
      limits: [{ remaining: 14, replenishAfterMs: 5_000, resetAfterMs: 6_000 }],
    });
  });

  it("suffice although the slice that was to open the window is returned unused", async () => {
    const object = newObject();
    const each = charge("16/12s", 0);
    const first = await lease(object, each, { ttlMs: 10_000 });
    await lease(object, { ...each, cost: 0 }, { ttlMs: 20_000, units: 1 });
    const denied = await object.check(call({ ...each, cost: 16 }));
    expect(denied.decisions[0]?.retryAfterMs).toBe(32_000);
    await giveBack(object, first.id, 0);
    at(31_999);
    expect(await remaining(object, each)).toBe(15);
    at(32_000);
    expect(await remaining(object, each)).toBe(16);
  });

  it("of what was asked together with nothing lent are as ever", async () => {
    const object = newObject();
    await lease(object, logOf(0));
    const denied = await object.check(call([charge("5/hour", 6, "q"), charge("3/hour", 1, "r")]));
    expect(denied.decisions.map(({ retryAfterMs }) => retryAfterMs)).toEqual([null, 0]);
  });

  it("count from the end that the object's clock tells, though it has stepped back", async () => {
    const object = newObject();
    await object.check(call(logOf(1)));
    await lease(object, logOf(0));
    at(-10_000);
    const { decisions } = await object.look(call(logOf(100)));
    expect(decisions[0]?.limits[0]).toMatchObject({ remaining: 89, retryAfterMs: 75_000 });
    at(4_999);
    expect(await remaining(object, logOf(1))).toBe(89);
  });
});
