/**
 * `npm run bench -- memory`: measures the heap of one isolate with Headgate's Worker and 32 busy shards while it
 * receives new keys: first strict, then leased, then eventual keys. Exits with 1 when the heap exceeds 96 MB, including
 * garbage. Options: --keys <number> of each consistency; --consistency <name> for only one consistency; --record to
 * store the run and update the page about capacity; --write to update the page from the stored run.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exitWithError } from "../../src/cli/command.ts";
import { writeGenerated } from "./generated.ts";
import {
  type ConsistencyRun,
  memoryDocs,
  type MemoryRun,
  type MemoryStep,
  memoryTable,
  mostBytesOf,
  recordedPath,
  recordedRun,
} from "./memory/docs.ts";
import { boundBytes, type BusyIsolate, consistencies, type Consistency, startBusyIsolate } from "./memory/isolate.ts";
import { positiveInteger, readOptions, writeOption } from "./options.ts";
import { whole } from "./table.ts";

const values = readOptions("memory", {
  keys: {
    type: "string",
    value: "number",
    default: "1000000",
    about: "New keys of each consistency.",
  },
  consistency: {
    type: "string",
    value: "name",
    about: "strict, leased or eventual. (default: all)",
  },
  record: { type: "boolean", default: false, about: "Store the run and update the page." },
  write: writeOption("the page about capacity from the stored run"),
});
const keys = positiveInteger("keys", values.keys);
const chosen = consistencies.filter((each) => (values.consistency ?? each) === each);
if (chosen.length === 0) {
  exitWithError(`--consistency: expected one of ${consistencies.join(", ")}, got "${values.consistency}"`);
}
const isRecorded = values.record && chosen.length === consistencies.length;
if (values.record && !isRecorded) exitWithError("--record: expected no --consistency with it");
if (values.write) {
  writeGenerated(memoryDocs(recordedRun()));
  process.exit();
}

const stepCount = 200;
/** With fewer keys in a step, some steps would have no garbage collection. */
const leastStep = 1_000;

const folder = mkdtempSync(join(tmpdir(), "headgate-memory-sum-"));
try {
  const isolate = await startBusyIsolate(folder);
  try {
    const runs: ConsistencyRun[] = [];
    for (const consistency of chosen) {
      // The same isolate receives the keys of all consistencies, one after the other.
      // oxlint-disable-next-line no-await-in-loop
      runs.push(await measure(isolate, consistency));
    }
    report({ measuredOn: new Date().toISOString().slice(0, 10), keys, runs });
  } finally {
    await isolate.close();
  }
} finally {
  rmSync(folder, { recursive: true });
}

async function measure(isolate: BusyIsolate, consistency: Consistency): Promise<ConsistencyRun> {
  const stepKeys = Math.max(leastStep, Math.ceil(keys / stepCount));
  const steps: MemoryStep[] = [];
  let sent = 0;
  let printedAtMs = 0;
  const startedAtMs = performance.now();
  while (sent < keys) {
    const count = Math.min(stepKeys, keys - sent);
    sent += count;
    // oxlint-disable-next-line no-await-in-loop
    const step = await isolate.send(consistency, count);
    steps.push({ keys: sent, ...step });
    const nowMs = performance.now();
    if (nowMs - printedAtMs < 5_000 && sent < keys) continue;
    printedAtMs = nowMs;
    console.error(
      `${consistency}: ${whole(sent)} keys, ${whole((1_000 * sent) / (nowMs - startedAtMs))} per second, ${Math.round(step.mostBytes / 1_000_000)} MB with garbage`,
    );
  }
  return { consistency, steps, liveBytes: await isolate.liveBytes() };
}

function report(run: MemoryRun): void {
  console.log(memoryTable(run));
  if (isRecorded) {
    const round = (_: string, value: unknown): unknown =>
      typeof value === "number" ? Number(value.toPrecision(4)) : value;
    writeFileSync(recordedPath, `${JSON.stringify(run, round)}\n`);
    execFileSync(process.execPath, ["node_modules/oxfmt/bin/oxfmt", recordedPath]);
    writeGenerated(memoryDocs(recordedRun()));
  }
  if (Math.max(...run.runs.map(mostBytesOf)) > boundBytes) {
    process.exitCode = 1;
    console.error(`expected a heap of at most ${boundBytes / 1_000_000} MB, garbage included`);
  }
}
