/** Random schedules of isolates that borrow slices, with crashes, lost calls and wrong clocks. */
import { scopeOf } from "../fakes/isolate.ts";
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Policy } from "../../src/policy/policy.ts";
import { LimiterClient } from "../../src/limiter/isolate/client.ts";
import { KeyObject } from "../../src/limiter/object/key-object.ts";
import type { LeaseCall, ReturnCall } from "../../src/limiter/protocol.ts";
import { strategies } from "../../src/strategies/index.ts";
import { forAll } from "../for-all.ts";
import { randomFrom } from "../random.ts";
import { type Admitted, mostIn } from "./admitted.ts";
import { disturbed, policyWith } from "./schedule.ts";
import { SimulatedIsolate, SimulatedObject, startMs, World } from "./world.ts";

beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

const policyOf = (limits: object, consistency = "leased", timeout = "1s"): Policy =>
  policyWith({
    limits,
    timeout,
    consistency,
    // With these fields, only the object or a slice admits requests, and a crash loses nothing.
    onError: "closed",
    durability: "confirmed",
  });

const schedules = fc.record({
  ...disturbed(4, [0, 5, 80, 600]),
  bursts: fc.array(
    fc.record({
      waitMs: fc.nat({ max: 900 }),
      isolate: fc.nat({ max: 3 }),
      times: fc.integer({ min: 1, max: 25 }),
      everyMs: fc.nat({ max: 30 }),
      units: fc.integer({ min: 1, max: 3 }),
      fault: fc.constantFrom("none", "none", "none", "none", "object", "isolate", "disconnect", "connect"),
    }),
    { minLength: 1, maxLength: 25 },
  ),
});
type Schedule = typeof schedules extends fc.Arbitrary<infer Each> ? Each : never;

interface Result {
  readonly object: SimulatedObject;
  /** The units admitted by isolates from slices, and by the object, at the times of the decisions. */
  readonly admitted: readonly Admitted[];
  /** The units admitted from slices. */
  readonly sliceUnits: number;
}

