/** The counts of the flooded Worker since the last reset. */
export interface Counts {
  /** The checks that objects allowed, by policy. */
  readonly allowed: Record<string, number>;
  readonly denied: Record<string, number>;
  /** The charges that were refunded, by policy. */
  readonly refunded: Record<string, number>;
  /** The checks that an object could not decide. */
  undecided: number;
  /** The requests in the order of their arrival. */
  readonly requests: { readonly callsBefore: number }[];
  /** The calls with checks, in the order in which they were sent. */
  readonly calls: {
    readonly checks: number;
    /** The number of calls in progress when this call was sent, including the call itself. */
    readonly underWay: number;
  }[];
  /** The number of calls in progress at the time of the answer. */
  readonly callsUnderWay: number;
}
