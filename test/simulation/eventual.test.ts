import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Policy } from "../../src/config/index.ts";
import type { KeySync, SyncCall } from "../../src/limiter/protocol.ts";
import { forAll } from "../for-all.ts";
import { randomFrom } from "../random.ts";
import { disturbed, policyWith } from "./schedule.ts";
import { Isolate, ObjectOf, startMs, timeoutMs, World } from "./world.ts";

beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

const policyOf = (limits: object): Policy =>
  policyWith({
    limits,
    consistency: "eventual",
    objects: "sharded",
    shards: 1,
    syncEvery: "500ms",
    // A crash takes nothing.
    durability: "confirmed",
    timeout: `${timeoutMs}ms`,
  });

const schedule = fc.record({
  ...disturbed(5, [0, 5, 80, 900]),
  asks: fc.array(
    fc.record({
      waitMs: fc.nat({ max: 400 }),
      isolate: fc.nat({ max: 4 }),
      key: fc.nat({ max: 3 }),
      units: fc.integer({ min: 1, max: 3 }),
      fault: fc.constantFrom("none", "none", "none", "none", "crash", "part", "meet"),
    }),
    { minLength: 1, maxLength: 60 },
  ),
});
type Schedule = typeof schedule extends fc.Arbitrary<infer Each> ? Each : never;

interface Played {
  readonly world: World;
  readonly object: ObjectOf;
  readonly isolates: readonly Isolate[];
  readonly known: Known;
}

/** How many units of each isolate the object has counted on each key, and had when it last told each isolate of the key. */
class Known {
  readonly #counted = new Map<string, Map<number, number>>();
  readonly #batches = new Map<string, number>();
  readonly #told = new Map<string, ReadonlyMap<number, number>>();

  readonly onTaken = (isolate: number, call: unknown): (() => void) => {
    const { others = [], ...first } = call as SyncCall;
    const told = [first, ...others].map((each) => [each.key, this.#count(isolate, each)] as const);
    return () => {
      for (const [key, counted] of told) this.#told.set(`${isolate} ${key}`, counted);
    };
  };

  #count(isolate: number, { key, batch, charges }: KeySync): ReadonlyMap<number, number> {
    const counted = this.#counted.get(key) ?? new Map<number, number>();
    this.#counted.set(key, counted);
    if (batch > (this.#batches.get(`${isolate} ${key}`) ?? 0)) {
      this.#batches.set(`${isolate} ${key}`, batch);
      const units = charges
        .flatMap(({ spends }) => spends)
        .reduce((sum, [, each]) => sum + each, 0);
      counted.set(isolate, (counted.get(isolate) ?? 0) + units);
    }
    return new Map(counted);
  }

  /** Of the units of one isolate on a key the first that another knows of. */
  units(knower: number, isolate: number, key: string): number {
    return this.#told.get(`${knower} ${key}`)?.get(isolate) ?? 0;
  }
}

/** @param onAsked hears who has asked, right after what came of it */
async function played(
  policy: Policy,
  told: Schedule,
  keys: readonly string[] = ["key"],
  onAsked: (played: Played, isolate: number, key: string, isAdmitted: boolean) => void = () =>
    undefined,
): Promise<Played> {
  const world = new World();
  const object = new ObjectOf(world, randomFrom(told.seed), told);
  const known = new Known();
  object.onTaken = known.onTaken;
  const isolates = Array.from(
    { length: told.isolates },
    (_, index) => new Isolate(world, object, policy, index, told.skews[index] ?? 0),
  );
  const all = { world, object, isolates, known };
  const asking = async (index: number, units: number, key: string): Promise<void> => {
    const isolate = isolates[index];
    const before = isolate?.admitted.length;
    await isolate?.ask(units, key);
    onAsked(all, index, key, before !== isolate?.admitted.length);
  };
  let atMs = startMs;
  for (const { waitMs, isolate, units, key, fault } of told.asks) {
    atMs += waitMs;
    world.at(atMs, () => {
      if (fault === "crash") object.crash();
      if (fault !== "none") object.isReachable = fault !== "part";
      void asking(isolate % isolates.length, units, keys[key % keys.length] ?? "key");
    });
  }
  await world.runUntil(atMs);
  return all;
}

const unitsOf = (isolate: Isolate, of: string): number =>
  isolate.admitted.reduce((sum, { units, key }) => sum + (key === of ? units : 0), 0);

describe("under eventual consistency, whatever the network and the object do", () => {
  it(
    "what isolates have spent is counted once, all of it",
    forAll(
      [schedule, fc.integer({ min: 1, max: 4 })],
      async (told, count) => {
        const keys = ["key", "a", "b", "c"].slice(0, count);
        const policy = policyOf({ limit: 1_000, window: "1d", strategy: "sliding-log" });
        const { world, object, isolates } = await played(policy, told, keys);
        object.isReachable = true;
        object.isDisturbed = false;
        for (let turn = 0; turn < 12; turn++) {
          // oxlint-disable-next-line no-await-in-loop
          await world.runUntil(world.nowMs + 5_000);
          for (const isolate of isolates) for (const key of keys) void isolate.ask(0, key);
        }
        await world.runUntil(world.nowMs + 5_000);
        const charges = [{ policy: "p", limits: policy.limits, cost: 0 }];
        const counted = keys.map((key) => {
          const left = object.limiter.look({ key, charges }).decisions[0]?.limits[0]?.remaining;
          return 1_000 - (left ?? 0);
        });
        expect(counted).toEqual(
          keys.map((key) => isolates.reduce((sum, each) => sum + unitsOf(each, key), 0)),
        );
      },
      200,
      2_000,
    ),
  );

  it(
    "an isolate admits too much by no more than what others have that it has not been told of",
    forAll(
      [
        schedule,
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: 200, max: 4_000 }),
        fc.constantFrom(["key"], ["key"], ["key", "a", "b"]),
      ],
      async (told, limit, windowMs, keys) => {
        const policy = policyOf({ limit, window: `${windowMs}ms`, strategy: "sliding-log" });
        const excesses: number[] = [];
        await played(policy, told, keys, ({ world, isolates, known }, index, asked, isAdmitted) => {
          if (!isAdmitted) return;
          const inWindow = (atMs: number): boolean => world.nowMs - atMs < windowMs;
          let used = 0;
          let unknown = 0;
          for (const [other, { admitted }] of isolates.entries()) {
            let toldOf =
              other === index ? Number.POSITIVE_INFINITY : known.units(index, other, asked);
            for (const { atMs, units, key } of admitted) {
              if (key !== asked) continue;
              const untold = Math.max(0, units - toldOf);
              toldOf = Math.max(0, toldOf - units);
              if (!inWindow(atMs)) continue;
              used += units;
              unknown += untold;
            }
          }
          if (used > limit + unknown) excesses.push(used - limit - unknown);
        });
        expect(excesses).toEqual([]);
      },
      1_000,
      10_000,
    ),
  );

  it(
    "nobody waits, and an object is asked by each isolate no more than twice a second",
    forAll([schedule], async (told) => {
      const policy = policyOf({ limit: 5, window: "1s", strategy: "token-bucket" });
      const { world, object } = await played(policy, told);
      const seconds = (world.nowMs - startMs) / 1_000;
      expect(object.calls).toBeLessThanOrEqual(told.isolates * (2 * seconds + 1));
    }),
  );
});
