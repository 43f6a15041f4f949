import { describe, expect, it, vi } from "vitest";
import { type FailureMode, parseConfig, type Policy } from "../../src/config/index.ts";
import { LimiterClient } from "../../src/limiter/client.ts";
import { admits, type Spend } from "../../src/limiter/outcome.ts";
import { createMeter, parseLimits } from "../../src/strategies/index.ts";

type Objects = ConstructorParameters<typeof LimiterClient>[0];

/** Objects of which each call goes as `answer` does. */
const objectsThat = (answer: () => Promise<never>): Objects =>
  ({
    getByName: () => ({ check: answer, look: answer, refund: answer, forget: answer }),
  }) as unknown as Objects;

/** Work that goes on after an answer, which some test waits for. */
const works: Promise<unknown>[] = [];
const later = (work: Promise<unknown>): void => void works.push(work);

const faults = {
  throws: () => Promise.reject(new Error("broken.outputGateBroken")),
  hangs: () => new Promise<never>(() => undefined),
};

const policyWith = (onError: FailureMode, name: string = onError): Policy => {
  const policies = [
    { name, limits: "2/minute", strategy: "fixed-window", onError, timeout: "20ms" },
  ];
  const [policy] = parseConfig({ KEY_SECRET: "s", POLICIES: policies }).policies;
  if (policy === undefined) throw new Error("a policy was configured");
  return policy;
};

const spendOf = (policy: Policy): Spend => ({ policy, partitionKey: "k", cost: 1 });

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
    const [[open], said] = await quietly(() => client.admit([spendOf(policyWith("open"))], later));
    expect(open?.kind).toBe("open");
    expect(said).toContain('{"event":"object-silent","call":"check","policies":["open"]');
    const [look] = await quietly(() => client.look(spendOf(policyWith("open"))));
    expect(look.kind).toBe("open");
    const [[closed]] = await quietly(() => client.admit([spendOf(policyWith("closed"))], later));
    expect(closed?.kind).toBe("closed");
  });

  it("a policy that is local goes on limiting by the isolate's own count", async () => {
    const client = new LimiterClient(objectsThat(fault));
    const spend = spendOf(policyWith("local"));
    const admitted = [];
    for (let request = 0; request < 4; request++) {
      // oxlint-disable-next-line no-await-in-loop
      const [outcomes] = await quietly(() => client.admit([spend], later));
      expect(outcomes[0]?.kind).toBe("local");
      admitted.push(outcomes.every(admits));
    }
    expect(admitted).toEqual([true, true, false, false]);
  });

  it("no local quota is spent on a request that another policy closes out", async () => {
    const client = new LimiterClient(objectsThat(fault));
    const local = spendOf(policyWith("local"));
    await quietly(() => client.admit([local, spendOf(policyWith("closed"))], later));
    const [outcome] = await quietly(() => client.look(local));
    expect(outcome).toMatchObject({ kind: "local", decision: { limits: [{ remaining: 2 }] } });
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
    const answers = [{ decisions: [decision], decidedAtMs: Date.now() }];
    const call = () => {
      const answer = answers.pop();
      return answer === undefined ? Promise.reject(new Error("gone")) : Promise.resolve(answer);
    };
    const client = new LimiterClient({ getByName: () => ({ check: call }) } as unknown as Objects);
    const admitted = [];
    for (let request = 0; request < 3; request++) {
      // oxlint-disable-next-line no-await-in-loop
      const [outcomes] = await quietly(() => client.admit([keyed("k")], later));
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
      const [outcomes] = await quietly(() => client.admit([bringing(limits)], later));
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
            ? Promise.resolve({ decisions: [denial], decidedAtMs: Date.now() })
            : Promise.reject(new Error("gone")),
        look: faults.throws,
      }),
    } as unknown as Objects;
    const client = new LimiterClient(objects);
    await quietly(() => client.admit([keyed("lost"), keyed("denied", denying)], later));
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
    await new LimiterClient(objectsThat(late)).admit([spendOf(policyWith("open"))], later);
    expect(isAnswered).toBe(false);
    errors.mockRestore();
  });
});
