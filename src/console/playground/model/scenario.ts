/** The vocabulary of the playground: a scenario (limits, and the traffic that meets them), and what a run of it returns. */
import type { LogReport } from "../../../advisor/log/read-log.ts";
import type { Limit, LimitInput } from "../../../strategies/index.ts";

/** All durations are integer milliseconds. */
export interface Scenario {
  /** As written in the configuration; from 1 to 16. */
  readonly limits: readonly LimitInput[];
  readonly traffic: Traffic;
  /** How long clients send requests. Retries may come later. Without effect on `times` and `log`. */
  readonly lengthMs: number;
  /** The number of clients. Each has counters of its own. A log brings its own keys. */
  readonly keys: number;
  /** How unevenly the requests are spread over the clients: 0 is even, 1 is Zipf's law. */
  readonly skew: number;
  /** Units of each request that states no cost. */
  readonly cost: number;
  /** How long a request runs, which is how long it keeps its slot of a `concurrency` limit. */
  readonly runsMs: number;
  readonly retries: Retries;
  /** The instant at which the scenario starts, since 1970. A log brings its own. */
  readonly startMs: number;
  /** Equal seeds give equal random numbers. */
  readonly seed: number;
}

/** When requests come. All instants count from the start of the scenario. */
export type Traffic =
  /** Requests at equal distances. */
  | { readonly kind: "steady"; readonly rate: Rate }
  /** Independent requests at random instants. */
  | { readonly kind: "poisson"; readonly rate: Rate }
  /** Bursts of `size` requests at equal distances within `withinMs`. */
  | {
      readonly kind: "bursts";
      readonly size: number;
      readonly withinMs: number;
      /** When the first burst begins. */
      readonly firstMs: number;
      /** From the beginning of a burst to that of the next one. */
      readonly everyMs: number;
    }
  /** Exactly these requests. */
  | { readonly kind: "times"; readonly times: readonly TimedRequests[] }
  /** The requests of a pasted access log. Its text is too long for a URL: pass it beside the scenario. */
  | { readonly kind: "log" };

/** Requests per window, such as 120 per minute. */
export interface Rate {
  /** More than 0; may be a fraction. */
  readonly count: number;
  readonly windowMs: number;
}

/** Requests at one instant. */
export interface TimedRequests {
  readonly atMs: number;
  readonly count: number;
  /** Units of each request; null for the cost of the scenario. */
  readonly cost: number | null;
}

/** How clients react to a denial. */
export interface Retries {
  /**
   * - `none`: nothing.
   * - `ignore`: they send the request again after `pauseMs`.
   * - `obey`: they send it again after `Retry-After`.
   * - `jitter`: they send it again after `Retry-After` and a random time of at most `pauseMs`.
   */
  readonly kind: RetryKind;
  readonly pauseMs: number;
  /** The most retries of one request. */
  readonly attempts: number;
}

export type RetryKind = "none" | "ignore" | "obey" | "jitter";

/** First requests in order of time, without retries. Columns of equal length. */
export interface Arrivals {
  readonly startMs: number;
  /** From `startMs`. */
  readonly atMs: Float64Array<ArrayBuffer>;
  /** Index in `keys`. */
  readonly key: Uint32Array<ArrayBuffer>;
  readonly cost: Float64Array<ArrayBuffer>;
  readonly keys: readonly string[];
}

/** The number of `LaneRun.outcome`. */
export const outcome = { allowed: 0, denied: 1, delayed: 2 } as const;

/** A wait of this length means that the request never fits. */
export const neverMs = Infinity;

/** One limit of a lane. */
export interface LaneLimit {
  readonly name: string;
  readonly strategy: string;
  /** Units per window. */
  readonly limit: number;
  /** The most units that fit at one instant. */
  readonly capacity: number;
  /** For a calendar window, the length of the shortest one. */
  readonly windowMs: number;
  /** Set for calendar windows only. */
  readonly period?: Limit["period"];
  /** The documented bound: the most units in any span of `windowMs`; for slots, at one instant. */
  readonly mostPerWindow: number;
  readonly holdsSlots: boolean;
}

/** A lane without a run: why its strategy cannot decide the limits. */
export interface MissingLane {
  readonly lane: string;
  readonly reason: string;
}

