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
 * operator watches.
 */
export const modes = ["off", "off again", "on", "all"] as const;
export type Mode = (typeof modes)[number];

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
