/** Denials that an isolate answers from its cache instead of calling the object. */
import { scopeOf } from "../../fakes/isolate.ts";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { parseConfig } from "../../../src/policy/vars/config.ts";
import type { Policy } from "../../../src/policy/policy.ts";
import { LimiterClient } from "../../../src/limiter/isolate/client.ts";
import { KeyObject } from "../../../src/limiter/object/key-object.ts";
import type { Spend } from "../../../src/limiter/isolate/outcome.ts";
import { type Decision, strategies } from "../../../src/strategies/index.ts";
import { MemoryStorage } from "../../../src/sdk/testing/memory-storage.ts";
import { forAll } from "../../for-all.ts";
import fc from "fast-check";

type Objects = ConstructorParameters<typeof LimiterClient>[0];

const startMs = Date.UTC(2100, 0, 1);
beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => void vi.useRealTimers());

const waitUntil = (): void => undefined;

/** A real limiter that records the names of its calls. Each call takes `takesMs`. */
function object(takesMs = 0): { objects: Objects; limiter: KeyObject; callNames: string[] } {
  const limiter = new KeyObject({
    storage: new MemoryStorage(),
    now: () => Date.now(),
    after: () => () => undefined,
  });
  const callNames: string[] = [];
  const calls = limiter as unknown as Record<string, (...args: readonly unknown[]) => unknown>;
  const taking =
    (name: string) =>
    async (...args: readonly unknown[]): Promise<unknown> => {
      callNames.push(name);
      const answer = calls[name]?.apply(limiter, [...args]);
      vi.setSystemTime(Date.now() + takesMs);
      return answer;
    };
  const names = ["decide", "look", "forget", "reserve", "settle", "refund"];
  const stub = Object.fromEntries(names.map((name) => [name, taking(name)]));
  return { objects: { getByName: () => stub } as unknown as Objects, limiter, callNames };
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

const admit = async (client: LimiterClient, ...spends: readonly Spend[]): Promise<Decision> => {
  const [outcome] = (await client.admit(spends, scopeOf(waitUntil))).outcomes;
  if (outcome === undefined || outcome.decision === null) throw new Error("an object decided");
  return outcome.decision;
};

describe("S09: a client that sends far more requests than its limit", () => {
  it("denied requests of one key reach its object at most once a second, and are allowed exactly from the reset on", async () => {
    const { objects, callNames } = object();
    const client = new LimiterClient(objects);
    const spend = spendOf();
    const allowed: number[] = [];
    for (let atMs = 0; atMs < 180_000; atMs += 50) {
      vi.setSystemTime(startMs + atMs);
      // oxlint-disable-next-line no-await-in-loop
      if ((await admit(client, spend)).allowed) allowed.push(atMs);
    }
    expect(allowed).toEqual([0, 50, 60_000, 60_050, 120_000, 120_050]);
    expect(callNames.length).toBeLessThanOrEqual(6 + 180);
  });
});

describe("a cached denial", () => {
  it("a cached denial always equals the object's answer at that time, because its waits count down", async () => {
    const { objects, limiter, callNames } = object();
    const client = new LimiterClient(objects);
    const spend = spendOf({ limits: "2/minute; 9/hour" });
    await admit(client, spend);
    await admit(client, spend);
    await admit(client, spend);
    for (const sinceMs of [0, 1, 500, 999]) {
      vi.setSystemTime(startMs + sinceMs);
      // oxlint-disable-next-line no-await-in-loop
      const cachedDenial = await admit(client, spend);
      const charge = { policy: "p", limits: spend.policy.limits, cost: 1 };
      expect(cachedDenial).toEqual(limiter.look({ key: "k", charges: [charge] }).decisions[0]);
    }
    expect(callNames).toEqual(["decide", "decide", "decide"]);
    vi.setSystemTime(startMs + 1_000);
    await admit(client, spend);
    expect(callNames).toHaveLength(4);
  });

  it(
    "for every strategy, a cached denial denies only what the object would deny, with sufficient waits",
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
          const [expected] = limiter.look({ key: "k", charges: [charge] }).decisions;
          // oxlint-disable-next-line no-await-in-loop
          const decision = await admit(client, spend);
          expect(decision.allowed).toBe(expected?.allowed);
          if (decision.allowed) continue;
          expect(decision.limits[0]?.remaining).toBe(expected?.limits[0]?.remaining);
          expect(decision.retryAfterMs === null).toBe(expected?.retryAfterMs === null);
          expect(decision.retryAfterMs ?? 0).toBeGreaterThanOrEqual(expected?.retryAfterMs ?? 0);
        }
      },
    ),
  );

  it("a cached denial applies only to the same key, policies, limits and cost", async () => {
    const { objects, callNames } = object();
    const client = new LimiterClient(objects);
    const three = spendOf({}, 3);
    await admit(client, three);
    await admit(client, { ...three, partitionKey: "other" });
    await admit(client, three, spendOf({ name: "q" }));
    await admit(client, spendOf({}, 4));
    expect(callNames).toHaveLength(4);
    await admit(client, three);
    await admit(client, three, spendOf({ name: "q" }));
    expect(callNames).toHaveLength(4);
    expect((await admit(client, spendOf({ limits: "4/minute" }, 3))).allowed).toBe(true);
    expect(callNames).toHaveLength(5);
  });

  it("a spend on the key removes its cached denials, since their waits have become longer", async () => {
    const { objects, callNames } = object();
    const client = new LimiterClient(objects);
    const [two, one] = [spendOf({}, 2), spendOf()];
    await admit(client, one);
    await admit(client, two);
    await admit(client, one);
    expect((await admit(client, two)).limits[0]?.remaining).toBe(0);
    expect(callNames).toHaveLength(4);
  });

  it("a look is never answered from the deny cache, and the deletion of a key removes its cached denials", async () => {
    const { objects, callNames } = object();
    const client = new LimiterClient(objects);
    const three = spendOf({}, 3);
    await admit(client, three);
    await client.look(three, scopeOf());
    expect(callNames).toEqual(["decide", "decide"]);
    await client.forget(three.policy, "k");
    await admit(client, three);
    expect(callNames).toEqual(["decide", "decide", "forget", "decide"]);
  });

  it("a cached denial also answers the checks of a batch", async () => {
    const { objects, callNames } = object();
    const client = new LimiterClient(objects);
    const [three, one] = [spendOf({}, 3), spendOf()];
    const allowed = async (...spends: Spend[]): Promise<unknown[]> =>
      (
        await client.admitEach(
          spends.map((spend) => [spend]),
          scopeOf(waitUntil),
        )
      ).map(({ isRefused }) => !isRefused);
    expect(await allowed(three, one, three)).toEqual([false, true, false]);
    expect(await allowed(three, three)).toEqual([false, false]);
    expect(callNames).toEqual(["decide"]);
    expect(await allowed(three, one)).toEqual([false, true]);
    expect(callNames).toEqual(["decide", "decide"]);
  });
});

