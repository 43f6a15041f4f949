/**
 * `npm run bench -- first-seen`: measures how many keys per second can be seen for the first time, with an object for
 * each key and with shards. It also measures this through Headgate's service, where each decision takes two more calls.
 * The four variants take turns in one workerd process, and the medians are printed. Options: --shards <number>,
 * --rounds <number>.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { defaultShards, mostShards } from "../../src/policy/placement.ts";
import { parseLimits } from "../../src/strategies/index.ts";
import { positiveInteger, readOptions } from "./options.ts";
import { startWorkerd, type Workerd } from "./workerd.ts";

const values = readOptions("first-seen", {
  shards: {
    type: "string",
    value: "number",
    default: String(defaultShards),
    about: "Number of shards.",
  },
  rounds: {
    type: "string",
    value: "number",
    default: "5",
    about: "Rounds. The median is printed.",
  },
});
const shards = positiveInteger("shards", values.shards, mostShards);
const rounds = positiveInteger("rounds", values.rounds, 1000);

const callers = 32;
const ways: readonly Way[] = ["objects", "service"];
/** The numbers of keys for which all turns take about equally long. */
const perKeyKeys = 500;
const shardedKeys = 5_000;
/** The write-behind of one turn must not slow down the next turn. */
const pauseMs = 1_500;
let keys = 0;

/**
 * Charges consecutive new keys with several concurrent callers, through the service or by direct calls of the objects.
 * Returns the time that this took.
 */
const callerCode = `
const limits = ${JSON.stringify(parseLimits("100/hour"))};

const ways = {
  service: ({ HEADGATE }, shards, number) => {
    const key = "2001:db8:" + (number >>> 16).toString(16) + ":" + (number & 65535).toString(16) + "::1";
    return HEADGATE.check({ policy: shards === null ? "per-key" : "sharded", key });
  },
  objects: async ({ RATE_LIMITER }, shards, number) => {
    const key = crypto.randomUUID();
    const name = shards === null ? key : number % shards + "-of-" + shards;
    const charges = [{ policy: "p", limits, cost: 1 }];
    const { decisions: [decision] } = await RATE_LIMITER.getByName(name).check({ key, charges });
    return decision;
  },
};

export default {
  async fetch(request, env) {
    const { way, shards, from, count, callers } = await request.json();
    let next = from;
    const call = async () => {
      while (next < from + count) {
        const { allowed } = await ways[way](env, shards, next++);
        if (!allowed) throw new Error("a key that has spent nothing was denied");
      }
    };
    const startedAtMs = Date.now();
    await Promise.all(Array.from({ length: callers }, call));
    return Response.json({ elapsedMs: Date.now() - startedAtMs });
  },
};
`;

const folder = mkdtempSync(join(tmpdir(), "headgate-first-seen-"));
try {
  const common = { limits: "100/hour", timeout: "30s", onError: "closed" };
  const policies = [
    { name: "per-key", ...common },
    { name: "sharded", ...common, objects: "sharded", shards },
  ];
  const workerd = await startWorkerd(folder, { POLICIES: JSON.stringify(policies) }, { other: callerCode });
  try {
    await measure(workerd);
  } finally {
    await workerd.close();
  }
} finally {
  rmSync(folder, { recursive: true });
}

type Way = "objects" | "service";

async function measure(workerd: Workerd): Promise<void> {
  const figures = { objects: newFigures(), service: newFigures() };
  // The first turn compiles the code and is not counted.
  for (const way of ways) await keysPerSecond(workerd, way, shards, shardedKeys);
  for (let round = 0; round < rounds; round++) {
    for (const way of ways) {
      const { perKey, sharded } = figures[way];
      // Runs them one after the other, so that each has the machine to itself.
      // oxlint-disable no-await-in-loop
      await setTimeout(pauseMs);
      perKey.push(await keysPerSecond(workerd, way, null, perKeyKeys));
      await setTimeout(pauseMs);
      sharded.push(await keysPerSecond(workerd, way, shards, shardedKeys));
      // oxlint-enable no-await-in-loop
    }
  }
  console.log(`first-seen keys per second, ${callers} callers: median of ${rounds} rounds (each round)`);
  for (const way of ways) report(way, figures[way]);
}

interface KeyRate {
  readonly perKey: number[];
  readonly sharded: number[];
}

function newFigures(): KeyRate {
  return { perKey: [], sharded: [] };
}

function report(way: Way, { perKey, sharded }: KeyRate): void {
  console.log(`${way === "objects" ? "direct object calls" : "calls through the service"}
  per-key         ${medianText(perKey)}
  ${`${shards} shards`.padEnd(14)}  ${medianText(sharded)}
  sharded/per-key ${(median(sharded) / median(perKey)).toFixed(1)}`);
}

async function keysPerSecond(workerd: Workerd, way: Way, shardCount: number | null, count: number): Promise<number> {
  const body = JSON.stringify({ way, shards: shardCount, from: keys, count, callers });
  keys += count;
  const response = await fetch(workerd.otherUrl, { method: "POST", body });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  const { elapsedMs } = await response.json<{ elapsedMs: number }>();
  return (count * 1_000) / elapsedMs;
}

function medianText(each: readonly number[]): string {
  const list = each.map((value) => whole(value)).join(", ");
  return `${whole(median(each)).padStart(6)}  (${list})`;
}

function whole(value: number): string {
  return Math.round(value).toLocaleString("en");
}

/** The median. For an even number of values, the lower of the two in the middle. */
function median(each: readonly number[]): number {
  return each.toSorted((a, b) => a - b)[Math.ceil(each.length / 2) - 1] ?? NaN;
}
