/** The time of the limiter, which tests replace, and deadlines. */

/** Calls `act` after `afterMs`. Returns a function that cancels the call. */
export type Timer = (afterMs: number, act: () => void) => () => void;

export interface Clock {
  /** Integer milliseconds since the Unix epoch. */
  readonly now: () => number;
  readonly after: Timer;
  /**
   * Stops a virtual clock until work of the platform, such as cryptography, is done. The platform's clock has no
   * `hold`.
   */
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

/** The property in which an in-memory namespace of objects has its clock. */
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

/** Calls `act` every `periodMs`. Returns a function that stops the calls. */
export function every({ after }: Clock, periodMs: number, act: () => void): () => void {
  const next = (): (() => void) =>
    after(periodMs, () => {
      cancel = next();
      act();
    });
  let cancel = next();
  return () => cancel();
}

/** Keeps the Worker running for work that continues after the response. */
export type WaitUntil = (work: Promise<unknown>) => void;

/** A timer that fires this much too late shows that the isolate itself was busy. */
const busyMs = 100;

export class DeadlineExceeded extends Error {
  override readonly name = "DeadlineExceeded";
  /**
   * Whether the isolate was too busy to read a reply in time. The delay then does not show that the object is at fault.
   */
  readonly wasBusy: boolean;

  constructor(timeoutMs: number, wasBusy = false) {
    super(`no answer within ${timeoutMs} ms${wasBusy ? ", while the isolate was busy" : ""}`);
    this.wasBusy = wasBusy;
  }
}

/** @throws DeadlineExceeded when the reply does not arrive in time; the call itself keeps running */
export function withDeadline<Reply>(
  { now, after }: Pick<Clock, "now" | "after">,
  reply: Promise<Reply>,
  timeoutMs: number,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const dueAtMs = now() + timeoutMs;
    let cancel = after(timeoutMs, () => {
      const wasBusy = now() - dueAtMs >= busyMs;
      // A busy isolate first reads the replies that have arrived in the meantime.
      cancel = after(0, () => reject(new DeadlineExceeded(timeoutMs, wasBusy)));
    });
    void reply.then(resolve, reject).then(() => cancel());
  });
}
