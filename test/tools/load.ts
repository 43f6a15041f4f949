/**
 * `npm run bench -- load`: sends concurrent HTTP requests to a local instance and checks that exactly the limit is
 * admitted in each window, for a key with its own object and for a key in a shard. Exits with 1 otherwise. Options:
 * --objects per-key|sharded for only one of the two, --shards <number>, --limit <units>, --window <duration>, --windows
 * <number>, --connections <number>.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import autocannon from "autocannon";
import { defaultShards, mostShards } from "../../src/policy/placement.ts";
import { exitWithError } from "../../src/cli/command.ts";
import { acceptedDuration, formatDuration, parseDuration } from "../../src/strategies/index.ts";
import { positiveInteger, readOptions } from "./options.ts";
import { judge, type MeasuredLoad } from "./verdict.ts";
import { startWorkerd, type Workerd } from "./workerd.ts";

type Objects = "per-key" | "sharded";

const values = readOptions("load", {
  objects: { type: "string", value: "name", about: "per-key or sharded. (default: both)" },
  shards: {
    type: "string",
    value: "number",
    about: `Number of shards. (default: ${defaultShards})`,
  },
  limit: { type: "string", value: "units", default: "100", about: "Limit of a window." },
  window: { type: "string", value: "duration", default: "1s", about: "Length of a window." },
  windows: { type: "string", value: "number", default: "5", about: "Number of windows." },
  connections: { type: "string", value: "number", default: "50", about: "Concurrent requests." },
});

const objectKinds = objectsOf(values.objects);
const shards = shardsOf(values.shards);
const limit = positiveInteger("limit", values.limit);
const windows = positiveInteger("windows", values.windows);
const connections = positiveInteger("connections", values.connections);
const windowMs = duration("window", values.window);

const folder = mkdtempSync(join(tmpdir(), "headgate-load-"));
try {
  const policies = JSON.stringify(objectKinds.map(policyOf));
  const workerd = await startWorkerd(folder, { POLICIES: policies });
  try {
    // Runs them one after the other, so that they do not slow each other down.
    // oxlint-disable-next-line no-await-in-loop
    for (const objects of objectKinds) await load(workerd, objects);
  } finally {
    await workerd.close();
  }
} finally {
  rmSync(folder, { recursive: true });
}

function policyOf(objects: Objects): object {
  // Clock-aligned windows do not depend on when a request happens to be decided. The long timeout allows for a busy
  // machine, because decisions that an isolate makes after a timeout must not be measured.
  const window = formatDuration(windowMs);
  return {
    name: objects,
    match: { path: `/${objects}` },
    key: "header:X-Load",
    limits: [{ limit, window, strategy: "fixed-window", align: "clock" }],
    timeout: "30s",
    objects,
    ...(objects === "sharded" && { shards }),
  };
}

async function load(workerd: Workerd, objects: Objects): Promise<void> {
  const remainingCounts: number[] = [];
  const url = new URL(`/${objects}`, workerd.url);
  // The first request compiles the code. It is charged to another key and is not counted.
  await fetch(url);
  const unloaded = await workerd.served();
  await setTimeout(windowMs - (Date.now() % windowMs));
  const startedAtMs = Date.now();
  const result = await autocannon({
    url: url.href,
    connections,
    headers: { "X-Load": "the one key" },
    // The load ends well after the start of a window, when the window's units are spent, so that only denials are in
    // progress.
    duration: ((windows - 0.25) * windowMs) / 1000,
    // autocannon checks at this interval whether it must end, in milliseconds.
    sampleInt: 50,
    setupClient: (client) => {
      client.on("headers", (response) => countRemaining(remainingCounts, response));
    },
  });
  const elapsedMs = Date.now() - startedAtMs;
  const served = (await workerd.served()) - unloaded;
  report(objects, result, {
    limit,
    windowMs,
    elapsedMs,
    remainingCounts,
    served,
    denied: result["4xx"],
    errors: errorCount(result),
  });
}

/** Responses that are not decisions: connection errors, timeouts and other statuses. */
function errorCount(result: autocannon.Result): number {
  return result.errors + result["1xx"] + result["3xx"] + result["5xx"];
}

/** Counts the `remaining` value of an allowed response. Headers are a flat list of names and values. */
function countRemaining(remainingCounts: number[], response: object): void {
  const { statusCode, headers } = response as { statusCode: number; headers: readonly string[] };
  if (statusCode !== 200) return;
  const index = headers.findIndex((name, at) => at % 2 === 0 && name.toLowerCase() === "ratelimit");
  const remaining = Number(/;r=(\d+)/.exec(headers[index + 1] ?? "")?.[1]);
  while (remainingCounts.length <= remaining) remainingCounts.push(0);
  remainingCounts[remaining] = (remainingCounts[remaining] ?? 0) + 1;
}

function report(objects: Objects, result: autocannon.Result, measured: MeasuredLoad): void {
  const verdict = judge(measured);
  const { latency } = result;
  console.log(`objects    ${objects === "sharded" ? `sharded, ${shards}` : objects}
limit      ${limit} per ${formatDuration(windowMs)}, ${connections} connections
requests   ${result.requests.total} in ${(measured.elapsedMs / 1000).toFixed(1)} s, ${Math.round((result.requests.total * 1000) / measured.elapsedMs)} per second
allowed    ${verdict.allowed} in ${verdict.windows} windows
denied     ${measured.denied}
errors     ${measured.errors}
latency    p50 ${latency.p50} ms, p90 ${latency.p90} ms, p99 ${latency.p99} ms, max ${latency.max} ms
${verdict.faults.length === 0 ? `Every window admitted exactly ${limit}.` : verdict.faults.join("\n")}`);
  if (verdict.faults.length > 0) process.exitCode = 1;
}

function objectsOf(text: string | undefined): Objects[] {
  if (text === undefined) return ["per-key", "sharded"];
  if (text === "per-key" || text === "sharded") return [text];
  return exitWithError(`--objects: expected "per-key" or "sharded", got "${text}"`);
}

function shardsOf(text = String(defaultShards)): number {
  if (values.shards !== undefined && values.objects === "per-key") {
    exitWithError(`--shards: expected only with --objects sharded, got "${text}"`);
  }
  return positiveInteger("shards", text, mostShards);
}

function duration(name: string, text: string): number {
  return parseDuration(text) ?? exitWithError(`--${name}: expected ${acceptedDuration}, got "${text}"`);
}
