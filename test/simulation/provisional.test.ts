/** Requests that several objects decide: what the first has spent is given back exactly when a later one denies. */
import { describe, expect, it } from "vitest";
import * as fc from "fast-check";
import type { Policy } from "../../src/config/index.ts";
import { LimiterClient } from "../../src/limiter/client/client.ts";
import type { CheckCall, CheckReply } from "../../src/limiter/protocol.ts";
import { createMeter, type LimitInput } from "../../src/strategies/index.ts";
import { forAll } from "../for-all.ts";
import { isFull } from "../mode.ts";
import { randomFrom } from "../random.ts";
import { TestObject } from "../fakes/isolate.ts";
import { policyWith } from "./schedule.ts";
import { type Network, ObjectOf, startMs, World } from "./world.ts";

type Objects = ConstructorParameters<typeof LimiterClient>[0];
type Stub = ReturnType<Objects["getByName"]>;

const hourMs = 3_600_000;

/** Every strategy and option whose refunds are exact (law 10 excepts elastic windows and queues). */
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

/** The objects of several keys, and what each was asked. */
class Fleet {
  readonly calls: string[] = [];
  readonly #objects = new Map<string, ObjectOf>();
  readonly #start: () => ObjectOf;

  constructor(world: World, seed: number, network: Network) {
    const random = randomFrom(seed);
    this.#start = () => new ObjectOf(world, random, network);
  }

  object(name: string): ObjectOf {
    const object = this.#objects.get(name) ?? this.#start();
    this.#objects.set(name, object);
    return object;
  }

  /** @param onChecked hears of the instants that a check of the tenant's object has booked */
  namespace(onChecked: (spentAtMs: readonly number[]) => void = () => undefined): Objects {
    const getByName = (name: string): Stub => {
      const stub = this.object(name)
        .namespace(0, () => true)
        .getByName(name);
      const check = async (call: CheckCall): Promise<CheckReply> => {
        this.calls.push(`check ${name}`);
        const verdict = await stub.check(call);
        if (name === "tenant") onChecked(verdict.spentAtMs);
        return verdict;
      };
      return { ...stub, check } as unknown as Stub;
    };
    return { getByName } as unknown as Objects;
  }
}

interface Flood {
  readonly seed: number;
  readonly mostDelayMs: number;
  readonly requests: number;
  readonly everyMs: number;
  /** The share of requests that the second object allows. */
  readonly allowed: number;
}

/** Floods a shared tenant key; each request is denied by its address, but for some. */
async function flooded(
  tenant: Policy,
  { seed, mostDelayMs, requests, everyMs, allowed }: Flood,
): Promise<{ left: unknown; expected: unknown; admitted: number; denied: number }> {
  const world = new World();
  const random = randomFrom(seed);
  const fleet = new Fleet(world, seed, { mostDelayMs, lost: 0, unanswered: 0 });
  const address = policyWith({
    name: "address",
    limits: { limit: 1, window: "1h", strategy: "sliding-log" },
    timeout: "2s",
    denyCache: false,
  });
  const spends: number[] = [];
  let denied = 0;
  const ask = async (ip: string): Promise<void> => {
    let spentAtMs: readonly number[] = [];
    // A client of its own for each request: nothing is remembered.
    const client = new LimiterClient(
      fleet.namespace((instants) => (spentAtMs = instants)),
      world.clock(),
    );
    const { isRefused } = await client.admit(
      [
        { policy: tenant, partitionKey: "tenant", cost: 1 },
        { policy: address, partitionKey: ip, cost: 1 },
      ],
      () => undefined,
    );
    if (isRefused) denied++;
    else spends.push(...spentAtMs);
  };
  for (let request = 0; request < requests; request++) {
    const ip = random() < allowed ? `ip-${request}` : "ip";
    world.at(startMs + request * everyMs + Math.floor(random() * everyMs), () => void ask(ip));
  }
  const endMs = startMs + requests * everyMs + 10_000;
  await world.runUntil(endMs);
  const charge = { policy: tenant.name, limits: tenant.limits, cost: 1 };
  const { decisions } = fleet.object("tenant").limiter.look({ key: "tenant", charges: [charge] });
  const twin = createMeter(tenant.limits);
  for (const atMs of spends.toSorted((a, b) => a - b)) twin.consume(1, atMs);
  return { left: decisions[0], expected: twin.look(1, endMs), admitted: spends.length, denied };
}

describe.each(Object.entries(limits))("a tenant's quota by %s", (_, limit) => {
  const tenant = policyWith({ name: "tenant", limits: limit, timeout: "2s" });

  it("loses nothing to a flood of requests that the policy by address denies, 20 of them in flight", async () => {
    const requests = isFull ? 2_000 : 300;
    const flood = { seed: 1, mostDelayMs: 20, requests, everyMs: 2, allowed: 0.05 };
    const { left, expected, admitted, denied } = await flooded(tenant, flood);
    expect(left).toEqual(expected);
    expect([admitted > requests / 40, denied > 0.9 * requests]).toEqual([true, true]);
  });

  it(
    "is the same after any flood as if the denied requests had never been",
    forAll(
      [
        fc.record({
          seed: fc.integer(),
          mostDelayMs: fc.constantFrom(0, 5, 50, 400),
          requests: fc.constant(120),
          everyMs: fc.constantFrom(1, 7, 30),
          allowed: fc.constantFrom(0, 0.1, 0.5),
        }),
      ],
      async (flood) => {
        const { left, expected } = await flooded(tenant, flood);
        expect(left).toEqual(expected);
      },
      3,
      12,
    ),
  );
});

