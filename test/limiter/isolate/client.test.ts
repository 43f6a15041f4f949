/** Decisions of an isolate when objects fail or answer too late, and which objects it calls. */
import { scopeOf } from "../../fakes/isolate.ts";
import { describe, expect, it, vi } from "vitest";
import type { FailureMode, Policy } from "../../../src/policy/policy.ts";
import { parseConfig } from "../../../src/policy/vars/config.ts";
import { LimiterClient } from "../../../src/limiter/isolate/client.ts";
import { admits, type Outcome, type Spend } from "../../../src/limiter/isolate/outcome.ts";
import { KeyObject } from "../../../src/limiter/object/key-object.ts";
import type { CheckCall, RefundCall, ReserveCall, SettleCall } from "../../../src/limiter/protocol.ts";
import { newAddress } from "../../../src/limiter/isolate/reservation.ts";
import { createMeter, parseLimits } from "../../../src/strategies/index.ts";
import { decideBy } from "../../fakes/flat-calls.ts";
import { MemoryStorage } from "../../../src/sdk/testing/memory-storage.ts";

type Objects = ConstructorParameters<typeof LimiterClient>[0];

/** Objects on which every method calls `answer`. */
const objectsThat = (answer: () => Promise<never>): Objects =>
  ({
    getByName: () => ({
      decide: answer,
      look: answer,
      refund: answer,
      forget: answer,
      reserve: answer,
      settle: answer,
      renew: answer,
    }),
  }) as unknown as Objects;

/** Discards background work, which never ends when an object hangs. */
const waitUntil = (): void => undefined;

const faults = {
  throws: () => Promise.reject(new Error("broken.outputGateBroken")),
  "is overloaded": () => Promise.reject(Object.assign(new Error("Too many requests queued."), { overloaded: true })),
  hangs: () => new Promise<never>(() => undefined),
};

const policyWith = (onError: FailureMode, name: string = onError, settings = {}): Policy => {
  const policies = [{ name, limits: "2/minute", strategy: "fixed-window", onError, timeout: "20ms", ...settings }];
  const [policy] = parseConfig({ KEY_SECRET: "s", POLICIES: policies }).policies;
  if (policy === undefined) throw new Error("a policy was configured");
  return policy;
};

const spendOf = (policy: Policy): Spend => ({ policy, partitionKey: "k", cost: 1 });

const admit = async (
  client: LimiterClient,
  spends: readonly Spend[],
  lasting: (work: Promise<unknown>) => void,
): Promise<readonly Outcome[]> => (await client.admit(spends, scopeOf(lasting))).outcomes;

const quietly = async <Result>(act: () => Promise<Result>): Promise<[Result, string]> => {
  const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
  const result = await act();
  const events = errors.mock.calls.join();
  errors.mockRestore();
  return [result, events];
};

