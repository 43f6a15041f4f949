/** Load by wrk, which needs little processor time itself. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { killWithParent } from "../workerd-process.ts";
import { type Generator, idMark, keyDigits, keyMark, type HttpLoad, type MeasuredResponses } from "./load.ts";

/**
 * @param folder the folder for wrk's scripts
 * @returns undefined if wrk is not installed
 */
export function findWrk(folder: string): Generator | undefined {
  const { error, stdout } = spawnSync("wrk", ["-v"], { encoding: "utf8" });
  if (error !== undefined) return undefined;
  const script = join(folder, "load.lua");
  const [, version = ""] = /^wrk (\S+)/.exec(stdout) ?? [];
  return {
    title: `wrk ${version}`.trim(),
    fire: async (load) => {
      writeFileSync(script, scriptOf(load));
      return parseWrk(await run(script, load));
    },
  };
}

async function run(script: string, { url, connections, seconds }: HttpLoad): Promise<string> {
  const words = ["-t1", `-c${connections}`, `-d${Math.ceil(seconds)}s`, "--timeout", "30s"];
  const child = spawn("wrk", [...words, "-s", script, url.href], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  killWithParent(child);
  const chunks: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => chunks.push(chunk));
  }
  const closed = once(child, "close");
  // wrk only supports whole seconds. When interrupted, it prints the results so far.
  if (!Number.isInteger(seconds)) {
    await setTimeout(seconds * 1_000);
    child.kill("SIGINT");
  }
  await closed;
  return chunks.join("");
}

/** wrk's own report only distinguishes statuses below 400 from other statuses. */
function scriptOf({ url, method, fields, body, keys, followUp }: HttpLoad): string {
  const headOf = (target: string): string[] => [
    `${method} ${target} HTTP/1.1`,
    `Host: ${url.host}`,
    ...Object.entries(fields).map(([name, value]) => `${name}: ${value}`),
  ];
  const length = body.replace(keyMark, "0".repeat(keyDigits)).length;
  const lines = [...headOf(`${url.pathname}${url.search}`), ...(body === "" ? [] : [`Content-Length: ${length}`])];
  const [before = "", after = ""] = `${lines.join("\r\n")}\r\n\r\n${body}`.split(keyMark);
  const count = Math.min(keys.count, 1e12);
  const [bodyBefore = "", bodyAfter = ""] = (followUp?.body ?? "").split(idMark);
  const followUpHead = `${headOf(followUp?.path ?? "").join("\r\n")}\r\nContent-Length: `;
  return `local before, after = ${JSON.stringify(before)}, ${JSON.stringify(after)}
local asked = 0
local ids = {}
statuses = {}
local threads = {}

function setup(thread) table.insert(threads, thread) end

function request()
  local id = table.remove(ids)
  if id then
    local body = ${JSON.stringify(bodyBefore)} .. id .. ${JSON.stringify(bodyAfter)}
    return ${JSON.stringify(followUpHead)} .. #body .. "\\r\\n\\r\\n" .. body
  end
  local key = string.format("%0${keyDigits}d", ${keys.first} + asked % ${count})
  asked = asked + 1
  return before .. key .. after
end

function response(status${followUp === undefined ? "" : ", _, body"})
  statuses[status] = (statuses[status] or 0) + 1
${
  followUp === undefined
    ? ""
    : `  table.insert(ids, string.match(body, '"id":"([^"]*)"'))
`
}end

function done(summary, latency)
  local counted = {}
  for _, thread in ipairs(threads) do
    for status, count in pairs(thread:get("statuses")) do
      table.insert(counted, string.format('"%d":%d', status, count))
    end
  end
  local errors = summary.errors
  print(string.format('measured {"requests":%d,"microseconds":%d,"p50":%d,"p99":%d,"errors":%d,"statuses":{%s}}',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.timeout, table.concat(counted, ",")))
end
`;
}

interface WrkReport {
  readonly requests: number;
  readonly microseconds: number;
  readonly p50: number;
  readonly p99: number;
  readonly errors: number;
  readonly statuses: Readonly<Record<string, number>>;
}

/** Reads the line that the script adds to wrk's report. */
export function parseWrk(output: string): MeasuredResponses {
  const [, json] = /^measured (\{.*\})$/m.exec(output) ?? [];
  if (json === undefined) throw new Error(`wrk reported no figures:\n${output}`);
  const { requests, microseconds, p50, p99, errors, statuses } = JSON.parse(json) as WrkReport;
  return {
    requests,
    seconds: microseconds / 1e6,
    statuses,
    errors,
    p50Ms: p50 / 1_000,
    p99Ms: p99 / 1_000,
  };
}
