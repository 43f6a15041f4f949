/**
 * `npm run bench -- trees`: requests per second of `/check/forward` under one level, under trees of three levels without and
 * with fair shares, and under three policies without `within`. They take turns. Options: --rounds <number>, --seconds <number>,
 * --connections <number>.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { byAutocannon } from "./http/autocannon.ts";
import { keyMark } from "./http/load.ts";
import { findWrk } from "./http/wrk.ts";
import { positiveInteger, readOptions } from "./options.ts";
import { medianOf } from "./overhead/table.ts";
import { markdownTable, whole } from "./table.ts";
import { startWorkerd, type Workerd } from "./workerd.ts";

const values = readOptions("trees", {
  rounds: { type: "string", value: "number", default: "9", about: "Rounds. The medians are printed." },
  seconds: { type: "string", value: "number", default: "1", about: "Duration of a turn." },
  connections: { type: "string", value: "number", default: "32", about: "Connections." },
});
const rounds = positiveInteger("rounds", values.rounds, 1_000);
const seconds = positiveInteger("seconds", values.seconds, 600);
const connections = positiveInteger("connections", values.connections, 1_000);

const limits = "1000000000/hour";
const org = { name: "org", key: "header:x-org", limits };
const ways = {
  "one level": [org],
  "tree of three levels": [
    org,
    { name: "team", within: "org", key: "header:x-team", limits },
    { name: "user", within: "team", key: "header:x-user", limits },
  ],
  "tree with fair shares": [
    org,
    { name: "team", within: "org", key: "header:x-team", limits },
    { name: "user", within: "team", key: "header:x-user", limits, guaranteed: "fair" },
  ],
  "three policies without within": [
    org,
    { name: "team", key: ["header:x-org", "header:x-team"], limits },
    { name: "user", key: ["header:x-org", "header:x-team", "header:x-user"], limits },
  ],
};
type Way = keyof typeof ways;
const names = Object.keys(ways) as Way[];

/** The requests of 16 users of one team take turns. */
const users = 16;
const token = "the-benchmarks-token";
const fields = {
  "X-Headgate-Token": token,
  "X-Forwarded-Method": "GET",
  "X-Forwarded-Uri": "/",
  "X-Org": "acme",
  "X-Team": "core",
  "X-User": keyMark,
};

interface Turn {
  readonly rate: number;
  /** Processor time of workerd for each request, in microseconds; null where it is not known. */
  readonly cpuUs: number | null;
}

const folder = mkdtempSync(join(tmpdir(), "headgate-trees-"));
const generator = findWrk(folder) ?? byAutocannon;
const running = new Map<Way, Workerd>();
try {
  for (const [index, name] of names.entries()) {
    const own = mkdtempSync(join(folder, `${index}-`));
    // oxlint-disable-next-line no-await-in-loop
    running.set(name, await startWorkerd(own, { POLICIES: ways[name], CHECK_TOKENS: token }));
  }
  print(await measure());
} finally {
  await Promise.all([...running.values()].map((workerd) => workerd.close()));
  rmSync(folder, { recursive: true });
}

async function measure(): Promise<ReadonlyMap<Way, Turn[]>> {
  const turns = new Map<Way, Turn[]>(names.map((name) => [name, []]));
  // The first round compiles the code and is not counted. The order changes each round, so that no way has an advantage.
  for (let round = -1; round < rounds; round++) {
    for (let place = 0; place < names.length; place++) {
      const name = names[(place + round + 1) % names.length] ?? "one level";
      // oxlint-disable-next-line no-await-in-loop
      const turn = await fire(name);
      if (round >= 0) turns.get(name)?.push(turn);
    }
  }
  return turns;
}

async function fire(name: Way): Promise<Turn> {
  const workerd = running.get(name);
  if (workerd === undefined) throw new Error(`${name} does not run`);
  const before = workerd.cpuMs();
  const measured = await generator.fire({
    url: new URL("/check/forward", workerd.url),
    method: "GET",
    fields,
    body: "",
    keys: { first: 0, count: users },
    connections,
    seconds,
  });
  const after = workerd.cpuMs();
  const { requests, statuses, errors } = measured;
  if (errors > 0 || Object.keys(statuses).some((status) => status !== "204")) {
    throw new Error(`${name}: expected only 204, got ${JSON.stringify(statuses)} and ${errors} errors`);
  }
  const cpuUs = before === null || after === null ? null : ((after - before) * 1_000) / requests;
  return { rate: requests / measured.seconds, cpuUs };
}

function print(turns: ReadonlyMap<Way, Turn[]>): void {
  const rows = names.map((name) => {
    const own = turns.get(name) ?? [];
    const ratios = (to: Way) => own.map(({ rate }, index) => rate / (turns.get(to)?.[index]?.rate ?? Number.NaN));
    const cpu = own.flatMap(({ cpuUs }) => cpuUs ?? []);
    return [
      name,
      whole(medianOf(own.map(({ rate }) => rate))),
      cpu.length === 0 ? "" : whole(medianOf(cpu)),
      medianOf(ratios("one level")).toFixed(2),
      medianOf(ratios("three policies without within")).toFixed(2),
    ];
  });
  console.log(`${generator.title}, ${connections} connections: medians of ${rounds} turns of ${seconds} s`);
  console.log(markdownTable(["policies", "requests/s", "CPU, µs", "÷ one level", "÷ three policies"], rows));
}
