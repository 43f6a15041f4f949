/**
 * `npm run bench -- http`: sends real HTTP load to workerd, for Headgate, its alternatives and the least work that
 * could replace it. Contestants that are compared take short turns next to each other, in many rounds. The medians of
 * the paired ratios are printed. Exits with 1 when responses were wrong, which makes their figures void. Options:
 * --goals for what the goals need, in about two minutes; --only <names, separated by commas>, whose floors are also
 * measured; --rounds <number>, --seconds <of a turn>, --connections <number>; --quick for one short round; --generator
 * wrk|autocannon, by default wrk if it is installed; --out <folder> for the JSON and the plot; --record to store the
 * JSON with the benchmark and update `docs/benchmarks`; --write to update these pages from the last recorded run.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exitWithError } from "../../src/cli/command.ts";
import { writeGenerated, themeNames } from "./generated.ts";
import { byAutocannon } from "./http/autocannon.ts";
import { type Contestant, contestantOf, contestants } from "./http/contestants.ts";
import { httpDocs, recordedPath, recordedRun } from "./http/docs.ts";
import type { Generator } from "./http/load.ts";
import { machine } from "./http/machine.ts";
import { allMatches, goalMatches, participants } from "./http/matches.ts";
import { redisVersion } from "./http/node-and-redis.ts";
import { startPlatform } from "./http/platform.ts";
import { figureOf } from "./http/plot.ts";
import { type RecordedRun, runOf, textOf } from "./http/record.ts";
import { figuresTable, goalsTable, setting } from "./http/tables.ts";
import { compete, type ContestOutcome, type ContestSettings } from "./http/turns.ts";
import { findWrk } from "./http/wrk.ts";
import { positiveInteger, readOptions, writeOption } from "./options.ts";

const values = readOptions("http", {
  goals: { type: "boolean", default: false, about: "Measure only what the goals need." },
  rounds: { type: "string", value: "number", about: "Rounds. (default: 10)" },
  seconds: { type: "string", value: "number", default: "0.25", about: "Duration of a turn." },
  connections: { type: "string", value: "number", default: "32", about: "Connections under load." },
  quick: { type: "boolean", default: false, about: "One short round, to see that all works." },
  only: {
    type: "string",
    value: "names",
    about: "Contestants, separated by commas; their floors, too.",
  },
  generator: {
    type: "string",
    value: "name",
    about: "wrk or autocannon. (default: wrk if installed)",
  },
  out: {
    type: "string",
    value: "folder",
    default: "dist/bench-http",
    about: "For figures and plots.",
  },
  record: { type: "boolean", default: false, about: "Store the run and update docs/benchmarks." },
  write: writeOption("docs/benchmarks from the stored run"),
});

const settings: ContestSettings = {
  rounds: positiveInteger("rounds", values.rounds ?? (values.quick ? "1" : "10"), 1_000),
  seconds: secondsOf(values.seconds),
  connections: positiveInteger("connections", values.connections, 1_000),
  isQuick: values.quick,
};
const chosen = chosenOf(values.only);
const matches = values.goals ? goalMatches(chosen) : allMatches(chosen);
const sockets = new Set([...participants(matches)].map((id) => contestantOf(id).socket));

if (!["wrk", "autocannon", undefined].includes(values.generator)) {
  exitWithError(`--generator: expected "wrk" or "autocannon", got "${values.generator}"`);
}
const isPart = values.goals || values.quick || values.only !== undefined;
if (values.record && isPart) {
  exitWithError("--record: expected a run of everything, got --goals, --only or --quick");
}

if (values.write) {
  writeGenerated(httpDocs(recordedRun()));
  process.exit();
}

const folder = mkdtempSync(join(tmpdir(), "headgate-http-"));
try {
  const generator = generatorOf(values.generator);
  const run = runOf(
    {
      measuredOn: new Date().toISOString().slice(0, 10),
      command: commandOf(process.argv.slice(2)),
      machine: machine(generator.title, sockets.has("node") ? redisVersion() : undefined),
      settings,
    },
    await measure(generator),
  );
  report(run);
  if (run.void.length > 0) process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true });
}

async function measure(generator: Generator): Promise<ContestOutcome> {
  const platform = await startPlatform(folder, sockets);
  try {
    return await compete(matches, {
      ...platform,
      generator,
      settings,
      print: (text) => console.error(text),
    });
  } finally {
    await platform.close();
  }
}

function report(run: RecordedRun): void {
  console.log(`${setting(run)}

÷ floor: requests per second, relative to the contestant with the least work that could replace it.
CPU: processor time per request, of all processes that answer it. by CPU: the ratio of these times.
alone: one request at a time.

${figuresTable(run)}

${goalsTable(run)}`);
  for (const { id, why } of run.skipped) console.log(`\nskipped: ${id}: ${why}`);
  for (const { id, why } of run.void) console.log(`\nvoid: ${id}: ${why}`);
  if (!values.record) store(run);
  else if (run.void.length === 0) record(run);
  else {
    store(run);
    console.log(`\nnot recorded, because of void figures; the run is in ${values.out}`);
  }
}

/** Stores the run where later runs do not overwrite it, and updates the pages that show the run. */
function record(run: RecordedRun): void {
  writeFileSync(recordedPath, textOf(run));
  execFileSync(process.execPath, ["node_modules/oxfmt/bin/oxfmt", recordedPath]);
  writeGenerated(httpDocs(run));
}

function store(run: RecordedRun): void {
  mkdirSync(values.out, { recursive: true });
  writeFileSync(join(values.out, "run.json"), textOf(run));
  const figure = figureOf(run);
  for (const theme of themeNames) {
    writeFileSync(join(values.out, `http-${theme}.svg`), figure[theme]);
  }
}

/** The command without the options for the output folder. */
function commandOf(words: readonly string[]): string {
  const options = words.filter((word) => word !== "--record");
  return ["npm run bench -- http", ...options].join(" ");
}

function chosenOf(names: string | undefined): readonly Contestant[] {
  if (names === undefined) return contestants;
  const wanted = names.split(",");
  const unknown = wanted.filter((name) => !contestants.some(({ id }) => id === name));
  if (unknown.length > 0) {
    const all = contestants.map(({ id }) => id).join(", ");
    exitWithError(`--only: expected some of ${all}, got ${unknown.map((name) => `"${name}"`).join(", ")}`);
  }
  return contestants.filter(({ id }) => wanted.includes(id));
}

function generatorOf(name: string | undefined): Generator {
  if (name === "autocannon") return byAutocannon;
  const wrk = findWrk(folder);
  if (wrk === undefined && name === "wrk") throw new Error("wrk is not installed");
  return wrk ?? byAutocannon;
}

/** Longer turns would exceed the capacity of a sliding log. */
function secondsOf(text: string): number {
  const seconds = /^\d{1,2}(?:\.\d{1,3})?$/.test(text) ? Number(text) : 0;
  if (seconds < 0.1 || seconds > 10) {
    exitWithError(`--seconds: expected a number from 0.1 to 10, got "${text}"`);
  }
  return seconds;
}
