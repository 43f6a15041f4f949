/** How much a request spends of a policy. Whatever a client or an origin says, it spends and never gains. */
import { type Count, greatestCost, type Policy } from "../config/index.ts";
import { membersOf } from "./header-lists.ts";
import { parameterValues } from "./query-parameters.ts";
import type { RequestAttributes } from "./request-attributes.ts";

/** What is spent before the request goes on: at least 1. */
export function costOfRequest(
  { cost }: Pick<Policy, "cost">,
  attributes: RequestAttributes,
): number {
  switch (cost.kind) {
    case "fixed":
      return cost.units;
    case "request":
      return writtenCosts(cost.from, cost.name, attributes).reduce((most, text) => {
        // An origin may read a number where we read none.
        return Math.max(most, unitsIn(text, cost.max) ?? cost.max);
      }, 1);
    case "response":
      return cost.reserve;
    default:
      return cost satisfies never;
  }
}

/** What a request has cost after all, once its response has begun. */
export function costOfResponse(
  { cost, count }: Pick<Policy, "cost" | "count">,
  spent: number,
  response: Response,
): number {
  if (count !== null && !counts(count, response.status)) return 0;
  if (cost.kind !== "response") return spent;
  return unitsIn(response.headers.get(cost.name), cost.max) ?? spent;
}

/** All of them, since an origin may take any of several. */
function writtenCosts(
  from: "header" | "query",
  name: string,
  attributes: RequestAttributes,
): string[] {
  const texts =
    from === "header" ? membersOf(attributes.headers, name) : parameterValues(attributes.url, name);
  return texts.filter((text) => text !== "");
}

/** An integer of at least 0, no more than `most`; null for anything else. */
function unitsIn(text: string | null, most: number): number | null {
  if (text === null || !/^\d+$/.test(text)) return null;
  return Math.min(Number(text), most, greatestCost);
}

const counts = ({ isExcept, statuses }: Count, status: number): boolean =>
  statuses.some(([first, last]) => status >= first && status <= last) !== isExcept;
