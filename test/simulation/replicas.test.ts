import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Policy } from "../../src/config/index.ts";
import { LimiterClient } from "../../src/limiter/client/client.ts";
import type { Clock } from "../../src/limiter/clock.ts";
import { admits } from "../../src/limiter/client/outcome.ts";
import type { SyncCall, SyncReply } from "../../src/limiter/protocol.ts";
import { isFull } from "../mode.ts";
import { randomFrom } from "../random.ts";
import { policyWith } from "./schedule.ts";
import { ObjectOf, World } from "./world.ts";

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

const keysOf = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `key-${index}`);

/** The object, as it answers syncs by `answering`, which has the code of now at hand. */
function answersSyncs(
  object: ObjectOf,
  answering: (call: SyncCall, sync: (call: SyncCall) => SyncReply) => unknown,
): void {
  const { limiter } = object;
  const sync = limiter.sync.bind(limiter);
  Object.assign(limiter, { sync: (call: SyncCall) => answering(call, sync) });
}

/** One of its calls is made by a request that is cut off: neither its answer comes nor its deadline. */
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
    /** Whether it has been, and others were made after it. */
    isCut: (): boolean => cuts > 0 && calls > call,
  };
}

function isolate(
  mostDelayMs = 5,
  { clockOf = (world: World): Clock => world.clock(), isAlive = (): boolean => true } = {},
) {
  const world = new World();
  const object = new ObjectOf(world, randomFrom(1), { mostDelayMs, lost: 0, unanswered: 0 });
  const client = new LimiterClient(object.namespace(0, isAlive), clockOf(world));
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
  const left = ({ limits }: Policy, key = "key"): number | undefined => {
    const charges = [{ policy: "p", limits, cost: 0 }];
    return object.limiter.look({ key, charges }).decisions[0]?.limits[0]?.remaining;
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
    const policy = sharded(policyOf(100, "1h"));
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

  it("comes to every key in turn of which an answer has no room for all", async () => {
    const { object, ask, pass, left } = isolate();
    const policy = sharded(policyOf(1_000, "1h"));
    answersSyncs(object, (call, sync) => sync({ ...call, others: call.others?.slice(0, 3) ?? [] }));
    const keys = keysOf(30);
    for (let turn = 0; turn < 60; turn++) {
      // oxlint-disable-next-line no-await-in-loop
      for (const key of keys) await ask(policy, 1, key);
      // oxlint-disable-next-line no-await-in-loop
      await pass(50);
    }
    for (const key of keys) expect(left(policy, key)).toBeLessThan(980);
    await pass(5_000);
    for (const key of keys) expect(left(policy, key)).toBe(940);
  });

  it("has all counted by an object of an older version, which hears of one key of a call", async () => {
    const { object, ask, pass, left } = isolate();
    const policy = sharded(policyOf(1_000, "1h"));
    answersSyncs(object, (call, sync) => {
      const { snapshots, atMs } = sync({ ...call, others: [] });
      return { snapshots, atMs };
    });
    const keys = keysOf(30);
    for (const key of keys) expect(await ask(policy, 2, key)).toBe(2);
    await pass(5_000);
    for (const key of keys) expect(left(policy, key)).toBe(998);
  });

  it("has all counted though a request was cut off that was to send it", async () => {
    const { isCut, ...cut } = cuttingOff(2);
    const { ask, pass, left } = isolate(5, cut);
    const policy = sharded(policyOf(1_000, "1h"));
    const keys = keysOf(250);
    for (const key of keys) await ask(policy, 1, key);
    for (let turn = 0; turn < 40; turn++) {
      // oxlint-disable-next-line no-await-in-loop
      await pass(500);
      // oxlint-disable-next-line no-await-in-loop
      await ask(policy, 1, "another");
    }
    await pass(5_000);
    expect(isCut()).toBe(true);
    expect(keys.filter((key) => left(policy, key) !== 999)).toEqual([]);
  });

  it("has all counted of a key that is asked for again while nobody waits for its answer", async () => {
    const { isCut, ...cut } = cuttingOff(1);
    const { ask, pass, left } = isolate(5, cut);
    const policy = policyOf(1_000, "1h");
    await ask(policy, 1);
    await pass(1_500);
    await ask(policy, 1);
    await pass(60_000);
    expect([isCut(), left(policy)]).toEqual([true, 998]);
  });

  it("has all counted but what the object cannot take", async () => {
    const { object, ask, pass, left } = isolate();
    const policy = sharded(policyOf(1_000, "1h"));
    answersSyncs(object, (call, sync) => {
      const others = call.others ?? [];
      const index = others.findIndex(({ key }) => key === "key-3");
      if (call.key === "key-3") throw new RangeError('unknown strategy "new-one"');
      return sync({ ...call, others: index < 0 ? others : others.slice(0, index) });
    });
    const keys = keysOf(10);
    for (let turn = 0; turn < 60; turn++) {
      // oxlint-disable-next-line no-await-in-loop
      for (const key of keys) await ask(policy, 1, key);
      // oxlint-disable-next-line no-await-in-loop
      await pass(1_000);
    }
    await pass(20_000);
    const counted = keys.map((key) => 1_000 - (left(policy, key) ?? 0));
    expect(counted).toEqual(keys.map((key) => (key === "key-3" ? 0 : 60)));
  });

  it("has nothing more to send of a key that was forgotten meanwhile", async () => {
    let reads = 0;
    const clockOf = (world: World): Clock => {
      const { now, after } = world.clock();
      // What goes on and on without waiting would not let a test end.
      const read = (): number => {
        reads += 1;
        if (reads > 200_000) throw new Error("asked for the time again and again");
        return now();
      };
      return { now: read, after };
    };
    const { client, ask, pass } = isolate(5, { clockOf });
    const policy = policyOf(1_000, "1h");
    await ask(policy, 2);
    await pass(100);
    await ask(policy, 1);
    for (const key of keysOf(2_100)) await ask(policy, 1, key);
    void client.forget(policy, "key");
    await pass(10_000);
    expect(reads).toBeLessThan(100_000);
  });

  it("tries a silent object once a second, and says so as often, however many keys are waiting", async () => {
    const { object, ask, pass } = isolate();
    const policy = sharded(policyOf(1_000, "1h"));
    object.isReachable = false;
    for (let request = 0; request < 2_000; request++) {
      // oxlint-disable-next-line no-await-in-loop
      await ask(policy, 1, `key-${request}`);
      // oxlint-disable-next-line no-await-in-loop
      await pass(5);
    }
    expect(object.calls).toBeGreaterThan(5);
    expect(object.calls).toBeLessThan(13);
    expect(vi.mocked(console.error).mock.calls.length).toBeLessThan(30);
  });

  it.runIf(isFull)("keeps so many keys for an object that is silent, and no more", async () => {
    const { object, ask, pass } = isolate();
    const policy = sharded(policyOf(1_000, "1h"));
    const counted = new Set<string>();
    answersSyncs(object, (call, sync) => {
      for (const { key } of [call, ...(call.others ?? [])]) counted.add(key);
      return sync(call);
    });
    object.isReachable = false;
    for (const [index, key] of keysOf(20_000).entries()) {
      // oxlint-disable-next-line no-await-in-loop
      await ask(policy, 1, key);
      // oxlint-disable-next-line no-await-in-loop
      if (index % 1_000 === 0) await pass(100);
    }
    object.isReachable = true;
    for (let turn = 0; turn < 30; turn++) {
      // oxlint-disable-next-line no-await-in-loop
      await pass(1_000);
      // oxlint-disable-next-line no-await-in-loop
      await ask(policy, 1, "another");
    }
    expect(counted.size).toBeGreaterThan(16_000);
    expect(counted.size).toBeLessThan(16_500);
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
