import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Policy } from "../../src/config/index.ts";
import { LimiterClient } from "../../src/limiter/client/client.ts";
import { Limiter } from "../../src/limiter/object/limiter.ts";
import type { LeaseCall, ReturnCall } from "../../src/limiter/protocol.ts";
import { strategies } from "../../src/strategies/index.ts";
import { forAll } from "../for-all.ts";
import { randomFrom } from "../random.ts";
import { type Admitted, mostIn } from "./admitted.ts";
import { disturbed, policyWith } from "./schedule.ts";
import { Isolate, ObjectOf, startMs, World } from "./world.ts";

beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

const policyOf = (limits: object, consistency = "leased", timeout = "1s"): Policy =>
  policyWith({
    limits,
    timeout,
    consistency,
    // Without the object's word, or a slice of its, nothing is let in; and a crash takes nothing.
    onError: "closed",
    durability: "confirmed",
  });

const schedule = fc.record({
  ...disturbed(4, [0, 5, 80, 600]),
  bursts: fc.array(
    fc.record({
      waitMs: fc.nat({ max: 900 }),
      isolate: fc.nat({ max: 3 }),
      times: fc.integer({ min: 1, max: 25 }),
      everyMs: fc.nat({ max: 30 }),
      units: fc.integer({ min: 1, max: 3 }),
      fault: fc.constantFrom("none", "none", "none", "none", "object", "isolate", "part", "meet"),
    }),
    { minLength: 1, maxLength: 25 },
  ),
});
type Schedule = typeof schedule extends fc.Arbitrary<infer Each> ? Each : never;

interface Played {
  readonly object: ObjectOf;
  /** By isolates from their slices, and by the object, each at the instant of its decision. */
  readonly admitted: readonly Admitted[];
  /** How much of it from slices. */
  readonly ownUnits: number;
}

async function played(policy: Policy, told: Schedule): Promise<Played> {
  const world = new World();
  const object = new ObjectOf(world, randomFrom(told.seed), told);
  const isolates = Array.from(
    { length: told.isolates },
    (_, index) => new Isolate(world, object, policy, index, told.skews[index] ?? 0),
  );
  let atMs = startMs;
  for (const { waitMs, isolate: index, times, everyMs, units, fault } of told.bursts) {
    atMs += waitMs;
    const isolate = isolates[index % isolates.length];
    world.at(atMs, () => {
      if (fault === "object") object.crash();
      if (fault === "isolate") isolate?.crash();
      if (fault === "part" || fault === "meet") object.isReachable = fault === "meet";
    });
    for (let time = 0; time < times; time++) {
      world.at(atMs + time * everyMs, () => void isolate?.ask(units));
    }
  }
  await world.runUntil(atMs + 5_000);
  const own = isolates.flatMap(({ admitted }) => admitted);
  return {
    object,
    admitted: [...own, ...object.admitted].toSorted((a, b) => a.atMs - b.atMs),
    ownUnits: own.reduce((sum, { units }) => sum + units, 0),
  };
}

const lendable = [...strategies.keys()].filter((name) => name !== "concurrency");

const limitOf = (strategy: string, limit: number, windowMs: number): object => ({
  limit,
  window: `${windowMs}ms`,
  strategy,
  ...(strategy === "leaky-bucket" && { mode: "police" }),
  ...(strategy === "sliding-buckets" && { buckets: 10 }),
});

