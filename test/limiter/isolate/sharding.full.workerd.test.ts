/** The full version of story S08, with the storage of the platform. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import type { ObjectSettings } from "../../../src/policy/placement.ts";
import { hmacWith, PartitionKeys } from "../../../src/policy/partition-key.ts";
import { softBudgetBytes } from "../../../src/limiter/object/key-cache.ts";
import { KeyObject } from "../../../src/limiter/object/key-object.ts";
import { objectLocation } from "../../../src/limiter/protocol.ts";
import { call, charge, remainingOf } from "../harness.ts";

const settings = (given: Partial<ObjectSettings>): ObjectSettings => ({
  shards: null,
  locationHint: null,
  jurisdiction: null,
  ...given,
});

/** The partition keys of `count` addresses, grouped by the name of their object. */
async function keysByObject(count: number, objects: ObjectSettings): Promise<Map<string, string[]>> {
  const partitions = new PartitionKeys(hmacWith("secret"));
  const keysOf = new Map<string, string[]>();
  for (let index = 0; index < count; index++) {
    // oxlint-disable-next-line no-await-in-loop
    const key = await partitions.partitionKey([{ kind: "ip" }], [`key-${index}`]);
    const { name } = objectLocation(objects, key);
    keysOf.set(name, [...(keysOf.get(name) ?? []), key]);
  }
  return keysOf;
}

it(
  "S08: 32 shards count 100,000 keys correctly, keep their memory budgets and delete every row in the end",
  { timeout: 120_000 },
  async () => {
    const shards = 32;
    const each = charge("1000/hour", 1, "p", "sliding-window-counter");
    const keysOf = await keysByObject(100_000, settings({ shards }));
    expect(keysOf.size).toBeLessThanOrEqual(shards);
    const results = await Promise.all(
      [...keysOf].map(([name, keys]) =>
        runInDurableObject(env.RATE_LIMITER.getByName(name), async (_, { storage }) => {
          let mostCachedBytes = 0;
          let wrong = 0;
          // One object serves about 1,000 requests per second.
          let nowMs = Date.now();
          const after = () => () => undefined;
          const limiter = new KeyObject({ storage, now: () => nowMs++, after });
          const spend = (key: string, cost: number): unknown =>
            remainingOf(limiter.check(call({ ...each, cost }, key)).decisions);
          for (const [index, key] of keys.entries()) {
            if (spend(key, 1 + (index % 7)) !== 999 - (index % 7)) wrong++;
            mostCachedBytes = Math.max(mostCachedBytes, limiter.cachedBytes);
          }
          for (const [index, key] of keys.entries()) {
            if (spend(key, 100) !== 899 - (index % 7)) wrong++;
            mostCachedBytes = Math.max(mostCachedBytes, limiter.cachedBytes);
          }
          nowMs += 3 * 3_600_000;
          const pages = Math.ceil(keys.length / 2_000) + 1;
          // Each alarm sweeps one page, and the next alarm continues from there.
          // oxlint-disable-next-line no-await-in-loop
          for (let page = 0; page < pages; page++) await limiter.alarm();
          const rowsLeft = (await storage.list()).size;
          return { wrong, mostCachedBytes, rowsLeft };
        }),
      ),
    );
    expect(results.map(({ wrong }) => wrong)).toEqual(results.map(() => 0));
    expect(results.map(({ rowsLeft }) => rowsLeft)).toEqual(results.map(() => 0));
    expect(Math.max(...results.map(({ mostCachedBytes }) => mostCachedBytes))).toBeLessThanOrEqual(softBudgetBytes);
    expect(Math.min(...results.map(({ mostCachedBytes }) => mostCachedBytes))).toBeGreaterThan(softBudgetBytes / 2);
  },
);
