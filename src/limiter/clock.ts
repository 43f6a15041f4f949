/** The time of the limiter, which tests replace. */

/** Calls `act` after `afterMs`. Returns a function that cancels the call. */
export type Timer = (afterMs: number, act: () => void) => () => void;

export interface Clock {
  /** Integer milliseconds since the Unix epoch. */
  readonly now: () => number;
  readonly after: Timer;
}

export const platformClock: Clock = {
  now: () => Date.now(),
  after: (afterMs, act) => {
    const timer = setTimeout(act, afterMs);
    return () => clearTimeout(timer);
  },
};

/** Resolves after `afterMs`. */
export const sleep = ({ after }: Clock, afterMs: number): Promise<void> =>
  new Promise((resolve) => void after(afterMs, resolve));
