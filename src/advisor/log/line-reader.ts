/** Reads the time, the key and the cost of log lines. */
import {
  costFields,
  dateField,
  forwardedFields,
  keyFields,
  recordTypeField,
  requestRecord,
  statusFields,
  timeFields,
} from "./fields.ts";
import { lineParser } from "./formats.ts";
import type { LineFilter } from "./log-filter.ts";
import { addressesIn, firstField, type LogFieldName, type LogLine, type StatedField } from "./log-line.ts";
import { parseUnits } from "../../strategies/notation.ts";

const acceptedInstant =
  'a time such as "2026-01-05T12:00:00Z", "05/Jan/2026:12:00:00 +0000" or 1767614400 (seconds, milliseconds, microseconds or nanoseconds since 1970)';

const months = "JanFebMarAprMayJunJulAugSepOctNovDec";
const clockForm = /^(\d\d)\/([A-Z][a-z]{2})\/(\d{4}):(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?: ([+-])(\d\d):?(\d\d))?$/;

/** A cache of the last time that was read: many lines of a log have the same second. */
let latest: { readonly text: string; readonly atMs: number | null } = { text: "", atMs: null };

/** A time of the common log format; null for any other text. Without an offset it is in UTC. */
function clockTimeMs(text: string): number | null {
  if (latest.text !== text) latest = { text, atMs: readClockTime(text) };
  return latest.atMs;
}

function readClockTime(text: string): number | null {
  const [, day, name = "", year, hour, minute, second, fraction = "0", sign, ...zone] = clockForm.exec(text) ?? [];
  const month = months.indexOf(name) / 3;
  if (day === undefined || !Number.isInteger(month) || month < 0) return null;
  const [hours, minutes] = sign === undefined ? [0, 0] : [Number(zone[0]), Number(zone[1])];
  const offsetMs = (hours * 60 + minutes) * 60_000 * (sign === "-" ? -1 : 1);
  const utc = [Number(hour), Number(minute), Number(second)] as const;
  const isClock = utc[0] < 24 && utc[1] < 60 && utc[2] <= 60 && hours < 24 && minutes < 60;
  const dayMs = Date.UTC(Number(year), month, Number(day));
  if (!isClock || !isDayOfMonth(dayMs, day)) return null;
  const withinDayMs = ((utc[0] * 60 + utc[1]) * 60 + utc[2]) * 1_000;
  return sinceEpoch(dayMs + withinDayMs + Math.floor(Number(`0.${fraction}`) * 1_000) - offsetMs);
}

const isDayOfMonth = (dayMs: number, day: string): boolean => new Date(dayMs).getUTCDate() === Number(day);

/** Whether a date such as "2026-01-05" exists: Date.parse reads the 30th of February as the 2nd of March. */
export const isCalendarDate = (date: string): boolean => isDayOfMonth(Date.parse(date), date.slice(-2));

/** An ISO 8601 time, with a T or a space between date and time. */
const isoForm = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?(Z|[+-]\d\d(?::?\d\d)?)?$/i;

/**
 * The units of a number since 1970, from nanoseconds to seconds, each with the smallest number that is read in this
 * unit.
 */
const instantUnits = [
  { from: 1e17, perMs: 1e6 },
  { from: 1e14, perMs: 1e3 },
  { from: 1e11, perMs: 1 },
  { from: 0, perMs: 1e-3 },
] as const;

/** A number of seconds with milliseconds can be read as slightly less: 1767614400.123 has no exact binary form. */
const roundingMs = 1e-3;

/** The instant of a value as logs write it; null for any other value. Without an offset it is in UTC. */
function instantMs(value: unknown): number | null {
  if (typeof value === "number" || (typeof value === "string" && /^\d+(?:\.\d+)?$/.test(value))) {
    const number = Number(value);
    const unit = instantUnits.find(({ from }) => number >= from);
    return unit === undefined ? null : sinceEpoch(Math.floor(number / unit.perMs + roundingMs));
  }
  if (typeof value !== "string") return null;
  const [iso, zone] = isoForm.exec(value.trim()) ?? [];
  if (iso === undefined) return clockTimeMs(value.trim());
  const local = iso
    .slice(0, iso.length - (zone?.length ?? 0))
    .replace(" ", "T")
    .replace(",", ".");
  const [date = "", time = "00:00"] = local.split("T");
  if (!isCalendarDate(date)) return null;
  const offset = (zone ?? "Z")
    .toUpperCase()
    .replace(/^([+-]\d\d):?(\d\d)?$/, (_, hours, minutes = "00") => `${hours}:${minutes}`);
  return sinceEpoch(Date.parse(`${date}T${time}${offset}`));
}

/** The end of the year 3899. The engine decides until the year 4199, and retries can come 200 years later. */
export const latestStartMs = Date.UTC(3900, 0, 1) - 1;

