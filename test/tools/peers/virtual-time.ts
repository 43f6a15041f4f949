/** Runs other limiters in virtual time by replacing the clock and the timers of this process. */
import { mock } from "node:test";

/**
 * Replaces `Date` and timers during `run`.
 * @param run receives a function that advances the clock to an instant, and runs the timers that are due until then
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
