/** Sends tasks to the replay worker, which all views share, and keeps what it answers. */
import { computed, type ReadonlySignal, signal, type Signal, useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { ApiProblem, ConnectionLost, isConnected, refusal, token } from "../api/client.ts";
import { now } from "../clock.ts";
import { BackgroundWorker } from "../parts/background-worker.ts";
import { session } from "../shell/session.ts";
import type {
  KnownSamples,
  ReplayAnswer,
  ReplayRequest,
  ReplayTasks,
  TaskKind,
  TaskProblem,
  TaskRequest,
} from "./messages.ts";
import { startReplayWorker } from "./start-worker.ts";
import { type Polling, usePolled } from "../api/poll.ts";

export interface TaskOptions {
  /** Ends the task when its result is no longer of interest. */
  readonly abort?: AbortSignal;
  /** Receives the share that is done, from 0 to 1. */
  readonly onProgress?: (share: number) => void;
}

interface OpenTask {
  readonly onProgress: ((share: number) => void) | undefined;
  readonly resolve: (result: never) => void;
  readonly reject: (reason: Error) => void;
}

const worker = new BackgroundWorker<ReplayRequest, ReplayAnswer>(startReplayWorker, receive, (reason) =>
  lose(new Error(`The web worker that replays traffic failed. ${reason}`)),
);
let latestId = 0;
const open = new Map<number, OpenTask>();
/** The samples that the worker has, by policy. They are lost with it. */
const known = signal<ReadonlyMap<string, KnownSamples>>(new Map());
// The next operator of the tab may have no right to see the samples.
session.subscribe(({ kind }) => {
  if (kind === "signed-out") lose(new Error("The operator has signed out."));
});

/** @throws ApiProblem or ConnectionLost when samples cannot be read */
export function runTask<Kind extends TaskKind>(
  kind: Kind,
  request: ReplayTasks[Kind]["request"],
  { abort, onProgress }: TaskOptions = {},
): Promise<ReplayTasks[Kind]["result"]> {
  latestId += 1;
  const id = latestId;
  return new Promise((resolve, reject) => {
    abort?.addEventListener("abort", () => {
      if (!open.delete(id)) return;
      worker.send({ kind: "cancel", id });
      reject(abort.reason);
    });
    open.set(id, { onProgress, resolve, reject });
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the kind selects the type of the request
    worker.send({ ...request, kind, id } as unknown as TaskRequest);
  });
}

function receive(answer: ReplayAnswer): void {
  const task = open.get(answer.id);
  if (task === undefined) return;
  if (answer.kind === "progress") {
    task.onProgress?.(answer.share);
    return;
  }
  open.delete(answer.id);
  if (answer.kind === "failed") task.reject(errorOf(answer.problem));
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the result is that of the task with this id
  else task.resolve(answer.result as never);
}

/**
 * The error of a task. A refused or lost call of the worker changes the state of the connection or the credentials,
 * like a call of the page.
 */
function errorOf({ message, status }: TaskProblem): Error {
  if (status === undefined) return new Error(message);
  if (status === 0) {
    isConnected.value = false;
    return new ConnectionLost(message);
  }
  const problem = new ApiProblem({ status, detail: message });
  if (status === 401) refusal.value = problem;
  return problem;
}

function lose(reason: Error): void {
  worker.stop();
  known.value = new Map();
  const lost = [...open.values()];
  open.clear();
  for (const { reject } of lost) reject(reason);
}

export interface SamplesState extends Pick<Polling<unknown>, "problem" | "readAgain"> {
  /** The last samples that were read; null before the first. */
  readonly value: ReadonlySignal<KnownSamples | null>;
  /** The share of the samples that has arrived, from 0 to 1. */
  readonly progress: ReadonlySignal<number>;
}

/** How long samples stay fresh. They may have many megabytes, so they are read again only after some minutes. */
const freshMs = 300_000;
/** The pause while there are no samples. A new deployment soon has its first ones. */
const pauseMs = 10_000;

/**
 * Reads the samples of the last 24 hours unless this tab has fresh ones.
 * @param mostAgeMs how long samples stay fresh
 */
export function useSamples(policy: string, mostAgeMs = freshMs): SamplesState {
  const progress = useSignal(0);
  const { problem, readAgain } = usePolled(
    (abort) => readUnlessFresh({ policy, mostAgeMs, progress }, abort),
    pauseMs,
    [policy, mostAgeMs],
  );
  const value = useMemo(() => computed(() => known.value.get(policy) ?? null), [policy]);
  return { value, problem, progress, readAgain };
}

interface FreshSamples {
  readonly policy: string;
  readonly mostAgeMs: number;
  readonly progress: Signal<number>;
}

async function readUnlessFresh({ policy, mostAgeMs, progress }: FreshSamples, abort: AbortSignal): Promise<void> {
  const last = known.peek().get(policy);
  if (last !== undefined && last.arrivals > 0 && now() - last.readAtMs < mostAgeMs) return;
  progress.value = 0;
  const onProgress = (share: number): void => {
    progress.value = share;
  };
  const url = new URL(`api/samples?policy=${encodeURIComponent(policy)}`, document.baseURI).href;
  const request = { policy, url, token: token.peek(), nowMs: now() };
  const all = await runTask("load", request, { abort, onProgress });
  known.value = new Map(all.map((each) => [each.policy, each]));
}
