/** Objects on the platform whose storage or alarm fails. */
import { scopeOf } from "../../fakes/isolate.ts";
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { FailureMode } from "../../../src/policy/policy.ts";
import { parseConfig } from "../../../src/policy/vars/config.ts";
import { LimiterClient } from "../../../src/limiter/isolate/client.ts";
import type { Outcome, Spend } from "../../../src/limiter/isolate/outcome.ts";
import { at, call, charge, confirmed, eventsOf, newObject, remaining, startMs, type Stub, stored } from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => void vi.useRealTimers());

const broken = (): never => {
  throw new Error("storage is broken");
};

/** Makes one storage method of an object throw, until the object is evicted. */
const breakStorage = (object: Stub, method: "put" | "get" | "list" | "setAlarm" | "getAlarm"): Promise<void> =>
  runInDurableObject(object, (_, { storage }) => {
    const on = method === "get" || method === "list" ? storage.kv : storage;
    Object.assign(on, { [method]: broken });
  });

const objectOf = (partitionKey: string): Stub => env.RATE_LIMITER.getByName(partitionKey);

const spendOf = (partitionKey: string, onError: FailureMode): Spend => {
  const policies = [{ name: "p", limits: "3/hour", strategy: "fixed-window", onError }];
  const [policy] = parseConfig({ KEY_SECRET: "s", POLICIES: policies }).policies;
  if (policy === undefined) throw new Error("a policy was configured");
  return { policy, partitionKey, cost: 1 };
};

const admit = async (spend: Spend): Promise<Outcome | undefined> => {
  const client = new LimiterClient(env.RATE_LIMITER);
  const [outcome] = (await client.admit([spend], scopeOf())).outcomes;
  return outcome;
};

describe("an object whose storage throws", () => {
  it("while storage reads throw, the failure mode decides, and afterwards the object does", async () => {
    for (const onError of ["local", "open", "closed"] as const) {
      const key = crypto.randomUUID();
      // oxlint-disable no-await-in-loop
      await breakStorage(objectOf(key), "get");
      const events = await eventsOf(async () => {
        const outcome = await admit(spendOf(key, onError));
        expect(outcome?.kind).toBe(onError);
      });
      expect(events).toContain('"event":"object-silent","call":"check"');
      await evictDurableObject(objectOf(key));
      expect((await admit(spendOf(key, onError)))?.kind).toBe("decided");
      // oxlint-enable no-await-in-loop
    }
  });

  it("while storage writes throw, the object logs this and counts in memory, and the next change writes everything", async () => {
    const object = newObject();
    const each = charge("10/hour", 2);
    const events = await eventsOf(async () => {
      const put = await runInDurableObject(object, (_, { storage }) =>
        vi.spyOn(storage, "put").mockImplementation(broken),
      );
      await object.check(call(each));
      expect(await remaining(object, each)).toBe(8);
      put.mockRestore();
    });
    expect(events).toContain('"event":"write-failed","error":"Error: storage is broken"');
    // A change by another policy writes the whole row of the key.
    await object.check(call(charge("10/hour", 2, "other")));
    await evictDurableObject(object);
    expect(await remaining(object, each)).toBe(8);
    expect((await stored(object))[1]).not.toBeNull();
  });

  it("while only setAlarm throws, rows are still written, and the next change sets the alarm", async () => {
    const object = newObject();
    const each = charge("10/hour", 2);
    await breakStorage(object, "setAlarm");
    const events = await eventsOf(() => object.check(call(each)));
    expect(events).toBe('{"event":"alarm-failed","error":"Error: storage is broken"}');
    expect(await stored(object)).toEqual([["k k"], null]);
    await evictDurableObject(object);
    await object.check(call(each));
    expect(await remaining(object, each)).toBe(6);
    expect((await stored(object))[1]).not.toBeNull();
  });

  it("while getAlarm throws, the object logs this, and the next change sets the alarm", async () => {
    const object = newObject();
    const each = charge("10/hour", 2);
    await object.check(call(each));
    await runInDurableObject(object, (_, { storage }) => storage.deleteAlarm());
    await evictDurableObject(object);
    await breakStorage(object, "getAlarm");
    const events = await eventsOf(() => object.check(call(each)));
    expect(events).toBe('{"event":"alarm-failed","error":"Error: storage is broken"}');
    await runInDurableObject(object, (_, { storage }) => {
      Reflect.deleteProperty(storage, "getAlarm");
    });
    await object.check(confirmed(each));
    expect((await stored(object))[1]).not.toBeNull();
  });

  it("a background write that fails does not fail the checks after it", async () => {
    const object = newObject();
    await breakStorage(object, "put");
    const events = await eventsOf(async () => {
      for (let decision = 0; decision < 5; decision++) {
        // oxlint-disable-next-line no-await-in-loop
        const { decisions } = await object.check(confirmed(charge("10/hour")));
        expect(decisions[0]?.limits[0]?.remaining).toBe(9 - decision);
      }
    });
    expect(events).toContain("write-failed");
  });
});

describe("an object whose alarm throws", () => {
  it("a sweep that throws is logged and repeated after a minute", async () => {
    const object = newObject();
    await object.check(call(charge("5/minute")));
    at(120_000);
    const events = await eventsOf(async () => {
      await breakStorage(object, "list");
      await runDurableObjectAlarm(object);
    });
    expect(events).toContain('"event":"sweep-failed"');
    await evictDurableObject(object);
    expect(await stored(object)).toEqual([["k k"], 180_000]);
    at(180_000);
    await runDurableObjectAlarm(object);
    expect(await stored(object)).toEqual([[], null]);
  });

  it("when the alarm's sweep and the setting of a new alarm both fail, the next change sets an alarm", async () => {
    const object = newObject();
    await object.check(call(charge("5/minute")));
    at(120_000);
    await eventsOf(async () => {
      await breakStorage(object, "list");
      await breakStorage(object, "setAlarm");
      await expect(runDurableObjectAlarm(object)).rejects.toThrow("storage is broken");
    });
    // The platform drops an alarm whose handler keeps failing.
    await runInDurableObject(object, (_, { storage }) => storage.deleteAlarm());
    await evictDurableObject(object);
    await object.check(call(charge("5/minute")));
    expect(await stored(object)).toEqual([["k k"], 240_000]);
  });
});

describe("an object that is aborted during a call", () => {
  it("when an object is aborted during a call, the failure mode decides, and later calls see the stored state", async () => {
    const key = crypto.randomUUID();
    const object = objectOf(key);
    const spend = spendOf(key, "local");
    expect((await admit(spend))?.kind).toBe("decided");
    await evictDurableObject(object);
    await runInDurableObject(object, (_, state) => {
      Object.assign(state.storage.kv, { get: () => state.abort("the host goes away") });
    });
    const events = await eventsOf(async () => {
      expect(await admit(spend)).toMatchObject({ kind: "local", decision: { allowed: true } });
    });
    expect(events).toContain("object-silent");
    expect(await admit(spend)).toMatchObject({
      kind: "decided",
      decision: { limits: [{ remaining: 1 }] },
    });
  });
});
