/** Runs the scenario in the web worker, and keeps what it answers. */
import { batch, computed, effect, signal } from "@preact/signals";
import type { LogReport } from "../../advisor/log/read-log.ts";
import type { MissingLane } from "./model/lanes.ts";
import type { LaneRun } from "./model/run.ts";
import type { ScenarioRun, WorkerAnswer } from "./model/serve.ts";
import { BackgroundWorker } from "../app/parts/background-worker.ts";
import { logText, scenario } from "./page-state.ts";
import { startPlaygroundWorker } from "./start-worker.ts";

interface RunState {
  readonly status: "waiting" | "running" | "done" | "cancelled" | "failed";
  /** The number of first requests, without retries. */
  readonly requests: number;
  /** From 0 to 1. */
  readonly share: number;
  readonly lanes: readonly string[];
  readonly missing: readonly MissingLane[];
  readonly log: LogReport | null;
  /** Why the run failed, one line each. */
  readonly problems: readonly string[];
}

const nothing: RunState = {
  status: "waiting",
  requests: 0,
  share: 0,
  lanes: [],
  missing: [],
  log: null,
  problems: [],
};

export const runState = signal<RunState>(nothing);
/** Signals of their own, which do not change with the progress of a run. */
export const runStatus = computed(() => runState.value.status);
export const runLanes = computed(() => runState.value.lanes);
/** By lane. A lane keeps its earlier run until the new one arrives. */
export const laneRuns = signal<ReadonlyMap<string, LaneRun>>(new Map());

let latestId = 0;
const worker = new BackgroundWorker<ScenarioRun, WorkerAnswer>(startPlaygroundWorker, receive, (reason) =>
  showWithoutLanes({ status: "failed", problems: [`The web worker that runs the requests failed. ${reason}`] }),
);

/** Removes all lanes: the results of an earlier run would look like those of the present scenario. */
function showWithoutLanes(state: Partial<RunState>): void {
  batch(() => {
    runState.value = { ...nothing, ...state };
    laneRuns.value = new Map();
  });
}

function receive(answer: WorkerAnswer): void {
  if (answer.id !== latestId) return;
  const state = runState.value;
  switch (answer.kind) {
    case "started":
      batch(() => {
        runState.value = { ...nothing, ...answer, status: "running" };
        const kept = [...laneRuns.value].filter(([lane]) => answer.lanes.includes(lane));
        laneRuns.value = new Map(kept);
      });
      break;
    case "progress":
      runState.value = { ...state, share: answer.share };
      break;
    case "lane":
      laneRuns.value = new Map(laneRuns.value).set(answer.run.lane, answer.run);
      break;
    case "done":
      runState.value = { ...state, status: "done", share: 1 };
      break;
    case "failed":
      showWithoutLanes({ status: "failed", problems: answer.problems, log: answer.log });
      break;
    default:
      answer satisfies never;
  }
}

export function startRun(): void {
  latestId += 1;
  if (scenario.value.traffic === "log" && logText.value === null) {
    worker.stop();
    showWithoutLanes({});
    return;
  }
  runState.value = { ...runState.value, status: "running", share: 0, problems: [] };
  worker.send({ kind: "run", id: latestId, scenario: scenario.value, log: logText.value });
}

export function cancel(): void {
  worker.stop();
  runState.value = { ...runState.value, status: "cancelled" };
}

/** A slider changes the scenario many times a second. */
const pauseMs = 50;

/** Runs each scenario until the returned function is called. */
export function runChanges(): () => void {
  let timer = 0;
  const stop = effect(() => {
    void [scenario.value, logText.value];
    clearTimeout(timer);
    timer = setTimeout(startRun, latestId === 0 ? 0 : pauseMs);
  });
  return () => {
    clearTimeout(timer);
    stop();
    worker.stop();
  };
}