describe.each(Object.entries(faults))("while the object %s", (fails, fault) => {
  it(`onError = "open" allows and "closed" denies while the object ${fails}`, async () => {
    const client = new LimiterClient(objectsThat(fault));
    const [[open], events] = await quietly(() => admit(client, [spendOf(policyWith("open"))], waitUntil));
    expect(open?.kind).toBe("open");
    expect(events).toContain('{"event":"object-silent","call":"check","policies":["open"]');
    const [look] = await quietly(() => client.look(spendOf(policyWith("open")), scopeOf()));
    expect(look.kind).toBe("open");
    const [[closed]] = await quietly(() => admit(client, [spendOf(policyWith("closed"))], waitUntil));
    expect(closed?.kind).toBe("closed");
  });

  it(`onError = "local" limits by the isolate's own meters while the object ${fails}`, async () => {
    const client = new LimiterClient(objectsThat(fault));
    const spend = spendOf(policyWith("local"));
    const admitted = [];
    for (let request = 0; request < 4; request++) {
      // oxlint-disable-next-line no-await-in-loop
      const [outcomes] = await quietly(() => admit(client, [spend], waitUntil));
      expect(outcomes[0]?.kind).toBe("local");
      admitted.push(outcomes.every(admits));
    }
    expect(admitted).toEqual([true, true, false, false]);
  });

  it(`a request that a policy with onError = closed denies spends no local quota while the object ${fails}`, async () => {
    const client = new LimiterClient(objectsThat(fault));
    const local = spendOf(policyWith("local"));
    await quietly(() => admit(client, [local, spendOf(policyWith("closed"))], waitUntil));
    const [outcome] = await quietly(() => client.look(local, scopeOf()));
    expect(outcome).toMatchObject({ kind: "local", decision: { limits: [{ remaining: 2 }] } });
  });

  it(`a reservation follows the failure mode and has no id while the object ${fails}`, async () => {
    const client = new LimiterClient(objectsThat(fault));
    const reserving = () => client.reserve([spendOf(policyWith("local"))], 1_000, scopeOf(waitUntil));
    for (const allowed of [true, true, false]) {
      // oxlint-disable-next-line no-await-in-loop
      const [{ outcomes, address }] = await quietly(reserving);
      expect([outcomes.map(({ kind }) => kind), outcomes.every(admits), address]).toEqual([["local"], allowed, null]);
    }
    const address = newAddress("k", policyWith("local").objects);
    if (fault === faults.hangs) return;
    const [isSettled] = await quietly(() => client.settle(address, 0));
    expect(isSettled).toBeNull();
  });

  it(`the deletion of a key is not confirmed while the object ${fails}`, async () => {
    const client = new LimiterClient(objectsThat(fault));
    const [isForgotten] = await quietly(() => client.forget(policyWith("local"), "k"));
    expect(isForgotten).toBe(false);
  });
});

describe("when the object stops answering", () => {
  const keyed = (partitionKey: string, policy = policyWith("local")): Spend => ({
    policy,
    partitionKey,
    cost: 1,
  });

  it("when the object stops answering, the isolate continues from the counts that the object admitted through it", async () => {
    const decision = createMeter(keyed("k").policy.limits).consume(1, Date.now());
    const answers = [{ decisions: [decision], spentAtMs: [Date.now()] }];
    const call = async () => answers.pop() ?? Promise.reject(new Error("gone"));
    const stub = { decide: decideBy({ check: call }) };
    const client = new LimiterClient({ getByName: () => stub } as unknown as Objects);
    const admitted = [];
    for (let request = 0; request < 3; request++) {
      // oxlint-disable-next-line no-await-in-loop
      const [outcomes] = await quietly(() => admit(client, [keyed("k")], waitUntil));
      admitted.push(...outcomes.map((outcome) => [outcome.kind, admits(outcome)]));
    }
    expect(admitted).toEqual([
      ["decided", true],
      ["local", true],
      ["local", false],
    ]);
  });

  const bringing = (limits: string): Spend => ({
    policy: { ...policyWith("local"), limits: parseLimits(limits, { strategy: "fixed-window" }) },
    partitionKey: "k",
    cost: 1,
  });

  it("local meters apply the limits of each call, and keep spends that were made under the limits of other calls", async () => {
    const client = new LimiterClient(objectsThat(faults.throws));
    const remaining: unknown[] = [];
    for (const limits of ["2/minute", "9/hour", "2/minute", "3/minute", "2/minute", "9/hour"]) {
      // oxlint-disable-next-line no-await-in-loop
      const [outcomes] = await quietly(() => admit(client, [bringing(limits)], waitUntil));
      const [outcome] = outcomes;
      if (outcome === undefined || outcome.decision === null) throw new Error("a decision was due");
      remaining.push([outcome.decision.allowed, outcome.decision.limits[0]?.remaining]);
    }
    expect(remaining).toEqual([
      [true, 1],
      [true, 8],
      [true, 0],
      [true, 0],
      [false, 0],
      [true, 7],
    ]);
  });

  it("a local spend is refunded when the object of another key denies the request", async () => {
    const denying = policyWith("local", "denying");
    const denial = createMeter(denying.limits).consume(3, Date.now());
    const objects = {
      getByName: (name: string) => ({
        decide: decideBy({
          check: () =>
            name === "denied"
              ? Promise.resolve({ decisions: [denial], spentAtMs: [Date.now()] })
              : Promise.reject(new Error("gone")),
        }),
        look: faults.throws,
      }),
    } as unknown as Objects;
    const client = new LimiterClient(objects);
    const works: Promise<unknown>[] = [];
    await quietly(() => admit(client, [keyed("lost"), keyed("denied", denying)], (work) => void works.push(work)));
    await Promise.all(works);
    const [outcome] = await quietly(() => client.look(keyed("lost"), scopeOf()));
    expect(outcome).toMatchObject({ kind: "local", decision: { limits: [{ remaining: 2 }] } });
  });
});

