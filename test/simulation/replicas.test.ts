/** Syncs of an isolate with its objects, when replicas are evicted and calls are lost. */
import { scopeOf } from "../fakes/isolate.ts";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Policy } from "../../src/policy/policy.ts";
import { LimiterClient } from "../../src/limiter/isolate/client.ts";
import type { Clock } from "../../src/limiter/clock.ts";
import { admits } from "../../src/limiter/isolate/outcome.ts";
import type { SyncCall, SyncReply } from "../../src/limiter/protocol.ts";
import { isFull } from "../mode.ts";
import { randomFrom } from "../random.ts";
import { policyWith } from "./schedule.ts";
import { SimulatedObject, World } from "./world.ts";

beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

const policyOf = (limit: number, window: string): Policy => {
  const limits = { limit, window, strategy: "sliding-log" };
  return policyWith({ limits, consistency: "eventual", durability: "confirmed" });
};

const sharded = (policy: Policy): Policy => ({
  ...policy,
  objects: { ...policy.objects, shards: 1 },
});

const keysOf = (count: number): string[] => Array.from({ length: count }, (_, index) => `key-${index}`);

/** Replaces the object's `sync` with a function that receives the original method. */
function replaceSync(
  object: SimulatedObject,
  replacement: (call: SyncCall, sync: (call: SyncCall) => SyncReply) => unknown,
): void {
  const { limiter } = object;
  const sync = limiter.sync.bind(limiter);
  Object.assign(limiter, { sync: (call: SyncCall) => replacement(call, sync) });
}

/** Cuts off the request that makes one of the calls: neither the answer nor the deadline of the call comes. */
function cuttingOff(call: number) {
  let calls = 0;
  let cuts = 0;
  return {
    isAlive: (): boolean => (calls += 1) !== call,
    clockOf: (world: World): Clock => {
      const { now, after } = world.clock();
      const isDeadline = (): boolean => calls === call && (cuts += 1) === 1;
      return { now, after: (ms, act) => (isDeadline() ? () => undefined : after(ms, act)) };
    },
    /** Whether the call was cut off and other calls followed. */
    isCut: (): boolean => cuts > 0 && calls > call,
  };
}

function simulateIsolate(
  maximumDelayMs = 5,
  { clockOf = (world: World): Clock => world.clock(), isAlive = (): boolean => true } = {},
) {
  const world = new World();
  const object = new SimulatedObject(world, randomFrom(1), {
    maximumDelayMs,
    lost: 0,
    unanswered: 0,
  });
  const client = new LimiterClient(object.namespace(0, isAlive), clockOf(world));
  /** @returns the number of requests that are admitted */
  const request = async (policy: Policy, times: number, key = "key"): Promise<number> => {
    let admitted = 0;
    for (let time = 0; time < times; time++) {
      const spend = { policy, partitionKey: key, cost: 1 };
      // oxlint-disable-next-line no-await-in-loop
      const { outcomes } = await client.admit([spend], scopeOf());
      if (outcomes.every(admits)) admitted++;
    }
    return admitted;
  };
  const pass = (ms: number): Promise<void> => world.runUntil(world.nowMs + ms);
  const remaining = ({ limits }: Policy, key = "key"): number | undefined => {
    const charges = [{ policy: "p", limits, cost: 0 }];
    return object.limiter.look({ key, charges }).decisions[0]?.limits[0]?.remaining;
  };
  return { world, object, client, request, pass, remaining };
}

