/**
 * Days, weeks, months and years as the clocks of a time zone show them. A period begins at the first instant of its
 * first day: where the clocks skip midnight, when they skip it; where midnight comes twice, the first time. Periods
 * follow one another without a gap, so that each instant is in one.
 */
// Dates are computed here, of instants that are given; none asks what time it is.
// oxlint-disable no-restricted-globals
import { bisect } from "./integers.ts";
import type { Period } from "./strategy.ts";
import { offsetMs } from "./time-zones.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** The greatest length of each while no clocks are changed. */
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

/** The spans last asked for, by time zone: requests of one time ask for the same ones, one decision several times. */
const remembered: Readonly<Record<Period, Map<string, Span>>> = {
  day: new Map(),
  week: new Map(),
  month: new Map(),
  year: new Map(),
};
const mostRemembered = 1_000;

/** The period that holds an instant. */
export function periodAt(period: Period, timezone: string, atMs: number): Span {
  const spans = remembered[period];
  const known = spans.get(timezone);
  if (known !== undefined && atMs >= known.startMs && atMs < known.endMs) return known;
  const span = spanAt(period, timezone, atMs);
  if (spans.size >= mostRemembered) spans.clear();
  spans.set(timezone, span);
  return span;
}

function spanAt(period: Period, timezone: string, atMs: number): Span {
  const firstDayMs = firstDay(period, localTime(timezone, atMs));
  const nextMs = nextFirstDay(period, firstDayMs);
  const endMs = firstInstant(timezone, nextMs);
  if (atMs < endMs) return { startMs: firstInstant(timezone, firstDayMs), endMs };
  // Clocks that were set back across midnight show the last day again: it has ended all the same.
  return { startMs: endMs, endMs: firstInstant(timezone, nextFirstDay(period, nextMs)) };
}

/** What clocks show at an instant, as if it were UTC: all local times and days below are written so. */
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

/** Half a day beyond the longest period is within the next one, be this one the longest or the shortest. */
const nextFirstDay = (period: Period, firstDayMs: number): number =>
  firstDay(period, firstDayMs + longestPeriodMs[period] + dayMs / 2);

/** The first instant at which the clocks show this midnight or, where they skip it, what comes after it. */
function firstInstant(timezone: string, midnightMs: number): number {
  // No offset is beyond 15 hours, and no clock is changed twice in two days.
  const beforeMs = offsetMs(timezone, midnightMs - 15 * hourMs);
  const afterMs = offsetMs(timezone, midnightMs + 15 * hourMs);
  const earlier = midnightMs - Math.max(beforeMs, afterMs);
  const later = midnightMs - Math.min(beforeMs, afterMs);
  const shown = [earlier, later].find((atMs) => localTime(timezone, atMs) === midnightMs);
  if (shown !== undefined) return shown;
  // The clocks skip this midnight: find the change of the offset.
  return bisect(earlier + 1, later, (atMs) => offsetMs(timezone, atMs) !== beforeMs);
}