describe("an object that answers too late", () => {
  it("a slow object delays a request by at most the policy's timeout", async () => {
    let isAnswered = false;
    const late = (): Promise<never> =>
      new Promise((_, reject) => {
        setTimeout(() => {
          isAnswered = true;
          reject(new Error("late"));
        }, 400);
      });
    const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
    await new LimiterClient(objectsThat(late)).admit([spendOf(policyWith("open"))], scopeOf(waitUntil));
    expect(isAnswered).toBe(false);
    errors.mockRestore();
  });
});

describe("an object that failed", () => {
  it("an object that failed gets no decision calls for one second, but still gets corrections", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    let calls = 0;
    const failing = (): Promise<never> => {
      calls++;
      return Promise.reject(new Error("gone"));
    };
    const client = new LimiterClient(objectsThat(failing));
    const spend = spendOf(policyWith("open"));
    const [, events] = await quietly(async () => {
      await client.admit([spend], scopeOf(waitUntil));
      await client.admit([spend], scopeOf(waitUntil));
      await client.look(spend, scopeOf());
      await client.reserve([spend], 1_000, scopeOf(waitUntil));
    });
    expect(calls).toBe(1);
    expect(events.match(/"event":"object-silent"/g)).toHaveLength(4);
    // During this second, other objects are called, and the failed object is called only for a deletion.
    await quietly(() => admit(client, [{ ...spend, partitionKey: "other" }], waitUntil));
    await quietly(() => client.forget(spend.policy, "k"));
    expect(calls).toBe(3);
    vi.setSystemTime(Date.now() + 1_001);
    await quietly(() => admit(client, [spend], waitUntil));
    expect(calls).toBe(4);
    vi.useRealTimers();
  });
});

describe("an answer after the deadline", () => {
  /** An object with a real limiter. Its checks and reservations wait until `proceed` is called. */
  function delayedObject(): {
    objects: Objects;
    proceed: () => Promise<unknown>;
    limiter: KeyObject;
  } {
    const waiting = Promise.withResolvers<void>();
    const storage = new MemoryStorage();
    const limiter = new KeyObject({ storage, now: () => Date.now(), after: () => () => undefined });
    const delayed = async <Answer>(act: () => Answer): Promise<Answer> => {
      await waiting.promise;
      return act();
    };
    const stub = {
      decide: decideBy({ check: (call) => delayed(() => limiter.check(call)) }),
      reserve: (call: ReserveCall) => delayed(() => limiter.reserve(call)),
      refund: (call: RefundCall) => Promise.resolve(limiter.refund(call)),
      settle: (call: SettleCall) => Promise.resolve(limiter.settle(call)),
    };
    return {
      objects: { getByName: () => stub } as unknown as Objects,
      proceed: () => Promise.resolve(waiting.resolve()),
      limiter,
    };
  }

  const slots = { limits: "3/hour", strategy: "concurrency" };

  const left = (limiter: KeyObject, policy: Policy): number | undefined => {
    const charges = [{ policy: policy.name, limits: policy.limits, cost: 1 }];
    return limiter.look({ key: "k", charges }).decisions[0]?.limits[0]?.remaining;
  };

  it.each([
    ["closed", 3],
    ["open", 2],
    ["local", 2],
  ] as const)(
    "a late check keeps its spend unless the failure mode denied the request: onError = %s",
    async (onError, rest) => {
      const { objects, proceed, limiter } = delayedObject();
      const policy = policyWith(onError, onError, { limits: "3/hour" });
      const late: Promise<unknown>[] = [];
      const client = new LimiterClient(objects);
      await quietly(() => admit(client, [spendOf(policy)], (work) => void late.push(work)));
      await proceed();
      await Promise.all(late);
      expect(left(limiter, policy)).toBe(rest);
    },
  );

  it.each(["closed", "open", "local"] as const)(
    "a late reservation, whose id no caller has, holds no slot: onError = %s",
    async (onError) => {
      const { objects, proceed, limiter } = delayedObject();
      const policy = policyWith(onError, onError, slots);
      const late: Promise<unknown>[] = [];
      const client = new LimiterClient(objects);
      await quietly(() =>
        client.reserve(
          [spendOf(policy)],
          60_000,
          scopeOf((work) => void late.push(work)),
        ),
      );
      await proceed();
      await Promise.all(late);
      expect(left(limiter, policy)).toBe(3);
    },
  );
});

