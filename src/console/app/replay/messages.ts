/** The messages between the page and the replay worker. */
import type { SamplesHeader } from "../../../advisor/replay/read-samples.ts";
import type { TimelinesSource } from "../../../advisor/replay/timelines.ts";
import type { Advice, Candidate, Goal } from "../../../advisor/search/goal.ts";
import type { Limit } from "../../../strategies/index.ts";
import type { FullLimit } from "../../../admin/wire.ts";
import type { Comparison, ComparisonRequest } from "./compare.ts";

/** Facts about the samples of a policy that the worker has loaded. */
export interface KnownSamples extends Pick<SamplesHeader, "policy" | "sample" | "coverage" | "storedAtMs"> {
  /** When they were read, in milliseconds since 1970. */
  readonly readAtMs: number;
  readonly keys: number;
  readonly arrivals: number;
  readonly source: TimelinesSource;
}

/** A candidate without its replay, which is large. */
export interface ShownCandidate extends Omit<Candidate, "result" | "limits" | "written"> {
  readonly limits: readonly FullLimit[];
}

export interface ShownAdvice extends Omit<Advice, "candidates" | "global"> {
  readonly candidates: readonly ShownCandidate[];
  readonly global: ShownCandidate | null;
}

interface Task<Request, Result> {
  readonly request: { readonly policy: string } & Request;
  readonly result: Result;
}

/** The tasks of the worker, each with its request and its result. */
export interface ReplayTasks {
  /** Reads the samples of a policy. The URL is absolute. The result lists the samples of all policies that the worker has. */
  readonly load: Task<
    { readonly url: string; readonly token: string | null; readonly nowMs: number },
    readonly KnownSamples[]
  >;
  readonly compare: Task<ComparisonRequest, Comparison>;
  readonly advise: Task<{ readonly goal: Goal }, ShownAdvice>;
  /** Replays one candidate whose limits the operator has changed. */
  readonly candidate: Task<{ readonly goal: Goal; readonly limits: readonly Limit[] }, ShownCandidate>;
}

export type TaskKind = keyof ReplayTasks;
export type TaskRequest = {
  readonly [Kind in TaskKind]: { readonly kind: Kind; readonly id: number } & ReplayTasks[Kind]["request"];
}[TaskKind];

export type ReplayRequest = TaskRequest | { readonly kind: "cancel"; readonly id: number };

/** Why a task failed. `status` is that of a refused call; 0 without an answer. */
export interface TaskProblem {
  readonly message: string;
  readonly status?: number;
}

export type ReplayAnswer = { readonly id: number } & (
  | { readonly kind: "progress"; readonly share: number }
  | { readonly kind: "done"; readonly result: ReplayTasks[TaskKind]["result"] }
  | { readonly kind: "failed"; readonly problem: TaskProblem }
);
