import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { parseConfig } from "../../../src/policy/vars/config.ts";
import { KeyObject } from "../../../src/limiter/object/key-object.ts";
import { from, headgate, statusOf } from "../harness.ts";

/** The names of the rows of each shard, after pending writes. */
function storedRows(shards: number): Promise<string[][]> {
  const names = Array.from({ length: shards }, (_, shard) => `${shard}-of-${shards}`);
  return Promise.all(
    names.map(async (name) => {
      const object = env.RATE_LIMITER.getByName(name);
      // Only a running object can be evicted.
      await runInDurableObject(object, () => undefined);
      await evictDurableObject(object);
      return runInDurableObject(object, async (_, { storage }) => [...(await storage.list()).keys()]);
    }),
  );
}

const strict = { limits: "5/hour", strategy: "fixed-window" };

describe("a sharded policy", () => {
  it("the keys of a policy with 3 shards are stored in 3 objects, and each has its own limit", async () => {
    const policy = { name: "visitors", key: "ip", ...strict, objects: "sharded", shards: 3 };
    const { send } = headgate({ POLICIES: [policy] });
    const addresses = Array.from({ length: 30 }, (_, index) => `192.0.2.${index}`);
    // Excludes the rows of other tests, which may use the same objects.
    const others = new Set((await storedRows(3)).flat());
    for (let round = 0; round < 6; round++) {
      // oxlint-disable-next-line no-await-in-loop
      const statuses = await Promise.all(addresses.map((address) => statusOf(send("/", from(address)))));
      expect(new Set(statuses)).toEqual(new Set([round < 5 ? 200 : 429]));
    }
    const rows = (await storedRows(3)).map((names) => names.filter((name) => !others.has(name)));
    expect(rows.flat()).toHaveLength(30);
    expect(Math.min(...rows.map((each) => each.length))).toBeGreaterThan(0);
    expect(rows.flat().every((name) => /^k [\w-]{43}$/.test(name))).toBe(true);
  });

  it("the proxy and /check charge the same counter of a sharded policy", async () => {
    const policy = { name: "visitors", key: "ip", ...strict, objects: "sharded" };
    const { send, check } = headgate({ POLICIES: [policy] });
    await statusOf(send("/", from("192.0.2.1")));
    const response = await check("GET", "/check?key=192.0.2.1");
    expect(await response.json()).toMatchObject({ limits: [{ remaining: 4 }] });
    expect(await statusOf(check("DELETE", "/check?key=192.0.2.1"))).toBe(204);
    const after = await check("GET", "/check?key=192.0.2.1");
    expect(await after.json()).toMatchObject({ limits: [{ remaining: 5 }] });
  });

  it("when a sharded and an unsharded policy have the same key, a request is charged to both or to none", async () => {
    const sharded = { objects: "sharded", shards: 7 };
    const policies = [
      { name: "a", key: "ip", ...strict, ...sharded },
      { name: "b", key: "ip", limits: "2/hour", strategy: "fixed-window", ...sharded },
      { name: "c", key: "ip", limits: "3/hour", strategy: "fixed-window" },
    ];
    const { send, check } = headgate({ POLICIES: policies });
    const statuses: number[] = [];
    for (let request = 0; request < 4; request++) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push(await statusOf(send("/", from("192.0.2.1"))));
    }
    expect(statuses).toEqual([200, 200, 429, 429]);
    for (const [name, remaining] of [
      ["a", 3],
      ["b", 0],
      ["c", 1],
    ] as const) {
      // oxlint-disable no-await-in-loop
      const response = await check("GET", `/check?policy=${name}&key=192.0.2.1`);
      expect(await response.json()).toMatchObject({ limits: [{ remaining }] });
      // oxlint-enable no-await-in-loop
    }
  });
});

it("ad hoc limits of a check always use the 32 shared objects", async () => {
  const getByName = vi.fn<(name: string) => unknown>((name) => env.RATE_LIMITER.getByName(name));
  const { check } = headgate({ LIMITS: "5/hour", RATE_LIMITER: { getByName } });
  for (let key = 0; key < 10; key++) {
    // oxlint-disable-next-line no-await-in-loop
    const response = await check("POST", "/check", { key: `tenant-${key}`, limits: "5/hour" });
    // oxlint-disable-next-line no-await-in-loop
    expect(await response.json()).toMatchObject({ limits: [{ remaining: 4 }] });
  }
  const names = getByName.mock.calls.map(([name]) => name);
  expect(names).toHaveLength(10);
  for (const name of names) expect(name).toMatch(/^(?:\d|[12]\d|3[01])-of-32$/);
});

it("with durability = confirmed, a spend is in storage before its response arrives", async () => {
  const policy = {
    name: "confirmed",
    key: "ip",
    ...strict,
    objects: "sharded",
    shards: 1,
    durability: "confirmed",
  };
  const { check } = headgate({ POLICIES: [policy] });
  const others = new Set((await storedRows(1)).flat());
  for (let spend = 1; spend <= 4; spend++) {
    // oxlint-disable no-await-in-loop
    await check("POST", "/check", { key: "192.0.2.1" });
    const remaining = await runInDurableObject(env.RATE_LIMITER.getByName("0-of-1"), (_, { storage }) => {
      const names = [...storage.kv.list({ prefix: "k " })].map(([each]) => each);
      const name = names.find((each) => !others.has(each)) ?? "";
      // A second limiter has nothing in memory, so it must read the rows.
      const after = () => () => undefined;
      const limiter = new KeyObject({ storage, now: () => Date.now(), after });
      const { limits } = parseConfig({ KEY_SECRET: "s", POLICIES: [policy] }).policies[0] ?? {};
      const charges = [{ policy: "confirmed", limits: limits ?? [], cost: 1 }];
      return limiter.look({ key: name.slice(2), charges }).decisions[0]?.limits[0]?.remaining;
    });
    expect(remaining).toBe(5 - spend);
    // oxlint-enable no-await-in-loop
  }
});
