/** Reservations: spends that a later call settles at their actual cost. */
import { describe, expect, it } from "vitest";
import type { Charge, ReserveReply } from "../../../src/limiter/protocol.ts";
import { parseLimits } from "../../../src/strategies/index.ts";
import { call, charge, eventsOf, remainingOf } from "../../fakes/calls.ts";
import { TestObject } from "../../fakes/test-object.ts";

let ids = 0;
const reserve = (
  object: TestObject,
  charges: Charge | readonly Charge[],
  ttlMs = 60_000,
): ReserveReply & { id: string } => {
  const id = `id-${ids++}`;
  return { id, ...object.limiter.reserve({ ...call(charges), id, ttlMs }) };
};

const settle = (object: TestObject, id: string, cost: number): boolean =>
  object.limiter.settle({ key: "k", id, cost }).settled;

describe("reserve and settle", () => {
  it("a settlement below the reserved cost refunds the difference to the time of the spend", async () => {
    const object = new TestObject();
    const each = charge("10/minute", 8, "p", "sliding-log");
    const { id, isOpen, decisions } = reserve(object, each);
    expect([isOpen, remainingOf(decisions)]).toEqual([true, 2]);
    object.at(50_000);
    expect(settle(object, id, 3)).toBe(true);
    expect(object.remaining(each)).toBe(7);
    object.at(60_000);
    expect(object.remaining(each)).toBe(10);
  });

  it("a settlement above the reserved cost charges the difference now, and may leave a debt", async () => {
    const object = new TestObject();
    const each = charge("10/minute", 8, "p", "sliding-log");
    const { id } = reserve(object, each);
    object.at(50_000);
    expect(settle(object, id, 15)).toBe(true);
    const { decisions } = object.limiter.look(call({ ...each, cost: 1 }));
    expect(decisions).toMatchObject([
      { allowed: false, limits: [{ remaining: 0, retryAfterMs: 10_000, resetAfterMs: 60_000 }] },
    ]);
  });

  it("a reservation is settled only once, and settling an unknown id changes nothing", async () => {
    const object = new TestObject();
    const each = charge("10/minute", 8);
    const { id } = reserve(object, each);
    expect(settle(object, id, 3)).toBe(true);
    expect(settle(object, id, 0)).toBe(false);
    expect(settle(object, "unknown", 0)).toBe(false);
    expect(object.remaining(each)).toBe(7);
  });

  it("the cost of an unsettled reservation stays spent after its ttl", async () => {
    const object = new TestObject();
    const each = charge("10/hour", 8);
    const { id } = reserve(object, each, 5_000);
    object.at(5_000);
    expect(settle(object, id, 0)).toBe(false);
    expect(object.remaining(each)).toBe(2);
  });

  it("a denied reservation spends nothing and cannot be settled", async () => {
    const object = new TestObject();
    const charges = [charge("10/hour", 3, "wide"), charge("2/hour", 3, "narrow")];
    const { id, isOpen, decisions } = reserve(object, charges);
    expect([isOpen, decisions.map(({ allowed }) => allowed)]).toEqual([false, [true, false]]);
    expect(settle(object, id, 0)).toBe(false);
    expect(object.remaining(charge("10/hour", 1, "wide"))).toBe(10);
    expect(await object.stored()).toEqual([[], null]);
  });

  it("settling a reservation of several policies corrects each of them", async () => {
    const object = new TestObject();
    const charges = [charge("10/hour", 6, "a"), charge("100/day", 6, "b", "sliding-log")];
    const { id } = reserve(object, charges);
    settle(object, id, 1);
    expect(object.remaining(charge("10/hour", 1, "a"))).toBe(9);
    expect(object.remaining(charge("100/day", 1, "b", "sliding-log"))).toBe(99);
  });

  it("a reservation is settled by the limits under which it was made, even after the policy has changed", async () => {
    const object = new TestObject();
    const { id } = reserve(object, charge("10/hour", 6));
    object.limiter.check(call(charge("10/hour; 20/day", 4)));
    await object.evict();
    settle(object, id, 1);
    const { decisions } = object.limiter.look(call(charge("10/hour; 20/day")));
    expect(decisions[0]?.limits.map((limit) => limit.remaining)).toEqual([5, 16]);
  });

  it("a settlement after the end of the window refunds nothing", async () => {
    const object = new TestObject();
    const each = charge("10/minute", 8);
    const { id } = reserve(object, each, 600_000);
    object.at(60_000);
    object.limiter.check(call({ ...each, cost: 9 }));
    settle(object, id, 0);
    expect(object.remaining(each)).toBe(1);
  });

  it("a reservation of cost 0 is settled at its actual cost", async () => {
    const object = new TestObject();
    const { id, isOpen } = reserve(object, charge("10/hour", 0));
    expect(isOpen).toBe(true);
    settle(object, id, 4);
    expect(object.remaining(charge("10/hour"))).toBe(6);
  });

  it("forgetting the policy ends its reservations", async () => {
    const object = new TestObject();
    const { id } = reserve(object, charge("10/hour", 6));
    object.limiter.forget({ key: "k", policy: "p" });
    object.limiter.check(call(charge("10/hour", 6)));
    expect(settle(object, id, 0)).toBe(false);
    expect(object.remaining(charge("10/hour"))).toBe(4);
  });
});

