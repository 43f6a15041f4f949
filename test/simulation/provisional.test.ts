/**
 * Requests that several objects decide: when a later object denies, the spend in the first object is refunded exactly.
 */
import { scopeOf } from "../fakes/isolate.ts";
import { describe, expect, it } from "vitest";
import * as fc from "fast-check";
import type { Policy } from "../../src/policy/policy.ts";
import { LimiterClient } from "../../src/limiter/isolate/client.ts";
import type { FlatList } from "../../src/limiter/flat-calls.ts";
import { createMeter, type LimitInput } from "../../src/strategies/index.ts";
import { forAll } from "../for-all.ts";
import { isFull } from "../mode.ts";
import { randomFrom } from "../random.ts";
import { nestedReplies } from "../fakes/key-checks.ts";
import { TestObject } from "../fakes/test-object.ts";
import { policyWith } from "./schedule.ts";
import { type Network, SimulatedObject, startMs, World } from "./world.ts";

type Objects = ConstructorParameters<typeof LimiterClient>[0];
type Stub = ReturnType<Objects["getByName"]>;

const hourMs = 3_600_000;

/** Every strategy and option with exact refunds. Law 10 excepts elastic windows and queues. */
const limits: Readonly<Record<string, LimitInput>> = {
  "fixed window": { limit: 1_000, window: "1h", strategy: "fixed-window" },
  "fixed window by the clock": {
    limit: 1_000,
    window: "1h",
    strategy: "fixed-window",
    align: "clock",
  },
  "sliding log": { limit: 1_000, window: "1h", strategy: "sliding-log" },
  "sliding window counter": { limit: 1_000, window: "1h", strategy: "sliding-window-counter" },
  "sliding buckets": { limit: 1_000, window: "1h", strategy: "sliding-buckets" },
  "token bucket": { limit: 1_000, window: "1h", strategy: "token-bucket" },
  "token bucket by the interval": {
    limit: 1_000,
    window: "1h",
    strategy: "token-bucket",
    refill: "interval",
  },
  "leaky bucket": { limit: 1_000, window: "1h", strategy: "leaky-bucket", mode: "police" },
  concurrency: { limit: 1_000, window: "1h", strategy: "concurrency" },
};

/** The objects of several keys, and the calls that they received. */
class Fleet {
  readonly calls: string[] = [];
  readonly #objects = new Map<string, SimulatedObject>();
  readonly #start: () => SimulatedObject;

  constructor(world: World, seed: number, network: Network) {
    const random = randomFrom(seed);
    this.#start = () => new SimulatedObject(world, random, network);
  }

  object(name: string): SimulatedObject {
    const object = this.#objects.get(name) ?? this.#start();
    this.#objects.set(name, object);
    return object;
  }

  /** @param onChecked is called with the times at which a check of the tenant's object was booked */
  namespace(onChecked: (spentAtMs: readonly number[]) => void = () => undefined): Objects {
    const getByName = (name: string): Stub => {
      const stub = this.object(name)
        .namespace(0, () => true)
        .getByName(name);
      const decide = async (texts: readonly string[], checks: FlatList): Promise<FlatList> => {
        this.calls.push(`check ${name}`);
        const replies = await stub.decide(texts, checks);
        const [reply] = nestedReplies({ texts, checks }, replies);
        if (name === "tenant" && reply !== undefined) onChecked(reply.spentAtMs);
        return replies;
      };
      return { ...stub, decide } as unknown as Stub;
    };
    return { getByName } as unknown as Objects;
  }
}

interface Flood {
  readonly seed: number;
  readonly maximumDelayMs: number;
  readonly requests: number;
  readonly everyMs: number;
  /** The share of requests that the second object allows. */
  readonly allowed: number;
}

