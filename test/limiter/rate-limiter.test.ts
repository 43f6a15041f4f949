import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Charge, RateLimiter } from "../../src/limiter/rate-limiter.ts";
import { parseLimits } from "../../src/strategies/index.ts";

/** Ahead of the real clock, which alarms follow: one set in the past would fire at once. */
const startMs = Date.UTC(2100, 0, 1);

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => void vi.useRealTimers());

const newObject = (): DurableObjectStub<RateLimiter> =>
  env.RATE_LIMITER.getByName(crypto.randomUUID());

const charge = (limits: string, cost = 1, policy = "p", strategy = "fixed-window"): Charge => ({
  policy,
  limits: parseLimits(limits, { policy, strategy }),
  cost,
});

/** What an object keeps: its rows, and when its alarm is due after the start. */
const stored = (object: DurableObjectStub<RateLimiter>): Promise<[string[], number | null]> =>
  runInDurableObject(object, async (_, { storage }) => {
    const alarmAtMs = await storage.getAlarm();
    return [[...(await storage.list()).keys()], alarmAtMs === null ? null : alarmAtMs - startMs];
  });

const remaining = async (
  object: DurableObjectStub<RateLimiter>,
  each: Charge,
): Promise<unknown> => {
  const { decisions } = await object.look([each]);
  return decisions[0]?.limits[0]?.remaining;
};

