/** The answers of the web worker to a request, in steps of some milliseconds: between them the worker can be cancelled. */
import { describeProblem, readLimits } from "../../../strategies/index.ts";
import { acceptedLog } from "../../../advisor/log/line-reader.ts";
import { readLog, type ReadLog } from "../../../advisor/log/read-log.ts";
import { lanesOf } from "./lanes.ts";
import { arrivalsOfLog } from "./log-arrivals.ts";
import { mostRows, runLane } from "./run.ts";
import { isSampleText, readSampleLog } from "./sample-log.ts";
import { acceptedRequests, excessOf } from "./scenario-query.ts";
import type { Scenario, ScenarioRun, WorkerAnswer } from "./scenario.ts";
import { arrivalsOf } from "./traffic.ts";

/** The answers to a run, in their order. A caller that stops taking them cancels the run. */
export function* answersTo({ id, scenario, log }: ScenarioRun): Generator<WorkerAnswer, void> {
  const problems = problemsOf(scenario, log);
  const read = log === null || scenario.traffic.kind !== "log" ? null : readTraffic(log);
  if (log !== null && read?.requests.length === 0) problems.push(`the log: expected ${acceptedIn(log)}`);
  if (problems.length > 0) {
    yield { kind: "failed", id, problems, log: read?.report ?? null };
    return;
  }
  const arrivals = arrivalsOf(scenario, read === null ? null : arrivalsOfLog(read.requests));
  const { lanes, missing } = lanesOf(scenario);
  yield {
    kind: "started",
    id,
    requests: arrivals.atMs.length,
    lanes: lanes.map(({ lane }) => lane),
    missing,
    log: read?.report ?? null,
  };
  for (const [index, lane] of lanes.entries()) {
    const steps = runLane(lane, arrivals, scenario);
    let step = steps.next();
    for (; !step.done; step = steps.next()) {
      yield { kind: "progress", id, share: (index + step.value) / lanes.length };
    }
    yield { kind: "lane", id, run: step.value };
    yield { kind: "progress", id, share: (index + 1) / lanes.length };
  }
  yield { kind: "done", id };
}

const readTraffic = (text: string): ReadLog =>
  isSampleText(text) ? readSampleLog(text, mostRows) : readLog(text, mostRows);

const acceptedIn = (text: string): string =>
  isSampleText(text) ? "samples with requests; no sampled key has sent any" : acceptedLog;

/** One line for each problem. */
function problemsOf(scenario: Scenario, log: string | null): string[] {
  const problems: string[] = [];
  readLimits(scenario.limits, {}, (problem) => problems.push(describeProblem({ ...problem, variable: "limits" })));
  const excess = excessOf(scenario);
  if (excess !== null) {
    const { field, requests } = excess;
    problems.push(describeProblem({ variable: field, field: "", value: requests, accepted: acceptedRequests }));
  }
  if (scenario.traffic.kind === "log" && log === null) problems.push(`the log is missing: expected ${acceptedLog}`);
  return problems;
}
