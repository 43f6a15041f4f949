/** Runs other limiters in virtual time: their clock and timers are those of this process. */
import { mock } from "node:test";

/**
 * Replaces `Date` and timers while `run` lasts.
 * @param run receives a function that moves time forward to an instant, and runs the timers that are due until then
 */
export async function inVirtualTime<T>(
  startMs: number,
  run: (reach: (atMs: number) => void) => Promise<T>,
): Promise<T> {
  mock.timers.enable({ apis: ["Date", "setTimeout", "setInterval"], now: startMs });
  try {
    return await run((atMs) => mock.timers.tick(Math.max(0, atMs - Date.now())));
  } finally {
    mock.timers.reset();
  }
}
