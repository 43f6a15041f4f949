/** Queries of counts, frequent keys and sampled traffic, and what the control plane object answers. */
import type { PolicyCounts } from "./protocol.ts";

export interface StatisticsQuery {
  readonly fromMs: number;
  readonly toMs: number;
  readonly stepMs: number;
  readonly policy?: string;
}

/** Counts of one policy within one step. */
export interface StatisticsPoint {
  readonly atMs: number;
  readonly policy: string;
  readonly outcomes: PolicyCounts["outcomes"];
  readonly nearLimit: number;
  readonly latency: PolicyCounts["latency"];
  readonly latencySumMs: number;
  readonly deniedRequests?: number;
}

/** Requests of all policies within one step. A request counts once, however many policies decide it. */
export interface RequestsPoint {
  readonly atMs: number;
  /** Requests that at least one enforced policy decided. Null when an isolate of an earlier version has sent counts. */
  readonly decided: number | null;
  /** Null when `decided` is. */
  readonly denied: number | null;
}

/** Denials of one policy without a pause of more than five minutes. */
export interface DenialRun {
  readonly policy: string;
  readonly sinceMs: number;
  readonly lastMs: number;
}

export interface Statistics {
  readonly fromMs: number;
  readonly toMs: number;
  readonly stepMs: number;
  readonly points: readonly StatisticsPoint[];
  readonly originFailures: readonly { readonly atMs: number; readonly count: number }[];
  /** Absent in answers of earlier versions, which do not count requests. */
  readonly requests?: readonly RequestsPoint[];
  /** The latest run of each policy that has denied in the last 24 hours. Absent in answers of earlier versions. */
  readonly denialRuns?: readonly DenialRun[];
}

export interface TopQuery {
  readonly policy: string;
  readonly by: "denied" | "cost";
  readonly limit: number;
  /** The start of a whole hour. Default: all hours that are kept. */
  readonly fromMs?: number;
}

/** Sampled traffic of one policy, from `fromMs` (inclusive) to `toMs` (exclusive). */
export interface SamplesQuery {
  readonly policy: string;
  readonly fromMs: number;
  readonly toMs: number;
}

/** Stored sampled traffic that overlaps the period of a query. It may begin earlier or end later. */
interface SamplesPart {
  readonly oneKeyIn: number;
  /** From the first to the last event, both inclusive. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly arrivals: number;
  readonly lost: number;
}

/** A stored chunk. */
export interface SampleChunk extends SamplesPart {
  readonly id: number;
  readonly bytes: number;
}

/** Sampled traffic that is in no chunk yet. */
export interface OpenSamples extends SamplesPart {
  /** The events of each batch, as isolates sent them. */
  readonly events: readonly string[];
}

export interface SampleIndex {
  /** The chunks of the period, the oldest first. */
  readonly chunks: readonly SampleChunk[];
  readonly open: readonly OpenSamples[];
  /** Arrivals of the period whose chunks were dropped, because the policy had too many. */
  readonly dropped: number;
  /**
   * Decisions by the policy's limits, a ban or `onError`. Minutes of the period before the oldest kept samples are left
   * out.
   */
  readonly requests: number;
  /** When the last samples of the policy arrived; null when it has none. */
  readonly storedAtMs: number | null;
}
