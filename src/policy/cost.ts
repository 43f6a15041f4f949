/** The fields `cost` and `count`: how many units a request spends, and which responses count. */
import * as v from "valibot";
import { isRecord } from "../validation/json.ts";
import { asText, didYouMeanField, integerFrom } from "../validation/problems.ts";
import { token, visible } from "./key.ts";
import type { Policy } from "./policy.ts";
import { membersOf, parameterValues, type RequestAttributes } from "./request.ts";
import { schemaOfNullable } from "./schemas.ts";

/** Also the greatest cost that `/check` accepts. */
export const greatestCost = 1_000_000;

const units = integerFrom(1, greatestCost);
const requestCost = v.strictObject({ from: v.string(), max: units });
const responseCost = v.strictObject({ from: v.string(), reserve: units, max: units });

const acceptedCost =
  `an integer from 1 to ${greatestCost}; or { from = "header:<name>" or "query:<name>", max = <integer> }; ` +
  `or { from = "response-header:<name>", reserve = <integer>, max = <integer of at least reserve> }`;
const acceptedCount = '{ status = [...] } or { exceptStatus = [...] } with statuses such as "401", 404 or "5xx"';

export const costEntries = {
  cost: v.optional(
    schemaOfNullable(readCost, (value) => acceptedCost + didYouMeanField(value, ["from", "max", "reserve"])),
    1,
  ),
  count: v.optional(
    schemaOfNullable(readCount, (value) => acceptedCount + didYouMeanField(value, ["status", "exceptStatus"])),
  ),
};

export type Cost = v.InferOutput<typeof costEntries.cost>;
/** Which responses count. */
type Count = NonNullable<v.InferOutput<typeof costEntries.count>>;

function readCost(value: unknown) {
  if (v.is(units, value)) return { kind: "fixed", units: value } as const;
  const written = asText(isRecord(value) ? value["from"] : undefined);
  const [, source = "", name = ""] = /^([a-z-]+):(.*)$/i.exec(written) ?? [];
  const from = source.toLowerCase();
  if (from === "response-header") {
    const isWhole = token.test(name) && v.is(responseCost, value) && value.reserve <= value.max;
    // From a response header, at most `max`. Before the response, and without that header, `reserve`.
    return isWhole ? ({ kind: "response", name, reserve: value.reserve, max: value.max } as const) : null;
  }
  if (from !== "header" && from !== "query") return null;
  const isName = (from === "header" ? token : visible).test(name);
  // From a header or query parameter of the request, at most `max`; 1 without one.
  return isName && v.is(requestCost, value) ? ({ kind: "request", from, name, max: value.max } as const) : null;
}

function readCount(value: unknown) {
  if (!isRecord(value)) return null;
  const [name = "", ...others] = Object.keys(value);
  const isExcept = name === "exceptStatus";
  if (others.length > 0 || !(isExcept || name === "status")) return null;
  const list = value[name];
  if (!Array.isArray(list) || list.length === 0) return null;
  const written: readonly unknown[] = list;
  // Ranges: the first and the last status of each. If `isExcept`, all others count.
  const statuses = written.map(statusesOf).filter((range) => range !== null);
  return statuses.length === written.length ? { isExcept, statuses } : null;
}

/** A status such as `404`, or a class such as `5xx`; null for anything else. */
function statusesOf(value: unknown): readonly [number, number] | null {
  const text = typeof value === "number" ? String(value) : asText(value);
  if (!/^[1-5](?:\d\d|xx)$/i.test(text)) return null;
  const first = Number(text.replace(/xx$/i, "00"));
  return [first, /x$/i.test(text) ? first + 99 : first];
}

/** The least cost that a request spends before it is forwarded. */
export function reservedCost(cost: Cost): number {
  if (cost.kind === "fixed") return cost.units;
  return cost.kind === "response" ? cost.reserve : 1;
}

/** The cost that is spent before the request is forwarded: at least 1. */
export function costOfRequest({ cost }: Pick<Policy, "cost">, attributes: RequestAttributes): number {
  if (cost.kind !== "request") return reservedCost(cost);
  // A text that is not a number costs `max`, because an origin may read a number in it.
  const costs = writtenCosts(cost.from, cost.name, attributes).map((text) => unitsIn(text, cost.max) ?? cost.max);
  return costs.reduce((most, each) => Math.max(most, each), 1);
}

/** The final cost, once the response has begun. */
export function costOfResponse(
  { cost, count }: Pick<Policy, "cost" | "count">,
  spent: number,
  response: Response,
): number {
  if (count !== null && !counts(count, response.status)) return 0;
  if (cost.kind !== "response") return spent;
  return unitsIn(response.headers.get(cost.name), cost.max) ?? spent;
}

/** All values, since an origin may use any of them. */
function writtenCosts(from: "header" | "query", name: string, attributes: RequestAttributes): string[] {
  const texts = from === "header" ? membersOf(attributes.headers, name) : parameterValues(attributes.target.url, name);
  return texts.filter((text) => text !== "");
}

/** A text of digits as a number, at most `most`; null for anything else. */
function unitsIn(text: string | null, most: number): number | null {
  if (text === null || !/^\d+$/.test(text)) return null;
  return Math.min(Number(text), most, greatestCost);
}

const counts = ({ isExcept, statuses }: Count, status: number): boolean =>
  statuses.some(([first, last]) => status >= first && status <= last) !== isExcept;
