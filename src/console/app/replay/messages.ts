/** The messages between the page and the replay worker, and the vocabulary of comparisons. */
import type { Advice, Candidate, Estimate, Goal } from "../../../advisor/search/goal.ts";
import type { TimelinesSource } from "../../../advisor/replay/timelines.ts";
import type { Limit } from "../../../strategies/index.ts";
import type { FullLimit } from "../api/answers.ts";
import type { StepCounts } from "../../../advisor/replay/result.ts";

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
  readonly compare: { readonly request: { readonly policy: string } & ComparisonRequest; readonly result: Comparison };
  readonly advise: { readonly request: { readonly policy: string; readonly goal: Goal }; readonly result: ShownAdvice };
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

/** How the arrivals are decided. */
export type Decider =
  /** By a replay under these limits. */
  | { readonly kind: "limits"; readonly limits: readonly Limit[] }
  /** As the samples recorded it. Denials of a dry run count. */
  | { readonly kind: "recorded" }
  | { readonly kind: "all-allowed" }
  | { readonly kind: "all-denied" };

export interface ComparisonRequest {
  readonly deciders: readonly Decider[];
  /** Only this key. Its arrivals that other limits decided are included. Absent for the policy. */
  readonly key?: string;
}

/** The decisions of one decider. */
export interface DecidedTraffic {
  /** Arrivals that are denied when they first come. */
  readonly denied: number;
  readonly deniedShare: Estimate;
  /** Keys with at least one denial. */
  readonly deniedKeys: number;
  readonly deniedKeyShare: Estimate;
  /** By step of time. */
  readonly denials: StepCounts;
  /** The longest time for which a key is denied; null when it is not known. */
  readonly longestDeniedMs: number | null;
  /** When clients send denied requests again after `Retry-After`; null for a decider without limits. */
  readonly retrying: RetryingTraffic | null;
}

export interface RetryingTraffic {
  /** Arrivals that are denied when they first come. */
  readonly denied: number;
  /** By step of time, with the denials of retries. */
  readonly denials: StepCounts;
  /** Requests that are never admitted. */
  readonly abandoned: number;
  /** The longest time from the first denial of a request to its admission. */
  readonly longestWaitMs: number;
}

/** A key that the deciders treat differently. */
export interface AffectedKey {
  readonly key: string;
  readonly requests: number;
  /** Its share of all requests in the timelines. */
  readonly shareOfRequests: number;
  /** Its denials, by decider. */
  readonly denied: readonly number[];
}

export interface Comparison {
  readonly source: TimelinesSource;
  /** Arrivals in the timelines. */
  readonly requests: number;
  readonly keys: number;
  /** In the order of the deciders. */
  readonly results: readonly DecidedTraffic[];
  /** The keys with the greatest difference between the last two deciders first; at most 10. */
  readonly affected: readonly AffectedKey[];
  /** The number of keys with such a difference. */
  readonly affectedKeys: number;
}
