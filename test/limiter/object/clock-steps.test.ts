/** The clock of an object's host steps back or forward. */
import { expect, it } from "vitest";
import { KeyObject } from "../../../src/limiter/object/key-object.ts";
import type { Charge } from "../../../src/limiter/protocol.ts";
import { type Decision, parseLimits } from "../../../src/strategies/index.ts";
import { startMs, TestClock } from "../../fakes/isolate.ts";
import { MemoryStorage } from "../../../src/sdk/testing/memory-storage.ts";
import { TestObject } from "../../fakes/test-object.ts";

const charge = (limits: string, strategy = "fixed-window"): Charge => ({
  policy: "p",
  limits: parseLimits(limits, { policy: "p", strategy }),
  cost: 1,
});

const check = ({ limiter }: TestObject, each: Charge, key = "k"): Decision | undefined =>
  limiter.check({ key, charges: [each] }).decisions[0];

const strategies = [
  "fixed-window",
  "sliding-log",
  "sliding-window-counter",
  "sliding-buckets",
  "token-bucket",
  "concurrency",
];

it.each(strategies)(
  "after a clock step of an hour back, %s adds no quota and allows again after the reported wait",
  async (strategy) => {
    const object = new TestObject();
    const each = charge("5/minute", strategy);
    for (let spend = 0; spend < 5; spend++) check(object, each);
    object.nowMs = startMs - 3_600_000;
    const denied = check(object, each);
    expect(denied?.allowed).toBe(false);
    await object.evict();
    object.nowMs = startMs - 3_600_000 + (denied?.retryAfterMs ?? 0);
    expect(check(object, each)?.allowed).toBe(true);
  },
);

it.each(strategies)(
  "after a clock step of a day forward and back, %s still counts what was spent, for at most two windows",
  (strategy) => {
    const object = new TestObject();
    const each = charge("5/minute", strategy);
    check(object, each);
    object.nowMs = startMs + 86_400_000;
    expect(object.remaining(each)).toBe(5);
    check(object, each);
    object.nowMs = startMs + 1_000;
    const { decisions } = object.limiter.look({ key: "k", charges: [each] });
    // The spend at the time one day ahead is booked again at the present time.
    expect(decisions[0]?.limits[0]).toMatchObject({ remaining: 4, allowed: true });
    expect(decisions[0]?.limits[0]?.resetAfterMs).toBeLessThanOrEqual(2 * 60_000);
  },
);

it("when the clock steps back by an hour during a burst, writes are not delayed", async () => {
  // Timers are not affected by the step.
  const clock = new TestClock();
  const storage = new MemoryStorage();
  let stepMs = 0;
  const start = (): KeyObject => new KeyObject({ storage, now: () => clock.nowMs + stepMs, after: clock.after });
  const limiter = start();
  const call = { key: "k", charges: [charge("10/day")] };
  for (let spend = 0; spend < 5; spend++) {
    if (spend === 3) stepMs = -3_600_000;
    limiter.check(call);
  }
  await clock.pass(1_000);
  expect(start().look(call).decisions[0]?.limits[0]?.remaining).toBe(5);
});

it("when the clock steps forward by a day, an alarm sweeps idle keys and the object continues", async () => {
  const object = new TestObject();
  check(object, charge("5/week"));
  check(object, charge("5/minute"), "short");
  object.advance(1_000);
  object.nowMs = startMs + 86_400_000;
  await object.limiter.alarm();
  expect([...object.storage.rows.keys()]).toEqual(["k k"]);
  object.nowMs = startMs;
  expect(object.remaining(charge("5/minute"), "short")).toBe(5);
});
