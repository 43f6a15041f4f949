/** Durations and limits as text: `"30s"`, `"10/minute"`, `"10 per 2 minutes"`, `"100/hour; 5/second"`. */
import * as v from "valibot";
import { longestPeriodMs } from "./calendar.ts";
import type { Limit, Period } from "./strategy.ts";
import { anyName } from "../validation/problems.ts";

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

const periods: readonly (readonly [period: Period, symbol: string, ...names: string[]])[] = [
  ["day", "1d", "d", "day", "days"],
  ["week", "1w", "w", "week", "weeks"],
  ["month", "1mo", "mo", "month", "months"],
  ["year", "1y", "y", "year", "years", "yr", "yrs"],
];

const periodOf = new Map<string, Period>(
  periods.flatMap(([period, , ...names]) => names.map((name) => [name, period] as const)),
);

/** Ten years, which keeps arithmetic exact. */
const longestDurationMs = 3_650 * day;

export const acceptedDuration =
  'a duration from 1 ms to 10 years such as "30s", "10m", "1h", "2 minutes" or "day" (ms, s, m, h, d, w)';

export const acceptedWindow = `${acceptedDuration}, or the calendar's "month" (mo) or "year" (y)`;

export const acceptedNotation =
  'limits such as "10/minute", "10 per 2 minutes" or "100/hour; 5/second" (ms, second, minute, hour, day, week, month, year)';

interface Quantity {
  readonly count: number;
  readonly unit: string;
}

/** A count and a unit. The count is 1 if there is only a unit. */
function parseQuantity(text: string): Quantity | null {
  const [, count = "1", unit] = /^(\d{1,15})?\s*([a-z]+)$/i.exec(text.trim()) ?? [];
  return unit === undefined ? null : { count: Number(count), unit: unit.toLowerCase() };
}

/** The duration in milliseconds; null if the text is not a duration from 1 ms to 10 years. */
export function parseDuration(text: string): number | null {
  const quantity = parseQuantity(text);
  const unit = millisecondsOf.get(quantity?.unit ?? "");
  if (quantity === null || unit === undefined) return null;
  const milliseconds = quantity.count * unit;
  return milliseconds >= 1 && milliseconds <= longestDurationMs ? milliseconds : null;
}

/** A window as written: its length, and its calendar period if it can be one. */
export type WrittenWindow = Pick<Limit, "windowMs" | "period">;

/** Null if the text is neither a duration nor a calendar period. */
export function parseWindow(text: string): WrittenWindow | null {
  const quantity = parseQuantity(text);
  const period = quantity?.count === 1 ? periodOf.get(quantity.unit) : undefined;
  if (period !== undefined) return { windowMs: longestPeriodMs[period], period };
  const windowMs = parseDuration(text);
  return windowMs === null ? null : { windowMs };
}

/** The shortest text for a window: `1mo` for a calendar month, else a duration. */
export function formatWindow({ windowMs, period }: WrittenWindow): string {
  const [, symbol] = periods.find(([name]) => name === period) ?? [];
  return symbol ?? formatDuration(windowMs);
}

/** A duration in its largest whole unit: 60000 is `1m`, 90000 is `90s`. */
export function formatDuration(milliseconds: number): string {
  const [unit, symbol] = units.find(([size]) => milliseconds % size === 0) ?? [1, "ms"];
  return `${milliseconds / unit}${symbol}`;
}

/** A limit in notation, whose parts are not validated yet. */
interface NotationPart {
  readonly text: string;
  readonly limit: string;
  readonly window: string;
}

/** The limits in a text, with null for each part that does not have the form of a limit. A final `;` is ignored. */
export function splitNotation(text: string): (NotationPart | null)[] {
  const parts = text.replace(/;\s*$/, "").split(/[;,|]/);
  return parts.map((part) => {
    const trimmed = part.trim();
    const [, limit, window] = limitForm.exec(trimmed) ?? [];
    return limit === undefined || window === undefined ? null : { text: trimmed, limit, window };
  });
}

/** A number, optionally the word "requests", and a window. */
const limitForm = /^([^\s/]+)(?:\s+req(?:uest)?s?)?\s*(?:\/|\bper\b)\s*(\S.*)$/is;

/** A number of units in digits, which may be separated by `_` as in TOML; NaN for any other text. */
export function parseUnits(text: string): number {
  const digits = /^\d+(?:_\d+)*$/.test(text) ? text.replaceAll("_", "") : "";
  return digits !== "" && digits.length <= mostDigits ? Number(digits) : Number.NaN;
}

/** Enough for the greatest number of units, and small enough for every number to be finite. */
const mostDigits = 16;

const durationForm = () => String.raw`(?:\d{1,15})?\s*(?:${anyName([...millisecondsOf.keys()])})`;

/** Months and years have no fixed length, so their number is 1. */
function windowForm(): string {
  const names = [...periodOf.keys()].filter((name) => !millisecondsOf.has(name));
  return String.raw`(?:${durationForm()}|(?:0*1)?\s*(?:${anyName(names)}))`;
}

const writtenForm = (form: string) => v.pipe(v.string(), v.regex(new RegExp(String.raw`^\s*${form}\s*$`)));

/** A duration, in the JSON schema. */
export const writtenDuration = () => writtenForm(durationForm());

/** A window, in the JSON schema. */
export const writtenWindow = () => writtenForm(windowForm());

/** Limits in notation, in the JSON schema. */
export function writtenNotation() {
  const limit = String.raw`\s*\d[\d_]*(?:\s+[A-Za-z]+)?\s*(?:\/|[pP][eE][rR])\s*${windowForm()}\s*`;
  return v.pipe(v.string(), v.regex(new RegExp(`^(?:(?:^|[;,|])${limit})+(?:;\\s*)?$`)));
}
