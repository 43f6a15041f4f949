/** The cost of a request for a policy. No header or parameter can make it negative. */
import { type Count, greatestCost, type Policy } from "./vars/index.ts";
import { membersOf } from "./header-lists.ts";
import { parameterValues } from "./query-parameters.ts";
import type { RequestAttributes } from "./request-attributes.ts";

/** The cost that is spent before the request is forwarded: at least 1. */
export function costOfRequest({ cost }: Pick<Policy, "cost">, attributes: RequestAttributes): number {
  switch (cost.kind) {
    case "fixed":
      return cost.units;
    case "request":
      return writtenCosts(cost.from, cost.name, attributes).reduce((most, text) => {
        // A text that is not a number costs `max`, because an origin may read a number in it.
        return Math.max(most, unitsIn(text, cost.max) ?? cost.max);
      }, 1);
    case "response":
      return cost.reserve;
    default:
      return cost satisfies never;
  }
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
