/**
 * Exports finished minutes to Workers Analytics Engine: one data point for each policy and minute, never one for each decision. After
 * a crash of the object a minute may be exported twice, or not at all.
 */
import { outcomeNames } from "../protocol.ts";
import { minuteMs } from "./statistics-rows.ts";
import { decisionsIn, type Tally } from "./statistics-tally.ts";

export interface DataPoint {
  readonly indexes: [string];
  readonly blobs: [string];
  readonly doubles: number[];
}

/** The methods of `AnalyticsEngineDataset`. */
export interface Dataset {
  writeDataPoint(point: DataPoint): void;
}

/** The doubles of a point, in their order: double1 is the first. The outcomes are last, so that a new one moves no other. */
export const exportedDoubles = ["minute", "near-limit", "latency-sum-ms", "latency-count", ...outcomeNames] as const;

/** The platform accepts this number of points in one event. */
const mostPoints = 25;
/** About an hour of 25 policies. */
const mostPending = 1_500;

export class AnalyticsExport {
  readonly #dataset: Dataset | null;
  #pending: DataPoint[] = [];

  /** @param dataset the binding `ANALYTICS`, which is optional */
  constructor(dataset: Dataset | null) {
    this.#dataset = dataset;
  }

  add(atMs: number, minute: Tally): void {
    if (this.#dataset === null) return;
    for (const policy of minute.policies) {
      const counts = minute.of(policy);
      if (decisionsIn(counts) === 0) continue;
      const doubles = [
        atMs / minuteMs,
        counts.nearLimit,
        counts.latencySumMs,
        counts.latency.reduce((sum, [, decisions]) => sum + decisions, 0),
        ...outcomeNames.map((outcome) => counts.outcomes[outcome] ?? 0),
      ];
      // The index has at most 96 bytes.
      this.#pending.push({ indexes: [policy.slice(0, 96)], blobs: [policy], doubles });
    }
    this.#pending = this.#pending.slice(-mostPending);
  }

  /** Writes as many points as one event may write. Call this once in each beat. */
  flush(): void {
    for (const point of this.#pending.splice(0, mostPoints)) this.#dataset?.writeDataPoint(point);
  }
}
