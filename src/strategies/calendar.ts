/**
 * Days, weeks, months and years in a time zone. A period begins at the first instant of its first day. If the clocks skip
 * midnight, that is the instant of the change; if midnight comes twice, it is the first one. Every instant is in exactly
 * one period.
 */
// `Date` is used for arithmetic only; nothing here reads the clock.
// oxlint-disable no-restricted-globals
import { bisect } from "./integers.ts";
import type { Period } from "./strategy.ts";
import { offsetMs } from "./time-zones.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** The greatest length of each period without a clock change. */
export const longestPeriodMs: Readonly<Record<Period, number>> = {
  day: dayMs,
  week: 7 * dayMs,
  month: 31 * dayMs,
  year: 366 * dayMs,
};

export interface Span {
  readonly startMs: number;
  readonly endMs: number;
}

/** The latest period by kind and time zone. Most requests, and every step of one decision, need the same one. */
const cachedSpans = new Map<string, Span>();
const mostCachedSpans = 4_000;

/** The period that contains an instant. */
export function periodAt(period: Period, timezone: string, atMs: number): Span {
  const key = `${period} ${timezone}`;
  const cached = cachedSpans.get(key);
  if (cached !== undefined && atMs >= cached.startMs && atMs < cached.endMs) return cached;
  const span = spanAt(period, timezone, atMs);
  if (cachedSpans.size >= mostCachedSpans) cachedSpans.clear();
  cachedSpans.set(key, span);
  return span;
}

function spanAt(period: Period, timezone: string, atMs: number): Span {
  const firstDayMs = firstDay(period, localTime(timezone, atMs));
  const nextMs = nextFirstDay(period, firstDayMs);
  const endMs = firstInstant(timezone, nextMs);
  if (atMs < endMs) return { startMs: firstInstant(timezone, firstDayMs), endMs };
  // The clocks were set back across midnight and show the last day again, but its period has ended.
  return { startMs: endMs, endMs: firstInstant(timezone, nextFirstDay(period, nextMs)) };
}

/** The local time at an instant. Local times and days are represented as the UTC instant that shows the same time. */
const localTime = (timezone: string, atMs: number): number => atMs + offsetMs(timezone, atMs);

function firstDay(period: Period, localMs: number): number {
  const date = new Date(localMs);
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()];
  switch (period) {
    case "day":
      return Date.UTC(year, month, day);
    case "week":
      // Sunday is 0: the days since Monday are (weekday + 6) mod 7.
      return Date.UTC(year, month, day - ((date.getUTCDay() + 6) % 7));
    case "month":
      return Date.UTC(year, month);
    case "year":
      return Date.UTC(year, 0);
    default:
      return period satisfies never;
  }
}

/** Half a day beyond the longest length is within the next period, whatever the length of this one. */
const nextFirstDay = (period: Period, firstDayMs: number): number =>
  firstDay(period, firstDayMs + longestPeriodMs[period] + dayMs / 2);

/** The first instant at which the clocks show a midnight, or a later time if they skip it. */
function firstInstant(timezone: string, midnightMs: number): number {
  // No offset exceeds 15 hours, and no clock changes twice in two days.
  const beforeMs = offsetMs(timezone, midnightMs - 15 * hourMs);
  const afterMs = offsetMs(timezone, midnightMs + 15 * hourMs);
  const earlier = midnightMs - Math.max(beforeMs, afterMs);
  const later = midnightMs - Math.min(beforeMs, afterMs);
  const shown = [earlier, later].find((atMs) => localTime(timezone, atMs) === midnightMs);
  if (shown !== undefined) return shown;
  // The clocks skip this midnight: find the change of the offset.
  return bisect(earlier + 1, later, (atMs) => offsetMs(timezone, atMs) !== beforeMs);
}
