/** The object in which a key lives, and many keys in one shard. */
import { describe, expect, it } from "vitest";
import type { ObjectSettings } from "../../src/policy/placement.ts";
import { hmacWith, PartitionKeys } from "../../src/policy/partition-key.ts";
import { objectLocation, shardOf } from "../../src/limiter/protocol.ts";
import { softBudgetBytes } from "../../src/limiter/object/key-cache.ts";
import { parseLimits } from "../../src/strategies/index.ts";
import { TestObject } from "../fakes/test-object.ts";

const settings = (given: Partial<ObjectSettings>): ObjectSettings => ({
  shards: null,
  locationHint: null,
  jurisdiction: null,
  ...given,
});

const partitionKey = "S2VZ-_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

describe("the object of a key", () => {
  it("an object is named by its key or its shard, followed by its location hint", () => {
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

  it("a key's shard is the first 48 bits of its partition key modulo the number of shards", () => {
    // The eight base64url characters "S2VZ-_AA".
    const hash = 0x4b6559fbf000;
    expect(shardOf(partitionKey, 32)).toBe(hash % 32);
    expect(shardOf(partitionKey, 1_000)).toBe(hash % 1_000);
    expect(shardOf("__________", 4_096)).toBe(4_095);
    expect(shardOf(partitionKey, 1)).toBe(0);
  });

  it("keys are distributed evenly among the shards", async () => {
    const counts = Array.from({ length: 32 }, () => 0);
    for (const key of await partitionKeys(6_400)) {
      const shard = shardOf(key, 32);
      counts[shard] = (counts[shard] ?? 0) + 1;
    }
    expect(Math.min(...counts)).toBeGreaterThan(130);
    expect(Math.max(...counts)).toBeLessThan(270);
  });
});

/** The partition keys of `count` addresses. */
function partitionKeys(count: number): Promise<string[]> {
  const partitions = new PartitionKeys(hmacWith("secret"));
  const keys = Array.from({ length: count }, async (_, index) =>
    partitions.partitionKey([{ kind: "ip" }], [`key-${index}`]),
  );
  return Promise.all(keys);
}

// One of the 32 shards of sharding.full.workerd.test.ts, as a test object instead of an object of the platform.
it("S08: a shard counts 3,125 keys correctly, stays within its memory budget and finally deletes every row", async () => {
  const object = new TestObject();
  const { limiter, storage } = object;
  const limits = parseLimits("1000/hour", { policy: "p", strategy: "sliding-window-counter" });
  const keys = await partitionKeys(3_125);
  let mostCachedBytes = 0;
  const remainingAfter = (key: string, cost: number): unknown => {
    // One object serves about 1,000 requests per second.
    object.nowMs += 1;
    const { decisions } = limiter.check({ key, charges: [{ policy: "p", limits, cost }] });
    mostCachedBytes = Math.max(mostCachedBytes, limiter.cachedBytes);
    return decisions[0]?.limits[0]?.remaining;
  };
  const first = keys.map((key, index) => remainingAfter(key, 1 + (index % 7)));
  expect(first).toEqual(keys.map((_, index) => 999 - (index % 7)));
  const second = keys.map((key) => remainingAfter(key, 100));
  expect(second).toEqual(keys.map((_, index) => 899 - (index % 7)));
  expect(mostCachedBytes).toBeLessThanOrEqual(softBudgetBytes);
  expect(mostCachedBytes).toBeGreaterThan(softBudgetBytes / 2);
  object.nowMs += 3 * 3_600_000;
  // Each alarm sweeps up to 2,000 rows, and the next alarm continues from there.
  // oxlint-disable-next-line no-await-in-loop
  for (let alarm = 0; alarm < 3; alarm++) await limiter.alarm();
  expect(storage.rows.size).toBe(0);
});
