/** Works on the tasks of the page, in short steps, so that other messages get in between. */
import { ApiProblem } from "../api/client.ts";
import { inSteps } from "../long-work.ts";
import type { Samples } from "../../../advisor/replay/read-samples.ts";
import type { KnownSamples, ReplayAnswer, ReplayRequest, ReplayTasks, TaskKind, TaskRequest } from "./messages.ts";

/** Samples that were read, with the facts that the page shows about them. */
export interface ReadSamples extends Pick<Samples, "timelines" | "withOtherLimits"> {
  readonly known: KnownSamples;
}

/** The work on samples. Each step of a generator yields the share that is done. */
export type TaskSteps = {
  readonly [Kind in Exclude<TaskKind, "load">]: (
    samples: ReadSamples,
    request: ReplayTasks[Kind]["request"],
  ) => Generator<number, ReplayTasks[Kind]["result"]>;
} & {
  readonly load: (
    request: ReplayTasks["load"]["request"],
    onProgress: (share: number) => void,
    abort: AbortSignal,
  ) => Promise<ReadSamples>;
};

/** The samples of a policy may take tens of megabytes in memory. */
const mostPolicies = 4;
/** A cancelled task goes on for this long at most. More pauses would slow the task down. */
const stepMs = 30;

/** Returns the function that takes requests. Tasks run at the same time, in turns. */
export function taskHandler(tasks: TaskSteps, post: (answer: ReplayAnswer) => void): (request: ReplayRequest) => void {
  const samples = new Map<string, ReadSamples>();
  const running = new Map<number, AbortController>();

  /** Null for a task that was cancelled. */
  async function resultOf(request: TaskRequest, abort: AbortSignal): Promise<ReplayTasks[TaskKind]["result"] | null> {
    const { id, policy } = request;
    const onProgress = (share: number): void => post({ id, kind: "progress", share });
    if (request.kind === "load") {
      const read = await tasks.load(request, onProgress, abort);
      if (abort.aborted) return null;
      samples.delete(policy);
      samples.set(policy, read);
      const [oldest = ""] = samples.keys();
      if (samples.size > mostPolicies) samples.delete(oldest);
      return [...samples.values()].map(({ known }) => known);
    }
    const read = samples.get(policy);
    if (read === undefined) throw new Error(`The samples of policy ${policy} are not loaded.`);
    return inSteps(stepsOf(request, read), stepMs, (share) => {
      if (!abort.aborted) onProgress(share);
      return !abort.aborted;
    });
  }

  function stepsOf(
    request: Exclude<TaskRequest, { readonly kind: "load" }>,
    read: ReadSamples,
  ): Generator<number, ReplayTasks[TaskKind]["result"]> {
    if (request.kind === "compare") return tasks.compare(read, request);
    if (request.kind === "advise") return tasks.advise(read, request);
    return tasks.candidate(read, request);
  }

  async function work(request: TaskRequest, abort: AbortController): Promise<void> {
    const { id } = request;
    running.set(id, abort);
    try {
      const result = await resultOf(request, abort.signal);
      if (result !== null) post({ id, kind: "done", result });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      const status = error instanceof ApiProblem ? { status: error.status } : {};
      if (!abort.signal.aborted) post({ id, kind: "failed", problem: { message, ...status } });
    }
    running.delete(id);
  }

  return (request) => {
    if (request.kind === "cancel") running.get(request.id)?.abort();
    else void work(request, new AbortController());
  };
}
