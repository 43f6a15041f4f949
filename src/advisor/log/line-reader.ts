/** Reads the time, the key and the cost of log lines. */
import { parseUnits } from "../../strategies/notation.ts";
import {
  costFields,
  dateField,
  forwardedFields,
  keyFields,
  recordTypeField,
  requestRecord,
  statusFields,
  timeFields,
} from "./known-fields.ts";
import type { LineFilter } from "./log-filter.ts";
import { addressesIn, type LogFieldName, firstField, type LogLine, type StatedField } from "./log-line.ts";
import { acceptedInstant, instantMs } from "./log-time.ts";
import { lineParser } from "./parse-line.ts";

export const acceptedLog =
  'the common or combined log format (203.0.113.7 - - [05/Jan/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 512), JSON lines ({"time":"2026-01-05T12:00:00Z","ip":"203.0.113.7","cost":1}), CSV with a header (time,ip), or a log of Cloudflare, AWS, HAProxy or Envoy';

export interface LoggedRequest {
  /** Since 1970. */
  readonly atMs: number;
  readonly key: string;
  readonly cost: number;
  /** The server answered with 429. */
  readonly wasDenied?: boolean;
}

/** The key of a line, or the reason why it has none. */
export type LineKey = { readonly key: string } | { readonly reason: string };

/** Which fields of a line are its time, its key and its cost. */
export interface LineFields {
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

/** A time of day with the date that another field of the line has. */
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
