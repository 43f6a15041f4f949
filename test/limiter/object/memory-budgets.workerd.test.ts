import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { softBudgetBytes } from "../../../src/limiter/object/key-cache.ts";
import { Limiter } from "../../../src/limiter/object/limiter.ts";
import {
  at,
  call,
  charge,
  confirmed,
  counted,
  newObject,
  type Stub,
  startMs,
  type Written,
} from "../harness.ts";

/** With timers: what is written a second later is part of the bill. */
beforeEach(
  () => void vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: startMs }),
);
afterEach(() => void vi.useRealTimers());

const inside = <Result>(
  object: Stub,
  act: (limiter: Limiter) => Result | Promise<Result>,
): Promise<Result> =>
  runInDurableObject(object, (_, { storage }) => {
    const after = (afterMs: number, run: () => void): (() => void) => {
      const timer = setTimeout(run, afterMs);
      return () => clearTimeout(timer);
    };
    return act(new Limiter({ storage, now: () => Date.now(), after }));
  });

const bill = ({ rows, alarms }: Written): { rows: number; alarms: number } => ({ rows, alarms });

describe.each(["fixed-window", "sliding-window-counter", "token-bucket", "sliding-log"])(
  "the rows that %s costs",
  (strategy) => {
    it("on a hot key: at most 4, with the alarm, for 1,000 decisions in a second", async () => {
      const object = newObject();
      const written = await counted(object);
      await inside(object, (limiter) => {
        for (let decision = 0; decision < 1_000; decision++) {
          vi.advanceTimersByTime(1);
          limiter.check(call(charge("100000/hour", 1, "p", strategy)));
        }
        vi.advanceTimersByTime(1_000);
      });
      const segments = strategy === "sliding-log" ? 1 : 0;
      expect(bill(written)).toEqual({ rows: 3 + segments, alarms: 1 });
    });

    it("on a cold key: one for each decision, and one alarm for its life", async () => {
      const object = newObject();
      const written = await counted(object);
      await inside(object, (limiter) => {
        for (let decision = 1; decision <= 30; decision++) {
          vi.advanceTimersByTime(60_000);
          limiter.check(call(charge("1000/hour", 1, "p", strategy)));
          expect(written.rows).toBe(decision);
        }
      });
      at(2 * 3_600_000 + 60_000);
      await runDurableObjectAlarm(object);
      expect(written).toMatchObject({ rows: 30, alarms: 1, deletedAll: 1 });
    });

    it("none for denials, looks, and limits of up to ten seconds", async () => {
      const object = newObject();
      await object.check(call(charge("1/hour", 1, "p", strategy)));
      const written = await counted(object);
      await inside(object, (limiter) => {
        const short = strategy === "sliding-window-counter" ? "10/5s" : "10/10s";
        for (let decision = 0; decision < 100; decision++) {
          vi.advanceTimersByTime(10);
          limiter.check(call(charge("1/hour", 1, "p", strategy)));
          limiter.look(call(charge("1000/hour", 1, "p", strategy)));
          limiter.check(call(charge(short, 1, "short", strategy), "other"));
        }
        vi.advanceTimersByTime(2_000);
      });
      expect(bill(written)).toEqual({ rows: 0, alarms: 0 });
    });
  },
);

