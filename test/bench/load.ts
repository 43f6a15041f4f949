/**
 * `npm run load`: concurrent HTTP requests at a local instance, and whether exactly the limit was let in per window.
 * Exits with 1 unless it was.
 *
 * Options: --limit <units>, --window <duration>, --windows <number of windows to last>, --connections <number>.
 */
import { setTimeout } from "node:timers/promises";
import autocannon from "autocannon";
import { fail, readOptions } from "../../src/local/command.ts";
import { acceptedDuration, formatDuration, parseDuration } from "../../src/strategies/index.ts";
import { startInstance } from "./instance.ts";
import { judge, type Load } from "./verdict.ts";

const values = readOptions({
  limit: { type: "string", default: "100" },
  window: { type: "string", default: "1s" },
  windows: { type: "string", default: "5" },
  connections: { type: "string", default: "50" },
});

const limit = positive("limit", values.limit);
const windows = positive("windows", values.windows);
const connections = positive("connections", values.connections);
const windowMs = duration("window", values.window);

await load();

async function load(): Promise<void> {
  const window = formatDuration(windowMs);
  // Windows on the clock: where they begin and end does not depend on when a request happens to be decided. A busy
  // machine may take its time; what its isolate would do by itself in the meantime is not what is measured here.
  const limits = [{ limit, window, strategy: "fixed-window", align: "clock" }];
  const policy = { name: "load", key: "header:X-Load", limits, timeout: "30s" };
  const instance = await startInstance({ POLICIES: JSON.stringify([policy]) });
  try {
    const told: number[] = [];
    // The first request pays for compiling; it is charged to another key, and not part of what is counted.
    await fetch(instance.url);
    const unloaded = await instance.served();
    await setTimeout(windowMs - (Date.now() % windowMs));
    const startedAtMs = Date.now();
    const result = await autocannon({
      url: instance.url.href,
      connections,
      headers: { "X-Load": "the one key" },
      // Ends well after a window has begun: its units have been spent, and only refusals are under way.
      duration: ((windows - 0.25) * windowMs) / 1000,
      // It looks for its end once in so many milliseconds.
      sampleInt: 50,
      setupClient: (client) => {
        client.on("headers", (response) => countTold(told, response));
      },
    });
    const elapsedMs = Date.now() - startedAtMs;
    const served = (await instance.served()) - unloaded;
    report(result, {
      limit,
      windowMs,
      elapsedMs,
      told,
      served,
      refused: result["4xx"],
      errors: errorsOf(result),
    });
  } finally {
    await instance.close();
  }
}

/** Anything but a decision: no connection, no answer in time, an answer of another status. */
function errorsOf(result: autocannon.Result): number {
  return result.errors + result["1xx"] + result["3xx"] + result["5xx"];
}

/** Counts what an allowed answer says to remain. Headers come as a flat list of names and values. */
function countTold(told: number[], response: object): void {
  const { statusCode, headers } = response as { statusCode: number; headers: readonly string[] };
  if (statusCode !== 200) return;
  const index = headers.findIndex((name, at) => at % 2 === 0 && name.toLowerCase() === "ratelimit");
  const remaining = Number(/;r=(\d+)/.exec(headers[index + 1] ?? "")?.[1]);
  while (told.length <= remaining) told.push(0);
  told[remaining] = (told[remaining] ?? 0) + 1;
}

function report(result: autocannon.Result, counted: Load): void {
  const verdict = judge(counted);
  const { latency } = result;
  console.log(`limit      ${limit} per ${formatDuration(windowMs)}, ${connections} connections
requests   ${result.requests.total} in ${(counted.elapsedMs / 1000).toFixed(1)} s, ${Math.round((result.requests.total * 1000) / counted.elapsedMs)} per second
allowed    ${verdict.allowed} in ${verdict.windows} windows
refused    ${counted.refused}
errors     ${counted.errors}
latency    p50 ${latency.p50} ms, p90 ${latency.p90} ms, p99 ${latency.p99} ms, most ${latency.max} ms
${verdict.faults.length === 0 ? `Exactly ${limit} were let in per window.` : verdict.faults.join("\n")}`);
  process.exitCode = verdict.faults.length === 0 ? 0 : 1;
}

function positive(name: string, text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text))
    fail(`--${name} is "${text}": accepted is an integer of at least 1`);
  return Number(text);
}

function duration(name: string, text: string): number {
  return parseDuration(text) ?? fail(`--${name} is "${text}": accepted is ${acceptedDuration}`);
}
