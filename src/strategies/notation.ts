/** The text forms of durations and limits: `"30s"`, `"10/minute"`, `"10 per 2 minutes"`, `"100/hour; 5/second"`. */

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;
const week = 7 * day;

const units: readonly (readonly [milliseconds: number, symbol: string, ...names: string[]])[] = [
  [week, "w", "week", "weeks"],
  [day, "d", "day", "days"],
  [hour, "h", "hour", "hours", "hr", "hrs"],
  [minute, "m", "minute", "minutes", "min", "mins"],
  [second, "s", "second", "seconds", "sec", "secs"],
  [1, "ms", "millisecond", "milliseconds"],
];

const millisecondsOf = new Map<string, number>(
  units.flatMap(([milliseconds, ...names]) => names.map((name) => [name, milliseconds] as const)),
);

/** Ten years: a bound on everything, and room for exact arithmetic. */
const longestDurationMs = 3_650 * day;

export const acceptedDuration =
  'a duration from 1 ms to 10 years such as "30s", "10m", "1h", "2 minutes" or "day" (ms, s, m, h, d, w)';

export const acceptedNotation =
  'limits such as "10/minute", "10 per 2 minutes" or "100/hour; 5/second" (ms, second, minute, hour, day, week)';

/** Milliseconds, or null when the text is not a duration; a unit alone is one of it. */
export function parseDuration(text: string): number | null {
  const match = /^(\d{1,15})?\s*([a-z]+)$/i.exec(text.trim());
  const unit = millisecondsOf.get(match?.[2]?.toLowerCase() ?? "");
  if (match === null || unit === undefined) return null;
  const milliseconds = Number(match[1] ?? 1) * unit;
  return milliseconds >= 1 && milliseconds <= longestDurationMs ? milliseconds : null;
}

/** The shortest text for a duration, in its largest whole unit: 60000 is `1m`, 90000 is `90s`. */
export function formatDuration(milliseconds: number): string {
  const [unit, symbol] = units.find(([size]) => milliseconds % size === 0) ?? [1, "ms"];
  return `${milliseconds / unit}${symbol}`;
}

/** A limit as written; its parts are not yet known to be right. */
export interface NotationPart {
  readonly text: string;
  readonly limit: string;
  readonly window: string;
}

/** The limits in a text, or null for a part that has not the form of a limit. */
export function splitNotation(text: string): (NotationPart | null)[] {
  return text.split(/[;,|]/).map((part) => {
    const trimmed = part.trim();
    const [, limit, window] = /^([^\s/]+)\s*(?:\/|\bper\b)\s*(\S.*)$/is.exec(trimmed) ?? [];
    return limit === undefined || window === undefined ? null : { text: trimmed, limit, window };
  });
}
