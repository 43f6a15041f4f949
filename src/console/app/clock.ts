/**
 * The clock of the console, which follows the clock of the Worker: the browser's may be wrong. The answers of the
 * Worker show its time.
 */

/** By how much the clock of the Worker is ahead of the browser's. */
let aheadMs = 0;

/**
 * An answer states the time in whole seconds, and may take some seconds to arrive. A smaller difference between the
 * clocks is ignored.
 */
const toleranceMs = 5_000;

/** Milliseconds since 1970. */
export const now = (): number => Date.now() + aheadMs;

/** @param date the field `Date` of an answer that has just arrived */
export function followClock(date: string | null): void {
  const sentMs = Date.parse(date ?? "");
  if (Math.abs(sentMs - now()) > toleranceMs) aheadMs = sentMs - Date.now();
}
