/**
 * Time zones by name, and days, weeks, months and years in them. A period begins at the first instant of its first day. If the
 * clocks skip midnight, that is the instant of the change; if midnight comes twice, it is the first one. Every instant is in
 * exactly one period.
 */
// `Date` and `Intl` are used for arithmetic on given instants only; nothing here reads the clock.
// oxlint-disable no-restricted-globals
import { bisect } from "./integers.ts";
import type { Period } from "./strategy.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** The greatest length of each period without a clock change. */
export const longestPeriodMs: Readonly<Record<Period, number>> = {
  day: dayMs,
  week: 7 * dayMs,
  month: 31 * dayMs,
  year: 366 * dayMs,
};

interface Span {
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

/** Canonical spellings by name in lower case. Only names that the runtime knows are cached: about 600. */
const spellings = new Map<string, string>();

/**
 * The canonical spelling of a name in any letter case; null for a name that the runtime does not know, and for offsets
 * such as `+01:00`. An alias such as `Asia/Kolkata` stays an alias: runtimes differ in the zone they resolve it to, and
 * the name is part of the identity of stored states.
 */
export function canonicalTimeZone(name: string): string | null {
  // Without this check, a non-ASCII letter such as the Kelvin sign would become an ASCII letter in lower case.
  if (!/^[a-z][a-z0-9_/+-]*$/i.test(name)) return null;
  const folded = name.toLowerCase();
  const known = spellings.get(folded);
  if (known !== undefined) return known;
  const zone = zoneOf(folded);
  if (zone === null) return null;
  // For an alias, the runtime reports the zone instead of the alias's spelling.
  const spelling = zone.toLowerCase() === folded ? zone : capitalized(folded);
  spellings.set(folded, spelling);
  return spelling;
}

function zoneOf(name: string): string | null {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    return null;
  }
}

/** `asia/kolkata` as `Asia/Kolkata`, `us/pacific` as `US/Pacific`. */
const capitalized = (folded: string): string =>
  folded
    .replace(inCapitals, (word) => word.toUpperCase())
    .replace(/(?<![a-z])[a-z]/g, (letter) => letter.toUpperCase())
    .replace(compounds, (...[, first, second = ""]: string[]) => {
      return `${first}${second.charAt(0).toUpperCase()}${second.slice(1)}`;
    });

/** Words written in capitals: a short first word other than `Etc`, and abbreviations within aliases. */
const inCapitals =
  /^(?!etc)[a-z]{2,3}(?![a-z])|(?<![a-z])(?:act|cdt|chat|edt|gmt|in|lhi|mdt|nsw|pdt|su|uct|utc)(?![a-z])/g;

/** Names with a capital letter within a word. */
const compounds = /(?<=\/)(Baja|Comod|De|Easter)(island|noronha|norte|rivadavia|sur)$/;

/** A formatter takes 30 to 50 KB of memory and about 0.1 ms to create. */
const mostFormatters = 32;
const formatters = new Map<string, Intl.DateTimeFormat>();

/** The offset of a time zone from UTC at an instant. */
export function offsetMs(timezone: string, atMs: number): number {
  // The text is such as "5/19/2026, GMT-08:00"; "GMT" alone is UTC.
  const text = formatterFor(timezone.toLowerCase()).format(atMs);
  const [, sign, hours, minutes, seconds = 0] = /GMT([+-])(\d\d):(\d\d)(?::(\d\d))?$/.exec(text) ?? [];
  const offset = (Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds)) * 1_000;
  return sign === undefined ? 0 : sign === "-" ? -offset : offset;
}

/** Evicts the least recently used formatter. */
function formatterFor(folded: string): Intl.DateTimeFormat {
  const known = formatters.get(folded);
  const formatter = known ?? new Intl.DateTimeFormat("en-US", { timeZone: folded, timeZoneName: "longOffset" });
  formatters.delete(folded);
  formatters.set(folded, formatter);
  const [oldest] = formatters.keys();
  if (formatters.size > mostFormatters && oldest !== undefined) formatters.delete(oldest);
  return formatter;
}
