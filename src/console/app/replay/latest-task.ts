/** Runs one task at a time for inputs that change, and keeps the last result until the next one arrives. */
import { batch, signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { errorOf } from "../api/client.ts";
import type { TaskOptions } from "./worker-client.ts";

type RunTask<Result> = (options: TaskOptions) => Promise<Result>;

export type TaskState<Result> = Pick<LatestTask<Result>, "result" | "problem" | "share">;

export class LatestTask<Result> {
  /** The last result, possibly of earlier inputs; null before the first. */
  readonly result = signal<Result | null>(null);
  /** Why the last task failed. */
  readonly problem = signal<Error | null>(null);
  /** The share that is done, from 0 to 1; null while nothing runs. */
  readonly share = signal<number | null>(null);
  #abort: AbortController | null = null;
  #waiting: RunTask<Result> | null = null;

  /** Ends the running task, and starts this one. */
  start(run: RunTask<Result>): void {
    this.stop();
    void this.#run(run);
  }

  /**
   * Starts this task when the running one is done, unless a newer task replaces it. So results appear while a slider
   * moves.
   */
  startNext(run: RunTask<Result>): void {
    if (this.#abort === null) void this.#run(run);
    else this.#waiting = run;
  }

  stop(): void {
    this.#waiting = null;
    this.#abort?.abort();
    this.#abort = null;
    this.share.value = null;
  }

  async #run(run: RunTask<Result>): Promise<void> {
    const abort = new AbortController();
    this.#abort = abort;
    this.share.value = 0;
    const onProgress = (share: number): void => {
      if (!abort.signal.aborted) this.share.value = share;
    };
    let result: Result | null = null;
    let problem: Error | null = null;
    try {
      result = await run({ abort: abort.signal, onProgress });
    } catch (error) {
      problem = errorOf(error);
    }
    if (abort.signal.aborted) return;
    const waiting = this.#waiting;
    this.#waiting = null;
    this.#abort = null;
    batch(() => {
      if (problem === null) this.result.value = result;
      this.problem.value = problem;
      this.share.value = null;
      if (waiting !== null) void this.#run(waiting);
    });
  }
}

/**
 * Runs a task when the component is shown, and again when a parameter changes.
 * @param run null while there is nothing to run
 * @param isContinuous whether the running task may end before the next one starts
 */
export function useTask<Result>(
  run: RunTask<Result> | null,
  parameters: readonly unknown[],
  { isContinuous = false }: { readonly isContinuous?: boolean } = {},
): TaskState<Result> {
  const [task] = useState(() => new LatestTask<Result>());
  useEffect(() => {
    if (run === null) task.stop();
    else if (isContinuous) task.startNext(run);
    else task.start(run);
    // oxlint-disable-next-line react/exhaustive-deps -- the caller lists what the task depends on
  }, parameters);
  useEffect(() => () => task.stop(), [task]);
  return task;
}
