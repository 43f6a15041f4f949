import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Policy } from "../../src/config/index.ts";
import { LimiterClient } from "../../src/limiter/client.ts";
import { admits } from "../../src/limiter/outcome.ts";
import { randomFrom } from "../random.ts";
import { policyWith } from "./schedule.ts";
import { ObjectOf, World } from "./world.ts";

beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

const policyOf = (limit: number, window: string): Policy => {
  const limits = { limit, window, strategy: "sliding-log" };
  return policyWith({ limits, consistency: "eventual", durability: "confirmed" });
};

function isolate(mostDelayMs = 5) {
  const world = new World();
  const object = new ObjectOf(world, randomFrom(1), { mostDelayMs, lost: 0, unanswered: 0 });
  const client = new LimiterClient(
    object.namespace(0, () => true),
    world.clock(),
  );
  /** @returns how many of so many requests are let in */
  const ask = async (policy: Policy, times: number, key = "key"): Promise<number> => {
    let admitted = 0;
    for (let time = 0; time < times; time++) {
      const spend = { policy, partitionKey: key, cost: 1 };
      // oxlint-disable-next-line no-await-in-loop
      const { outcomes } = await client.admit([spend], () => undefined);
      if (outcomes.every(admits)) admitted++;
    }
    return admitted;
  };
  const pass = (ms: number): Promise<void> => world.runUntil(world.nowMs + ms);
  const left = ({ limits }: Policy): number | undefined => {
    const charges = [{ policy: "p", limits, cost: 0 }];
    return object.limiter.look({ key: "key", charges }).decisions[0]?.limits[0]?.remaining;
  };
  return { world, object, client, ask, pass, left };
}

describe("an isolate that decides by itself", () => {
  it("has all counted of a key that it had to forget in between", async () => {
    const { ask, pass, left } = isolate();
    const policy = policyOf(1_000, "1h");
    let admitted = 0;
    for (let burst = 0; burst < 3; burst++) {
      // oxlint-disable-next-line no-await-in-loop
      admitted += await ask(policy, 10);
      for (let key = 0; key < 1_100; key++) {
        // oxlint-disable-next-line no-await-in-loop
        await ask(policy, 1, `other-${key}`);
      }
      // oxlint-disable-next-line no-await-in-loop
      await pass(5_000);
    }
    expect([admitted, left(policy)]).toEqual([30, 970]);
  });

  it("has counted what it has to send again of a key that it had to forget in between", async () => {
    const { object, ask, pass, left } = isolate();
    const policy = policyOf(1_000, "1h");
    object.isReachable = false;
    await ask(policy, 8);
    await pass(100);
    for (let key = 0; key < 1_100; key++) {
      // oxlint-disable-next-line no-await-in-loop
      await ask(policy, 1, `other-${key}`);
    }
    object.isReachable = true;
    await pass(800);
    await ask(policy, 2);
    await pass(10_000);
    expect(left(policy)).toBe(990);
  });

  it("counts one spend for all limits that differ in number alone, as the object does", async () => {
    const { ask, pass, left } = isolate();
    const [free, pro] = [policyOf(5, "1h"), policyOf(500, "1h")];
    expect(await ask(pro, 3)).toBe(3);
    expect(await ask(free, 10)).toBe(2);
    await pass(5_000);
    expect([await ask(free, 10), left(free), left(pro)]).toEqual([0, 0, 495]);
  });

  it("has each spend counted by the limits that it was made under", async () => {
    const { ask, pass, left } = isolate();
    const [free, pro] = [policyOf(5, "1h"), policyOf(500, "1d")];
    expect([await ask(pro, 3), await ask(free, 10), await ask(pro, 1)]).toEqual([3, 5, 1]);
    await pass(5_000);
    expect([left(free), left(pro)]).toEqual([0, 496]);
    expect([await ask(free, 10), await ask(pro, 1)]).toEqual([0, 1]);
  });

  it("decides by the limits of now, whatever was asked for while it was told", async () => {
    const { ask, pass } = isolate(400);
    const [free, pro] = [policyOf(5, "1h"), policyOf(500, "1d")];
    await ask(pro, 1);
    expect(await ask(free, 3)).toBe(3);
    await pass(1_000);
    expect(await ask(free, 500)).toBe(2);
  });

  it("brings nothing back that was forgotten: what was on its way is left out", async () => {
    const { object, client, ask, pass, left } = isolate();
    const policy = policyOf(10, "1h");
    object.isReachable = false;
    await ask(policy, 8);
    await pass(100);
    object.isReachable = true;
    const forgotten = client.forget(policy, "key");
    await pass(100);
    expect(await forgotten).toBe(true);
    await ask(policy, 1);
    await pass(5_000);
    expect(left(policy)).toBe(9);
  });

  it("asks a shard for all of its keys at once, and for those seen first ten times a second", async () => {
    const { object, ask, pass } = isolate(50);
    const sharded = { ...policyOf(100, "1h").objects, shards: 1 };
    const policy = { ...policyOf(100, "1h"), objects: sharded };
    for (let request = 0; request < 5_000; request++) {
      // oxlint-disable-next-line no-await-in-loop
      await ask(policy, 1, `key-${(request * 7) % 250}`);
      // oxlint-disable-next-line no-await-in-loop
      await pass(2);
    }
    // 250 keys are first seen within half a second; a call has a hundred of them.
    expect(object.calls).toBeGreaterThan(15);
    expect(object.calls).toBeLessThan(45);
  });

  it("asks the object once for each request of a key that is asked for seldom", async () => {
    const { object, ask, pass } = isolate();
    for (let request = 0; request < 20; request++) {
      // oxlint-disable-next-line no-await-in-loop
      await ask(policyOf(100, "1h"), 1);
      // oxlint-disable-next-line no-await-in-loop
      await pass(5_000);
    }
    expect(object.calls).toBe(20);
  });
});
