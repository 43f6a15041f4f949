import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type FailureMode, parseConfig } from "../../../src/config/index.ts";
import { LimiterClient } from "../../../src/limiter/client/client.ts";
import type { Outcome, Spend } from "../../../src/limiter/client/outcome.ts";
import { parseLimits } from "../../../src/strategies/index.ts";
import {
  at,
  call,
  charge,
  confirmed,
  eventsOf,
  newObject,
  remaining,
  startMs,
  type Stub,
  stored,
} from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => void vi.useRealTimers());

const broken = (): never => {
  throw new Error("storage is broken");
};

/** Breaks an object's storage where it says; what is broken goes with the instance. */
const breakStorage = (
  object: Stub,
  method: "put" | "get" | "list" | "setAlarm" | "getAlarm",
): Promise<void> =>
  runInDurableObject(object, (_, { storage }) => {
    const on = method === "get" || method === "list" ? storage.kv : storage;
    Object.assign(on, { [method]: broken });
  });

/** An object of the client's, by the key it is asked for. */
const objectOf = (partitionKey: string): Stub => env.RATE_LIMITER.getByName(partitionKey);

const spendOf = (partitionKey: string, onError: FailureMode): Spend => {
  const policies = [{ name: "p", limits: "3/hour", strategy: "fixed-window", onError }];
  const [policy] = parseConfig({ KEY_SECRET: "s", POLICIES: policies }).policies;
  if (policy === undefined) throw new Error("a policy was configured");
  return { policy, partitionKey, cost: 1 };
};

const admit = async (spend: Spend): Promise<Outcome | undefined> => {
  const client = new LimiterClient(env.RATE_LIMITER);
  const [outcome] = (await client.admit([spend], () => undefined)).outcomes;
  return outcome;
};

describe("storage that throws", () => {
  it("when it is read: the caller has a decision by its failure mode, and the object recovers", async () => {
    for (const onError of ["local", "open", "closed"] as const) {
      const key = crypto.randomUUID();
      // oxlint-disable no-await-in-loop
      await breakStorage(objectOf(key), "get");
      const said = await eventsOf(async () => {
        const outcome = await admit(spendOf(key, onError));
        expect(outcome?.kind).toBe(onError);
      });
      expect(said).toContain('"event":"object-silent","call":"check"');
      await evictDurableObject(objectOf(key));
      expect((await admit(spendOf(key, onError)))?.kind).toBe("decided");
      // oxlint-enable no-await-in-loop
    }
  });

  it("when it is written: the count goes on in memory, says so, and is written with the next change", async () => {
    const object = newObject();
    const each = charge("10/hour", 2);
    const said = await eventsOf(async () => {
      const put = await runInDurableObject(object, (_, { storage }) =>
        vi.spyOn(storage, "put").mockImplementation(broken),
      );
      await object.check(call(each));
      expect(await remaining(object, each)).toBe(8);
      put.mockRestore();
    });
    expect(said).toContain('"event":"write-failed","error":"Error: storage is broken"');
    // Of another policy: the next change writes all there is of the key.
    await object.check(call(charge("10/hour", 2, "other")));
    await evictDurableObject(object);
    expect(await remaining(object, each)).toBe(8);
    expect((await stored(object))[1]).not.toBeNull();
  });

  it("when only its alarm is: the rows are none the worse for it, and the next sets it", async () => {
    const object = newObject();
    const each = charge("10/hour", 2);
    await breakStorage(object, "setAlarm");
    const said = await eventsOf(() => object.check(call(each)));
    expect(said).toBe('{"event":"alarm-failed","error":"Error: storage is broken"}');
    expect(await stored(object)).toEqual([["k k"], null]);
    await evictDurableObject(object);
    await object.check(call(each));
    expect(await remaining(object, each)).toBe(6);
    expect((await stored(object))[1]).not.toBeNull();
  });

  it("when it cannot say whether an alarm is set: says so, and the next change sets it", async () => {
    const object = newObject();
    const each = charge("10/hour", 2);
    await object.check(call(each));
    await runInDurableObject(object, (_, { storage }) => storage.deleteAlarm());
    await evictDurableObject(object);
    await breakStorage(object, "getAlarm");
    const said = await eventsOf(() => object.check(call(each)));
    expect(said).toBe('{"event":"alarm-failed","error":"Error: storage is broken"}');
    await runInDurableObject(object, (_, { storage }) => {
      Reflect.deleteProperty(storage, "getAlarm");
    });
    await object.check(confirmed(each));
    expect((await stored(object))[1]).not.toBeNull();
  });

  it("when an account goes out of memory or a timer fires, takes no answer with it", async () => {
    const object = newObject();
    await breakStorage(object, "put");
    const said = await eventsOf(async () => {
      for (let decision = 0; decision < 5; decision++) {
        // oxlint-disable-next-line no-await-in-loop
        const { decisions } = await object.check(confirmed(charge("10/hour")));
        expect(decisions[0]?.limits[0]?.remaining).toBe(9 - decision);
      }
    });
    expect(said).toContain("write-failed");
  });
});

