import { describe, expect, it, vi } from "vitest";
import { type FailureMode, parseConfig, type Policy } from "../../../src/config/index.ts";
import { LimiterClient } from "../../../src/limiter/client/client.ts";
import { admits, type Outcome, type Spend } from "../../../src/limiter/client/outcome.ts";
import { Limiter } from "../../../src/limiter/object/limiter.ts";
import type {
  CheckCall,
  RefundCall,
  ReserveCall,
  SettleCall,
  CheckReply,
} from "../../../src/limiter/protocol.ts";
import { newAddress } from "../../../src/limiter/client/reservation-id.ts";
import { createMeter, parseLimits } from "../../../src/strategies/index.ts";
import { MemoryStorage } from "../../fakes/memory-storage.ts";

type Objects = ConstructorParameters<typeof LimiterClient>[0];

/** Objects of which each call goes as `answer` does. */
const objectsThat = (answer: () => Promise<never>): Objects =>
  ({
    getByName: () => ({
      check: answer,
      look: answer,
      refund: answer,
      forget: answer,
      reserve: answer,
      settle: answer,
      renew: answer,
    }),
  }) as unknown as Objects;

/** Work that goes on after an answer: of an object that hangs, for ever. */
const waitUntil = (): void => undefined;

const faults = {
  throws: () => Promise.reject(new Error("broken.outputGateBroken")),
  "is overloaded": () =>
    Promise.reject(Object.assign(new Error("Too many requests queued."), { overloaded: true })),
  hangs: () => new Promise<never>(() => undefined),
};

const policyWith = (onError: FailureMode, name: string = onError, settings = {}): Policy => {
  const policies = [
    { name, limits: "2/minute", strategy: "fixed-window", onError, timeout: "20ms", ...settings },
  ];
  const [policy] = parseConfig({ KEY_SECRET: "s", POLICIES: policies }).policies;
  if (policy === undefined) throw new Error("a policy was configured");
  return policy;
};

const spendOf = (policy: Policy): Spend => ({ policy, partitionKey: "k", cost: 1 });

/** What came of each spend that was asked for. */
const admit = async (
  client: LimiterClient,
  spends: readonly Spend[],
  lasting: (work: Promise<unknown>) => void,
): Promise<Outcome[]> => (await client.admit(spends, lasting)).outcomes;

const quietly = async <Result>(act: () => Promise<Result>): Promise<[Result, string]> => {
  const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
  const result = await act();
  const said = errors.mock.calls.join();
  errors.mockRestore();
  return [result, said];
};

