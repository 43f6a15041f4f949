import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { ObjectSettings } from "../../../src/config/index.ts";
import { softBudgetBytes } from "../../../src/limiter/object/key-cache.ts";
import { Limiter } from "../../../src/limiter/object/limiter.ts";
import { objectLocation, shardOf } from "../../../src/limiter/client/object-location.ts";
import { PartitionKeys } from "../../../src/policies/partition-key.ts";
import { call, charge, remainingOf } from "../harness.ts";

const settings = (own: Partial<ObjectSettings>): ObjectSettings => ({
  shards: null,
  locationHint: null,
  jurisdiction: null,
  ...own,
});

const partitionKey = "S2VZ-_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

describe("the object of a key", () => {
  it("has the key's name, or its shard's, and its location hint's", () => {
    expect(objectLocation(settings({}), partitionKey).name).toBe(partitionKey);
    expect(objectLocation(settings({ locationHint: "weur" }), partitionKey)).toEqual({
      name: `${partitionKey}@weur`,
      locationHint: "weur",
      jurisdiction: null,
    });
    const shard = shardOf(partitionKey, 32);
    expect(objectLocation(settings({ shards: 32 }), partitionKey).name).toBe(`${shard}-of-32`);
    expect(objectLocation(settings({ shards: 32, jurisdiction: "eu" }), partitionKey)).toEqual({
      name: `${shard}-of-32`,
      locationHint: null,
      jurisdiction: "eu",
    });
  });

  it("never changes: the first 48 bits of the partition key, modulo the number of shards", () => {
    // 0x4b6559 0xfbf000, as the eight characters say.
    const hash = 0x4b6559fbf000;
    expect(shardOf(partitionKey, 32)).toBe(hash % 32);
    expect(shardOf(partitionKey, 1_000)).toBe(hash % 1_000);
    expect(shardOf("__________", 4_096)).toBe(4_095);
    expect(shardOf(partitionKey, 1)).toBe(0);
  });

  it("is found evenly among the shards", async () => {
    const partitions = new PartitionKeys("secret");
    const counts = Array.from({ length: 32 }, () => 0);
    const keys = Array.from({ length: 6_400 }, (_, index) =>
      partitions.partitionKey([{ kind: "ip" }], [`key-${index}`]),
    );
    for (const key of await Promise.all(keys)) {
      const shard = shardOf(key, 32);
      counts[shard] = (counts[shard] ?? 0) + 1;
    }
    expect(Math.min(...counts)).toBeGreaterThan(130);
    expect(Math.max(...counts)).toBeLessThan(270);
  });
});

/** The keys of so many visitors, by the object that each of them is in. */
async function keysByObject(
  count: number,
  objects: ObjectSettings,
): Promise<Map<string, string[]>> {
  const partitions = new PartitionKeys("secret");
  const keysOf = new Map<string, string[]>();
  for (let index = 0; index < count; index++) {
    // oxlint-disable-next-line no-await-in-loop
    const key = await partitions.partitionKey([{ kind: "ip" }], [`key-${index}`]);
    const { name } = objectLocation(objects, key);
    keysOf.set(name, [...(keysOf.get(name) ?? []), key]);
  }
  return keysOf;
}

describe("S08: a hundred thousand keys through 32 shards", () => {
  it(
    "are all counted right, within each shard's budget of memory, and leave nothing behind",
    { timeout: 120_000 },
    async () => {
      const shards = 32;
      const each = charge("1000/hour", 1, "p", "sliding-window-counter");
      const keysOf = await keysByObject(100_000, settings({ shards }));
      expect(keysOf.size).toBeLessThanOrEqual(shards);
      const faults = await Promise.all(
        [...keysOf].map(([name, keys]) =>
          runInDurableObject(env.RATE_LIMITER.getByName(name), async (_, { storage }) => {
            let mostHeld = 0;
            let wrong = 0;
            // As many a second as an object can take.
            let nowMs = Date.now();
            const after = () => () => undefined;
            const limiter = new Limiter({ storage, now: () => nowMs++, after });
            const spend = (key: string, cost: number): unknown =>
              remainingOf(limiter.check(call({ ...each, cost }, key)).decisions);
            for (const [index, key] of keys.entries()) {
              if (spend(key, 1 + (index % 7)) !== 999 - (index % 7)) wrong++;
              mostHeld = Math.max(mostHeld, limiter.cachedBytes);
            }
            for (const [index, key] of keys.entries()) {
              if (spend(key, 100) !== 899 - (index % 7)) wrong++;
              mostHeld = Math.max(mostHeld, limiter.cachedBytes);
            }
            nowMs += 3 * 3_600_000;
            const pages = Math.ceil(keys.length / 2_000) + 1;
            // Each alarm sweeps a page, and the next begins where it ended.
            // oxlint-disable-next-line no-await-in-loop
            for (let page = 0; page < pages; page++) await limiter.alarm();
            const left = (await storage.list()).size;
            return { wrong, mostHeld, left };
          }),
        ),
      );
      expect(faults.map(({ wrong }) => wrong)).toEqual(faults.map(() => 0));
      expect(faults.map(({ left }) => left)).toEqual(faults.map(() => 0));
      expect(Math.max(...faults.map(({ mostHeld }) => mostHeld))).toBeLessThanOrEqual(
        softBudgetBytes,
      );
      expect(Math.min(...faults.map(({ mostHeld }) => mostHeld))).toBeGreaterThan(
        softBudgetBytes / 2,
      );
    },
  );
});
