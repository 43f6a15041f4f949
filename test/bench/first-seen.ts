/**
 * `npm run first-seen`: keys per second that are seen for the first time, with an object for each key and with shards.
 * Both take turns at one instance, and the medians are told.
 *
 * Options: --shards <number>, --rounds <number>.
 */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { Agent, type IncomingMessage, request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { text } from "node:stream/consumers";
import { setTimeout } from "node:timers/promises";
import { defaultShards, mostShards } from "../../src/config/index.ts";
import { readOptions } from "../../src/local/command.ts";
import { positive } from "./options.ts";
import { startWorkerd, type Workerd } from "./workerd.ts";

const values = readOptions({
  shards: { type: "string", default: String(defaultShards) },
  rounds: { type: "string", default: "5" },
});
const shards = positive("shards", values.shards, mostShards);
const rounds = positive("rounds", values.rounds, 1000);

const connections = 32;
/** As many as take each about as long. */
const perKeyKeys = 300;
const shardedKeys = 3_000;
/** What is written behind the answers of one turn is not to weigh on the next. */
const pauseMs = 1_500;
const token = crypto.randomUUID();
let keys = 0;

const folder = mkdtempSync(join(tmpdir(), "headgate-first-seen-"));
try {
  const common = { limits: "100/hour", timeout: "30s", onError: "closed" };
  const policies = [
    { name: "per-key", ...common },
    { name: "sharded", ...common, objects: "sharded", shards },
  ];
  const vars = { POLICIES: JSON.stringify(policies), CHECK_TOKENS: token };
  const workerd = await startWorkerd(folder, vars);
  try {
    await measure(workerd);
  } finally {
    await workerd.close();
  }
} finally {
  rmSync(folder, { recursive: true });
}

async function measure(workerd: Workerd): Promise<void> {
  const perKey: number[] = [];
  const sharded: number[] = [];
  // Pays for compiling.
  await keysPerSecond(workerd, "sharded", shardedKeys);
  for (let round = 0; round < rounds; round++) {
    // One after the other, so that each has the machine to itself.
    // oxlint-disable no-await-in-loop
    await setTimeout(pauseMs);
    perKey.push(await keysPerSecond(workerd, "per-key", perKeyKeys));
    await setTimeout(pauseMs);
    sharded.push(await keysPerSecond(workerd, "sharded", shardedKeys));
    // oxlint-enable no-await-in-loop
  }
  console.log(`first-seen keys per second, ${connections} connections; the median of ${rounds} rounds, and each
an object each  ${told(perKey)}
${`${shards} shards`.padEnd(14)}  ${told(sharded)}
sharded ÷ each  ${(median(sharded) / median(perKey)).toFixed(1)}`);
}

/** Each connection spends on the next key as soon as it has been answered. */
async function keysPerSecond(workerd: Workerd, policy: string, count: number): Promise<number> {
  // Takes a third of what `fetch` takes of the processors, which are workerd's too.
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const last = keys + count;
  const startedAtMs = performance.now();
  const callers = Array.from({ length: connections }, async () => {
    while (keys < last) {
      keys += 1;
      // oxlint-disable-next-line no-await-in-loop
      await spend(agent, workerd.url.port, JSON.stringify({ policy, key: addressOf(keys) }));
    }
  });
  try {
    await Promise.all(callers);
    return (count * 1_000) / (performance.now() - startedAtMs);
  } finally {
    agent.destroy();
  }
}

async function spend(agent: Agent, port: string, body: string): Promise<void> {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const target = { host: "127.0.0.1", port, path: "/check", method: "POST" };
  const request = httpRequest({ ...target, agent, headers }).end(body);
  const [response] = (await once(request, "response")) as [IncomingMessage];
  const answer = await text(response);
  if (response.statusCode !== 200) throw new Error(`${response.statusCode} ${answer}`);
}

/** A /64 of its own for each number. */
function addressOf(number: number): string {
  return `2001:db8:${(number >>> 16).toString(16)}:${(number & 0xffff).toString(16)}::1`;
}

function told(each: readonly number[]): string {
  const list = each.map((value) => whole(value)).join(", ");
  return `${whole(median(each)).padStart(6)}  (${list})`;
}

function whole(value: number): string {
  return Math.round(value).toLocaleString("en");
}

/** Of an even number of values the lower one of the middle. */
function median(each: readonly number[]): number {
  return each.toSorted((a, b) => a - b)[Math.ceil(each.length / 2) - 1] ?? NaN;
}