describe("a denial that is not cached", () => {
  it.for<[string, object]>([
    ["denyCache = false", { denyCache: false }],
    ["a concurrency limit, whose slots can be freed at any time", { strategy: "concurrency" }],
    ["an elastic window", { limits: { limit: 2, window: "1m", elastic: true } }],
    ["a denial that counts towards a ban", { ban: { after: 9, within: "1h", for: "1h" } }],
    ["a dry run, whose denials are logged", { dryRun: true }],
  ])("the deny cache is not used for %s", async ([, fields]) => {
    vi.spyOn(console, "warn").mockReturnValue(undefined);
    const { objects, callNames } = object();
    const client = new LimiterClient(objects);
    const spend = spendOf(fields, 3);
    for (let call = 0; call < 3; call++) {
      const work: Promise<unknown>[] = [];
      // oxlint-disable no-await-in-loop
      await client.admit(
        [spend],
        scopeOf((each) => void work.push(each)),
      );
      // Dry runs are decided in the background.
      await Promise.all(work);
      // oxlint-enable no-await-in-loop
    }
    expect(callNames).toHaveLength(3);
  });

  it("a denial is not cached while a reservation may still be refunded", async () => {
    const { objects, callNames } = object();
    const client = new LimiterClient(objects);
    const two = spendOf({}, 2);
    const { address } = await client.reserve([two], 60_000, scopeOf(waitUntil));
    await admit(client, two);
    await admit(client, two);
    expect(callNames).toEqual(["reserve", "decide", "decide"]);
    if (address !== null) await client.settle(address, 0);
    expect((await admit(client, two)).allowed).toBe(true);
  });

  it("a denial that counts towards a ban is not cached, and a denial by the ban is", async () => {
    const { objects, callNames } = object();
    const client = new LimiterClient(objects);
    const spend = spendOf({ ban: { after: 2, within: "1h", for: "1h" } }, 3);
    for (let call = 0; call < 6; call++) {
      // oxlint-disable-next-line no-await-in-loop
      await admit(client, spend);
    }
    vi.setSystemTime(startMs + 400);
    expect(await admit(client, spend)).toMatchObject({ bannedForMs: 3_599_600 });
    expect(callNames).toHaveLength(3);
  });
});