describe.each(Object.entries(faults))("while the object %s", (_, fault) => {
  it("a policy that is open lets everything in, and one that is closed nothing", async () => {
    const client = new LimiterClient(objectsThat(fault));
    const [[open], said] = await quietly(() =>
      admit(client, [spendOf(policyWith("open"))], waitUntil),
    );
    expect(open?.kind).toBe("open");
    expect(said).toContain('{"event":"object-silent","call":"check","policies":["open"]');
    const [look] = await quietly(() => client.look(spendOf(policyWith("open"))));
    expect(look.kind).toBe("open");
    const [[closed]] = await quietly(() =>
      admit(client, [spendOf(policyWith("closed"))], waitUntil),
    );
    expect(closed?.kind).toBe("closed");
  });

  it("a policy that is local goes on limiting by the isolate's own count", async () => {
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

  it("no local quota is spent on a request that another policy closes out", async () => {
    const client = new LimiterClient(objectsThat(fault));
    const local = spendOf(policyWith("local"));
    await quietly(() => admit(client, [local, spendOf(policyWith("closed"))], waitUntil));
    const [outcome] = await quietly(() => client.look(local));
    expect(outcome).toMatchObject({ kind: "local", decision: { limits: [{ remaining: 2 }] } });
  });

  it("what is reserved is spent by the failure mode, and cannot be settled", async () => {
    const client = new LimiterClient(objectsThat(fault));
    const reserving = () => client.reserve(spendOf(policyWith("local")), 1_000, waitUntil);
    for (const allowed of [true, true, false]) {
      // oxlint-disable-next-line no-await-in-loop
      const [{ outcome, address }] = await quietly(reserving);
      expect([outcome.kind, admits(outcome), address]).toEqual(["local", allowed, null]);
    }
    const address = newAddress("k", policyWith("local").objects);
    if (fault === faults.hangs) return;
    const [isSettled] = await quietly(() => client.settle(address, 0));
    expect(isSettled).toBeNull();
  });

  it("forgetting is not confirmed", async () => {
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

  it("the isolate goes on from what the object has admitted through it", async () => {
    const decision = createMeter(keyed("k").policy.limits).consume(1, Date.now());
    const answers = [{ decisions: [decision], spentAtMs: [Date.now()] }];
    const call = () => {
      const answer = answers.pop();
      return answer === undefined ? Promise.reject(new Error("gone")) : Promise.resolve(answer);
    };
    const client = new LimiterClient({ getByName: () => ({ check: call }) } as unknown as Objects);
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

  it("each call has the limits that it brings, and all keep what was spent of them", async () => {
    const client = new LimiterClient(objectsThat(faults.throws));
    const remaining: unknown[] = [];
    for (const limits of ["2/minute", "9/hour", "2/minute", "3/minute", "2/minute", "9/hour"]) {
      // oxlint-disable-next-line no-await-in-loop
      const [outcomes] = await quietly(() => admit(client, [bringing(limits)], waitUntil));
      const [outcome] = outcomes;
      if (outcome === undefined || !("decision" in outcome)) throw new Error("a decision was due");
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

  it("what it spent by itself is given back when the object of another key denies", async () => {
    const denying = policyWith("local", "denying");
    const denial = createMeter(denying.limits).consume(3, Date.now());
    const objects = {
      getByName: (name: string) => ({
        check: () =>
          name === "denied"
            ? Promise.resolve({ decisions: [denial], spentAtMs: [Date.now()] })
            : Promise.reject(new Error("gone")),
        look: faults.throws,
      }),
    } as unknown as Objects;
    const client = new LimiterClient(objects);
    const works: Promise<unknown>[] = [];
    await quietly(() =>
      admit(client, [keyed("lost"), keyed("denied", denying)], (work) => void works.push(work)),
    );
    await Promise.all(works);
    const [outcome] = await quietly(() => client.look(keyed("lost")));
    expect(outcome).toMatchObject({ kind: "local", decision: { limits: [{ remaining: 2 }] } });
  });
});

describe("an object that answers too late", () => {
  it("holds a request up for no longer than the policy's timeout", async () => {
    let isAnswered = false;
    const late = (): Promise<never> =>
      new Promise((_, reject) => {
        setTimeout(() => {
          isAnswered = true;
          reject(new Error("late"));
        }, 400);
      });
    const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
    await new LimiterClient(objectsThat(late)).admit([spendOf(policyWith("open"))], waitUntil);
    expect(isAnswered).toBe(false);
    errors.mockRestore();
  });
});

describe("an object that gave no answer", () => {
  it("is not asked for decisions again for a second, and then is", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    let asked = 0;
    const failing = (): Promise<never> => {
      asked++;
      return Promise.reject(new Error("gone"));
    };
    const client = new LimiterClient(objectsThat(failing));
    const spend = spendOf(policyWith("open"));
    const [, said] = await quietly(async () => {
      await client.admit([spend], waitUntil);
      await client.admit([spend], waitUntil);
      await client.look(spend);
      await client.reserve(spend, 1_000, waitUntil);
    });
    expect(asked).toBe(1);
    expect(said.match(/"event":"object-silent"/g)).toHaveLength(4);
    // Another is, and so is this one for what corrects its count.
    await quietly(() => admit(client, [{ ...spend, partitionKey: "other" }], waitUntil));
    await quietly(() => client.forget(spend.policy, "k"));
    expect(asked).toBe(3);
    vi.setSystemTime(Date.now() + 1_001);
    await quietly(() => admit(client, [spend], waitUntil));
    expect(asked).toBe(4);
    vi.useRealTimers();
  });
});

describe("an answer that comes too late", () => {
  /** A real limiter, in a process that is held up; its calls go on when they are let. */
  function heldUp(): { objects: Objects; goOn: () => Promise<unknown>; limiter: Limiter } {
    const waiting = Promise.withResolvers<void>();
    const storage = new MemoryStorage();
    const limiter = new Limiter({ storage, now: () => Date.now(), after: () => () => undefined });
    const first = async <Answer>(act: () => Answer): Promise<Answer> => {
      await waiting.promise;
      return act();
    };
    const stub = {
      check: (call: CheckCall) => first(() => limiter.check(call)),
      reserve: (call: ReserveCall) => first(() => limiter.reserve(call)),
      refund: (call: RefundCall) => Promise.resolve(limiter.refund(call)),
      settle: (call: SettleCall) => Promise.resolve(limiter.settle(call)),
    };
    return {
      objects: { getByName: () => stub } as unknown as Objects,
      goOn: () => Promise.resolve(waiting.resolve()),
      limiter,
    };
  }

  const slots = { limits: "3/hour", strategy: "concurrency" };

  const left = (limiter: Limiter, policy: Policy): number | undefined => {
    const charges = [{ policy: policy.name, limits: policy.limits, cost: 1 }];
    return limiter.look({ key: "k", charges }).decisions[0]?.limits[0]?.remaining;
  };

  it.each([
    ["closed", 3],
    ["open", 2],
    ["local", 2],
  ] as const)("to a check leaves what was spent where it was let in: %s", async (onError, rest) => {
    const { objects, goOn, limiter } = heldUp();
    const policy = policyWith(onError, onError, { limits: "3/hour" });
    const late: Promise<unknown>[] = [];
    const client = new LimiterClient(objects);
    await quietly(() => admit(client, [spendOf(policy)], (work) => void late.push(work)));
    await goOn();
    await Promise.all(late);
    expect(left(limiter, policy)).toBe(rest);
  });

  it.each(["closed", "open", "local"] as const)(
    "to a reservation, whose id nobody has, leaves no slot taken: %s",
    async (onError) => {
      const { objects, goOn, limiter } = heldUp();
      const policy = policyWith(onError, onError, slots);
      const late: Promise<unknown>[] = [];
      const client = new LimiterClient(objects);
      await quietly(() => client.reserve(spendOf(policy), 60_000, (work) => void late.push(work)));
      await goOn();
      await Promise.all(late);
      expect(left(limiter, policy)).toBe(3);
    },
  );
});

describe("the objects that are asked", () => {
  interface Asked {
    /** Jurisdiction, name and location hint. */
    readonly place: object;
    readonly call: CheckCall;
  }

  /** Objects that allow everything, and note what they were asked. */
  function allowing(): { objects: Objects; asked: Asked[] } {
    const asked: Asked[] = [];
    const within = (place: object): object => ({
      getByName: (name: string, { locationHint }: { locationHint?: string }) => ({
        check: (call: CheckCall): Promise<CheckReply> => {
          const near = locationHint === undefined ? {} : { locationHint };
          asked.push({ place: { ...place, name, ...near }, call });
          const decisions = call.charges.map(({ limits }) => createMeter(limits).consume(1, 1));
          return Promise.resolve({ decisions, spentAtMs: decisions.map(() => 1) });
        },
      }),
      jurisdiction: (jurisdiction: string) => within({ jurisdiction }),
    });
    return { objects: within({}) as Objects, asked };
  }

  const spending = (name: string, settings = {}, partitionKey = "AAAAAAAB"): Spend => ({
    policy: policyWith("local", name, settings),
    partitionKey,
    cost: 1,
  });

  it("are as near, as many and as bound to a place as the policy says", async () => {
    const { objects, asked } = allowing();
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
    await new LimiterClient(objects).admit(spends, waitUntil);
    expect(asked.map(({ place }) => place)).toEqual([
      { name: "AAAAAAAB" },
      { name: "AAAAAAAB@apac-se", locationHint: "apac-se" },
      { jurisdiction: "eu", name: "1-of-5@weur", locationHint: "weur" },
    ]);
  });

  it("are asked once for all policies that share a key and its object", async () => {
    const { objects, asked } = allowing();
    const sharded = { objects: "sharded" };
    const spends = [
      spending("a"),
      spending("b", sharded),
      spending("c"),
      spending("d", { ...sharded, shards: 32 }),
      spending("e", sharded, "AAAAAAAC"),
    ];
    await new LimiterClient(objects).admit(spends, waitUntil);
    const calls = asked.map(({ call: { key, charges } }) => [
      key,
      charges.map((each) => each.policy),
    ]);
    expect(calls).toEqual([
      ["AAAAAAAB", ["a", "c"]],
      ["AAAAAAAB", ["b", "d"]],
      ["AAAAAAAC", ["e"]],
    ]);
  });

  it("are asked for a confirmed decision if one of the policies is to be sure", async () => {
    const { objects, asked } = allowing();
    const sure = { durability: "confirmed" };
    await new LimiterClient(objects).admit([spending("a"), spending("b", sure)], waitUntil);
    await new LimiterClient(objects).admit([spending("a")], waitUntil);
    expect(asked.map(({ call }) => call.durability)).toEqual(["confirmed", "relaxed"]);
  });
});
