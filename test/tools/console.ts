/**
 * `npm run bench -- console`: measures the console in Chromium, together with a Worker that has 50 policies under load.
 * It measures the time to the first view, the tasks of the main thread, 100,000 requests in the playground, and the
 * memory of a live tail. Exits with 1 when a figure misses its target.
 */
import { setTimeout } from "node:timers/promises";
import { CommandError, runCommand } from "../../src/cli/command.ts";
import { hasBrowser, launchBrowser } from "../console/app/browser.ts";
import { startConsoleWorker } from "../console/app/console-worker.ts";
import { type MeasuredSite, manyPolicies, sendLoad } from "./console/page.ts";
import { playgroundRuns } from "./console/playground.ts";
import { tailMemory } from "./console/tail.ts";
import { firstView, liveData } from "./console/views.ts";
import { positiveInteger, readOptions } from "./options.ts";

const values = readOptions("console", {
  rounds: { type: "string", value: "number", default: "9", about: "Page loads, and runs." },
  seconds: { type: "string", value: "number", default: "60", about: "Live data of each view." },
  minutes: { type: "string", value: "number", default: "10", about: "How long the tail is open." },
});
const rounds = positiveInteger("rounds", values.rounds, 100);
const seconds = positiveInteger("seconds", values.seconds, 3_600);
const minutes = positiveInteger("minutes", values.minutes, 600);

await runCommand(measure);

async function measure(): Promise<void> {
  if (!hasBrowser) throw new CommandError("expected chromium in PATH, or Linux on x64");
  const [worker, browser] = await Promise.all([startConsoleWorker({ policies: manyPolicies }), launchBrowser()]);
  let isOver = false;
  const load = sendLoad(worker, () => isOver);
  try {
    // Isolates report their decisions every second while an operator reads the statistics, and otherwise every ten
    // seconds.
    await setTimeout(12_000);
    await measureAll({ worker, browser });
  } finally {
    isOver = true;
    await load;
    await Promise.all([browser.close(), worker.close()]);
  }
}

/** Runs the measurements one after the other, so that each has the whole machine. */
async function measureAll(site: MeasuredSite): Promise<void> {
  const missed: string[] = [];
  const measurements = [
    () => firstView(site, rounds),
    ...["?span=5m", "?span=1h", "live", "policies"].map((view) => () => liveData(site, view, seconds)),
    () => playgroundRuns(site, rounds),
    () => tailMemory(site, minutes),
  ];
  for (const each of measurements) {
    // oxlint-disable-next-line no-await-in-loop
    for (const { name, text, isMet } of await each()) {
      console.log(`${isMet ? "met   " : "missed"}  ${name}: ${text}`);
      if (!isMet) missed.push(name);
    }
  }
  if (missed.length > 0) throw new CommandError(`missed: ${missed.join("; ")}`);
}