describe("forgetting one policy of a reservation", () => {
  it("when one policy of a reservation is forgotten, the other policies are still settled at their own costs", async () => {
    const object = new TestObject();
    const charges = ["a", "b", "c"].map((policy) => charge("10/hour", 3, policy));
    const { id } = reserve(object, charges);
    object.limiter.forget({ key: "k", policy: "a" });
    object.limiter.check(call(charge("10/hour", 5, "a")));
    await object.evict();
    expect(object.limiter.renew({ key: "k", id })).toEqual({ isOpen: true });
    object.limiter.settle({ key: "k", id, cost: 9, costs: [9, 1, 2] });
    const left = charges.map((each) => object.remaining(each));
    expect(left).toEqual([5, 9, 8]);
  });

  it("a reservation ends when all of its policies are forgotten", async () => {
    const object = new TestObject();
    const charges = [charge("10/hour", 3, "a"), charge("10/hour", 3, "b")];
    const { id } = reserve(object, charges);
    object.limiter.forget({ key: "k", policy: "a" });
    object.limiter.forget({ key: "k", policy: "b" });
    expect(object.limiter.renew({ key: "k", id })).toEqual({ isOpen: false });
    expect(settle(object, id, 9)).toBe(false);
    expect(await object.stored()).toEqual([[], null]);
  });
});

describe("concurrency slots", () => {
  const slot = charge("2 per 10 minutes", 1, "p", "concurrency");

  it("a settlement at any cost frees the concurrency slots of the reservation", async () => {
    const object = new TestObject();
    const first = reserve(object, slot, 600_000);
    const second = reserve(object, slot, 600_000);
    expect(reserve(object, slot).isOpen).toBe(false);
    settle(object, first.id, 1);
    settle(object, second.id, 7);
    expect(object.remaining(slot)).toBe(2);
  });

  it("concurrency slots are freed exactly at the ttl, as the wait states", async () => {
    const object = new TestObject();
    reserve(object, { ...slot, cost: 2 }, 30_000);
    object.at(10_000);
    const { decisions } = object.limiter.check(call(slot));
    expect(decisions[0]?.retryAfterMs).toBe(20_000);
    object.at(29_999);
    expect(object.remaining(slot)).toBe(0);
    object.at(30_000);
    expect(object.remaining(slot)).toBe(2);
  });

  it("concurrency slots are freed at the end of the limit's window if it comes before the ttl", async () => {
    const object = new TestObject();
    reserve(object, { ...slot, cost: 2 }, 86_400_000);
    object.at(600_000);
    expect(object.remaining(slot)).toBe(2);
  });
});

