/** Works on the tasks of the page, in short steps, so that other messages get in between. */
import { now } from "../clock.ts";
import { nextTask } from "../next-task.ts";
import type { Timelines } from "../../../advisor/replay/timelines.ts";
import type {
  KnownSamples,
  ReplayAnswer,
  ReplayRequest,
  ReplayTasks,
  TaskKind,
  TaskProblem,
  TaskRequest,
} from "./messages.ts";

/** Samples as they were read. */
export interface ReadSamples {
  readonly known: KnownSamples;
  /** Arrivals that the limits of the policy decided. */
  readonly timelines: Timelines;
  /** Those that overrides and rules of keys decided, too. */
  readonly withOtherLimits: Timelines;
}

type Request<Kind extends TaskKind> = ReplayTasks[Kind]["request"];

/** The work on samples. Each step of a generator yields the share that is done. */
export interface TaskSteps {
  readonly load: (
    request: Request<"load">,
    onProgress: (share: number) => void,
    abort: AbortSignal,
  ) => Promise<ReadSamples>;
  readonly replays: {
    readonly [Kind in Exclude<TaskKind, "load">]: (
      samples: ReadSamples,
      request: Request<Kind>,
    ) => Generator<number, ReplayTasks[Kind]["result"]>;
  };
}

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
export function taskHandler(
  { load, replays }: TaskSteps,
  post: (answer: ReplayAnswer) => void,
): (request: ReplayRequest) => void {
  const samples = new Map<string, ReadSamples>();
  const running = new Map<number, AbortController>();
  const keep = (read: ReadSamples): void => {
    const { policy } = read.known;
    samples.delete(policy);
    samples.set(policy, read);
    const [oldest] = samples.keys();
    if (samples.size > mostPolicies && oldest !== undefined) samples.delete(oldest);
  };

  const resultOf = async (request: TaskRequest, abort: AbortSignal): Promise<ReplayTasks[TaskKind]["result"]> => {
    const { id, policy } = request;
    const onProgress = (share: number): void => post({ id, kind: "progress", share });
    if (request.kind === "load") {
      const read = await load(request, onProgress, abort);
      if (!abort.aborted) keep(read);
      return [...samples.values()].map(({ known }) => known);
    }
    const read = samples.get(policy);
    if (read === undefined) throw new Error(`The samples of policy ${policy} are not loaded.`);
    return inSteps(stepsOf(request, read), onProgress, abort);
  };
  const stepsOf = (
    request: Exclude<TaskRequest, { readonly kind: "load" }>,
    read: ReadSamples,
  ): Generator<number, ReplayTasks[TaskKind]["result"]> => {
    if (request.kind === "compare") return replays.compare(read, request);
    if (request.kind === "advise") return replays.advise(read, request);
    return replays.candidate(read, request);
  };

  const work = async (request: TaskRequest, { signal }: AbortController): Promise<void> => {
    const { id } = request;
    try {
      const result = await resultOf(request, signal);
      if (!signal.aborted) post({ id, kind: "done", result });
    } catch (error) {
      if (!signal.aborted) post({ id, kind: "failed", problem: problemOf(error) });
    }
    running.delete(id);
  };

  return (request) => {
    if (request.kind === "cancel") {
      running.get(request.id)?.abort();
      return;
    }
    const abort = new AbortController();
    running.set(request.id, abort);
    void work(request, abort);
  };
}

const problemOf = (error: unknown): TaskProblem => ({
  message: error instanceof Error ? error.message : String(error),
  ...(error instanceof RefusedLoad && { status: error.status }),
});

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
