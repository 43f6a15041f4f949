import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Charge, ReserveReply } from "../../../src/limiter/protocol.ts";
import { parseLimits } from "../../../src/strategies/index.ts";
import {
  at,
  call,
  charge,
  confirmed,
  eventsOf,
  newObject,
  remaining,
  remainingOf,
  startMs,
  type Stub,
  stored,
} from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => void vi.useRealTimers());

let count = 0;
const reserve = async (
  object: Stub,
  charges: Charge | readonly Charge[],
  ttlMs = 60_000,
): Promise<ReserveReply & { id: string }> => {
  const id = `id-${count++}`;
  return { id, ...(await object.reserve({ ...call(charges), id, ttlMs })) };
};

const settle = (object: Stub, id: string, cost: number): Promise<boolean> =>
  object.settle({ key: "k", id, cost }).then(({ settled }) => settled);

describe("a reservation", () => {
  it("spends, and is corrected down to what was spent at the instant of the spend", async () => {
    const object = newObject();
    const each = charge("10/minute", 8, "p", "sliding-log");
    const { id, isOpen, decisions } = await reserve(object, each);
    expect([isOpen, remainingOf(decisions)]).toEqual([true, 2]);
    at(50_000);
    expect(await settle(object, id, 3)).toBe(true);
    expect(await remaining(object, each)).toBe(7);
    at(60_000);
    expect(await remaining(object, each)).toBe(10);
  });

  it("is corrected up in full, now, and may leave a debt", async () => {
    const object = newObject();
    const each = charge("10/minute", 8, "p", "sliding-log");
    const { id } = await reserve(object, each);
    at(50_000);
    expect(await settle(object, id, 15)).toBe(true);
    const { decisions } = await object.look(call({ ...each, cost: 1 }));
    expect(decisions).toMatchObject([
      { allowed: false, limits: [{ remaining: 0, retryAfterMs: 10_000, resetAfterMs: 60_000 }] },
    ]);
  });

  it("settles once: later calls change nothing, nor do those for what was never reserved", async () => {
    const object = newObject();
    const each = charge("10/minute", 8);
    const { id } = await reserve(object, each);
    expect(await settle(object, id, 3)).toBe(true);
    expect(await settle(object, id, 0)).toBe(false);
    expect(await settle(object, "unknown", 0)).toBe(false);
    expect(await remaining(object, each)).toBe(7);
  });

  it("stands as spent at its ttl", async () => {
    const object = newObject();
    const each = charge("10/hour", 8);
    const { id } = await reserve(object, each, 5_000);
    at(5_000);
    expect(await settle(object, id, 0)).toBe(false);
    expect(await remaining(object, each)).toBe(2);
  });

  it("that is denied spends nothing and is not open", async () => {
    const object = newObject();
    const charges = [charge("10/hour", 3, "wide"), charge("2/hour", 3, "narrow")];
    const { id, isOpen, decisions } = await reserve(object, charges);
    expect([isOpen, decisions.map(({ allowed }) => allowed)]).toEqual([false, [true, false]]);
    expect(await settle(object, id, 0)).toBe(false);
    expect(await remaining(object, charge("10/hour", 1, "wide"))).toBe(10);
    expect(await stored(object)).toEqual([[], null]);
  });

  it("of several policies is corrected for each", async () => {
    const object = newObject();
    const charges = [charge("10/hour", 6, "a"), charge("100/day", 6, "b", "sliding-log")];
    const { id } = await reserve(object, charges);
    await settle(object, id, 1);
    expect(await remaining(object, charge("10/hour", 1, "a"))).toBe(9);
    expect(await remaining(object, charge("100/day", 1, "b", "sliding-log"))).toBe(99);
  });

  it("is settled by the limits it was made with, whatever came since", async () => {
    const object = newObject();
    const { id } = await reserve(object, charge("10/hour", 6));
    await object.check(call(charge("10/hour; 20/day", 4)));
    await evictDurableObject(object);
    await settle(object, id, 1);
    const { decisions } = await object.look(call(charge("10/hour; 20/day")));
    expect(decisions[0]?.limits.map((limit) => limit.remaining)).toEqual([5, 16]);
  });

  it("gives back nothing that a window's end has given back already", async () => {
    const object = newObject();
    const each = charge("10/minute", 8);
    const { id } = await reserve(object, each, 600_000);
    at(60_000);
    await object.check(call({ ...each, cost: 9 }));
    await settle(object, id, 0);
    expect(await remaining(object, each)).toBe(1);
  });

  it("of a cost known only afterwards may be of 0", async () => {
    const object = newObject();
    const { id, isOpen } = await reserve(object, charge("10/hour", 0));
    expect(isOpen).toBe(true);
    await settle(object, id, 4);
    expect(await remaining(object, charge("10/hour"))).toBe(6);
  });

  it("is void when its policy's count is forgotten", async () => {
    const object = newObject();
    const { id } = await reserve(object, charge("10/hour", 6));
    await object.forget({ key: "k", policy: "p" });
    await object.check(call(charge("10/hour", 6)));
    expect(await settle(object, id, 0)).toBe(false);
    expect(await remaining(object, charge("10/hour"))).toBe(4);
  });
});

