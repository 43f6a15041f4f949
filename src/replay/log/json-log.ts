/** One request of a log in JSON lines. The usual names of its fields are known. */
import { parseUnits } from "../../strategies/notation.ts";
import { acceptedInstant, instantMs } from "./log-time.ts";

export interface LoggedRequest {
  /** Since 1970. */
  readonly atMs: number;
  readonly key: string;
  readonly cost: number;
}

/** In the order in which they are tried, in any letter case. */
const timeFields = wordsOf(
  "time timestamp @timestamp ts datetime date time_iso8601 time_local msec start_time starttime startutc edgestarttimestamp",
);
const keyFields = wordsOf(
  "key ip client_ip clientip remote_addr remote_ip remoteaddr remoteip client_address clientaddress clienthost remote_host source_ip client user user_id userid",
);
const costFields = wordsOf("cost units weight");

const mostCost = 1_000_000_000;
type Fields = ReadonlyMap<string, unknown>;

/** The request, or the reason why the line cannot be read. */
export function requestOfJson(line: string): LoggedRequest | string {
  const fields = fieldsOf(line);
  if (fields === null) return "expected an object in JSON";
  const time = firstOf(fields, timeFields);
  if (time === undefined) return "expected a field such as time, timestamp or ts";
  const key = firstOf(fields, keyFields);
  if (key === undefined) return "expected a field such as key, ip, client_ip or remote_addr";
  const cost = firstOf(fields, costFields) ?? 1;
  const atMs = instantMs(time.value);
  if (atMs === null) return `${time.name}: expected ${acceptedInstant}, got ${quoted(time.value)}`;
  if (typeof key.value !== "string" && typeof key.value !== "number")
    return `${key.name}: expected a text, got ${quoted(key.value)}`;
  const units = cost === 1 ? 1 : unitsOf(cost.value);
  if (!Number.isInteger(units) || units < 0 || units > mostCost) {
    const accepted = `an integer from 0 to ${mostCost}`;
    return `cost: expected ${accepted}, got ${quoted(cost === 1 ? 1 : cost.value)}`;
  }
  return { atMs, key: String(key.value), cost: units };
}

function unitsOf(value: unknown): number {
  if (typeof value === "number") return value;
  return typeof value === "string" ? parseUnits(value) : NaN;
}

const quoted = (value: unknown): string => JSON.stringify(value).slice(0, 40);

/** The fields by their names in lower case, with those of the object `request`; null if the line is not an object. */
function fieldsOf(line: string): Fields | null {
  try {
    const parsed: unknown = JSON.parse(line);
    if (typeof parsed !== "object" || parsed === null) return null;
    const request: unknown = Reflect.get(parsed, "request");
    const nested = typeof request === "object" && request !== null ? Object.entries(request) : [];
    return new Map(
      [...nested, ...Object.entries(parsed)].map(([name, value]) => [name.toLowerCase(), value]),
    );
  } catch {
    return null;
  }
}

function firstOf(fields: Fields, names: readonly string[]) {
  const name = names.find((each) => fields.get(each) !== undefined && fields.get(each) !== null);
  return name === undefined ? undefined : { name, value: fields.get(name) };
}

function wordsOf(text: string): readonly string[] {
  return text.split(" ");
}