/** The decisions of one lane in order of time, retries included: columns of equal length, one row for each request. */
export interface LaneRun {
  /** `written` for the limits exactly as written; otherwise the strategy that replaces those of the limits. */
  readonly lane: string;
  readonly limits: readonly LaneLimit[];
  readonly startMs: number;
  readonly keys: readonly string[];
  readonly runsMs: number;
  /** From `startMs`. */
  readonly atMs: Float64Array<ArrayBuffer>;
  /** Index in `keys`. */
  readonly key: Uint32Array<ArrayBuffer>;
  readonly cost: Float64Array<ArrayBuffer>;
  /** A value of `outcome`. A delayed request is allowed and waits in a queue. */
  readonly outcome: Uint8Array<ArrayBuffer>;
  /** The least that remains of all limits, after the decision. */
  readonly remaining: Float64Array<ArrayBuffer>;
  /** Denied: until the request fits, or `neverMs`. Delayed: how long it waits. Allowed: 0. */
  readonly waitMs: Float64Array<ArrayBuffer>;
  /** Bit `n` is set if limit `n` denied the request. */
  readonly deniedBy: Uint16Array<ArrayBuffer>;
  /** The row of `Arrivals` from which the request comes. */
  readonly arrival: Uint32Array<ArrayBuffer>;
  /** 0 for a first request, `n` for its nth retry. */
  readonly retry: Uint8Array<ArrayBuffer>;
  /** Whether the run ended early, at the most rows of a lane. */
  readonly isCut: boolean;
  readonly summary: LaneSummary;
}

export interface LaneSummary {
  readonly allowed: number;
  readonly denied: number;
  /** Allowed requests that wait in a queue. */
  readonly delayed: number;
  /** The longest of these waits, in milliseconds. */
  readonly longestWaitMs: number;
  readonly allowedUnits: number;
  /** Denials by each limit. Several limits may deny the same request. */
  readonly deniedByLimit: readonly number[];
  /** How many keys were denied at least once. */
  readonly deniedKeys: number;
  /** The keys with the most denials, at most 100, the most denied first. */
  readonly topDenied: readonly KeySummary[];
  /** The worst burst for each limit; null if nothing was allowed. */
  readonly worstBursts: readonly (WorstBurst | null)[];
}

export interface KeySummary {
  /** Index in `keys`. */
  readonly key: number;
  readonly allowed: number;
  readonly denied: number;
  readonly deniedByLimit: readonly number[];
}

/** The most units that one key was allowed in any window of a limit; for slots, that it held at one instant. */
export interface WorstBurst {
  readonly units: number;
  readonly key: number;
  /** The first row of the window. */
  readonly firstRow: number;
  /** The last row of the window. Rows of other keys, and denials, are between them. */
  readonly lastRow: number;
  /** From `startMs`. The window excludes its end. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly requests: number;
  /** The units in each window, in order of time; empty unless one fixed window alone decided. */
  readonly unitsByWindow: readonly number[];
}

export interface ScenarioRun {
  readonly kind: "run";
  /** Every answer repeats it. */
  readonly id: number;
  readonly scenario: Scenario;
  /** The text of a pasted log, for traffic of the kind `log`. */
  readonly log: string | null;
}

/** To the web worker. Either cancels a run that is under way. */
export type WorkerRequest = ScenarioRun | { readonly kind: "cancel" };

/** From the web worker: `started`, then `progress` and `lane` in any number, then `done`. Or `failed` at any point. */
export type WorkerAnswer =
  | {
      readonly kind: "started";
      readonly id: number;
      readonly requests: number;
      /** In the order in which they come. */
      readonly lanes: readonly string[];
      readonly missing: readonly MissingLane[];
      /** Null unless a log was pasted. */
      readonly log: LogReport | null;
    }
  /** `share` is from 0 to 1. */
  | { readonly kind: "progress"; readonly id: number; readonly share: number }
  | { readonly kind: "lane"; readonly id: number; readonly run: LaneRun }
  | { readonly kind: "done"; readonly id: number }
  | {
      readonly kind: "failed";
      readonly id: number;
      /** One line for people for each problem. */
      readonly problems: readonly string[];
      /** Null unless a log was pasted. */
      readonly log: LogReport | null;
    };
