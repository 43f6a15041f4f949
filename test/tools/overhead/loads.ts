/** The measured loads and modes of statistics, as the measurement and its Worker know them. */

export const loads = {
  "allowed, 1 key": { keys: 1, limits: "1000000000/hour" },
  "allowed, 20,000 keys": { keys: 20_000, limits: "1000000000/hour" },
  "denied, 20,000 keys": { keys: 20_000, limits: "1/hour" },
  "mixed, 20,000 keys": { keys: 20_000, limits: "10/minute" },
} as const;
export type LoadName = keyof typeof loads;

/**
 * `off again` is `off`, and shows the noise of the measurement. `all` adds plain keys, a tail and alerts, as while an
 * operator watches. The last two are `on` with a sample of the traffic, of one key in 64 and of every key.
 */
export const modes = ["off", "off again", "on", "all", "1/64", "1/1"] as const;
export type Mode = (typeof modes)[number];

/** One key in this many is sampled; null without a sample. */
export const oneKeyIn: Readonly<Record<Mode, number | null>> = {
  off: null,
  "off again": null,
  on: null,
  all: null,
  "1/64": 64,
  "1/1": 1,
};

/** Decides in one mode, or closes its batch as a beat does. */
export interface OverheadCall {
  readonly load: LoadName;
  readonly mode: Mode;
  /** 0 closes the batch. */
  readonly decisions: number;
}

export interface OverheadReply {
  readonly elapsedMs: number;
  /** Since the start. */
  readonly deniedShare: number;
}

/** The measurement of one load. */
export interface MeasuredOverhead {
  /** Nanoseconds for each decision, by mode and round. */
  readonly roundNs: Readonly<Record<Mode, number[]>>;
  deniedShare: number;
  /** Milliseconds to close a batch, by round. */
  readonly batchMs: number[];
}
