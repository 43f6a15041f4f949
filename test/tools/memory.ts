/**
 * `npm run bench -- memory`: measures the memory of one isolate with Headgate's Worker and 32 busy shards while it
 * receives new keys all the time: strict, leased and eventual ones, long logs, and keys of several policies. Exits with
 * 1 when the live heap exceeds the isolate's 128 MB. Options: --keys <number> of each kind.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exitWithError } from "../../src/local/command.ts";
import { freePort, HeapInspector } from "./heap.ts";
import { positiveInteger, readOptions } from "./options.ts";
import { startWorkerd } from "./workerd.ts";

const values = readOptions("memory", {
  keys: { type: "string", value: "number", default: "60000", about: "New keys of each policy." },
});
const keys = positiveInteger("keys", values.keys);

const isolateBytes = 128_000_000;
const batchSize = 100;
const callers = 16;
const token = "the-token-of-the-memory-measurement";

const sharded = { objects: "sharded", shards: 32, key: ["header:x-key"], match: { path: "/none" } };

/** The policies of the new keys, each with a batch of checks. */
const policies: readonly Readonly<Record<string, unknown>>[] = [
  { name: "strict", limits: "100/hour; 10/minute", strategy: "sliding-window-counter" },
  { name: "log", limits: "1000/hour", strategy: "sliding-log" },
  { name: "bucket", limits: "100/hour", strategy: "token-bucket" },
  { name: "leased", limits: "1000/hour", strategy: "sliding-log", consistency: "leased" },
  { name: "eventual", limits: "1000/hour", strategy: "sliding-log", consistency: "eventual" },
  { name: "denying", limits: "1/day", strategy: "fixed-window" },
].map((policy) => ({ ...sharded, ...policy }));

const megabytes = (bytes: number): string => (bytes / 1_000_000).toFixed(1).padStart(6);

const folder = mkdtempSync(join(tmpdir(), "headgate-memory-sum-"));
const port = await freePort();
const workerd = await startWorkerd(
  folder,
  { POLICIES: JSON.stringify(policies), CHECK_TOKENS: token },
  { flags: [`--inspector-addr=127.0.0.1:${port}`] },
);
let inspector: HeapInspector | null = null;
const wake = async (): Promise<unknown> =>
  (await fetch(new URL("/check/health", workerd.url))).arrayBuffer();

async function check(policy: string, key: string): Promise<void> {
  const response = await fetch(new URL("/check", workerd.url), {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ policy, key }),
  });
  await response.arrayBuffer();
  if (response.status !== 200)
    exitWithError(`expected status 200 for a check, got ${response.status}`);
}

async function checkBatch(policy: string, from: number, cost: number): Promise<void> {
  const checks = Array.from({ length: batchSize }, (_, index) => ({
    policy,
    key: `visitor-${from + index}`,
    cost,
  }));
  const response = await fetch(new URL("/check/batch", workerd.url), {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ checks }),
  });
  await response.arrayBuffer();
  if (response.status !== 200)
    exitWithError(`expected status 200 for a batch, got ${response.status}`);
}

/** Calls `act` for each number below a count, several at a time. */
async function forEach(count: number, act: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const work = async (): Promise<void> => {
    // oxlint-disable-next-line no-await-in-loop
    for (let index = next++; index < count; index = next++) await act(index);
  };
  await Promise.all(Array.from({ length: callers }, work));
}

try {
  inspector = await HeapInspector.connect(port, "headgate");
  const start = await inspector.live(wake);
  console.log(
    `one isolate, 32 shards, ${keys.toLocaleString("en")} new keys of each kind; memory in MB`,
  );
  console.log(`${"".padEnd(10)}   live   with garbage`);
  console.log(`${"idle".padEnd(10)} ${megabytes(start.usedSize)}   ${megabytes(start.totalSize)}`);
  let mostLive = 0;
  let most = 0;
  for (const { name } of policies) {
    const policy = String(name);
    const isSingle = policy === "leased" || policy === "eventual";
    // Leases are made by single checks.
    const act = isSingle
      ? (index: number) => check(policy, `visitor-${index >> 3}`)
      : (index: number) => checkBatch(policy, index * batchSize, policy === "denying" ? 2 : 1);
    // oxlint-disable-next-line no-await-in-loop
    await forEach(isSingle ? keys : Math.ceil(keys / batchSize), act);
    // oxlint-disable-next-line no-await-in-loop
    const busy = await inspector.usage();
    // oxlint-disable-next-line no-await-in-loop
    const live = await inspector.live(wake);
    mostLive = Math.max(mostLive, live.usedSize);
    most = Math.max(most, busy.usedSize);
    console.log(`${policy.padEnd(10)} ${megabytes(live.usedSize)}   ${megabytes(busy.usedSize)}`);
  }
  console.log(
    `maximum    ${megabytes(mostLive)}   ${megabytes(most)}   (isolate limit: ${isolateBytes / 1_000_000})`,
  );
  if (mostLive > isolateBytes) exitWithError("the live heap exceeds the memory of an isolate");
} finally {
  inspector?.close();
  await workerd.close();
  rmSync(folder, { recursive: true });
}