describe("the objects that are called", () => {
  interface ObjectCall {
    /** The object's jurisdiction, name and location hint. */
    readonly location: object;
    readonly call: CheckCall;
  }

  /** Objects that allow everything and record their calls. */
  function allowing(): { objects: Objects; calls: ObjectCall[] } {
    const calls: ObjectCall[] = [];
    const within = (location: object): object => ({
      getByName: (name: string, { locationHint }: { locationHint?: string }) => ({
        decide: decideBy({
          check: (call) => {
            const near = locationHint === undefined ? {} : { locationHint };
            calls.push({ location: { ...location, name, ...near }, call });
            const decisions = call.charges.map(({ limits }) => createMeter(limits).consume(1, 1));
            return { decisions, spentAtMs: decisions.map(() => 1) };
          },
        }),
      }),
      jurisdiction: (jurisdiction: string) => within({ jurisdiction }),
    });
    return { objects: within({}) as Objects, calls };
  }

  const spending = (name: string, settings = {}, partitionKey = "AAAAAAAB"): Spend => ({
    policy: policyWith("local", name, settings),
    partitionKey,
    cost: 1,
  });

  it("an object is called with the policy's location hint, shard and jurisdiction", async () => {
    const { objects, calls } = allowing();
    const spends = [
      spending("own"),
      spending("near", { locationHint: "apac-se" }),
      spending("bound", {
        objects: "sharded",
        shards: 5,
        jurisdiction: "eu",
        locationHint: "weur",
      }),
    ];
    await new LimiterClient(objects).admit(spends, scopeOf(waitUntil));
    expect(calls.map(({ location }) => location)).toEqual([
      { name: "AAAAAAAB" },
      { name: "AAAAAAAB@apac-se", locationHint: "apac-se" },
      { jurisdiction: "eu", name: "1-of-5@weur", locationHint: "weur" },
    ]);
  });

  it("policies that share a key and its object settings are decided in one call", async () => {
    const { objects, calls } = allowing();
    const sharded = { objects: "sharded" };
    const spends = [
      spending("a"),
      spending("b", sharded),
      spending("c"),
      spending("d", { ...sharded, shards: 32 }),
      spending("e", sharded, "AAAAAAAC"),
    ];
    await new LimiterClient(objects).admit(spends, scopeOf(waitUntil));
    const charged = calls.map(({ call: { key, charges } }) => [key, charges.map((each) => each.policy)]);
    expect(charged).toEqual([
      ["AAAAAAAB", ["a", "c"]],
      ["AAAAAAAB", ["b", "d"]],
      ["AAAAAAAC", ["e"]],
    ]);
  });

  it('a call is confirmed when one of its policies has durability = "confirmed"', async () => {
    const { objects, calls } = allowing();
    const confirmed = { durability: "confirmed" };
    await new LimiterClient(objects).admit([spending("a"), spending("b", confirmed)], scopeOf(waitUntil));
    await new LimiterClient(objects).admit([spending("a")], scopeOf(waitUntil));
    expect(calls.map(({ call }) => call.durability)).toEqual(["confirmed", "relaxed"]);
  });
});
