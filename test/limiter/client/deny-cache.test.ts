import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { parseConfig, type Policy } from "../../../src/config/index.ts";
import { LimiterClient } from "../../../src/limiter/client/client.ts";
import { Limiter } from "../../../src/limiter/object/limiter.ts";
import type { Spend } from "../../../src/limiter/client/outcome.ts";
import { type Decision, strategies } from "../../../src/strategies/index.ts";
import { MemoryStorage } from "../../fakes/memory-storage.ts";
import { forAll } from "../../for-all.ts";
import fc from "fast-check";

type Objects = ConstructorParameters<typeof LimiterClient>[0];

const startMs = Date.UTC(2100, 0, 1);
beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => void vi.useRealTimers());

const waitUntil = (): void => undefined;

/** A real limiter; each call is counted, and its answer takes so long. */
function object(takesMs = 0): { objects: Objects; limiter: Limiter; asked: string[] } {
  const limiter = new Limiter({
    storage: new MemoryStorage(),
    now: () => Date.now(),
    after: () => () => undefined,
  });
  const asked: string[] = [];
  const calls = limiter as unknown as Record<string, (call: unknown) => unknown>;
  const taking =
    (name: string) =>
    async (call: unknown): Promise<unknown> => {
      asked.push(name);
      const answer = calls[name]?.(call);
      vi.setSystemTime(Date.now() + takesMs);
      return answer;
    };
  const names = ["check", "look", "batch", "forget", "reserve", "settle", "refund"];
  const stub = Object.fromEntries(names.map((name) => [name, taking(name)]));
  return { objects: { getByName: () => stub } as unknown as Objects, limiter, asked };
}

const policyOf = (fields: object = {}): Policy => {
  const policy = { name: "p", limits: "2/minute", strategy: "fixed-window", ...fields };
  const [read] = parseConfig({ KEY_SECRET: "s", POLICIES: [policy] }).policies;
  if (read === undefined) throw new Error("a policy was configured");
  return read;
};

const spendOf = (fields: object = {}, cost = 1): Spend => ({
  policy: policyOf(fields),
  partitionKey: "k",
  cost,
});

const ask = async (client: LimiterClient, ...spends: readonly Spend[]): Promise<Decision> => {
  const [outcome] = (await client.admit(spends, waitUntil)).outcomes;
  if (outcome === undefined || !("decision" in outcome)) throw new Error("an object decided");
  return outcome.decision;
};

describe("S09: a key that asks for far more than its limit", () => {
  it("reaches its object at most once a second while it is denied, and is right at the reset", async () => {
    const { objects, asked } = object();
    const client = new LimiterClient(objects);
    const spend = spendOf();
    const allowed: number[] = [];
    for (let atMs = 0; atMs < 180_000; atMs += 50) {
      vi.setSystemTime(startMs + atMs);
      // oxlint-disable-next-line no-await-in-loop
      if ((await ask(client, spend)).allowed) allowed.push(atMs);
    }
    expect(allowed).toEqual([0, 50, 60_000, 60_050, 120_000, 120_050]);
    expect(asked.length).toBeLessThanOrEqual(6 + 180);
  });
});

