/**
 * The RateLimit fields of draft-ietf-httpapi-ratelimit-headers-11, serialised as structured fields (RFC 9651). A later
 * draft is a change in this file alone.
 */
import {
  type BareItem,
  type InnerList,
  type Item,
  parseList,
  serializeList,
  Token,
} from "structured-headers";
import {
  type Decision,
  type Limit,
  type LimitDecision,
  longestWaitMs,
} from "../../strategies/index.ts";
import { retryAfterSeconds } from "./problems.ts";

type FieldName = "RateLimit-Policy" | "RateLimit" | "Retry-After";

/** Values of the fields that a response carries, by their names. */
export type RateLimitFields = { readonly [Name in FieldName]?: string };

/** More would exceed what servers and clients accept: 256 limits take 15 KB. The others are in the answers of `/check`. */
const mostItems = 16;

/**
 * Lists at most 16 limits: all of them in their order, or those with the least remaining first.
 * @param limits all that the request met, whether they were asked or not: `RateLimit-Policy` is to be the same in every
 * answer to the like of it
 * @param decisions at least one
 */
export function rateLimitFields(
  limits: readonly Limit[],
  decisions: readonly Decision[],
): RateLimitFields {
  const decided = decisions.flatMap((decision) => decision.limits);
  // When denied only the violated limits: `Retry-After` must not be earlier than the `t` of any that is listed.
  const isDenied = decisions.some(({ allowed }) => !allowed);
  const relevant = isDenied ? decided.filter(({ allowed }) => !allowed) : decided;
  const sent =
    relevant.length > mostItems
      ? relevant.toSorted(byLeastRemaining).slice(0, mostItems)
      : relevant;
  return {
    "RateLimit-Policy": serializeList(
      limitsBeside(sent, limits).map((limit) => {
        const own = decided.find(({ name }) => name === limit.name);
        return policyItem(limit, own?.windowMs ?? limit.windowMs);
      }),
    ),
    // A ban refuses without any that is violated.
    ...(sent.length > 0 && { RateLimit: serializeList(sent.map(limitItem)) }),
    ...retryAfterField(decisions),
  };
}

/** Limits with the least remaining come first; among equals, the one that resets last. */
export const byLeastRemaining = (a: LimitDecision, b: LimitDecision): number =>
  sentRemaining(a) - sentRemaining(b) || b.resetAfterMs - a.resetAfterMs;

/** `r`: a burst may hold more units than the limit has in a window. */
export const sentRemaining = ({ remaining, limit }: LimitDecision): number =>
  Math.min(remaining, limit);

/** The limits of `RateLimit-Policy`: all; or, of more than it may list, those in `RateLimit` before the others. */
function limitsBeside(sent: readonly LimitDecision[], limits: readonly Limit[]): readonly Limit[] {
  if (limits.length <= mostItems) return limits;
  const indexes = new Map(sent.map(({ name }, index) => [name, index]));
  const indexOf = ({ name }: Limit): number => indexes.get(name) ?? sent.length;
  return limits.toSorted((a, b) => indexOf(a) - indexOf(b)).slice(0, mostItems);
}

/** The wait alone, for decisions that are not the object's; nothing when allowed, or when waiting does not help. */
export function retryAfterField(decisions: readonly Decision[]): RateLimitFields {
  const waitMs = toldWaitMs(decisions);
  const isDenied = decisions.some((decision) => !decision.allowed);
  return isDenied && waitMs !== null ? { "Retry-After": String(retryAfterSeconds(waitMs)) } : {};
}

/** A slot may come free at any time, long before its lease is over: to ask again soon is what helps. */
const slotWaitMs = 1_000;

const countsSlots = ({ strategy }: { readonly strategy: string }): boolean =>
  strategy === "concurrency";

const waitOf = (limit: LimitDecision): number | null =>
  countsSlots(limit) && limit.retryAfterMs !== null ? slotWaitMs : limit.retryAfterMs;

/** How long a denied client is told to wait: the longest of all waits; null if waiting does not help. */
export function toldWaitMs(decisions: readonly Decision[]): number | null {
  const waits = decisions.flatMap(({ limits, bannedForMs }) => [
    ...limits.filter(({ allowed }) => !allowed).map(waitOf),
    bannedForMs,
  ]);
  return longestWaitMs(waits.map((retryAfterMs) => ({ retryAfterMs })));
}