/** Sends many requests on the key of a shared tenant. The policy on the client's address denies most of them. */
async function floodTenant(
  tenant: Policy,
  { seed, maximumDelayMs, requests, everyMs, allowed }: Flood,
): Promise<{ state: unknown; expected: unknown; admitted: number; denied: number }> {
  const world = new World();
  const random = randomFrom(seed);
  const fleet = new Fleet(world, seed, { maximumDelayMs, lost: 0, unanswered: 0 });
  const address = policyWith({
    name: "address",
    limits: { limit: 1, window: "1h", strategy: "sliding-log" },
    timeout: "2s",
    denyCache: false,
  });
  const spends: number[] = [];
  let denied = 0;
  const request = async (ip: string): Promise<void> => {
    let spentAtMs: readonly number[] = [];
    // Uses a new client for each request, so that no denial is cached.
    const client = new LimiterClient(
      fleet.namespace((instants) => (spentAtMs = instants)),
      world.clock(),
    );
    const { isRefused } = await client.admit(
      [
        { policy: tenant, partitionKey: "tenant", cost: 1 },
        { policy: address, partitionKey: ip, cost: 1 },
      ],
      scopeOf(),
    );
    if (isRefused) denied++;
    else spends.push(...spentAtMs);
  };
  for (let index = 0; index < requests; index++) {
    const ip = random() < allowed ? `ip-${index}` : "ip";
    world.at(startMs + index * everyMs + Math.floor(random() * everyMs), () => void request(ip));
  }
  const endMs = startMs + requests * everyMs + 10_000;
  await world.runUntil(endMs);
  const charge = { policy: tenant.name, limits: tenant.limits, cost: 1 };
  const { decisions } = fleet.object("tenant").limiter.look({ key: "tenant", charges: [charge] });
  const twin = createMeter(tenant.limits);
  for (const atMs of spends.toSorted((a, b) => a - b)) twin.consume(1, atMs);
  return { state: decisions[0], expected: twin.look(1, endMs), admitted: spends.length, denied };
}

describe.each(Object.entries(limits))("a tenant's quota by %s", (strategy, limit) => {
  const tenant = policyWith({ name: "tenant", limits: limit, timeout: "2s" });

  it(`requests that another policy denies leave no trace in the ${strategy} of their tenant`, async () => {
    const requests = isFull ? 2_000 : 300;
    const flood = { seed: 1, maximumDelayMs: 20, requests, everyMs: 2, allowed: 0.05 };
    const { state, expected, admitted, denied } = await floodTenant(tenant, flood);
    expect(state).toEqual(expected);
    expect([admitted > requests / 40, denied > 0.9 * requests]).toEqual([true, true]);
  });

  it(
    `after any random flood, a tenant's ${strategy} equals one without the denied requests`,
    forAll(
      [
        fc.record({
          seed: fc.integer(),
          maximumDelayMs: fc.constantFrom(0, 5, 50, 400),
          requests: fc.constant(120),
          everyMs: fc.constantFrom(1, 7, 30),
          allowed: fc.constantFrom(0, 0.1, 0.5),
        }),
      ],
      async (flood) => {
        const { state, expected } = await floodTenant(tenant, flood);
        expect(state).toEqual(expected);
      },
      12,
      2,
    ),
  );
});

describe("a provisional spend", () => {
  it("a provisional concurrency slot that becomes final is occupied for the whole window", async () => {
    const world = new World();
    const fleet = new Fleet(world, 1, { maximumDelayMs: 5, lost: 0, unanswered: 0 });
    const client = new LimiterClient(fleet.namespace(), world.clock());
    const slots = policyWith({
      name: "slots",
      limits: { limit: 2, window: "1h", strategy: "concurrency" },
    });
    const other = policyWith({ name: "other", limits: "100/minute" });
    const admitted: boolean[] = [];
    const request = async (): Promise<void> => {
      const { isRefused } = await client.admit(
        [
          { policy: slots, partitionKey: "tenant", cost: 1 },
          { policy: other, partitionKey: "ip", cost: 1 },
        ],
        scopeOf(),
      );
      admitted.push(!isRefused);
    };
    for (const atMs of [0, 100, 200, 30_000, hourMs - 200, hourMs + 300]) {
      world.at(startMs + atMs, () => void request());
    }
    await world.runUntil(startMs + hourMs + 10_000);
    expect(admitted).toEqual([true, true, false, false, false, true]);
  });

  it("provisional spends do not count towards the 1,000 open reservations of a key", async () => {
    const world = new World();
    const fleet = new Fleet(world, 1, { maximumDelayMs: 0, lost: 0, unanswered: 0 });
    const client = new LimiterClient(fleet.namespace(), world.clock());
    const tenant = policyWith({ name: "tenant", limits: "5000/hour" });
    const other = policyWith({ name: "other", limits: "5000/hour" });
    let admitted = 0;
    const request = async (): Promise<void> => {
      const { isRefused } = await client.admit(
        [
          { policy: tenant, partitionKey: "tenant", cost: 1 },
          { policy: other, partitionKey: "ip", cost: 1 },
        ],
        scopeOf(),
      );
      if (!isRefused) admitted++;
    };
    for (let index = 0; index < 1_500; index++) world.at(startMs, () => void request());
    await world.runUntil(startMs + 100);
    const reserving = client.reserve([{ policy: tenant, partitionKey: "tenant", cost: 1 }], 60_000, scopeOf());
    await world.runUntil(startMs + 200);
    const { address, fullForMs } = await reserving;
    expect([admitted, address === null, fullForMs]).toEqual([1_500, false, 0]);
  });
});