describe("an alarm that throws", () => {
  it("says so, tries again in a minute, and sweeps then", async () => {
    const object = newObject();
    await object.check(call(charge("5/minute")));
    at(120_000);
    const said = await eventsOf(async () => {
      await breakStorage(object, "list");
      await runDurableObjectAlarm(object);
    });
    expect(said).toContain('"event":"sweep-failed"');
    await evictDurableObject(object);
    expect(await stored(object)).toEqual([["k k"], 180_000]);
    at(180_000);
    await runDurableObjectAlarm(object);
    expect(await stored(object)).toEqual([[], null]);
  });

  it("is not the end of its rows when even that fails", async () => {
    const object = newObject();
    await object.check(call(charge("5/minute")));
    at(120_000);
    await eventsOf(async () => {
      await breakStorage(object, "list");
      await breakStorage(object, "setAlarm");
      await expect(runDurableObjectAlarm(object)).rejects.toThrow("storage is broken");
    });
    // The platform has given up: the alarm is gone, until there is a next change.
    await runInDurableObject(object, (_, { storage }) => storage.deleteAlarm());
    await evictDurableObject(object);
    await object.check(call(charge("5/minute")));
    expect(await stored(object)).toEqual([["k k"], 240_000]);
  });
});

describe("an object that is aborted in mid-call", () => {
  it("leaves the caller a decision by its failure mode, and starts again with what was stored", async () => {
    const key = crypto.randomUUID();
    const object = objectOf(key);
    const spend = spendOf(key, "local");
    expect((await admit(spend))?.kind).toBe("decided");
    await evictDurableObject(object);
    await runInDurableObject(object, (_, state) => {
      Object.assign(state.storage.kv, { get: () => state.abort("the host goes away") });
    });
    const said = await eventsOf(async () => {
      expect(await admit(spend)).toMatchObject({ kind: "local", decision: { allowed: true } });
    });
    expect(said).toContain("object-silent");
    expect(await admit(spend)).toMatchObject({
      kind: "decided",
      decision: { limits: [{ remaining: 1 }] },
    });
  });
});

describe("a clock that steps", () => {
  const limits = [
    ["fixed-window", "5/minute"],
    ["sliding-log", "5/minute"],
    ["sliding-window-counter", "5/minute"],
    ["sliding-buckets", "5/minute"],
    ["token-bucket", "5/minute"],
    ["concurrency", "5/minute"],
  ] as const;

  it.each(limits)("back an hour: %s lets in no more, and is not frozen", async (strategy, text) => {
    const object = newObject();
    const each: [string, number, string, string] = [text, 1, "p", strategy];
    for (let spend = 0; spend < 5; spend++) {
      // oxlint-disable-next-line no-await-in-loop
      await object.check(call(charge(...each)));
    }
    at(-3_600_000);
    const { decisions } = await object.check(call(charge(...each)));
    expect(decisions[0]?.allowed).toBe(false);
    await evictDurableObject(object);
    at(-3_600_000 + (decisions[0]?.retryAfterMs ?? 0));
    expect((await object.check(call(charge(...each)))).decisions[0]?.allowed).toBe(true);
  });

  it.each(limits)(
    "forward a day: %s begins afresh, and so it does when it steps back again",
    async (strategy, text) => {
      const object = newObject();
      const each: [string, number, string, string] = [text, 1, "p", strategy];
      await object.check(call(charge(...each)));
      at(86_400_000);
      expect(await remaining(object, charge(...each))).toBe(5);
      await object.check(call(charge(...each)));
      at(1_000);
      const { decisions } = await object.look(call(charge(...each)));
      // What was spent a day ahead is booked again at this instant: neither freed nor frozen.
      expect(decisions[0]?.limits[0]).toMatchObject({ remaining: 4, allowed: true });
      expect(decisions[0]?.limits[0]?.resetAfterMs).toBeLessThanOrEqual(2 * 60_000);
    },
  );

  it("back an hour in the midst of a burst: what is written behind still is", async () => {
    const object = newObject();
    for (let spend = 0; spend < 5; spend++) {
      if (spend === 3) at(-3_600_000);
      // oxlint-disable-next-line no-await-in-loop
      await object.check(call(charge("10/day")));
    }
    await evictDurableObject(object);
    expect(await remaining(object, charge("10/day"))).toBe(5);
  });

  it("forward a day: its alarm sweeps what is over by then, and the object goes on", async () => {
    const object = newObject();
    await object.check({
      key: "k",
      charges: [{ policy: "p", limits: parseLimits("5/week"), cost: 1 }],
    });
    await object.check(call(charge("5/minute"), "short"));
    at(86_400_000);
    await runDurableObjectAlarm(object);
    expect((await stored(object))[0]).toEqual(["k k"]);
    at(0);
    expect(await remaining(object, charge("5/minute"), "short")).toBe(5);
  });
});
