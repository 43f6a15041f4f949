/** Queries of counts, frequent keys and sampled traffic, and what the control plane object answers. */
import type { DeniedKeys, DeniedKeysQuery } from "./denial-calls.ts";
import type { PolicyCounts, TopKey } from "./protocol.ts";

export interface StatisticsQuery {
  readonly fromMs: number;
  readonly toMs: number;
  readonly stepMs: number;
  readonly policy?: string;
  /** Also the keys that a policy denied most in the period of the answer. Default: none. */
  readonly top?: StatisticsTopQuery;
}

export interface StatisticsTopQuery extends Pick<DeniedKeysQuery, "limit" | "steps"> {
  /** Default: the policy that denied most, or else the one whose dry run would have. */
  readonly policy?: string;
}

/** The most denied keys of one policy, from the same counts as the rest of the answer. */
export interface StatisticsTop {
  readonly policy: string;
  /** The start of the first hour that `keys` counts. */
  readonly fromMs: number;
  readonly keys: readonly TopKey[];
  /** The logged denials of exactly the period of the answer. */
  readonly period: DeniedKeys;
}

/** The first minutes within a period, or its first hours, in which a policy has counts. */
export interface FirstCounts {
  /** Null for the requests of all policies. */
  readonly policy: string | null;
  readonly atMs: number;
  /** Null when nothing was denied. */
  readonly deniedAtMs: number | null;
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
  /** Absent in answers of earlier versions. */
  readonly firstCounts?: readonly FirstCounts[];
  /** Only when it is queried. Null when no policy has denied anything. */
  readonly top?: StatisticsTop | null;
}

export interface TopQuery {
  readonly policy: string;
  readonly by: "denied" | "cost";
  readonly limit: number;
  /** The start of a whole hour. Default: all hours that are kept. */
  readonly fromMs?: number;
  /** Only the keys within this key. Default: all. */
  readonly within?: string;
}

const hourMs = 3_600_000;
const hourOf = (atMs: number): number => Math.floor(atMs / hourMs) * hourMs;

/** The first hour of lists from an instant on. They are kept by the hour: the current one and the 23 before it. */
export const firstTopHour = (fromMs: number, nowMs: number): number =>
  Math.max(hourOf(nowMs) - 23 * hourMs, hourOf(fromMs));

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
