/** The deadline of calls to Durable Objects, and how often the platform repeats a call. */
import type { Clock } from "./clock.ts";

/**
 * The platform's default is five attempts in up to ten seconds, longer than a request should wait. 500 ms is the shortest
 * timeout it accepts; the deadline of a call is enforced here.
 */
export const platformRetries = { maxRetries: 1, timeoutMs: 500 };

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
