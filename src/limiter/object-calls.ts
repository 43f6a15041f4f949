/** The deadline of calls to Durable Objects, and how often the platform repeats a call. */
import type { Clock } from "./clock.ts";

/**
 * The platform's default is five attempts in up to ten seconds, longer than a request should wait. 500 ms is the shortest
 * timeout it accepts; the deadline of a call is enforced here.
 */
export const platformRetries = { maxRetries: 1, timeoutMs: 500 };

/** Keeps the Worker running for work that continues after the response. */
export type WaitUntil = (work: Promise<unknown>) => void;

export class DeadlineExceeded extends Error {
  override readonly name = "DeadlineExceeded";
}

/** @throws DeadlineExceeded when the reply does not arrive in time; the call itself keeps running */
export function withDeadline<Reply>(
  { after }: Pick<Clock, "after">,
  reply: Promise<Reply>,
  timeoutMs: number,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const cancel = after(timeoutMs, () =>
      reject(new DeadlineExceeded(`no answer within ${timeoutMs} ms`)),
    );
    void reply.then(resolve, reject).then(cancel);
  });
}
