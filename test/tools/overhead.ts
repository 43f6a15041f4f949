/**
 * `npm run bench -- overhead`: measures what the control plane's statistics and traffic samples add to a decision, in a
 * loop inside workerd, where the noise is smaller than over HTTP. The mode without statistics is measured twice (A/A).
 * Exits with 1 when statistics, or samples of one key in 64, add a microsecond or more. Options: --rounds <number>,
 * --decisions <number>.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import {
  type LoadName,
  loads,
  type MeasuredOverhead,
  type Mode,
  modes,
  type OverheadCall,
  type OverheadReply,
} from "./overhead/loads.ts";
import { comparisons, medianOf, overheadOf, overheadRow, type Comparison } from "./overhead/table.ts";
import { positiveInteger, readOptions } from "./options.ts";
import { markdownTable } from "./table.ts";
import { bundle, runWorkerd } from "./workerd-process.ts";

const values = readOptions("overhead", {
  rounds: {
    type: "string",
    value: "number",
    default: "9",
    about: "Rounds. The median is printed.",
  },
  decisions: {
    type: "string",
    value: "number",
    default: "100000",
    about: "Decisions in each round, with statistics and without.",
  },
});
const rounds = positiveInteger("rounds", values.rounds, 1_000);
const decisions = positiveInteger("decisions", values.decisions, 10_000_000);

const compatibilityDate = "2026-11-01";
const mostNs = 1_000;
/** The modes that may add less than a microsecond. */
const boundedParts: readonly (readonly [part: string, compared: readonly Comparison[]])[] = [
  [
    "statistics",
    [
      ["on", "off"],
      ["all", "off"],
    ],
  ],
  ["samples of one key in 64", [["1/64", "on"]]],
];
const loadNames = Object.keys(loads) as LoadName[];

const configuration = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "loop", worker = (
    modules = [(name = "worker.js", esModule = embed "worker.js")],
    compatibilityDate = "${compatibilityDate}",
  ))],
  sockets = [(name = "loop", http = (), service = "loop")],
);
`;

const folder = mkdtempSync(join(tmpdir(), "headgate-overhead-"));
try {
  const main = resolve(import.meta.dirname, "overhead", "worker.ts");
  const worker = { name: "overhead", main, compatibility_date: compatibilityDate, minify: true };
  writeFileSync(join(folder, "wrangler.json"), JSON.stringify(worker));
  bundle(folder, join(folder, "wrangler.json"));
  writeFileSync(join(folder, "workerd.capnp"), configuration);
  const workerd = await runWorkerd(folder, { loop: 0 });
  try {
    await measure(new URL(`http://127.0.0.1:${workerd.ports.loop}`), workerd.pid);
  } finally {
    await workerd.kill();
  }
} finally {
  rmSync(folder, { recursive: true });
}

async function measure(url: URL, pid: number): Promise<void> {
  const measured = new Map<LoadName, MeasuredOverhead>();
  // Runs them one after the other, so that each has the machine to itself.
  // oxlint-disable-next-line no-await-in-loop
  for (const load of loadNames) measured.set(load, await measureLoad(url, pid, load));
  const differences = comparisons.map(([mode, base]) => `${mode} − ${base}`);
  const header = ["load", "denied", ...modes, ...differences];
  const rows = [...measured].map(([load, each]) => overheadRow(load, each));
  const time = cpuNs(pid) === null ? "elapsed time" : "CPU time of workerd";
  console.log(`nanoseconds per decision, ${time}: medians of ${rounds} rounds`);
  console.log(markdownTable(header, rows));
  const all = [...measured.values()];
  const batchMs = medianOf(all.flatMap((each) => each.batchMs));
  console.log(`closing a batch, for which no decision waits: ${batchMs.toFixed(1)} ms`);
  for (const [part, compared] of boundedParts) {
    const most = Math.max(...all.flatMap((each) => compared.map((comparison) => overheadOf(each, comparison))));
    const isWithin = most < mostNs;
    const verdict = isWithin ? "less than 1 µs" : "expected less than 1 µs";
    console.log(`${part} add at most ${Math.round(most)} ns to a decision: ${verdict}`);
    if (!isWithin) process.exitCode = 1;
  }
}

/** The modes take turns within a round, in an order that changes each round, so that no mode has an advantage. */
async function measureLoad(url: URL, pid: number, load: LoadName): Promise<MeasuredOverhead> {
  const measured: MeasuredOverhead = {
    roundNs: { off: [], "off again": [], on: [], all: [], "1/64": [], "1/1": [] },
    deniedShare: 0,
    batchMs: [],
  };
  const call = async (mode: Mode, count: number): Promise<OverheadReply> => {
    const body = JSON.stringify({ load, mode, decisions: count } satisfies OverheadCall);
    const response = await fetch(url, { method: "POST", body });
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
    return response.json<OverheadReply>();
  };
  // The first round compiles the code and is not counted.
  for (let round = -1; round < rounds; round++) {
    for (let turn = 0; turn < modes.length; turn++) {
      const mode = modes[(turn + round + 1) % modes.length] ?? "off";
      const before = cpuNs(pid);
      // oxlint-disable-next-line no-await-in-loop
      const { elapsedMs, deniedShare } = await call(mode, decisions);
      const after = cpuNs(pid);
      // oxlint-disable-next-line no-await-in-loop
      const beat = await call(mode, 0);
      if (round < 0) continue;
      const ns = before === null || after === null ? elapsedMs * 1e6 : after - before;
      measured.roundNs[mode].push(ns / decisions);
      measured.deniedShare = deniedShare;
      if (mode === "on") measured.batchMs.push(beat.elapsedMs);
    }
  }
  return measured;
}

/**
 * The time that the threads of a process have run, in nanoseconds. Other programs on the machine do not affect this
 * time. Null on systems without Linux's `/proc`.
 */
function cpuNs(pid: number): number | null {
  const tasks = `/proc/${pid}/task`;
  if (!existsSync(tasks)) return null;
  const times = readdirSync(tasks).map((task) => {
    const path = join(tasks, task, "schedstat");
    return existsSync(path) ? Number(readFileSync(path, "utf8").split(" ")[0]) : 0;
  });
  return times.reduce((sum, ns) => sum + ns, 0);
}
