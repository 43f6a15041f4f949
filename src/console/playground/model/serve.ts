/**
 * Answers the requests of the page in the web worker: runs the lanes in steps of some milliseconds, between which a newer
 * request ends the run.
 */
import { now } from "../../app/clock.ts";
import { nextTask } from "../../app/long-work.ts";
import { describeProblem, readLimits } from "../../../strategies/index.ts";
import { acceptedLog } from "../../../advisor/log/line-reader.ts";
import { type LogReport, readLog, type ReadLog } from "../../../advisor/log/read-log.ts";
import { buffersOf } from "./columns.ts";
import { lanesOf, type MissingLane } from "./lanes.ts";
import { arrivalsOfLog, isSampleText, readSampleLog } from "./log-traffic.ts";
import { type LaneRun, mostRows, runLane } from "./run.ts";
import { acceptedRequests, excessOf } from "./scenario-query.ts";
import type { Scenario } from "./scenario.ts";
import { arrivalsOf } from "./traffic.ts";

/** A message to the web worker. It starts a run, and ends the previous one. */
export interface ScenarioRun {
  readonly kind: "run";
  /** Every answer to this run repeats the id. */
  readonly id: number;
  readonly scenario: Scenario;
  /** The text of a pasted log, for traffic of the kind `log`. */
  readonly log: string | null;
}

/** From the web worker: `started`, then `progress` and `lane` in any number, then `done`. Or `failed` at any point. */
export type WorkerAnswer = { readonly id: number } & (
  | {
      readonly kind: "started";
      readonly requests: number;
      /** The names of the lanes, in the order in which the worker sends them. */
      readonly lanes: readonly string[];
      readonly missing: readonly MissingLane[];
      /** Null unless a log was pasted. */
      readonly log: LogReport | null;
    }
  /** `share` is from 0 to 1. */
  | { readonly kind: "progress"; readonly share: number }
  | { readonly kind: "lane"; readonly run: LaneRun }
  | { readonly kind: "done" }
  /** `problems` has one line for each problem, for people to read. */
  | { readonly kind: "failed"; readonly problems: readonly string[]; readonly log: LogReport | null }
);

type PostAnswer = (answer: WorkerAnswer, transfer: ArrayBuffer[]) => void;

/** The longest time without a check for a newer request. More checks would slow down the run and the page. */
const stepMs = 30;

/** Returns the function that takes requests. Each request ends the run of the one before it. */
export function requestHandler(post: PostAnswer): (request: ScenarioRun) => void {
  let latest: ScenarioRun | null = null;
  const answer = async (request: ScenarioRun): Promise<void> => {
    try {
      let pausedAt = now();
      for (const each of answersTo(request)) {
        if (each.kind === "progress" && now() - pausedAt < stepMs) continue;
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
    void answer(request);
  };
}

/** The answers to a run, in order. A caller that stops reading them ends the run. */
export function* answersTo({ id, scenario, log }: ScenarioRun): Generator<WorkerAnswer, void> {
  const problems = problemsOf(scenario, log);
  const read = log === null || scenario.traffic !== "log" ? null : readTraffic(log);
  const report = read?.report ?? null;
  if (log !== null && read?.requests.length === 0) problems.push(`the log: expected ${acceptedIn(log)}`);
  if (problems.length > 0) {
    yield { kind: "failed", id, problems, log: report };
    return;
  }
  const arrivals = read === null ? arrivalsOf(scenario) : arrivalsOfLog(read.requests);
  const { lanes, missing } = lanesOf(scenario);
  const names = lanes.map(({ lane }) => lane);
  yield { kind: "started", id, requests: arrivals.atMs.length, lanes: names, missing, log: report };
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

function problemsOf(scenario: Scenario, log: string | null): string[] {
  const problems: string[] = [];
  readLimits(scenario.limits, {}, (problem) => problems.push(describeProblem({ ...problem, variable: "limits" })));
  const excess = excessOf(scenario);
  if (excess !== null) {
    const { field, requests } = excess;
    problems.push(describeProblem({ variable: field, field: "", value: requests, accepted: acceptedRequests }));
  }
  if (scenario.traffic === "log" && log === null) problems.push(`the log is missing: expected ${acceptedLog}`);
  return problems;
}