const sinceEpoch = (atMs: number): number | null => (atMs >= 0 && atMs <= latestStartMs ? atMs : null);

export const acceptedLog =
  'the common or combined log format (203.0.113.7 - - [05/Jan/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 512), JSON lines ({"time":"2026-01-05T12:00:00Z","ip":"203.0.113.7","cost":1}), CSV with a header (time,ip), or a log of Cloudflare, AWS, HAProxy or Envoy';

export interface LoggedRequest {
  /** In milliseconds since 1970. */
  readonly atMs: number;
  readonly key: string;
  readonly cost: number;
  /** Whether the server answered with status 429. */
  readonly wasDenied?: boolean;
}

/** The key of a line, or a part of the key; or the reason why the line has none. */
export type LineKey = { readonly key: string } | { readonly reason: string };

/** Which fields of a line are its time, its key and its cost. */
interface LineFields {
  /** Null: the first field that usually has the time. */
  readonly time: LogFieldName | null;
  readonly keyOf: (line: LogLine) => LineKey;
  /** Null: the first field that usually has a cost; lines without one have a cost of 1. */
  readonly cost: LogFieldName | null;
  /** Default: all lines. */
  readonly filter?: LineFilter | null;
}

/** Stands for a line that is left out: a request that a filter excludes, or a log message of a Worker. */
export const leftOut = Symbol("left out");

/** A request, the reason why the line cannot be read, or neither: null for a header or a comment. */
export type ReadLine = LoggedRequest | string | typeof leftOut | null;

/** Reads lines of one format after the other. The header of a table applies to the lines that follow. */
export type LineReader = (line: string) => ReadLine;

const mostCost = 1_000_000_000;
const acceptedCost = `an integer from 0 to ${mostCost}`;

/** The client's address as the log states it, or else a field that identifies the client. */
export function usualKeyOf(line: LogLine): LineKey {
  const field = firstField(line, keyFields);
  if (field === null) return { reason: "expected a field such as key, ip, client_ip or remote_addr" };
  const { name, value } = field;
  // The last address of a list is the only one that the server or its nearest proxy has seen itself.
  const isList = forwardedFields.some(({ text }) => text === name);
  const text = isList ? addressesIn(value)?.at(-1) : value;
  return typeof text === "string" || typeof text === "number"
    ? { key: String(text) }
    : { reason: `${name}: expected a text, got ${quoted(value)}` };
}

export function createLineReader({ time, keyOf, cost, filter = null }: LineFields): LineReader {
  const times = time === null ? timeFields : [time];
  const costs = cost === null ? costFields : [cost];
  const parse = lineParser(times, acceptedLog);
  return (text) => {
    const line = parse(text);
    if (line === null || typeof line === "string") return line;
    if ((line.valueOf(recordTypeField) ?? requestRecord) !== requestRecord) return leftOut;
    const kept = filter?.(line) ?? true;
    if (typeof kept === "string") return kept;
    if (!kept) return leftOut;
    const at = firstField(line, times);
    if (at === null) {
      return time === null ? "expected a field such as time, timestamp or ts" : missingField(time.text, line);
    }
    const atMs = instantMs(dated(at.value, line));
    if (atMs === null) return `${at.name}: expected ${acceptedInstant}, got ${quoted(at.value)}`;
    const key = keyOf(line);
    if ("reason" in key) return key.reason;
    const stated = firstField(line, costs);
    if (stated === null && cost !== null) return missingField(cost.text, line);
    const units = stated === null ? 1 : unitsOf(stated);
    if (typeof units === "string") return units;
    const wasDenied = Number(firstField(line, statusFields)?.value) === 429;
    return { atMs, key: key.key, cost: units, ...(wasDenied && { wasDenied }) };
  };
}

/** Combines a time of day with the date in another field of the line. */
function dated(value: unknown, line: LogLine): unknown {
  if (typeof value !== "string" || !/^\d\d:\d\d/.test(value)) return value;
  const date = line.valueOf(dateField);
  return typeof date === "string" ? `${date}T${value}` : value;
}

function unitsOf({ value }: StatedField): number | string {
  const units = typeof value === "string" ? parseUnits(value) : value;
  return typeof units === "number" && Number.isInteger(units) && units >= 0 && units <= mostCost
    ? units
    : `cost: expected ${acceptedCost}, got ${quoted(value)}`;
}

const mostListedNames = 20;

/** The reason for a line that lacks a field, with the fields that it has. */
export function missingField(name: string, { names }: LogLine): string {
  const listed = names.slice(0, mostListedNames).join(", ");
  const more = names.length > mostListedNames ? ", …" : "";
  return `${name} is missing; the fields of the line are ${listed}${more}`;
}

export const quoted = (value: unknown): string => JSON.stringify(value).slice(0, 40);