describe("an isolate under eventual consistency", () => {
  it("every spend on a key is counted, even if the key's replica is evicted in between", async () => {
    const { request, pass, remaining } = simulateIsolate();
    const policy = policyOf(1_000, "1h");
    let admitted = 0;
    for (let burst = 0; burst < 3; burst++) {
      // oxlint-disable-next-line no-await-in-loop
      admitted += await request(policy, 10);
      for (let key = 0; key < 1_100; key++) {
        // oxlint-disable-next-line no-await-in-loop
        await request(policy, 1, `other-${key}`);
      }
      // oxlint-disable-next-line no-await-in-loop
      await pass(5_000);
    }
    expect([admitted, remaining(policy)]).toEqual([30, 970]);
  });

  it("spends of an evicted replica are counted once, even if a sync with them was lost", async () => {
    const { object, request, pass, remaining } = simulateIsolate();
    const policy = policyOf(1_000, "1h");
    object.isReachable = false;
    await request(policy, 8);
    await pass(100);
    for (let key = 0; key < 1_100; key++) {
      // oxlint-disable-next-line no-await-in-loop
      await request(policy, 1, `other-${key}`);
    }
    object.isReachable = true;
    await pass(800);
    await request(policy, 2);
    await pass(10_000);
    expect(remaining(policy)).toBe(990);
  });

  it("when limits differ only in their number of units, a replica counts a spend under all of them, as the object does", async () => {
    const { request, pass, remaining } = simulateIsolate();
    const [free, pro] = [policyOf(5, "1h"), policyOf(500, "1h")];
    expect(await request(pro, 3)).toBe(3);
    expect(await request(free, 10)).toBe(2);
    await pass(5_000);
    expect([await request(free, 10), remaining(free), remaining(pro)]).toEqual([0, 0, 495]);
  });

  it("each spend is counted under the limits of its request", async () => {
    const { request, pass, remaining } = simulateIsolate();
    const [free, pro] = [policyOf(5, "1h"), policyOf(500, "1d")];
    expect([await request(pro, 3), await request(free, 10), await request(pro, 1)]).toEqual([3, 5, 1]);
    await pass(5_000);
    expect([remaining(free), remaining(pro)]).toEqual([0, 496]);
    expect([await request(free, 10), await request(pro, 1)]).toEqual([0, 1]);
  });

  it("a decision uses the limits of its own request, even after a sync with other limits", async () => {
    const { request, pass } = simulateIsolate(400);
    const [free, pro] = [policyOf(5, "1h"), policyOf(500, "1d")];
    await request(pro, 1);
    expect(await request(free, 3)).toBe(3);
    await pass(1_000);
    expect(await request(free, 500)).toBe(2);
  });

  it("when a key is deleted, its spends are also removed from a batch that will be sent again", async () => {
    const { object, client, request, pass, remaining } = simulateIsolate();
    const policy = policyOf(10, "1h");
    object.isReachable = false;
    await request(policy, 8);
    await pass(100);
    object.isReachable = true;
    const forgotten = client.forget(policy, "key");
    await pass(100);
    expect(await forgotten).toBe(true);
    await request(policy, 1);
    await pass(5_000);
    expect(remaining(policy)).toBe(9);
  });

  it("one call syncs up to 100 keys of a shard, and calls for new keys are sent up to ten times per second", async () => {
    const { object, request, pass } = simulateIsolate(50);
    const policy = sharded(policyOf(100, "1h"));
    for (let index = 0; index < 5_000; index++) {
      // oxlint-disable-next-line no-await-in-loop
      await request(policy, 1, `key-${(index * 7) % 250}`);
      // oxlint-disable-next-line no-await-in-loop
      await pass(2);
    }
    // 250 keys are new within half a second, and each call has up to 100 keys.
    expect(object.calls).toBeGreaterThan(15);
    expect(object.calls).toBeLessThan(45);
  });

  it("all keys are synced in turn when a reply has no room for all of them", async () => {
    const { object, request, pass, remaining } = simulateIsolate();
    const policy = sharded(policyOf(1_000, "1h"));
    replaceSync(object, (call, sync) => sync({ ...call, others: call.others?.slice(0, 3) ?? [] }));
    const keys = keysOf(30);
    for (let step = 0; step < 60; step++) {
      // oxlint-disable-next-line no-await-in-loop
      for (const key of keys) await request(policy, 1, key);
      // oxlint-disable-next-line no-await-in-loop
      await pass(50);
    }
    for (const key of keys) expect(remaining(policy, key)).toBeLessThan(980);
    await pass(5_000);
    for (const key of keys) expect(remaining(policy, key)).toBe(940);
  });

  it("an object of an older version, which accepts one key per call, counts every spend", async () => {
    const { object, request, pass, remaining } = simulateIsolate();
    const policy = sharded(policyOf(1_000, "1h"));
    replaceSync(object, (call, sync) => {
      const { snapshots, atMs } = sync({ ...call, others: [] });
      return { snapshots, atMs };
    });
    const keys = keysOf(30);
    for (const key of keys) expect(await request(policy, 2, key)).toBe(2);
    await pass(5_000);
    for (const key of keys) expect(remaining(policy, key)).toBe(998);
  });

  it("every spend is counted, even if the request that sends the sync is cut off", async () => {
    const { isCut, ...cut } = cuttingOff(2);
    const { request, pass, remaining } = simulateIsolate(5, cut);
    const policy = sharded(policyOf(1_000, "1h"));
    const keys = keysOf(250);
    for (const key of keys) await request(policy, 1, key);
    for (let step = 0; step < 40; step++) {
      // oxlint-disable-next-line no-await-in-loop
      await pass(500);
      // oxlint-disable-next-line no-await-in-loop
      await request(policy, 1, "another");
    }
    await pass(5_000);
    expect(isCut()).toBe(true);
    expect(keys.filter((key) => remaining(policy, key) !== 999)).toEqual([]);
  });

  it("a key that is used again after its sync was cut off is synced again", async () => {
    const { isCut, ...cut } = cuttingOff(1);
    const { request, pass, remaining } = simulateIsolate(5, cut);
    const policy = policyOf(1_000, "1h");
    await request(policy, 1);
    await pass(1_500);
    await request(policy, 1);
    await pass(60_000);
    expect([isCut(), remaining(policy)]).toEqual([true, 998]);
  });

  it("other keys are counted even if the object refuses one key of the sync", async () => {
    const { object, request, pass, remaining } = simulateIsolate();
    const policy = sharded(policyOf(1_000, "1h"));
    replaceSync(object, (call, sync) => {
      const others = call.others ?? [];
      const index = others.findIndex(({ key }) => key === "key-3");
      if (call.key === "key-3") throw new RangeError('unknown strategy "new-one"');
      return sync({ ...call, others: index < 0 ? others : others.slice(0, index) });
    });
    const keys = keysOf(10);
    for (let step = 0; step < 60; step++) {
      // oxlint-disable-next-line no-await-in-loop
      for (const key of keys) await request(policy, 1, key);
      // oxlint-disable-next-line no-await-in-loop
      await pass(1_000);
    }
    await pass(20_000);
    const countedUnits = keys.map((key) => 1_000 - (remaining(policy, key) ?? 0));
    expect(countedUnits).toEqual(keys.map((key) => (key === "key-3" ? 0 : 60)));
  });

  it("a key that was deleted is not synced endlessly", async () => {
    let reads = 0;
    const clockOf = (world: World): Clock => {
      const { now, after } = world.clock();
      // Fails instead of hanging if the isolate loops without waiting.
      const read = (): number => {
        reads += 1;
        if (reads > 200_000) throw new Error("the clock was read more than 200,000 times");
        return now();
      };
      return { now: read, after };
    };
    const { client, request, pass } = simulateIsolate(5, { clockOf });
    const policy = policyOf(1_000, "1h");
    await request(policy, 2);
    await pass(100);
    await request(policy, 1);
    for (const key of keysOf(2_100)) await request(policy, 1, key);
    void client.forget(policy, "key");
    await pass(10_000);
    expect(reads).toBeLessThan(100_000);
  });

  it("an unreachable object is called and logged once per second, however many keys are queued", async () => {
    const { object, request, pass } = simulateIsolate();
    const policy = sharded(policyOf(1_000, "1h"));
    object.isReachable = false;
    for (let index = 0; index < 2_000; index++) {
      // oxlint-disable-next-line no-await-in-loop
      await request(policy, 1, `key-${index}`);
      // oxlint-disable-next-line no-await-in-loop
      await pass(5);
    }
    expect(object.calls).toBeGreaterThan(5);
    expect(object.calls).toBeLessThan(13);
    expect(vi.mocked(console.error).mock.calls.length).toBeLessThan(30);
  });

  it.runIf(isFull)(
    "an isolate keeps the spends of at most 16,384 keys and 24 MB for an unreachable object",
    async () => {
      const { object, request, pass } = simulateIsolate();
      const policy = sharded(policyOf(1_000, "1h"));
      const syncedKeys = new Set<string>();
      replaceSync(object, (call, sync) => {
        for (const { key } of [call, ...(call.others ?? [])]) syncedKeys.add(key);
        return sync(call);
      });
      object.isReachable = false;
      for (const [index, key] of keysOf(20_000).entries()) {
        // oxlint-disable-next-line no-await-in-loop
        await request(policy, 1, key);
        // oxlint-disable-next-line no-await-in-loop
        if (index % 1_000 === 0) await pass(100);
      }
      object.isReachable = true;
      for (let step = 0; step < 30; step++) {
        // oxlint-disable-next-line no-await-in-loop
        await pass(1_000);
        // oxlint-disable-next-line no-await-in-loop
        await request(policy, 1, "another");
      }
      expect(syncedKeys.size).toBeGreaterThan(15_000);
      expect(syncedKeys.size).toBeLessThan(16_500);
    },
  );

  it("a rarely used key is synced once for each request", async () => {
    const { object, request, pass } = simulateIsolate();
    for (let index = 0; index < 20; index++) {
      // oxlint-disable-next-line no-await-in-loop
      await request(policyOf(100, "1h"), 1);
      // oxlint-disable-next-line no-await-in-loop
      await pass(5_000);
    }
    expect(object.calls).toBe(20);
  });
});
