/** The messages between the page and the replay worker. */
import type { Advice, Candidate, Goal } from "../../../advisor/search/advice.ts";
import type { TimelinesSource } from "../../../advisor/replay/timelines.ts";
import type { Limit } from "../../../strategies/index.ts";
import type { FullLimit } from "../api/answers.ts";
import type { Comparison, ComparisonRequest } from "./comparison.ts";

/** The samples of a policy that the worker has. */
export interface KnownSamples {
  readonly policy: string;
  /** When they were read, in milliseconds since 1970. */
  readonly readAtMs: number;
  /** The setting `SAMPLE` of the period, such as "1/64"; "off" without samples. */
  readonly sample: string;
  readonly keys: number;
  readonly arrivals: number;
  /** The share of the arrivals of sampled keys that were recorded. */
  readonly coverage: number;
  /** When the control plane stored the latest samples; null before the first. */
  readonly storedAtMs: number | null;
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

/** The work of the worker, and what it answers. */
export interface ReplayTasks {
  readonly load: {
    readonly request: {
      readonly policy: string;
      /** Absolute, because the address of the worker is another. */
      readonly url: string;
      readonly token: string | null;
      readonly nowMs: number;
    };
    /** The samples of all policies that the worker has. */
    readonly result: readonly KnownSamples[];
  };
  readonly compare: {
    readonly request: { readonly policy: string } & ComparisonRequest;
    readonly result: Comparison;
  };
  readonly advise: {
    readonly request: { readonly policy: string; readonly goal: Goal };
    readonly result: ShownAdvice;
  };
  /** One candidate that the operator changes. */
  readonly candidate: {
    readonly request: {
      readonly policy: string;
      readonly goal: Goal;
      readonly limits: readonly Limit[];
    };
    readonly result: ShownCandidate;
  };
}

export type TaskKind = keyof ReplayTasks;
export type TaskRequest<Kind extends TaskKind = TaskKind> = {
  readonly [Each in Kind]: {
    readonly kind: Each;
    readonly id: number;
  } & ReplayTasks[Each]["request"];
}[Kind];

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
