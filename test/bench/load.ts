/**
 * `npm run load`: concurrent HTTP requests at a local instance, and whether exactly the limit was let in per window.
 * Exits with 1 unless it was.
 *
 * Options: --limit <units>, --window <duration>, --windows <number of windows to last>, --connections <number>.
 */
import { parseArgs } from "node:util";
import autocannon from "autocannon";
import { acceptedDuration, formatDuration, parseDuration } from "../../src/strategies/index.ts";
import { startInstance } from "./instance.ts";
import { judge, type Load } from "./verdict.ts";

const { values } = parseArgs({
  options: {
    limit: { type: "string", default: "100" },
    window: { type: "string", default: "1s" },
    windows: { type: "string", default: "5" },
    connections: { type: "string", default: "50" },
  },
});

const limit = positive("limit", values.limit);
const windows = positive("windows", values.windows);
const connections = positive("connections", values.connections);
const windowMs = duration("window", values.window);

await load();

async function load(): Promise<void> {
  const instance = await startInstance({
    LIMITS: `${limit}/${formatDuration(windowMs)}`,
    STRATEGY: "fixed-window",
    KEY: "global",
  });
  try {
    const told: number[] = [];
    const startedAtMs = Date.now();
    const result = await autocannon({
      url: instance.url.href,
      connections,
      // Ends in the middle of a window, when all of its units have long been spent and no answer is under way.
      duration: ((windows - 0.5) * windowMs) / 1000,
      // It looks for its end once in so many milliseconds.
      sampleInt: 50,
      setupClient: (client) => {
        client.on("headers", (response) => countTold(told, response));
      },
    });
    const elapsedMs = Date.now() - startedAtMs;
    const served = await instance.served();
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

function fail(message: string): never {
  console.error(message);
  process.exit(1);
}