/** The greatest Integer of a structured field (RFC 9651, section 3.3.1). */
const greatestInteger = 999_999_999_999_999;

/** The library would make Decimals of what is no integer, which no parameter of these fields is. */
function integer(value: number): number {
  if (Number.isNaN(value))
    throw new RangeError("a RateLimit field has no value for what is no number");
  return Math.min(Math.max(0, Math.ceil(value)), greatestInteger);
}

/**
 * A window of less than a second has no `w`, which is in whole seconds and at least 1.
 * @param windowMs of a calendar's window the length of the current one, where it is known
 */
function policyItem(limit: Limit, windowMs: number): Item {
  const parameters = new Map<string, BareItem>([["q", integer(limit.limit)]]);
  if (countsSlots(limit)) parameters.set("qu", "concurrent-requests");
  if (windowMs >= 1000) parameters.set("w", integer(windowMs / 1000));
  return [limit.name, parameters];
}

/**
 * `t`: within so many seconds no more than `r` can be used; the whole window when nothing has been. Slots have none: they
 * are free again as soon as work is done.
 */
function limitItem(decision: LimitDecision): Item {
  const remaining = integer(sentRemaining(decision));
  if (countsSlots(decision)) return [decision.name, new Map([["r", remaining]])];
  const windowSeconds = integer(decision.windowMs / 1000);
  const seconds = integer(decision.replenishAfterMs / 1000);
  return [
    decision.name,
    new Map<string, BareItem>([
      ["r", remaining],
      ["t", seconds === 0 ? windowSeconds : Math.min(seconds, windowSeconds)],
    ]),
  ];
}

/**
 * Adds a response's fields to those that its origin sent. What the origin sends in another form stays as it is, and
 * stays alone: recipients read all lines of a field as one, and ours would be lost with it (RFC 9651, section 4.2). Where
 * it uses a name of ours, as another Headgate may, ours is told by another: one name is one policy.
 */
export function addRateLimitFields(headers: Headers, fields: RateLimitFields): void {
  const existing = lists.map((name) => namesIn(headers.get(name)));
  if (existing.includes(null)) return;
  const origins = existing.flatMap((names) => names ?? []);
  // Most origins send none, and ours need not be read again then.
  const ours =
    origins.length === 0 ? [] : lists.flatMap((name) => namesIn(fields[name] ?? null) ?? []);
  const prefixes = prefixesOf(ours, new Set(origins));
  for (const [name, value] of Object.entries(fields)) {
    const isList = lists.some((each) => each === name);
    // An empty line is no member of a list, and what is added to one would be no list.
    if (headers.get(name) === "") headers.delete(name);
    headers.append(name, isList && origins.length > 0 ? prefixed(value, prefixes) : value);
  }
}

const lists = ["RateLimit", "RateLimit-Policy"] as const;

export const hasRateLimitFields = (headers: Headers): boolean =>
  lists.some((name) => headers.has(name));

/** The names that a list tells of, which mean the same in any case; null when it is no list of names. */
function namesIn(value: string | null): string[] | null {
  if (value === null) return [];
  try {
    const items = parseList(value).map(([item]) => (item instanceof Token ? String(item) : item));
    return items.every((item) => typeof item === "string")
      ? items.map((item) => item.toLowerCase())
      : null;
  } catch {
    return null;
  }
}

/** What makes each of our names one that neither the origin uses nor another of ours is. */
function prefixesOf(
  ours: readonly string[],
  origins: ReadonlySet<string>,
): ReadonlyMap<string, string> {
  const taken = new Set([...origins, ...ours]);
  const prefixes = new Map<string, string>();
  for (const name of ours.filter((each) => origins.has(each))) {
    if (prefixes.has(name)) continue;
    let prefix = "headgate.";
    while (taken.has(prefix + name)) prefix += "headgate.";
    taken.add(prefix + name);
    prefixes.set(name, prefix);
  }
  return prefixes;
}

function prefixed(list: string, prefixes: ReadonlyMap<string, string>): string {
  const items = parseList(list).map((item): Item | InnerList => {
    const [name] = item;
    return typeof name === "string"
      ? [`${prefixes.get(name.toLowerCase()) ?? ""}${name}`, item[1]]
      : item;
  });
  return serializeList(items);
}