async function simulate(policy: Policy, schedule: Schedule): Promise<Result> {
  const world = new World();
  const object = new SimulatedObject(world, randomFrom(schedule.seed), schedule);
  const isolates = Array.from(
    { length: schedule.isolates },
    (_, index) => new SimulatedIsolate(world, object, policy, index, schedule.skews[index] ?? 0),
  );
  let atMs = startMs;
  for (const { waitMs, isolate: index, times, everyMs, units, fault } of schedule.bursts) {
    atMs += waitMs;
    const isolate = isolates[index % isolates.length];
    world.at(atMs, () => {
      if (fault === "object") object.crash();
      if (fault === "isolate") isolate?.crash();
      if (fault === "disconnect") object.isReachable = false;
      if (fault === "connect") object.isReachable = true;
    });
    for (let time = 0; time < times; time++) {
      world.at(atMs + time * everyMs, () => void isolate?.request(units));
    }
  }
  await world.runUntil(atMs + 5_000);
  const fromSlices = isolates.flatMap(({ admitted }) => admitted);
  return {
    object,
    admitted: [...fromSlices, ...object.admitted].toSorted((a, b) => a.atMs - b.atMs),
    sliceUnits: fromSlices.reduce((sum, { units }) => sum + units, 0),
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

describe("strict and leased consistency under random faults", () => {
  it.for([
    ["strict", 500, 50],
    ["leased", 1_500, 250],
  ] as const)(
    "under random faults, %s consistency admits no more in any window than the strategy's bound",
    async ([consistency, runs, shortRuns]) => {
      let spentFromSlices = 0;
      await forAll(
        [schedules, fc.constantFrom(...lendable), fc.integer({ min: 1, max: 400 }), fc.integer({ min: 20, max: 500 })],
        async (schedule, strategy, limit, tens) => {
          const windowMs = tens * 10;
          const policy = policyOf(limitOf(strategy, limit, windowMs), consistency);
          const [read] = policy.limits;
          if (read === undefined) throw new Error("a limit was configured");
          const { admitted, sliceUnits } = await simulate(policy, schedule);
          const found = strategies.get(strategy);
          const bound = found?.mostPerWindow(found.complete(read)) ?? 0;
          expect(mostIn(windowMs, admitted)).toBeLessThanOrEqual(bound);
          spentFromSlices += sliceUnits;
        },
        runs,
        shortRuns,
      )();
      // The runs are useful only if isolates spend from slices.
      expect(spentFromSlices > 1_000).toBe(consistency === "leased");
    },
  );

  it("a leased policy is not charged for requests that another key denies, even if the denial comes late", async () => {
    await forAll(
      [fc.integer(), fc.constantFrom(0, 20, 300, 900), fc.integer({ min: 1, max: 40 }), fc.constantFrom("1s", "10s")],
      async (seed, maximumDelayMs, everyMs, timeout) => {
        const world = new World();
        const random = randomFrom(seed);
        const object = new SimulatedObject(world, random, {
          maximumDelayMs,
          lost: 0,
          unanswered: 0,
        });
        const client = new LimiterClient(
          object.namespace(0, () => true),
          world.clock(),
        );
        const leased = policyOf(limitOf("sliding-log", 5_000, 3_600_000), "leased", timeout);
        const strict = policyWith({ limits: "20/second", timeout: "10s" });
        let admitted = 0;
        const request = async (): Promise<void> => {
          const { isRefused } = await client.admit(
            [
              { policy: leased, partitionKey: "a", cost: 1 },
              { policy: strict, partitionKey: "b", cost: 1 },
            ],
            scopeOf(),
          );
          if (!isRefused) admitted += 1;
        };
        for (let time = 0; time < 200; time++) {
          world.at(startMs + time * everyMs + Math.floor(random() * everyMs), () => void request());
        }
        await world.runUntil(startMs + 30_000);
        const { limits } = leased;
        const { decisions } = object.limiter.look({
          key: "a",
          charges: [{ policy: leased.name, limits, cost: 0 }],
        });
        expect(decisions[0]?.limits[0]?.remaining).toBe(5_000 - admitted);
      },
      60,
      10,
    )();
  });

  it("leases work with an object of an older version, which does not report settlements", async () => {
    const world = new World();
    const network = { maximumDelayMs: 20, lost: 0, unanswered: 0 };
    const object = new SimulatedObject(world, randomFrom(1), network);
    const { limiter } = object;
    const lease = limiter.lease.bind(limiter);
    Object.assign(limiter, {
      lease: (call: LeaseCall) => ({ ...lease(call), settled: undefined }),
      giveBackSlices: (call: ReturnCall) => void KeyObject.prototype.giveBackSlices.call(limiter, call),
    });
    const client = new LimiterClient(
      object.namespace(0, () => true),
      world.clock(),
    );
    const leased = policyOf(limitOf("sliding-log", 5_000, 3_600_000));
    const strict = policyWith({ limits: "5/second" });
    const work: Promise<unknown>[] = [];
    const spends = [
      { policy: leased, partitionKey: "a", cost: 1 },
      { policy: strict, partitionKey: "b", cost: 1 },
    ];
    for (let time = 0; time < 400; time++) {
      world.at(startMs + time * 5, () => {
        work.push(
          Promise.resolve(
            client.admit(
              spends,
              scopeOf((each) => void work.push(each)),
            ),
          ),
        );
      });
    }
    await world.runUntil(startMs + 30_000);
    const settled = await Promise.allSettled(work);
    expect(settled.filter(({ status }) => status === "rejected")).toEqual([]);
  });

  it("a busy isolate calls its object a few times per second and spends the rest from slices", async () => {
    const bursts = Array.from({ length: 50 }, () => ({
      waitMs: 100,
      isolate: 0,
      times: 100,
      everyMs: 1,
      units: 1,
      fault: "none",
    }));
    const quiet = { isolates: 1, skews: [], maximumDelayMs: 20, lost: 0, unanswered: 0 };
    const schedule = { seed: 1, ...quiet, bursts } as unknown as Schedule;
    const policy = policyOf(limitOf("sliding-window-counter", 100_000, 60_000));
    const { object, admitted, sliceUnits } = await simulate(policy, schedule);
    expect(mostIn(1_000_000, admitted)).toBe(5_000);
    expect(sliceUnits).toBeGreaterThan(4_900);
    expect(object.calls).toBeLessThan(100);
  });
});
