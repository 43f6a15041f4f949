/** Random schedules of isolates under eventual consistency, with crashes, lost calls and wrong clocks. */
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Policy } from "../../src/policy/policy.ts";
import type { KeySync, SyncCall } from "../../src/limiter/protocol.ts";
import { forAll } from "../for-all.ts";
import { randomFrom } from "../random.ts";
import { disturbed, policyWith } from "./schedule.ts";
import { SimulatedIsolate, SimulatedObject, startMs, timeoutMs, World } from "./world.ts";

beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

const policyOf = (limits: object): Policy =>
  policyWith({
    limits,
    consistency: "eventual",
    objects: "sharded",
    shards: 1,
    syncEvery: "500ms",
    // Confirmed durability: a crash loses nothing.
    durability: "confirmed",
    timeout: `${timeoutMs}ms`,
  });

const schedules = fc.record({
  ...disturbed(5, [0, 5, 80, 900]),
  requests: fc.array(
    fc.record({
      waitMs: fc.nat({ max: 400 }),
      isolate: fc.nat({ max: 4 }),
      key: fc.nat({ max: 3 }),
      units: fc.integer({ min: 1, max: 3 }),
      fault: fc.constantFrom("none", "none", "none", "none", "crash", "disconnect", "connect"),
    }),
    { minLength: 1, maxLength: 60 },
  ),
});
type Schedule = typeof schedules extends fc.Arbitrary<infer Each> ? Each : never;

interface Simulation {
  readonly world: World;
  readonly object: SimulatedObject;
  readonly isolates: readonly SimulatedIsolate[];
  readonly syncState: SyncState;
}

/** The units that the object has counted, by key and isolate, and those in the last snapshot of each isolate. */
class SyncState {
  readonly #counted = new Map<string, Map<number, number>>();
  readonly #batches = new Map<string, number>();
  readonly #inSnapshot = new Map<string, ReadonlyMap<number, number>>();