describe("a reservation of which one policy's count is forgotten", () => {
  it("is corrected for each of the others by its own cost, and for that one no more", async () => {
    const object = newObject();
    const charges = ["a", "b", "c"].map((policy) => charge("10/hour", 3, policy));
    const { id } = await reserve(object, charges);
    await object.forget({ key: "k", policy: "a" });
    await object.check(call(charge("10/hour", 5, "a")));
    await evictDurableObject(object);
    expect(await object.renew({ key: "k", id })).toEqual({ isOpen: true });
    await object.settle({ key: "k", id, cost: 9, costs: [9, 1, 2] });
    const left = await Promise.all(charges.map((each) => remaining(object, each)));
    expect(left).toEqual([5, 9, 8]);
  });

  it("is over when all of them are", async () => {
    const object = newObject();
    const charges = [charge("10/hour", 3, "a"), charge("10/hour", 3, "b")];
    const { id } = await reserve(object, charges);
    await object.forget({ key: "k", policy: "a" });
    await object.forget({ key: "k", policy: "b" });
    expect(await object.renew({ key: "k", id })).toEqual({ isOpen: false });
    expect(await settle(object, id, 9)).toBe(false);
    expect(await stored(object)).toEqual([[], null]);
  });
});

describe("slots of a concurrency limit", () => {
  const slot = charge("2 per 10 minutes", 1, "p", "concurrency");

  it("are free as soon as a reservation is settled, at any cost", async () => {
    const object = newObject();
    const first = await reserve(object, slot, 600_000);
    const second = await reserve(object, slot, 600_000);
    expect((await reserve(object, slot)).isOpen).toBe(false);
    await settle(object, first.id, 1);
    await settle(object, second.id, 7);
    expect(await remaining(object, slot)).toBe(2);
  });

  it("are free at the ttl, to the millisecond, and the waits say so", async () => {
    const object = newObject();
    await reserve(object, { ...slot, cost: 2 }, 30_000);
    at(10_000);
    const { decisions } = await object.check(call(slot));
    expect(decisions[0]?.retryAfterMs).toBe(20_000);
    at(29_999);
    expect(await remaining(object, slot)).toBe(0);
    at(30_000);
    expect(await remaining(object, slot)).toBe(2);
  });

  it("are free at the end of the lease, where that is sooner", async () => {
    const object = newObject();
    await reserve(object, { ...slot, cost: 2 }, 86_400_000);
    at(600_000);
    expect(await remaining(object, slot)).toBe(2);
  });
});