describe("a cached denial", () => {
  it("a denial is cached for a full second, or for less if a provisional spend may be refunded sooner", () => {
    const object = new TestObject();
    const charge = { policy: "p", limits: policyWith({ limits: "3/hour" }).limits, cost: 1 };
    const check = (provisionalMs: number): unknown[] => {
      const { isFirm, firmForMs } = object.limiter.check({
        key: "k",
        charges: [charge],
        provisionalMs,
      });
      return [isFirm, firmForMs];
    };
    const checkEvery100Ms = (count: number): unknown[] =>
      Array.from({ length: count }, () => {
        object.nowMs += 100;
        return check(3_000);
      });
    for (const provisionalMs of [0, 3_000, 1_000]) check(provisionalMs);
    const denials = checkEvery100Ms(40);
    expect(denials.slice(0, 29)).toEqual(denials.slice(0, 29).map(() => [true, 100]));
    expect(denials.slice(29)).toEqual(denials.slice(29).map(() => [true, undefined]));
  });

  it("a cached denial by any policy of a request is used before an object is called or a unit is spent", async () => {
    for (const consistency of ["strict", "leased", "eventual"]) {
      const world = new World();
      const fleet = new Fleet(world, 1, { maximumDelayMs: 0, lost: 0, unanswered: 0 });
      const client = new LimiterClient(fleet.namespace(), world.clock());
      const tenant = policyWith({
        name: "tenant",
        limits: { limit: 100, window: "1h", strategy: "sliding-log" },
        consistency,
      });
      const address = policyWith({
        name: "address",
        limits: { limit: 3, window: "1h", strategy: "sliding-log" },
      });
      const request = async (): Promise<readonly [boolean, readonly string[]]> => {
        const admission = client.admit(
          [
            { policy: tenant, partitionKey: "tenant", cost: 1 },
            { policy: address, partitionKey: "ip", cost: 1 },
          ],
          scopeOf(),
        );
        // The isolate decides this spend before it calls the next object.
        await new Promise(setImmediate);
        await world.runUntil(world.nowMs);
        const { isRefused, outcomes } = await admission;
        return [isRefused, outcomes.map(({ policy }) => policy.name)];
      };
      // oxlint-disable-next-line no-await-in-loop
      for (let index = 0; index < 4; index++) await request();
      const before = [...fleet.calls];
      for (let index = 0; index < 50; index++) {
        // oxlint-disable-next-line no-await-in-loop
        expect(await request()).toEqual([true, ["address"]]);
      }
      expect(fleet.calls).toEqual(before);
      // oxlint-disable-next-line no-await-in-loop
      await world.runUntil(world.nowMs + 10_000);
      const charge = { policy: tenant.name, limits: tenant.limits, cost: 1 };
      const { decisions } = fleet.object("tenant").limiter.look({ key: "tenant", charges: [charge] });
      expect(decisions[0]?.limits[0]?.remaining).toBe(97);
    }
  });
});
