/**
 * Compares the storage in memory with the platform's: the same traffic causes the same replies, rows, alarms and
 * writes.
 */
import { runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { CountedStorage } from "../../fakes/counted-storage.ts";
import { VirtualObject, type VirtualStorage } from "../../fakes/virtual-object.ts";
import { type Random, randomFrom } from "../../random.ts";
import { isFull } from "../../mode.ts";
import { call, charge, confirmed, countWrites, newObject, startMs } from "../../limiter/harness.ts";

/** An object in virtual time, with a log of its replies and of its rows and alarms after each call. */
class Run extends VirtualObject<VirtualStorage> {
  readonly log: unknown[] = [];
  readonly openIds: { key: string; id: string }[] = [];

  constructor(storage: VirtualStorage) {
    super(storage, startMs);
  }

  async noteRows(): Promise<void> {
    const alarmAtMs = await this.alarmAtMs();
    this.log.push([this.nowMs, this.alarms, [...this.storage.kv.list({})], alarmAtMs]);
  }
}

const policies = [
  charge("20/minute"),
  charge("5/10s", 2, "short", "sliding-window-counter"),
  charge("50/hour", 3, "log", "sliding-log"),
  charge("10/minute", 1, "slots", "concurrency"),
];

const pick = <Item>(random: Random, items: readonly Item[]): Item | undefined =>
  items[Math.floor(random() * items.length)];

const keys = Array.from({ length: 12 }, (_, key) => `key-${key}`);

/** Makes a random call to the object, or lets it crash, sweep or wait. */
async function operate(run: Run, random: Random, count: number): Promise<unknown> {
  const { limiter } = run;
  const key = pick(random, keys) ?? "k";
  const each = pick(random, policies) ?? policies[0];
  if (each === undefined) return null;
  const drawn = random();
  if (drawn < 0.45) return limiter.check(random() < 0.2 ? confirmed(each, key) : call(each, key));
  if (drawn < 0.55) return limiter.check(call(policies, key));
  if (drawn < 0.7) {
    const id = `id-${count}`;
    run.openIds.push({ key, id });
    const ttlMs = 1_000 + Math.floor(random() * 100_000);
    return limiter.reserve({ ...call(each, key), id, ttlMs });
  }
  if (drawn < 0.8) {
    const open = pick(random, run.openIds) ?? { key, id: "none" };
    return limiter.settle({ ...open, cost: Math.floor(random() * 5) });
  }
  if (drawn < 0.85) return limiter.forget({ key, policy: each.policy });
  if (drawn < 0.88) return limiter.alarm();
  if (drawn < 0.91) return run.crash();
  const steps = [1, 50, 1_000, 15_000, 300_000, 7_200_000];
  return run.pass(pick(random, steps) ?? 1);
}

async function randomTraffic(run: Run, seed: number): Promise<void> {
  const random = randomFrom(seed);
  for (let count = 0; count < (isFull ? 600 : 200); count++) {
    run.log.push(await operate(run, random, count));
    await run.pass(Math.floor(random() * 400));
    if (count % 20 === 0) await run.noteRows();
  }
  await run.noteRows();
}

/** A log that is long enough to have segments, which expire one after the other. After a crash, they are read back. */
async function longLog(run: Run): Promise<void> {
  const each = charge("100000/hour", 1, "p", "sliding-log");
  for (let count = 0; count < 2_000; count++) {
    run.log.push(run.limiter.check(call(each)).decisions);
    await run.pass(count % 100 === 0 ? 60_000 : 1);
  }
  await run.noteRows();
  run.crash();
  for (let count = 0; count < 100; count++) {
    run.log.push(run.limiter.check(call(each)).decisions);
    await run.pass(60_000);
    if (count % 10 === 0) await run.noteRows();
  }
}

/** Forgetting the only key deletes its row, and with it the alarm. */
async function forgottenKey(run: Run): Promise<void> {
  for (let count = 0; count < 2; count++) {
    run.limiter.check(call(charge("5/minute")));
    await run.noteRows();
    run.limiter.forget({ key: "k", policy: "p" });
    await run.noteRows();
    await run.pass(1);
  }
}

/** Lets ten days pass, after which nothing is stored. */
async function end(run: Run): Promise<void> {
  await run.pass(10 * 86_400_000);
  await run.noteRows();
}

type Traffic = (run: Run) => Promise<void>;

async function sameOnBoth(traffic: Traffic): Promise<Run> {
  const memory = new CountedStorage();
  const run = new Run(memory);
  await traffic(run);
  const object = newObject();
  const written = await countWrites(object);
  const platformLog = await runInDurableObject(object, async (_, { storage }) => {
    const platform = new Run(storage);
    await traffic(platform);
    return platform.log;
  });
  expect(run.log).toEqual(platformLog);
  expect(memory.written).toEqual(written);
  return run;
}

describe("storage in memory", () => {
  it.each(isFull ? [1, 2, 3] : [1])(
    "storage in memory and the platform's have the same contents after random traffic: seed %i",
    async (seed) => {
      const run = await sameOnBoth((each) => randomTraffic(each, seed));
      expect(run.alarms).toBeGreaterThan(1);
      // Not `toContain`, which would print the whole log.
      for (const each of ['"allowed":false', '"settled":true', '"isOpen":true']) {
        expect([each, JSON.stringify(run.log).includes(each)]).toEqual([each, true]);
      }
    },
  );

  it("storage in memory and the platform's store the same segments of a long log", async () => {
    const run = await sameOnBoth(longLog);
    expect(JSON.stringify(run.log).includes('"s k ')).toBe(true);
  });

  it("storage in memory and the platform's both lose their alarm when they are emptied", async () => {
    const run = await sameOnBoth(forgottenKey);
    expect(run.log.map((noted) => (noted as unknown[]).at(-1) !== null)).toEqual([true, false, true, false]);
  });

  it("storage in memory and the platform's are both empty in the end", async () => {
    const run = await sameOnBoth(async (each) => {
      await randomTraffic(each, 4);
      await end(each);
    });
    expect(run.log.at(-1)).toEqual([run.nowMs, run.alarms, [], null]);
  });
});