describe("a denial that is remembered", () => {
  it("is what the object would answer, and its waits count down", async () => {
    const { objects, limiter, asked } = object();
    const client = new LimiterClient(objects);
    const spend = spendOf({ limits: "2/minute; 9/hour" });
    await ask(client, spend);
    await ask(client, spend);
    await ask(client, spend);
    for (const sinceMs of [0, 1, 500, 999]) {
      vi.setSystemTime(startMs + sinceMs);
      // oxlint-disable-next-line no-await-in-loop
      const recalled = await ask(client, spend);
      const charge = { policy: "p", limits: spend.policy.limits, cost: 1 };
      expect(recalled).toEqual(limiter.look({ key: "k", charges: [charge] }).decisions[0]);
    }
    expect(asked).toEqual(["check", "check", "check"]);
    vi.setSystemTime(startMs + 1_000);
    await ask(client, spend);
    expect(asked).toHaveLength(4);
  });

  it(
    "is never one that the object would not give, for any strategy, and tells waits that suffice",
    forAll(
      [
        fc.constantFrom(...strategies.keys()),
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 200, max: 5_000 }),
        fc.nat({ max: 40 }),
        fc.array(fc.tuple(fc.nat({ max: 700 }), fc.integer({ min: 1, max: 4 })), {
          minLength: 5,
          maxLength: 60,
        }),
      ],
      async (strategy, limit, windowMs, takesMs, steps) => {
        vi.setSystemTime(startMs);
        const { objects, limiter } = object(takesMs);
        const client = new LimiterClient(objects);
        const window = `${windowMs}ms`;
        for (const [waitMs, cost] of steps) {
          vi.setSystemTime(Date.now() + waitMs);
          const spend = spendOf({ limits: { limit, window, strategy } }, cost);
          const charge = { policy: "p", limits: spend.policy.limits, cost };
          const [truth] = limiter.look({ key: "k", charges: [charge] }).decisions;
          // oxlint-disable-next-line no-await-in-loop
          const told = await ask(client, spend);
          expect(told.allowed).toBe(truth?.allowed);
          if (told.allowed) continue;
          expect(told.limits[0]?.remaining).toBe(truth?.limits[0]?.remaining);
          expect(told.retryAfterMs === null).toBe(truth?.retryAfterMs === null);
          expect(told.retryAfterMs ?? 0).toBeGreaterThanOrEqual(truth?.retryAfterMs ?? 0);
        }
      },
    ),
  );

  it("is of one cost, of the same policies, and of one key", async () => {
    const { objects, asked } = object();
    const client = new LimiterClient(objects);
    const three = spendOf({}, 3);
    await ask(client, three);
    await ask(client, { ...three, partitionKey: "other" });
    await ask(client, three, spendOf({ name: "q" }));
    await ask(client, spendOf({}, 4));
    expect(asked).toHaveLength(4);
    await ask(client, three);
    await ask(client, three, spendOf({ name: "q" }));
    expect(asked).toHaveLength(4);
    expect((await ask(client, spendOf({ limits: "4/minute" }, 3))).allowed).toBe(true);
    expect(asked).toHaveLength(5);
  });

  it("is forgotten once its isolate has spent on the key: less is left, and waits are longer", async () => {
    const { objects, asked } = object();
    const client = new LimiterClient(objects);
    const [two, one] = [spendOf({}, 2), spendOf()];
    await ask(client, one);
    await ask(client, two);
    await ask(client, one);
    expect((await ask(client, two)).limits[0]?.remaining).toBe(0);
    expect(asked).toHaveLength(4);
  });

  it("answers no look, and is forgotten with its key", async () => {
    const { objects, asked } = object();
    const client = new LimiterClient(objects);
    const three = spendOf({}, 3);
    await ask(client, three);
    await client.look(three);
    expect(asked).toEqual(["check", "look"]);
    await client.forget(three.policy, "k");
    await ask(client, three);
    expect(asked).toEqual(["check", "look", "forget", "check"]);
  });

  it("answers for the checks of a batch, each by itself", async () => {
    const { objects, asked } = object();
    const client = new LimiterClient(objects);
    const [three, one] = [spendOf({}, 3), spendOf()];
    const allowed = async (...spends: Spend[]): Promise<unknown[]> =>
      (await client.admitEach(spends, waitUntil)).map(
        (each) => "decision" in each && each.decision.allowed,
      );
    expect(await allowed(three, one, three)).toEqual([false, true, false]);
    expect(await allowed(three, three)).toEqual([false, false]);
    expect(asked).toEqual(["batch"]);
    expect(await allowed(three, one)).toEqual([false, true]);
    expect(asked).toEqual(["batch", "batch"]);
  });
});

describe("a denial that is not remembered", () => {
  it.for<[string, object]>([
    ["denyCache = false", { denyCache: false }],
    ["slots, which come free at any time", { strategy: "concurrency" }],
    ["an elastic window", { limits: { limit: 2, window: "1m", elastic: true } }],
    ["a ban that it may bring", { ban: { after: 9, within: "1h", for: "1h" } }],
    ["a dry run, which is told of each", { dryRun: true }],
  ])("is one of %s", async ([, fields]) => {
    vi.spyOn(console, "warn").mockReturnValue(undefined);
    const { objects, asked } = object();
    const client = new LimiterClient(objects);
    const spend = spendOf(fields, 3);
    for (let call = 0; call < 3; call++) {
      // oxlint-disable-next-line no-await-in-loop
      await client.admit([spend], waitUntil);
    }
    expect(asked).toHaveLength(3);
  });

  it("is one while a reservation may still be settled to less", async () => {
    const { objects, asked } = object();
    const client = new LimiterClient(objects);
    const two = spendOf({}, 2);
    const { address } = await client.reserve(two, 60_000, waitUntil);
    await ask(client, two);
    await ask(client, two);
    expect(asked).toEqual(["reserve", "check", "check"]);
    if (address !== null) await client.settle(address, 0);
    expect((await ask(client, two)).allowed).toBe(true);
  });

  it("is one of a ban that has begun: that one is", async () => {
    const { objects, asked } = object();
    const client = new LimiterClient(objects);
    const spend = spendOf({ ban: { after: 2, within: "1h", for: "1h" } }, 3);
    for (let call = 0; call < 6; call++) {
      // oxlint-disable-next-line no-await-in-loop
      await ask(client, spend);
    }
    vi.setSystemTime(startMs + 400);
    expect(await ask(client, spend)).toMatchObject({ bannedForMs: 3_599_600 });
    expect(asked).toHaveLength(3);
  });
});
