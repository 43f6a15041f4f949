/**
 * `npm run bench -- fuzz`: sends random requests to the Worker in workerd: valid, malformed and hostile ones. Exits
 * with 1 if a response shows an error of Headgate or more quota than the limits allow, and prints the seed and the
 * requests. Options: --requests <number>, --seed <number>, --connections <number>.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { aftermath, type Aftermath } from "./fuzz/after.ts";
import { tokens } from "./fuzz/checks.ts";
import { WorkerdLog } from "./fuzz/log.ts";
import { origin, originSecret } from "./fuzz/origin.ts";
import { ownPolicy } from "./fuzz/own.ts";
import { secretTag } from "./fuzz/people.ts";
import { policies } from "./fuzz/requests.ts";
import { type FuzzResult, type FuzzOptions, run } from "./fuzz/run.ts";
import { jwtSettings } from "./fuzz/tokens.ts";
import { positiveInteger, readOptions } from "./options.ts";
import { whole } from "./table.ts";
import { startWorkerd } from "./workerd.ts";

const values = readOptions("fuzz", {
  requests: { type: "string", value: "number", default: "50000", about: "Requests to send." },
  seed: { type: "string", value: "number", about: "The seed of an earlier run. (default: random)" },
  connections: { type: "string", value: "number", default: "24", about: "Concurrent requests." },
});
const plan: FuzzOptions = {
  requests: positiveInteger("requests", values.requests),
  seed: positiveInteger("seed", values.seed ?? String(1 + Math.floor(Math.random() * 999_999_999))),
  connections: positiveInteger("connections", values.connections, 200),
};

console.log(`seed        ${plan.seed}`);
const log = new WorkerdLog();
const folder = mkdtempSync(join(tmpdir(), "headgate-fuzz-"));
try {
  const settings = {
    POLICIES: JSON.stringify([...policies, ownPolicy]),
    CHECK_TOKENS: JSON.stringify(tokens),
    KEY_SECRET: `${secretTag}-${crypto.randomUUID()}`,
    ORIGIN_SECRET: originSecret,
    ...jwtSettings,
  };
  const workerd = await startWorkerd(folder, settings, {
    origin,
    cfField: "X-Cf",
    print: (text) => log.add(text),
  });
  try {
    const { hostname, port } = workerd.url;
    const place = { hostname, port: Number(port) };
    const startedAtMs = performance.now();
    const result = await run(place, plan);
    const elapsedMs = performance.now() - startedAtMs;
    report(result, elapsedMs, await aftermath(place, workerd.originUrl, result));
  } finally {
    await workerd.close();
  }
} finally {
  rmSync(folder, { recursive: true });
}

function report(result: FuzzResult, elapsedMs: number, { keys, faults }: Aftermath): void {
  const { requests, seed, connections } = plan;
  const rate = whole((requests * 1_000) / elapsedMs);
  const ofOrigin = result.answers.get("the origin") ?? new Map<number, number>();
  console.log(`requests    ${requests} in ${(elapsedMs / 1_000).toFixed(1)} s, ${rate} per second, ${connections} connections
sent        ${countsText(result.kinds)}
origin      ${countsText(classesOf(ofOrigin))}
Headgate    ${countsText(result.answers.get("Headgate") ?? new Map())}
workerd     ${countsText(result.answers.get("workerd") ?? new Map())}
keys        ${keys} checked at the end
log         ${countsText(log.events)}`);
  const faultLines = [
    ...result.faults.map(
      ({ id, what, request }) => `request ${id} of seed ${seed}: ${what}\n  ${JSON.stringify(request)}`,
    ),
    ...[...faults, ...log.faults()].map((what) => `seed ${seed}: ${what}`),
  ];
  for (const what of faultLines.slice(0, 20)) console.log(what);
  if (faultLines.length > 0) process.exitCode = 1;
  else console.log("No error response of Headgate, and no quota beyond the limits.");
}

/**
 * The number of responses by status class. The origin returns any status that a request asks for, so single statuses
 * are not counted.
 */
function classesOf(statuses: ReadonlyMap<number, number>): Map<string, number> {
  const classes = new Map<string, number>();
  for (const [status, count] of statuses) {
    const name = `${Math.floor(status / 100)}xx`;
    classes.set(name, (classes.get(name) ?? 0) + count);
  }
  return classes;
}

function countsText(counts: ReadonlyMap<string | number, number>): string {
  const entries = [...counts].toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1));
  return entries.map(([name, count]) => `${name} ${count}`).join(", ");
}