describe("a provisional spend", () => {
  it("of a slot that is not given back is held for the whole window", async () => {
    const world = new World();
    const fleet = new Fleet(world, 1, { mostDelayMs: 5, lost: 0, unanswered: 0 });
    const client = new LimiterClient(fleet.namespace(), world.clock());
    const slots = policyWith({
      name: "slots",
      limits: { limit: 2, window: "1h", strategy: "concurrency" },
    });
    const other = policyWith({ name: "other", limits: "100/minute" });
    const admitted: boolean[] = [];
    const ask = async (): Promise<void> => {
      const { isRefused } = await client.admit(
        [
          { policy: slots, partitionKey: "tenant", cost: 1 },
          { policy: other, partitionKey: "ip", cost: 1 },
        ],
        () => undefined,
      );
      admitted.push(!isRefused);
    };
    for (const atMs of [0, 100, 200, 30_000, hourMs - 200, hourMs + 300]) {
      world.at(startMs + atMs, () => void ask());
    }
    await world.runUntil(startMs + hourMs + 10_000);
    expect(admitted).toEqual([true, true, false, false, false, true]);
  });

  it("does not count towards the reservations that a key may have open", async () => {
    const world = new World();
    const fleet = new Fleet(world, 1, { mostDelayMs: 0, lost: 0, unanswered: 0 });
    const client = new LimiterClient(fleet.namespace(), world.clock());
    const tenant = policyWith({ name: "tenant", limits: "5000/hour" });
    const other = policyWith({ name: "other", limits: "5000/hour" });
    let admitted = 0;
    const ask = async (): Promise<void> => {
      const { isRefused } = await client.admit(
        [
          { policy: tenant, partitionKey: "tenant", cost: 1 },
          { policy: other, partitionKey: "ip", cost: 1 },
        ],
        () => undefined,
      );
      if (!isRefused) admitted++;
    };
    for (let request = 0; request < 1_500; request++) world.at(startMs, () => void ask());
    await world.runUntil(startMs + 100);
    const reserving = client.reserve(
      { policy: tenant, partitionKey: "tenant", cost: 1 },
      60_000,
      () => undefined,
    );
    await world.runUntil(startMs + 200);
    const { address, fullForMs } = await reserving;
    expect([admitted, address === null, fullForMs]).toEqual([1_500, false, 0]);
  });
});

describe("a denial that is remembered", () => {
  it("is remembered for less than a second only while a spend is provisional, however often it is asked for", () => {
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
    const askEvery100 = (count: number): unknown[] =>
      Array.from({ length: count }, () => {
        object.clock.nowMs += 100;
        return check(3_000);
      });
    for (const provisionalMs of [0, 3_000, 1_000]) check(provisionalMs);
    const denials = askEvery100(40);
    expect(denials.slice(0, 29)).toEqual(denials.slice(0, 29).map(() => [true, 100]));
    expect(denials.slice(29)).toEqual(denials.slice(29).map(() => [true, undefined]));
  });

  it("by any of the request's policies answers before an object is asked or a unit is spent", async () => {
    for (const consistency of ["strict", "leased", "eventual"]) {
      const world = new World();
      const fleet = new Fleet(world, 1, { mostDelayMs: 0, lost: 0, unanswered: 0 });
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
      const ask = async (): Promise<readonly [boolean, readonly string[]]> => {
        const asking = client.admit(
          [
            { policy: tenant, partitionKey: "tenant", cost: 1 },
            { policy: address, partitionKey: "ip", cost: 1 },
          ],
          () => undefined,
        );
        // What the isolate decides by itself comes before the call of the next object.
        await new Promise(setImmediate);
        await world.runUntil(world.nowMs);
        const { isRefused, outcomes } = await asking;
        return [isRefused, outcomes.map(({ policy }) => policy.name)];
      };
      // oxlint-disable-next-line no-await-in-loop
      for (let request = 0; request < 4; request++) await ask();
      const before = [...fleet.calls];
      for (let request = 0; request < 50; request++) {
        // oxlint-disable-next-line no-await-in-loop
        expect(await ask()).toEqual([true, ["address"]]);
      }
      expect(fleet.calls).toEqual(before);
      // oxlint-disable-next-line no-await-in-loop
      await world.runUntil(world.nowMs + 10_000);
      const charge = { policy: tenant.name, limits: tenant.limits, cost: 1 };
      const { decisions } = fleet
        .object("tenant")
        .limiter.look({ key: "tenant", charges: [charge] });
      expect(decisions[0]?.limits[0]?.remaining).toBe(97);
    }
  });
});
