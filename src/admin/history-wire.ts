/** The answers of the admin API about the requests of one key. */
import type { StatisticsPointView } from "./wire.ts";

/** The time in which a key is recorded. */
export interface RecordingView {
  readonly from: string;
  readonly until: string;
}

/** The requests of a key, as far as they are known. */
export interface KeyHistory {
  readonly policy: string;
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly stepMs: number;
  /**
   * Since when the sample of traffic has the key, and the share of the sampled requests of the policy that is known. Null
   * when the sample does not have the key.
   */
  readonly sample: { readonly from: string; readonly coverage: number } | null;
  /** The recordings of the last 24 hours, the oldest first. */
  readonly recordings: readonly RecordingView[];
  /** The recording that has not ended. */
  readonly recording: RecordingView | null;
  /** A step without a point has no known request. */
  readonly points: readonly Pick<StatisticsPointView, "at" | "outcomes">[];
}