describe("open reservations", () => {
  it("reservations survive an eviction with their limits, ttls and times", async () => {
    const object = new TestObject();
    const log = charge("100/minute", 10, "log", "sliding-log");
    const first = reserve(object, log, 50_000);
    object.at(20_000);
    const second = reserve(object, [log, charge("3/hour", 1, "slots", "concurrency")], 50_000);
    await object.evict();
    object.at(49_999);
    expect(settle(object, first.id, 4)).toBe(true);
    await object.evict();
    expect(settle(object, first.id, 0)).toBe(false);
    expect(object.remaining(log)).toBe(86);
    object.at(60_000);
    expect(object.remaining(log)).toBe(90);
    expect(settle(object, second.id, 0)).toBe(true);
    expect(object.remaining(log)).toBe(100);
    expect(object.remaining(charge("3/hour", 1, "slots", "concurrency"))).toBe(3);
  });

  it("a key has at most 1,000 open reservations until one is settled or expires", async () => {
    const object = new TestObject();
    const each = charge("1000000/hour");
    for (let open = 0; open < 1_000; open++) {
      object.at(open);
      // oxlint-disable-next-line no-await-in-loop
      reserve(object, each, 30_000);
    }
    const last = `id-${ids - 1}`;
    const refused = reserve(object, each);
    expect(refused).toMatchObject({ isOpen: false, fullForMs: 29_001 });
    expect(object.remaining(each)).toBe(999_000);
    settle(object, last, 1);
    expect(reserve(object, each).isOpen).toBe(true);
    expect(reserve(object, each).isOpen).toBe(false);
    object.at(30_000);
    expect(reserve(object, each).isOpen).toBe(true);
  });

  it("a reservation settled to 0 leaves nothing in storage", async () => {
    const object = new TestObject();
    const { id } = reserve(object, charge("5/minute", 2));
    settle(object, id, 0);
    expect(await object.stored()).toEqual([[], null]);
  });

  it("reservations that were made while the clock was ahead expire after the clock is corrected", async () => {
    const object = new TestObject();
    object.at(400 * 86_400_000);
    for (let open = 0; open < 1_000; open++) {
      // oxlint-disable-next-line no-await-in-loop
      reserve(object, charge("1000000/minute"), 30_000);
    }
    object.at(0);
    expect(reserve(object, charge("1000000/minute"))).toMatchObject({ fullForMs: 30_000 });
    object.at(30_000);
    expect(reserve(object, charge("1000000/minute")).isOpen).toBe(true);
  });

  it.each(["fixed-window", "sliding-log", "sliding-window-counter", "token-bucket", "concurrency"])(
    "%s: a reservation made while the clock was ahead never refunds units of other requests",
    async (strategy) => {
      const object = new TestObject();
      const ten = charge("10/minute", 10, "p", strategy);
      const { id } = reserve(object, ten, 600_000);
      object.at(-3_600_000);
      // The meter detects the wrong clock and books its spends again. Their window has ended before the next spends.
      object.limiter.check(call({ ...ten, cost: 1 }));
      await object.evict();
      object.at(-3_600_000 + 125_000);
      const { decisions } = object.limiter.check(call(ten));
      expect(decisions[0]?.allowed).toBe(true);
      settle(object, id, 0);
      expect(object.remaining(ten)).toBe(0);
    },
  );

  it("an expired reservation stays expired when the clock steps back", async () => {
    const object = new TestObject();
    const { id } = reserve(object, charge("10/minute", 5), 10_000);
    object.at(10_000);
    expect(settle(object, id, 0)).toBe(false);
    await object.evict();
    object.at(7_000);
    expect(settle(object, id, 0)).toBe(false);
    expect(object.remaining(charge("10/minute"))).toBe(5);
  });

  it("a reservation and its slots expire together while the clock lags behind", async () => {
    const object = new TestObject();
    const slot = charge("2 per 10 minutes", 1, "p", "concurrency");
    reserve(object, slot, 600_000);
    object.at(-5_000);
    const { id } = reserve(object, slot, 10_000);
    object.at(9_999);
    expect(object.remaining(slot)).toBe(0);
    expect(settle(object, id, 1)).toBe(true);
    expect(object.remaining(slot)).toBe(1);
  });

  it("a reservation may outlive the windows of its limits", async () => {
    const object = new TestObject();
    const each = charge("10/minute", 5);
    const { id } = reserve(object, each, 3_600_000);
    object.at(200_000);
    await object.runAlarm();
    await object.evict();
    object.at(300_000);
    expect(settle(object, id, 12)).toBe(true);
    expect(object.remaining(each)).toBe(3);
  });

  it("reservations with ever new limits are refused before the key's row becomes too large for storage", async () => {
    const object = new TestObject();
    let refused = 0;
    for (let open = 0; open < 1_000; open++) {
      const inputs = Array.from({ length: 16 }, (_, index) => ({
        limit: 1_000,
        window: `${open * 16 + index + 1}m`,
        name: `a-limit-of-quite-a-long-name-${open}-${index}`,
      }));
      const charges = [{ policy: "p", limits: parseLimits(inputs), cost: 1 }];
      const id = `id-${open}`;
      const { fullForMs } = object.limiter.reserve({ ...call(charges), id, ttlMs: 60_000 });
      if (fullForMs > 0) refused++;
    }
    expect(refused).toBeGreaterThan(100);
    await object.pass(2_000);
    const row = object.storage.rows.get("k k");
    expect(row?.length).toBeLessThan(1_900_000);
    expect(row?.length).toBeGreaterThan(900_000);
  });

  it("stored reservations of an unknown strategy are refused, and the rest of the row is kept", async () => {
    const object = new TestObject();
    object.limiter.check(call(charge("10/hour", 7)));
    const { id } = reserve(object, charge("10/hour", 1, "other"));
    await object.evict();
    const row = object.storage.rows.get("k k") ?? "";
    object.storage.rows.set("k k", row.replace(/("strategy":")fixed-window/, "$1later-invented"));
    await object.evict();
    const events = await eventsOf(() => {
      expect(object.remaining(charge("10/hour"))).toBe(3);
    });
    expect(events).toContain("reservations are not of this version");
    expect(settle(object, id, 0)).toBe(false);
  });
});
