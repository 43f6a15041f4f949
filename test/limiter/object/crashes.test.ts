/** The counts of an object after crashes and evictions at random times, in virtual time. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { KeyObject } from "../../../src/limiter/object/key-object.ts";
import { type CheckCall } from "../../../src/limiter/protocol.ts";
import { type LimitInput, parseLimits } from "../../../src/strategies/index.ts";
import { VirtualObject } from "../../fakes/virtual-object.ts";
import { MemoryStorage } from "../../../src/sdk/testing/memory-storage.ts";
import { forAll } from "../../for-all.ts";
import { randomFrom } from "../../random.ts";
import { startMs } from "../../fakes/isolate.ts";
import { isFull } from "../../mode.ts";

const strategies = [
  "fixed-window",
  "sliding-log",
  "sliding-window-counter",
  "sliding-buckets",
  "token-bucket",
  "concurrency",
];

interface Step {
  readonly kind: "check" | "pass" | "crash" | "evict";
  readonly key: string;
  readonly cost: number;
  readonly afterMs: number;
}

const steps = fc.array(
  fc.record<Step>({
    kind: fc.constantFrom("check", "check", "check", "check", "pass", "crash", "evict"),
    key: fc.constantFrom("a", "b", "c"),
    cost: fc.integer({ min: 1, max: 4 }),
    afterMs: fc.constantFrom(0, 1, 40, 700, 1_000, 20_000),
  }),
  { minLength: 20, maxLength: 150 },
);

const callOf = (strategy: string, { key, cost }: Step, durability: CheckCall["durability"]) => {
  const inputs: LimitInput[] = [
    { limit: 40, window: "1h", strategy },
    { limit: 500, window: "1d", strategy: "sliding-log" },
  ];
  const limits = parseLimits(inputs, { policy: "p" });
  return { key, charges: [{ policy: "p", limits, cost }], durability: durability ?? "relaxed" };
};

type Admissions = { readonly key: string; readonly atMs: number; readonly cost: number }[];

describe.each(strategies)("%s", (strategy) => {
  it(
    `${strategy} decides alike whether its state stays in memory or is read from storage`,
    forAll(
      [steps],
      async (each) => {
        const [inMemory, evicted] = [newObject(), newObject()];
        for (const step of each) {
          // oxlint-disable no-await-in-loop
          await Promise.all([inMemory.pass(step.afterMs), evicted.pass(step.afterMs)]);
          if (step.kind === "evict" || step.kind === "crash") await evicted.evict();
          if (step.kind !== "check") continue;
          await inMemory.pass(evicted.nowMs - inMemory.nowMs);
          const call = callOf(strategy, step, "relaxed");
          expect(evicted.limiter.check(call)).toEqual(inMemory.limiter.check(call));
          // oxlint-enable no-await-in-loop
        }
      },
      25,
    ),
  );

  it(
    `${strategy} with confirmed durability loses no spend in a crash`,
    forAll(
      [steps],
      async (each) => {
        const object = newObject();
        for (const { key, known, admitted } of await traffic(object, strategy, each, "confirmed")) {
          expect({ key, known }).toEqual({ key, known: admitted });
        }
      },
      25,
    ),
  );

  it(
    `${strategy} with relaxed durability loses at most the spends of the second before a crash`,
    forAll(
      [steps],
      async (each) => {
        const object = newObject();
        for (const { known, admitted, lastSecond } of await traffic(object, strategy, each, "relaxed")) {
          expect(known).toBeGreaterThanOrEqual(admitted - lastSecond);
          expect(known).toBeLessThanOrEqual(admitted);
        }
      },
      25,
    ),
  );
});

describe.each(["sliding-log", "concurrency"])("%s", (strategy) => {
  it(`a long log of ${strategy} makes the same decisions from storage as from memory, and finally leaves no segment`, async () => {
    const random = randomFrom(strategy.length);
    const [inMemory, stored] = [newObject(), newObject()];
    const reserved: string[] = [];
    let mostSegments = 0;
    for (let step = 0; step < (isFull ? 5_000 : 3_500); step++) {
      const afterMs = random() < 0.0007 ? 65_000 : Math.floor(random() * 12);
      // oxlint-disable-next-line no-await-in-loop
      await Promise.all([inMemory.pass(afterMs), stored.pass(afterMs)]);
      const both = (act: (limiter: KeyObject) => unknown): void =>
        expect(act(stored.limiter)).toEqual(act(inMemory.limiter));
      const limit = random() < 0.5 ? 3_000 : 2_500;
      const policy = random() < 0.9 ? "p" : "q";
      const limits = parseLimits({ limit, window: "1m", strategy }, { policy });
      const charges = [{ policy, limits, cost: 1 + Math.floor(random() * 2) }];
      const call = { key: "a", charges, durability: "confirmed" } as const;
      const drawn = random();
      if (drawn < 0.6) both((limiter) => limiter.check(call));
      else if (drawn < 0.8) {
        const ttlMs = 1_000 * 2 ** Math.floor(random() * 7);
        both((limiter) => limiter.reserve({ ...call, id: `${step}`, ttlMs }));
        reserved.push(`${step}`);
      } else {
        const [id = ""] = reserved.splice(Math.floor(random() * reserved.length), 1);
        const cost = Math.floor(random() * 3);
        both((limiter) => limiter.settle({ key: "a", id, cost }));
      }
      if (step % 50 === 0) stored.crash();
      mostSegments = Math.max(mostSegments, ...segmentsIn(stored.storage));
      const [named, there] = segmentsIn(stored.storage);
      expect(there).toBe(named);
    }
    expect(mostSegments).toBeGreaterThan(2);
    await Promise.all([inMemory.finish(), stored.finish()]);
    expect([inMemory.storage.rows.size, stored.storage.rows.size]).toEqual([0, 0]);
    expect([inMemory.storage.alarmAtMs, stored.storage.alarmAtMs]).toEqual([null, null]);
  });
});

/** The number of segments according to the row of the key, and the number of segment rows in storage. */
function segmentsIn({ rows }: MemoryStorage): [number, number] {
  const named = /^\[1,\d+,\d+,(\d+),/.exec(rows.get("k a") ?? "")?.[1] ?? "0";
  return [Number(named), [...rows.keys()].filter((name) => name.startsWith("s ")).length];
}

const newObject = (): VirtualObject<MemoryStorage> => new VirtualObject(new MemoryStorage(), startMs);

interface UnitCounts {
  readonly key: string;
  /** The units that the object counts at the end. */
  readonly known: number;
  /** The units that were admitted. */
  readonly admitted: number;
  /** The units that were admitted within a second before a crash, summed over all crashes. */
  readonly lastSecond: number;
}

async function traffic(
  object: VirtualObject<MemoryStorage>,
  strategy: string,
  each: readonly Step[],
  durability: CheckCall["durability"],
): Promise<UnitCounts[]> {
  const admitted: Admissions = [];
  const atRisk: Admissions = [];
  for (const step of each) {
    // oxlint-disable-next-line no-await-in-loop
    await object.pass(step.afterMs);
    const { nowMs } = object;
    if (step.kind === "crash") {
      atRisk.push(...admitted.filter(({ atMs }) => nowMs - atMs <= 1_000));
      object.crash();
    }
    if (step.kind !== "check") continue;
    const { decisions } = object.limiter.check(callOf(strategy, step, durability));
    if (decisions[0]?.allowed) admitted.push({ key: step.key, atMs: nowMs, cost: step.cost });
  }
  // A log over a day counts all units, because the traffic lasts less than an hour.
  return ["a", "b", "c"].map((key) => {
    const day = callOf(strategy, { kind: "check", key, cost: 0, afterMs: 0 }, durability);
    const { decisions } = object.limiter.look(day);
    const unitsOf = (admissions: Admissions): number =>
      admissions.filter((admission) => admission.key === key).reduce((sum, { cost }) => sum + cost, 0);
    return {
      key,
      known: 500 - (decisions[0]?.limits[1]?.remaining ?? 0),
      admitted: unitsOf(admitted),
      lastSecond: unitsOf([...new Set(atRisk)]),
    };
  });
}
