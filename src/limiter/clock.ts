/** The time of the limiter, which tests replace. */

/** Calls `act` after `afterMs`. Returns a function that cancels the call. */
export type Timer = (afterMs: number, act: () => void) => () => void;

export interface Clock {
  /** Integer milliseconds since the Unix epoch. */
  readonly now: () => number;
  readonly after: Timer;
  /** Stops a virtual clock until work of the platform is done, such as cryptography. The platform's clock needs none. */
  readonly hold?: Hold;
}

type Hold = <Value>(work: Promise<Value>) => Promise<Value>;

export const platformClock: Clock = {
  now: () => Date.now(),
  after: (afterMs, act) => {
    const timer = setTimeout(act, afterMs);
    return () => clearTimeout(timer);
  },
};

/** A namespace of objects in memory has its clock under this name. */
export const clockName = Symbol.for("headgate.clock");

/** The clock of the objects of a binding, which is the platform's unless the objects are in memory. */
export const clockOf = (objects: object): Clock =>
  (objects as { readonly [clockName]?: Clock } | undefined)?.[clockName] ?? platformClock;

/** Resolves after `afterMs`, or when the signal aborts. */
export function sleep({ after }: Clock, afterMs: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted === true) return Promise.resolve();
  return new Promise((resolve) => {
    const cancel = after(afterMs, resolve);
    const wake = (): void => {
      cancel();
      resolve();
    };
    signal?.addEventListener("abort", wake, { once: true });
  });
}

/** Calls `act` every `periodMs`. Returns a function that ends this. */
export function every({ after }: Clock, periodMs: number, act: () => void): () => void {
  const next = (): (() => void) =>
    after(periodMs, () => {
      cancel = next();
      act();
    });
  let cancel = next();
  return () => cancel();
}