describe("whatever the network, the isolates and the object do", () => {
  it.for([
    ["strict", 50, 500],
    ["leased", 300, 3_000],
  ] as const)(
    "%s: no more is admitted in any window than the strategy allows",
    async ([consistency, runs, fullRuns]) => {
      let spentFromSlices = 0;
      await forAll(
        [
          schedule,
          fc.constantFrom(...lendable),
          fc.integer({ min: 1, max: 400 }),
          fc.integer({ min: 20, max: 500 }),
        ],
        async (told, strategy, limit, tens) => {
          const windowMs = tens * 10;
          const policy = policyOf(limitOf(strategy, limit, windowMs), consistency);
          const [read] = policy.limits;
          if (read === undefined) throw new Error("a limit was configured");
          const { admitted, ownUnits } = await played(policy, told);
          const found = strategies.get(strategy);
          const bound = found?.mostPerWindow(found.complete(read)) ?? 0;
          expect(mostIn(windowMs, admitted)).toBeLessThanOrEqual(bound);
          spentFromSlices += ownUnits;
        },
        runs,
        fullRuns,
      )();
      // What lends nothing exceeds nothing.
      expect(spentFromSlices > 1_000).toBe(consistency === "leased");
    },
  );

  it("leased: what another key denies has not been charged, however long its denial took", async () => {
    await forAll(
      [
        fc.integer(),
        fc.constantFrom(0, 20, 300, 900),
        fc.integer({ min: 1, max: 40 }),
        fc.constantFrom("1s", "10s"),
      ],
      async (seed, mostDelayMs, everyMs, timeout) => {
        const world = new World();
        const random = randomFrom(seed);
        const object = new ObjectOf(world, random, { mostDelayMs, lost: 0, unanswered: 0 });
        const client = new LimiterClient(
          object.namespace(0, () => true),
          world.clock(),
        );
        const leased = policyOf(limitOf("sliding-log", 5_000, 3_600_000), "leased", timeout);
        const strict = policyWith({ limits: "20/second", timeout: "10s" });
        let admitted = 0;
        const ask = async (): Promise<void> => {
          const { isRefused } = await client.admit(
            [
              { policy: leased, partitionKey: "a", cost: 1 },
              { policy: strict, partitionKey: "b", cost: 1 },
            ],
            () => undefined,
          );
          if (!isRefused) admitted += 1;
        };
        for (let time = 0; time < 200; time++) {
          world.at(startMs + time * everyMs + Math.floor(random() * everyMs), () => void ask());
        }
        await world.runUntil(startMs + 30_000);
        const { limits } = leased;
        const { decisions } = object.limiter.look({
          key: "a",
          charges: [{ policy: leased.name, limits, cost: 0 }],
        });
        expect(decisions[0]?.limits[0]?.remaining).toBe(5_000 - admitted);
      },
      25,
      100,
    )();
  });

  it("leased: an object of an older version, which does not say what it has booked, is no fault", async () => {
    const world = new World();
    const network = { mostDelayMs: 20, lost: 0, unanswered: 0 };
    const object = new ObjectOf(world, randomFrom(1), network);
    const { limiter } = object;
    const lease = limiter.lease.bind(limiter);
    Object.assign(limiter, {
      lease: (call: LeaseCall) => ({ ...lease(call), settled: undefined }),
      giveBackSlices: (call: ReturnCall) =>
        void Limiter.prototype.giveBackSlices.call(limiter, call),
    });
    const client = new LimiterClient(
      object.namespace(0, () => true),
      world.clock(),
    );
    const leased = policyOf(limitOf("sliding-log", 5_000, 3_600_000));
    const strict = policyWith({ limits: "5/second" });
    const work: Promise<unknown>[] = [];
    const asked = [
      { policy: leased, partitionKey: "a", cost: 1 },
      { policy: strict, partitionKey: "b", cost: 1 },
    ];
    for (let time = 0; time < 400; time++) {
      world.at(startMs + time * 5, () => {
        work.push(client.admit(asked, (waitUntil) => void work.push(waitUntil)));
      });
    }
    await world.runUntil(startMs + 30_000);
    const ended = await Promise.allSettled(work);
    expect(ended.filter(({ status }) => status === "rejected")).toEqual([]);
  });

  it("leased: a busy isolate asks its object a few times a second, and spends the rest of its slices", async () => {
    const bursts = Array.from({ length: 50 }, () => ({
      waitMs: 100,
      isolate: 0,
      times: 100,
      everyMs: 1,
      units: 1,
      fault: "none",
    }));
    const quiet = { isolates: 1, skews: [], mostDelayMs: 20, lost: 0, unanswered: 0 };
    const told = { seed: 1, ...quiet, bursts } as unknown as Schedule;
    const policy = policyOf(limitOf("sliding-window-counter", 100_000, 60_000));
    const { object, admitted, ownUnits } = await played(policy, told);
    expect(mostIn(1_000_000, admitted)).toBe(5_000);
    expect(ownUnits).toBeGreaterThan(4_900);
    expect(object.calls).toBeLessThan(100);
  });
});