  readonly onCall = (isolate: number, call: unknown): (() => void) => {
    const { others = [], ...first } = call as SyncCall;
    const snapshots = [first, ...others].map((each) => [each.key, this.#count(isolate, each)] as const);
    return () => {
      for (const [key, units] of snapshots) this.#inSnapshot.set(`${isolate} ${key}`, units);
    };
  };

  #count(isolate: number, { key, batch, charges }: KeySync): ReadonlyMap<number, number> {
    const unitsByIsolate = this.#counted.get(key) ?? new Map<number, number>();
    this.#counted.set(key, unitsByIsolate);
    if (batch > (this.#batches.get(`${isolate} ${key}`) ?? 0)) {
      this.#batches.set(`${isolate} ${key}`, batch);
      const units = charges.flatMap(({ spends }) => spends).reduce((sum, [, each]) => sum + each, 0);
      unitsByIsolate.set(isolate, (unitsByIsolate.get(isolate) ?? 0) + units);
    }
    return new Map(unitsByIsolate);
  }

  /**
   * The units of the isolate `other` on a key that the last snapshot of `isolate` includes. They are the first units
   * that `other` spent.
   */
  unitsKnown(isolate: number, other: number, key: string): number {
    return this.#inSnapshot.get(`${isolate} ${key}`)?.get(other) ?? 0;
  }
}

/** @param onDecided is called after each decision */
async function simulate(
  policy: Policy,
  schedule: Schedule,
  keys: readonly string[] = ["key"],
  onDecided: (simulation: Simulation, isolate: number, key: string, isAdmitted: boolean) => void = () => undefined,
): Promise<Simulation> {
  const world = new World();
  const object = new SimulatedObject(world, randomFrom(schedule.seed), schedule);
  const syncState = new SyncState();
  object.onCall = syncState.onCall;
  const isolates = Array.from(
    { length: schedule.isolates },
    (_, index) => new SimulatedIsolate(world, object, policy, index, schedule.skews[index] ?? 0),
  );
  const simulation = { world, object, isolates, syncState };
  const request = async (index: number, units: number, key: string): Promise<void> => {
    const isolate = isolates[index];
    const before = isolate?.admitted.length;
    await isolate?.request(units, key);
    onDecided(simulation, index, key, before !== isolate?.admitted.length);
  };
  let atMs = startMs;
  for (const { waitMs, isolate, units, key, fault } of schedule.requests) {
    atMs += waitMs;
    world.at(atMs, () => {
      if (fault === "crash") object.crash();
      if (fault !== "none") object.isReachable = fault !== "disconnect";
      void request(isolate % isolates.length, units, keys[key % keys.length] ?? "key");
    });
  }
  await world.runUntil(atMs);
  return simulation;
}

const admittedUnits = (isolate: SimulatedIsolate, ofKey: string): number =>
  isolate.admitted.reduce((sum, { units, key }) => sum + (key === ofKey ? units : 0), 0);

describe("eventual consistency under random faults", () => {
  it(
    "under random faults, the object counts every eventual spend exactly once",
    forAll(
      [schedules, fc.integer({ min: 1, max: 4 })],
      async (schedule, keyCount) => {
        const keys = ["key", "a", "b", "c"].slice(0, keyCount);
        const policy = policyOf({ limit: 1_000, window: "1d", strategy: "sliding-log" });
        const { world, object, isolates } = await simulate(policy, schedule, keys);
        object.isReachable = true;
        object.isDisturbed = false;
        // Delays of up to 900 ms in each direction remain. Then 40 % of the syncs miss their deadline of 1 s, and the
        // next attempt follows a second later. Unsent spends wait until the previous batch is acknowledged. A minute
        // has room for 30 attempts.
        for (let step = 0; step < 12; step++) {
          // oxlint-disable-next-line no-await-in-loop
          await world.runUntil(world.nowMs + 5_000);
          for (const isolate of isolates) for (const key of keys) void isolate.request(0, key);
        }
        await world.runUntil(world.nowMs + 5_000);
        const charges = [{ policy: "p", limits: policy.limits, cost: 0 }];
        const countedUnits = keys.map((key) => {
          const remaining = object.limiter.look({ key, charges }).decisions[0]?.limits[0]?.remaining;
          return 1_000 - (remaining ?? 0);
        });
        expect(countedUnits).toEqual(
          keys.map((key) => isolates.reduce((sum, each) => sum + admittedUnits(each, key), 0)),
        );
      },
      1_000,
      25,
    ),
  );

  it(
    "under random faults, an isolate over-admits at most the units of other isolates that its last sync does not include",
    forAll(
      [
        schedules,
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: 200, max: 4_000 }),
        fc.constantFrom(["key"], ["key"], ["key", "a", "b"]),
      ],
      async (schedule, limit, windowMs, keys) => {
        const policy = policyOf({ limit, window: `${windowMs}ms`, strategy: "sliding-log" });
        const excesses: number[] = [];
        await simulate(policy, schedule, keys, ({ world, isolates, syncState }, index, ofKey, isAdmitted) => {
          if (!isAdmitted) return;
          const inWindow = (atMs: number): boolean => world.nowMs - atMs < windowMs;
          let used = 0;
          let unknown = 0;
          for (const [other, { admitted }] of isolates.entries()) {
            let known = other === index ? Number.POSITIVE_INFINITY : syncState.unitsKnown(index, other, ofKey);
            for (const { atMs, units, key } of admitted) {
              if (key !== ofKey) continue;
              const unknownUnits = Math.max(0, units - known);
              known = Math.max(0, known - units);
              if (!inWindow(atMs)) continue;
              used += units;
              unknown += unknownUnits;
            }
          }
          if (used > limit + unknown) excesses.push(used - limit - unknown);
        });
        expect(excesses).toEqual([]);
      },
      4_000,
      100,
    ),
  );

  it(
    "an isolate calls its object at most twice per second under eventual consistency",
    forAll([schedules], async (schedule) => {
      const policy = policyOf({ limit: 5, window: "1s", strategy: "token-bucket" });
      const { world, object } = await simulate(policy, schedule);
      const seconds = (world.nowMs - startMs) / 1_000;
      expect(object.calls).toBeLessThanOrEqual(schedule.isolates * (2 * seconds + 1));
    }),
  );
});