describe("open reservations", () => {
  it("outlive an eviction, each with its own limits, ttl and instant", async () => {
    const object = newObject();
    const log = charge("100/minute", 10, "log", "sliding-log");
    const first = await reserve(object, log, 50_000);
    at(20_000);
    const second = await reserve(
      object,
      [log, charge("3/hour", 1, "slots", "concurrency")],
      50_000,
    );
    await evictDurableObject(object);
    at(49_999);
    expect(await settle(object, first.id, 4)).toBe(true);
    await evictDurableObject(object);
    expect(await settle(object, first.id, 0)).toBe(false);
    expect(await remaining(object, log)).toBe(86);
    at(60_000);
    expect(await remaining(object, log)).toBe(90);
    expect(await settle(object, second.id, 0)).toBe(true);
    expect(await remaining(object, log)).toBe(100);
    expect(await remaining(object, charge("3/hour", 1, "slots", "concurrency"))).toBe(3);
  });

  it("are at most 1,000 for a key; one more is refused until one is settled or expires", async () => {
    const object = newObject();
    const each = charge("1000000/hour");
    for (let open = 0; open < 1_000; open++) {
      at(open);
      // oxlint-disable-next-line no-await-in-loop
      await reserve(object, each, 30_000);
    }
    const last = `id-${count - 1}`;
    const refused = await reserve(object, each);
    expect(refused).toMatchObject({ isOpen: false, fullForMs: 29_001 });
    expect(await remaining(object, each)).toBe(999_000);
    await settle(object, last, 1);
    expect((await reserve(object, each)).isOpen).toBe(true);
    expect((await reserve(object, each)).isOpen).toBe(false);
    at(30_000);
    expect((await reserve(object, each)).isOpen).toBe(true);
  });

  it("leave nothing behind once they and their limits are over", async () => {
    const object = newObject();
    const { id } = await reserve(object, charge("5/minute", 2));
    await settle(object, id, 0);
    expect(await stored(object)).toEqual([[], null]);
  });

  it("made while the clock was ahead do not last for ever", async () => {
    const object = newObject();
    at(400 * 86_400_000);
    for (let open = 0; open < 1_000; open++) {
      // oxlint-disable-next-line no-await-in-loop
      await reserve(object, charge("1000000/minute"), 30_000);
    }
    at(0);
    expect(await reserve(object, charge("1000000/minute"))).toMatchObject({ fullForMs: 30_000 });
    at(30_000);
    expect((await reserve(object, charge("1000000/minute"))).isOpen).toBe(true);
  });

  it.each(["fixed-window", "sliding-log", "sliding-window-counter", "token-bucket", "concurrency"])(
    "give back nothing of others when the clock was ahead as they were made: %s",
    async (strategy) => {
      const object = newObject();
      const ten = charge("10/minute", 10, "p", strategy);
      const { id } = await reserve(object, ten, 600_000);
      at(-3_600_000);
      // It is noticed, and what was spent is booked again; by the next time that is over, and others have spent.
      await object.check(call({ ...ten, cost: 1 }));
      await evictDurableObject(object);
      at(-3_600_000 + 125_000);
      const { decisions } = await object.check(call(ten));
      expect(decisions[0]?.allowed).toBe(true);
      await settle(object, id, 0);
      expect(await remaining(object, ten)).toBe(0);
    },
  );

  it("that have expired stay so when the clock steps back", async () => {
    const object = newObject();
    const { id } = await reserve(object, charge("10/minute", 5), 10_000);
    at(10_000);
    expect(await settle(object, id, 0)).toBe(false);
    await evictDurableObject(object);
    at(7_000);
    expect(await settle(object, id, 0)).toBe(false);
    expect(await remaining(object, charge("10/minute"))).toBe(5);
  });

  it("and their slots last as long as one another while the clock lags behind", async () => {
    const object = newObject();
    const slot = charge("2 per 10 minutes", 1, "p", "concurrency");
    await reserve(object, slot, 600_000);
    at(-5_000);
    const { id } = await reserve(object, slot, 10_000);
    at(9_999);
    expect(await remaining(object, slot)).toBe(0);
    expect(await settle(object, id, 1)).toBe(true);
    expect(await remaining(object, slot)).toBe(1);
  });

  it("outlive the windows of their limits", async () => {
    const object = newObject();
    const each = charge("10/minute", 5);
    const { id } = await reserve(object, each, 3_600_000);
    at(200_000);
    await runDurableObjectAlarm(object);
    await evictDurableObject(object);
    at(300_000);
    expect(await settle(object, id, 12)).toBe(true);
    expect(await remaining(object, each)).toBe(3);
  });

  it("of ever new limits are refused before the key's row is larger than storage takes", async () => {
    const object = newObject();
    let refused = 0;
    for (let open = 0; open < 1_000; open++) {
      const inputs = Array.from({ length: 16 }, (_, index) => ({
        limit: 1_000,
        window: `${open * 16 + index + 1}m`,
        name: `a-limit-of-quite-a-long-name-${open}-${index}`,
      }));
      const charges = [{ policy: "p", limits: parseLimits(inputs), cost: 1 }];
      const id = `id-${open}`;
      // oxlint-disable-next-line no-await-in-loop
      const { fullForMs } = await object.reserve({ ...confirmed(charges), id, ttlMs: 60_000 });
      if (fullForMs > 0) refused++;
    }
    expect(refused).toBeGreaterThan(100);
    const row = await runInDurableObject(object, (_, { storage }) => storage.kv.get<string>("k k"));
    expect(row?.length).toBeLessThan(1_900_000);
    expect(row?.length).toBeGreaterThan(900_000);
  });

  it("that are not of this version cost nothing but themselves", async () => {
    const object = newObject();
    await object.check(call(charge("10/hour", 7)));
    const { id } = await reserve(object, charge("10/hour", 1, "other"));
    await evictDurableObject(object);
    await runInDurableObject(object, (_, { storage }) => {
      const row = storage.kv.get<string>("k k") ?? "";
      storage.kv.put("k k", row.replace(/("strategy":")fixed-window/, "$1later-invented"));
    });
    await evictDurableObject(object);
    const said = await eventsOf(async () => {
      expect(await remaining(object, charge("10/hour"))).toBe(3);
    });
    expect(said).toContain("reservations are not of this version");
    expect(await settle(object, id, 0)).toBe(false);
  });
});
