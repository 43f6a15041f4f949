/** Measures 100,000 requests through all strategies in the playground. */
import { setTimeout } from "node:timers/promises";
import { spreadOf } from "../http/statistics.ts";
import { type Figure, type MeasuredSite, openMeasured, tasksText, untilTrue } from "./page.ts";

const targetMs = 2_000;

/** Measures each run from its message to the web worker until the worker answers that the run is complete. */
const timedRuns = `
  globalThis.runsMs = [];
  const Original = globalThis.Worker;
  globalThis.Worker = class extends Original {
    #startedMs = 0;
    constructor(...values) {
      super(...values);
      super.addEventListener("message", ({ data }) => {
        if (data.kind === "done") runsMs.push(performance.now() - this.#startedMs);
      });
    }
    postMessage(message, transfer) {
      if (message.kind === "run") this.#startedMs = performance.now();
      super.postMessage(message, transfer);
    }
  };`;

const view = "playground?traffic=steady&rate=100000/1m&length=1m&keys=10";

export async function playgroundRuns(site: MeasuredSite, rounds: number): Promise<Figure[]> {
  const runs: number[] = [];
  const tasks: number[] = [];
  for (let round = 0; round < rounds; round++) {
    // oxlint-disable no-await-in-loop
    const { page, performance, close } = await openMeasured(site, view, timedRuns);
    await untilTrue(page, "runsMs.length > 0");
    // The page draws the last lane after this answer.
    await setTimeout(1_000);
    runs.push(...(await page.evaluate<number[]>("runsMs")));
    tasks.push(...(await performance()).longTasks);
    await close();
    // oxlint-enable no-await-in-loop
  }
  const { median, lower, upper } = spreadOf(runs);
  return [
    {
      name: `100,000 requests through all strategies, median of ${runs.length}`,
      text: `${median.toFixed(0)} ms (quartiles ${lower.toFixed(0)} – ${upper.toFixed(0)})`,
      isMet: median < targetMs,
    },
    {
      name: "tasks over 50 ms of the page during these runs",
      text: tasksText(tasks),
      isMet: tasks.length === 0,
    },
  ];
}