describe("the rows that cost nothing", () => {
  it("are those of confirmed denials, though something else waits to be written", async () => {
    const object = newObject();
    const written = await counted(object);
    await inside(object, (limiter) => {
      for (let decision = 0; decision < 500; decision++) {
        vi.advanceTimersByTime(1);
        limiter.check(call(charge("1000/hour", 1, "relaxed")));
        limiter.check(confirmed(charge("1/hour", 2, "sure")));
        limiter.check(confirmed(charge("1/second", 2, "short")));
      }
      vi.advanceTimersByTime(1_000);
    });
    expect(bill(written)).toEqual({ rows: 3, alarms: 1 });
  });

  it("are those of refunds and settlements that change nothing", async () => {
    const object = newObject();
    const each = charge("5/minute");
    const written = await counted(object);
    await inside(object, (limiter) => {
      const [spentAtMs = 0] = limiter.check(call(each)).spentAtMs;
      vi.advanceTimersByTime(60_000);
      limiter.check(call(each));
      for (let refund = 0; refund < 50; refund++) {
        vi.advanceTimersByTime(100);
        limiter.refund({ key: "k", charges: [{ ...each, spentAtMs }] });
        limiter.settle({ key: "k", id: "unknown", cost: 3 });
      }
    });
    expect(written.rows).toBe(2);
  });

  it("are those of looks at keys that are not there: they push out none that are", async () => {
    const object = newObject();
    const written = await counted(object);
    await inside(object, (limiter) => {
      for (let key = 0; key < 1_000; key++) limiter.check(call(charge("10/10s"), `key-${key}`));
      vi.advanceTimersByTime(2_000);
      const cachedBytes = limiter.cachedBytes;
      for (let key = 0; key < 5_000; key++) {
        limiter.look(call(charge("10/10s"), `none-${key}`));
        limiter.forget({ key: `none-${key}`, policy: "p" });
        limiter.settle({ key: `none-${key}`, id: "none", cost: 1 });
      }
      expect(limiter.cachedBytes).toBe(cachedBytes);
    });
    expect(bill(written)).toEqual({ rows: 0, alarms: 0 });
  });
});

describe("a few long logs in one object", () => {
  it("stay in memory while they are used, though they are larger than what is wanted there", async () => {
    const object = newObject();
    const written = await counted(object);
    const each = charge("100000/hour", 1, "p", "sliding-log");
    await inside(object, (limiter) => {
      for (let unit = 0; unit < 50_000; unit++) {
        vi.setSystemTime(startMs + unit * 20);
        for (const key of ["one", "two", "three"]) limiter.check(call(each, key));
      }
      vi.advanceTimersByTime(1_000);
      expect(limiter.cachedBytes).toBeGreaterThan(softBudgetBytes);
      const before = written.rows;
      for (let decision = 0; decision < 1_000; decision++) {
        vi.advanceTimersByTime(1);
        limiter.check(call(each, ["one", "two", "three"][decision % 3]));
      }
      vi.advanceTimersByTime(1_000);
      expect(written.rows - before).toBeLessThanOrEqual(12);
    });
  });
});

describe("the rows that keys of a shard cost", () => {
  it("when they are swept: one more each", async () => {
    const object = newObject();
    const written = await counted(object);
    await inside(object, (limiter) => {
      for (let key = 0; key < 200; key++) {
        vi.advanceTimersByTime(5);
        limiter.check(call(charge("5/minute"), `key-${key}`));
      }
      vi.advanceTimersByTime(1_000);
      limiter.check(call(charge("5/day"), "lasting"));
      vi.advanceTimersByTime(1_000);
    });
    expect(bill(written)).toEqual({ rows: 201, alarms: 1 });
    at(2 * 60_000 + 5);
    await runDurableObjectAlarm(object);
    expect(bill(written)).toEqual({ rows: 401, alarms: 2 });
  });

  it("together: no put of more than 128 rows", async () => {
    const object = newObject();
    const written = await counted(object);
    await inside(object, (limiter) => {
      for (let key = 0; key < 300; key++) limiter.check(call(charge("5/minute"), `key-${key}`));
      vi.advanceTimersByTime(1_000);
    });
    expect(written.puts).toEqual([1, 1, 128, 128, 42]);
  });

  it("together: no put of more than two megabytes", async () => {
    const object = newObject();
    const puts = await runInDurableObject(object, (_, { storage }) => vi.spyOn(storage, "put"));
    await inside(object, (limiter) => {
      for (let key = 0; key < 100; key++) {
        for (let limits = 1; limits <= 200; limits++) {
          const window = `${limits + 10} minutes`;
          limiter.check(
            call(charge({ limit: 500, window }, 1, "a-policy-of-a-rather-long-name"), `key-${key}`),
          );
        }
      }
      vi.advanceTimersByTime(1_000);
    });
    const sizes = puts.mock.calls.map(([rows]) => JSON.stringify(rows).length);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(2_000_000);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeGreaterThan(500_000);
  });
});
