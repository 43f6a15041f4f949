/** The clock of the client: waits and deadlines, which also end when a signal aborts. */

export interface Clock {
  /** Integer milliseconds since the Unix epoch. */
  readonly now: () => number;
  /** Calls `act` after `afterMs`. Returns a function that cancels the call. */
  readonly after: (afterMs: number, act: () => void) => () => void;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  after: (afterMs, act) => {
    const timer = setTimeout(act, afterMs);
    return () => clearTimeout(timer);
  },
};

/** The greatest delay of a timer. */
export const longestTimerMs = 2 ** 31 - 1;

type Signal = AbortSignal | undefined;

/** @throws the reason of the signal when it aborts */
export const wait = (clock: Clock, ms: number, signal: Signal): Promise<void> =>
  abortable<void>(signal, (end) => clock.after(ms, end));

/**
 * Runs `work` until it ends, the time is up or the signal aborts. It does not wait for work that ignores its own signal,
 * such as a call over a service binding, which cannot be aborted.
 * @param late returns the error when the time is up
 * @throws the reason of the signal when it aborts
 */
export const within = <Result>(
  clock: Clock,
  timeoutMs: number,
  late: () => Error,
  signal: Signal,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> =>
  abortable<Result>(signal, (end, fail) => {
    const controller = new AbortController();
    const cancel = clock.after(timeoutMs, () => fail(late()));
    work(controller.signal).then(end, fail);
    return () => {
      cancel();
      controller.abort();
    };
  });

/**
 * Settles when `begin` calls one of its arguments, or when the signal aborts.
 * @param begin returns a function that stops it, which is called in the end. It may itself make the signal abort, as a
 * `fetch` of the user may
 */
function abortable<Result>(
  signal: Signal,
  begin: (end: (result: Result) => void, fail: (reason: unknown) => void) => () => void,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    let stop: (() => void) | null = null;
    const finish = (): void => {
      signal?.removeEventListener("abort", abort);
      stop?.();
    };
    const end = (result: Result): void => {
      finish();
      resolve(result);
    };
    const fail = (reason: unknown): void => {
      finish();
      reject(reason);
    };
    const abort = (): void => fail(signal?.reason);
    signal?.addEventListener("abort", abort);
    stop = begin(end, fail);
    if (signal?.aborted === true) stop();
  });
}