describe("an object", () => {
  it("restarts the elastic window of one policy when another denies the request", async () => {
    const object = newObject();
    const elastic = { limit: 5, window: "10s", strategy: "fixed-window", elastic: true };
    const both: Charge[] = [
      { policy: "elastic", limits: parseLimits(elastic), cost: 1 },
      charge("1/hour", 1, "strict"),
    ];
    await object.check(both);
    vi.setSystemTime(startMs + 4_000);
    const { decisions } = await object.check(both);
    expect(decisions).toMatchObject([
      { allowed: true, limits: [{ remaining: 4, resetAfterMs: 10_000 }] },
      { allowed: false, limits: [{ remaining: 0 }] },
    ]);
  });

  it("keeps its counts when it is evicted from memory", async () => {
    const object = newObject();
    for (const strategy of ["fixed-window", "sliding-log", "sliding-window-counter"]) {
      // oxlint-disable no-await-in-loop
      const each = charge("10/minute", 4, strategy, strategy);
      await object.check([each]);
      await evictDurableObject(object);
      expect(await remaining(object, each)).toBe(6);
      // oxlint-enable no-await-in-loop
    }
  });

  it("writes nothing for looks and denials, and has an empty database until it spends", async () => {
    const object = newObject();
    await object.look([charge("1/minute")]);
    await object.check([charge("1/minute", 2)]);
    expect(await stored(object)).toEqual([[], null]);
    await object.check([charge("1/minute")]);
    expect(await stored(object)).toEqual([["p"], 60_000]);
  });

  it("sets one alarm, when there is none, and lets it find out what is left", async () => {
    const object = newObject();
    await object.check([charge("5/minute", 1, "short")]);
    vi.setSystemTime(startMs + 1000);
    await object.check([charge("5/hour", 1, "long")]);
    expect(await stored(object)).toEqual([["long", "short"], 60_000]);
    vi.setSystemTime(startMs + 60_000);
    await runDurableObjectAlarm(object);
    expect(await stored(object)).toEqual([["long"], 3_601_000]);
  });

  it("forgets everything by its last alarm, database and all", async () => {
    const object = newObject();
    await object.check([charge("5/minute", 5)]);
    vi.setSystemTime(startMs + 60_000);
    await runDurableObjectAlarm(object);
    expect(await stored(object)).toEqual([[], null]);
    expect(await remaining(object, charge("5/minute"))).toBe(5);
  });

  it("is not put off by an alarm that comes early, late or after an eviction", async () => {
    const object = newObject();
    await object.check([charge("5/minute", 5)]);
    vi.setSystemTime(startMs + 30_000);
    await runDurableObjectAlarm(object);
    expect(await stored(object)).toEqual([["p"], 60_000]);
    expect(await remaining(object, charge("5/minute"))).toBe(0);
    await evictDurableObject(object);
    vi.setSystemTime(startMs + 500_000);
    await object.check([charge("5/minute", 2)]);
    await runDurableObjectAlarm(object);
    expect(await stored(object)).toEqual([["p"], 560_000]);
    expect(await remaining(object, charge("5/minute"))).toBe(3);
  });

  it("leaves nothing behind when all that was spent is given back", async () => {
    const object = newObject();
    const { decidedAtMs } = await object.check([charge("5/minute")]);
    await object.refund([charge("5/minute")], decidedAtMs);
    expect(await stored(object)).toEqual([[], null]);
    // Given back after it was forgotten, as a late answer may be.
    await object.check([charge("5/minute")]);
    await object.forget("p");
    await object.refund([charge("5/minute")], decidedAtMs);
    expect(await stored(object)).toEqual([[], null]);
  });

  it("sets an alarm again when the one of its rows is lost", async () => {
    const object = newObject();
    await object.check([charge("5/minute")]);
    await runInDurableObject(object, (_, { storage }) => storage.deleteAlarm());
    await evictDurableObject(object);
    await object.check([charge("5/minute")]);
    expect(await stored(object)).toEqual([["p"], 60_000]);
  });

  it("gives back what was spent while its clock was behind", async () => {
    const object = newObject();
    await object.check([charge("10/minute", 4)]);
    vi.setSystemTime(startMs - 500);
    const { decidedAtMs } = await object.check([charge("10/minute", 4)]);
    await object.refund([charge("10/minute", 4)], decidedAtMs);
    expect(await remaining(object, charge("10/minute"))).toBe(6);
  });

  it("sets its alarm anew after it has forgotten everything", async () => {
    const object = newObject();
    await object.check([charge("5/minute")]);
    await object.forget("p");
    expect(await stored(object)).toEqual([[], null]);
    await object.check([charge("5/minute")]);
    expect(await stored(object)).toEqual([["p"], 60_000]);
  });

  it("keeps what is spent when only the number of a limit changes, and begins afresh with its window", async () => {
    const object = newObject();
    await object.check([charge("10/minute", 8)]);
    expect(await remaining(object, charge("20/minute"))).toBe(12);
    expect(await remaining(object, charge("5/minute"))).toBe(0);
    expect(await remaining(object, charge("10/hour"))).toBe(10);
    expect(await remaining(object, charge("10/minute"))).toBe(2);
  });

  it("replaces stored state that it did not write, and says so", async () => {
    const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
    const object = newObject();
    await runInDurableObject(object, (_, { storage }) => storage.put("p", { other: "shape" }));
    const { decisions } = await object.check([charge("5/minute")]);
    expect(decisions[0]?.allowed).toBe(true);
    expect(errors.mock.calls.join()).toContain('"event":"state-refused","policy":"p"');
    errors.mockRestore();
  });

  it("keeps logs in a few bytes for each instant, and reads them back", async () => {
    const object = newObject();
    const limits = "100000/day; 100000/week; 100000/hour";
    await runInDurableObject(object, (instance) => {
      for (let second = 0; second < 2_000; second++) {
        vi.setSystemTime(startMs + second * 997);
        instance.check([charge(limits, 1, "p", "sliding-log")]);
      }
    });
    const sizeBytes = await runInDurableObject(
      object,
      (_, { storage }) => storage.sql.databaseSize,
    );
    expect(sizeBytes).toBeLessThan(3 * 2_000 * 6);
    await evictDurableObject(object);
    expect(await remaining(object, charge(limits, 1, "p", "sliding-log"))).toBe(98_000);
  });

  it("adds no quota when its clock steps back, and counts the step into the waits", async () => {
    const object = newObject();
    await object.check([charge("1/minute")]);
    vi.setSystemTime(startMs - 20_000);
    const { decisions } = await object.check([charge("1/minute")]);
    expect(decisions[0]).toMatchObject({ allowed: false, retryAfterMs: 80_000 });
  });
});

describe("charges of several policies", () => {
  it("are decided together: all spend or none does", async () => {
    const object = newObject();
    const charges = [charge("5/minute", 1, "a"), charge("1/minute", 1, "b")];
    const first = await object.check(charges);
    expect(first.decisions.map(({ allowed }) => allowed)).toEqual([true, true]);
    const second = await object.check(charges);
    expect(second.decisions.map(({ allowed }) => allowed)).toEqual([true, false]);
    expect(await remaining(object, charge("5/minute", 1, "a"))).toBe(4);
  });

  it("can be given back", async () => {
    const object = newObject();
    const charges = [charge("5/minute", 2, "a"), charge("5/minute", 2, "b", "sliding-log")];
    const { decidedAtMs } = await object.check(charges);
    vi.setSystemTime(startMs + 10);
    await object.refund(charges, decidedAtMs);
    await evictDurableObject(object);
    for (const each of charges) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await remaining(object, each)).toBe(5);
    }
  });
});
