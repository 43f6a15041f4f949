/**
 * Answers the requests of the page in the web worker: runs the lanes in steps of some milliseconds, between which a newer
 * request cancels the run.
 */
import { now } from "../../app/clock.ts";
import { nextTask } from "../../app/next-task.ts";
import { buffersOf } from "./columns.ts";
import type { ScenarioRun, WorkerAnswer, WorkerRequest, Scenario } from "./scenario.ts";
import { describeProblem, readLimits } from "../../../strategies/index.ts";
import { acceptedLog } from "../../../advisor/log/line-reader.ts";
import { readLog, type ReadLog } from "../../../advisor/log/read-log.ts";
import { lanesOf } from "./lanes.ts";
import { arrivalsOfLog, isSampleText, readSampleLog } from "./log-traffic.ts";
import { mostRows, runLane } from "./run.ts";
import { acceptedRequests, excessOf } from "./scenario-query.ts";
import { arrivalsOf } from "./traffic.ts";

type PostAnswer = (answer: WorkerAnswer, transfer: ArrayBuffer[]) => void;

/** A cancelled run goes on for this long at most. More pauses would slow the run and the page down. */
const stepMs = 30;

/** Returns the function that takes requests. Each request ends the run of the one before it. */
export function requestHandler(post: PostAnswer): (request: WorkerRequest) => void {
  let latest: WorkerRequest | null = null;
  const answer = async (request: ScenarioRun): Promise<void> => {
    try {
      let pausedAt = now();
      for (const each of answersTo(request)) {
        const isProgress = each.kind === "progress";
        if (isProgress && now() - pausedAt < stepMs) continue;
        post(each, each.kind === "lane" ? buffersOf(each.run) : []);
        await nextTask();
        pausedAt = now();
        if (latest !== request) return;
      }
    } catch (error) {
      post({ kind: "failed", id: request.id, problems: [String(error)], log: null }, []);
    }
  };
  return (request) => {
    latest = request;
    if (request.kind === "run") void answer(request);
  };
}

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
