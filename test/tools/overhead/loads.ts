/** The measured loads and modes of statistics, which the measurement and its Worker share. */

export const loads = {
  "allowed, 1 key": { keys: 1, limits: "1000000000/hour" },
  "allowed, 20,000 keys": { keys: 20_000, limits: "1000000000/hour" },
  "denied, 20,000 keys": { keys: 20_000, limits: "1/hour" },
  "mixed, 20,000 keys": { keys: 20_000, limits: "10/minute" },
} as const;
export type LoadName = keyof typeof loads;

/**
 * `off again` equals `off`, and shows the noise of the measurement. `all` adds plain keys, a live tail and alerts, as
 * when an operator watches. `1/64` and `1/1` are `on` with a traffic sample of one key in 64 and of every key.
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

/** Decides in one mode, or closes the mode's batch as a beat does. */
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

/** The measurements of one load. */
export interface MeasuredOverhead {
  /** Nanoseconds for each decision, by mode and round. */
  readonly roundNs: Readonly<Record<Mode, number[]>>;
  deniedShare: number;
  /** Milliseconds to close a batch, by round. */
  readonly batchMs: number[];
}
