/**
 * The RateLimit fields of draft-ietf-httpapi-ratelimit-headers-11, serialised as structured fields (RFC 9651). A later
 * draft is a change in this file alone.
 */
import { type BareItem, type Item, parseList, serializeList, Token } from "structured-headers";
import {
  type Decision,
  type Limit,
  type LimitDecision,
  longestWaitMs,
} from "../strategies/index.ts";
import { retryAfterSeconds } from "./problems.ts";

type FieldName = "RateLimit-Policy" | "RateLimit" | "Retry-After";

/** Values of the fields that a response carries, by their names. */
export type RateLimitFields = { readonly [Name in FieldName]?: string };

/** The names of the limits that deny. */
export function violatedLimits(decisions: readonly Decision[]): string[] {
  return decisions.flatMap(({ limits }) =>
    limits.filter(({ allowed }) => !allowed).map(({ name }) => name),
  );
}

/**
 * @param limits all that the request met, whether they were asked or not: `RateLimit-Policy` is to be the same in every
 * answer to the like of it
 * @param decisions at least one
 */
export function rateLimitFields(
  limits: readonly Limit[],
  decisions: readonly Decision[],
): RateLimitFields {
  const decided = decisions.flatMap((decision) => decision.limits);
  const violated = decided.filter((limit) => !limit.allowed);
  return {
    "RateLimit-Policy": serializeList(limits.map(policyItem)),
    // When denied only the violated limits: `Retry-After` must not be earlier than the `t` of any that is listed.
    RateLimit: serializeList((violated.length > 0 ? violated : decided).map(limitItem)),
    ...retryAfterField(decisions),
  };
}

/** The wait alone, for decisions that are not the object's; nothing when allowed, or when waiting does not help. */
export function retryAfterField(decisions: readonly Decision[]): RateLimitFields {
  const waitMs = longestWaitMs(decisions);
  const isDenied = decisions.some((decision) => !decision.allowed);
  return isDenied && waitMs !== null ? { "Retry-After": String(retryAfterSeconds(waitMs)) } : {};
}

/** A window of less than a second has no `w`, which is in whole seconds and at least 1. */
function policyItem({ name, limit, windowMs }: Limit): Item {
  const parameters = new Map<string, BareItem>([["q", limit]]);
  if (windowMs >= 1000) parameters.set("w", Math.ceil(windowMs / 1000));
  return [name, parameters];
}

/** `t`: within so many seconds no more than `r` can be used; the whole window when nothing has been. */
function limitItem(decision: LimitDecision): Item {
  const windowSeconds = Math.ceil(decision.windowMs / 1000);
  const seconds = Math.ceil(decision.replenishAfterMs / 1000);
  return [
    decision.name,
    new Map<string, BareItem>([
      ["r", Math.min(decision.remaining, decision.limit)],
      ["t", seconds === 0 ? windowSeconds : Math.min(seconds, windowSeconds)],
    ]),
  ];
}

/**
 * Adds a response's fields to those that its origin sent. What the origin sends in another form stays as it is, and
 * stays alone: recipients read all lines of a field as one, and ours would be lost with it (RFC 9651, section 4.2).
 */
export function addRateLimitFields(headers: Headers, fields: RateLimitFields): void {
  const isReadable = ["RateLimit", "RateLimit-Policy"].every((name) => {
    const existing = headers.get(name);
    return existing === null || isListOfNames(existing);
  });
  if (!isReadable) return;
  for (const [name, value] of Object.entries(fields)) headers.append(name, value);
}

function isListOfNames(value: string): boolean {
  try {
    return parseList(value).every(([item]) => typeof item === "string" || item instanceof Token);
  } catch {
    return false;
  }
}
