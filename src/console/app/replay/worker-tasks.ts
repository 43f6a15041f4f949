/** Works on the tasks of the page, in short steps, so that other messages get in between. */
import { now } from "../clock.ts";
import { nextTask } from "../next-task.ts";
import type { Samples } from "../../../advisor/replay/read-samples.ts";
import type { KnownSamples, ReplayAnswer, ReplayRequest, ReplayTasks, TaskKind, TaskRequest } from "./messages.ts";

/** Samples as they were read. */
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

/** A failed call. The status is 0 without an answer. */
export class RefusedLoad extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** The samples of a policy may take tens of megabytes in memory. */
const mostPolicies = 4;
/** A cancelled task goes on for this long at most. More pauses would slow the task down. */
const stepMs = 30;

/** Returns the function that takes requests. Tasks run at the same time, in turns. */
export function taskHandler(tasks: TaskSteps, post: (answer: ReplayAnswer) => void): (request: ReplayRequest) => void {
  const samples = new Map<string, ReadSamples>();
  const running = new Map<number, AbortController>();

  async function resultOf(request: TaskRequest, abort: AbortSignal): Promise<ReplayTasks[TaskKind]["result"]> {
    const { id, policy } = request;
    const onProgress = (share: number): void => post({ id, kind: "progress", share });
    if (request.kind === "load") {
      const read = await tasks.load(request, onProgress, abort);
      if (!abort.aborted) {
        samples.delete(policy);
        samples.set(policy, read);
      }
      const [oldest = ""] = samples.keys();
      if (samples.size > mostPolicies) samples.delete(oldest);
      return [...samples.values()].map(({ known }) => known);
    }
    const read = samples.get(policy);
    if (read === undefined) throw new Error(`The samples of policy ${policy} are not loaded.`);
    return inSteps(stepsOf(request, read), onProgress, abort);
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
    let answer: ReplayAnswer;
    try {
      answer = { id, kind: "done", result: await resultOf(request, abort.signal) };
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      const status = error instanceof RefusedLoad ? { status: error.status } : {};
      answer = { id, kind: "failed", problem: { message, ...status } };
    }
    if (!abort.signal.aborted) post(answer);
    running.delete(id);
  }

  return (request) => {
    if (request.kind === "cancel") running.get(request.id)?.abort();
    else void work(request, new AbortController());
  };
}

async function inSteps<Result>(
  steps: Generator<number, Result>,
  onProgress: (share: number) => void,
  abort: AbortSignal,
): Promise<Result> {
  let pausedAt = now();
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    if (now() - pausedAt < stepMs) continue;
    onProgress(step.value);
    // oxlint-disable-next-line no-await-in-loop -- messages arrive between two steps
    await nextTask();
    if (abort.aborted) throw new Error("The task is cancelled.");
    pausedAt = now();
  }
}
