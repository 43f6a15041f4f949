/**
 * The RateLimit fields of draft-ietf-httpapi-ratelimit-headers-11, serialised as structured fields (RFC 9651), and the older
 * `X-RateLimit-*` fields. No other file depends on the draft.
 */
import {
  type BareItem,
  type InnerList,
  type Item,
  parseList,
  serializeItem,
  serializeList,
  Token,
} from "structured-headers";
import { isByKeyRule, type Outcome, type Spend } from "../../limiter/isolate/outcome.ts";
import { type Decision, type Limit, type LimitDecision, longestWaitMs, windowMsAt } from "../../strategies/index.ts";

type FieldName = "RateLimit-Policy" | "RateLimit" | "Retry-After";

export type RateLimitFields = { readonly [Name in FieldName]?: string };

/** 256 limits would take 15 KB, which is more than clients and servers accept. Answers of `/check` list all limits. */
const mostItems = 16;

/**
 * Lists at most 16 limits: all of them in their order, or the 16 with the least remaining.
 * @param limits all limits that apply to the request, whether decided or not, so that every answer to such a request has
 * the same `RateLimit-Policy`
 * @param decisions at least one
 */
export function rateLimitFields(limits: readonly Limit[], decisions: readonly Decision[]): RateLimitFields {
  const decided = decisions.flatMap((decision) => decision.limits);
  // A denial lists only the violated limits: `Retry-After` must not be earlier than the `t` of a listed limit.
  const isDenied = decisions.some(({ allowed }) => !allowed);
  const relevant = isDenied ? decided.filter(({ allowed }) => !allowed) : decided;
  const sent = relevant.length > mostItems ? relevant.toSorted(byLeastRemaining).slice(0, mostItems) : relevant;
  return {
    "RateLimit-Policy": limitsBeside(sent, limits)
      .map((limit) => policyItem(limit, decided))
      .join(", "),
    // A ban also denies when no limit is violated.
    ...(sent.length > 0 && { RateLimit: sent.map((each) => limitItem(each, limits)).join(", ") }),
    ...retryAfterFieldOf(decisions),
  };
}

/** Orders by least remaining; among equals, the limit that resets last comes first. */
const byLeastRemaining = (a: LimitDecision, b: LimitDecision): number =>
  advertisedRemaining(a) - advertisedRemaining(b) || b.resetAfterMs - a.resetAfterMs;

/** The parameter `r`, which must not exceed the limit. With a burst, `remaining` can. */
const advertisedRemaining = ({ remaining, limit }: LimitDecision): number => Math.min(remaining, limit);

/** The limits of `RateLimit-Policy`. If there are more than 16, those in `RateLimit` come first. */
function limitsBeside(sent: readonly LimitDecision[], limits: readonly Limit[]): readonly Limit[] {
  if (limits.length <= mostItems) return limits;
  const indexes = new Map(sent.map(({ name }, index) => [name, index]));
  const indexOf = ({ name }: Limit): number => indexes.get(name) ?? sent.length;
  return limits.toSorted((a, b) => indexOf(a) - indexOf(b)).slice(0, mostItems);
}

/** `Retry-After` alone, for decisions of an isolate. Empty when allowed, and when waiting does not help. */
export function retryAfterFieldOf(decisions: readonly Decision[]): RateLimitFields {
  const isDenied = decisions.some((decision) => !decision.allowed);
  return isDenied ? retryAfterField(advertisedWaitMs(decisions)) : {};
}

/** `Retry-After` for a wait. Empty for null: waiting does not help. */
export const retryAfterField = (retryAfterMs: number | null): { readonly "Retry-After"?: string } =>
  retryAfterMs === null ? {} : { "Retry-After": String(retryAfterSeconds(retryAfterMs)) };

/** `Retry-After` in whole seconds: at least 1, because clients retry at once on 0; at most 2^31 - 1. */
export function retryAfterSeconds(retryAfterMs: number): number {
  return Math.min(Math.max(1, Math.ceil(retryAfterMs / 1000)), 2 ** 31 - 1);
}

/** A slot can become free long before its lease ends: clients should retry soon. */
const slotWaitMs = 1_000;

const countsSlots = ({ strategy }: { readonly strategy: string }): boolean => strategy === "concurrency";

const waitOf = (limit: LimitDecision): number | null =>
  countsSlots(limit) && limit.retryAfterMs !== null ? slotWaitMs : limit.retryAfterMs;

/** The wait for `Retry-After`: the longest among the denying limits and bans. Null when waiting does not help. */
export function advertisedWaitMs(decisions: readonly Decision[]): number | null {
  const waits = decisions.flatMap(({ limits, bannedForMs }) => [
    ...limits.filter(({ allowed }) => !allowed).map(waitOf),
    bannedForMs,
  ]);
  return longestWaitMs(waits.map((retryAfterMs) => ({ retryAfterMs })));
}

/** The greatest Integer of a structured field (RFC 9651, section 3.3.1). */
const greatestInteger = 999_999_999_999_999;

/** Rounds up. The library would serialise other numbers as Decimals, which these parameters must not be. */
function integer(value: number): number {
  if (Number.isNaN(value)) throw new RangeError("a RateLimit field cannot have a value that is not a number");
  return Math.min(Math.max(0, Math.ceil(value)), greatestInteger);
}

interface LimitTexts {
  readonly name: string;
  /** The item of `RateLimit-Policy` with the configured window. */
  readonly policy: string;
}

const textsByLimit = new WeakMap<Limit, LimitTexts>();

function textsOf(limit: Limit): LimitTexts {
  const known = textsByLimit.get(limit);
  if (known !== undefined) return known;
  const texts = { name: serializeItem(limit.name), policy: newPolicyItem(limit, limit.windowMs) };
  textsByLimit.set(limit, texts);
  return texts;
}

/** Serializes the constant parts of the fields before the first request. */
export function prepareLimitFields(limits: readonly Limit[]): void {
  for (const limit of limits) textsOf(limit);
}

/** For a calendar window, `w` is the length of the current period if known. */
function policyItem(limit: Limit, decided: readonly LimitDecision[]): string {
  const own = limit.period === undefined ? undefined : decided.find(({ name }) => name === limit.name);
  return own === undefined ? textsOf(limit).policy : newPolicyItem(limit, own.windowMs);
}

/** A window shorter than a second has no `w`, which is in whole seconds and at least 1. */
function newPolicyItem(limit: Limit, windowMs: number): string {
  const parameters = new Map<string, BareItem>([["q", integer(limit.limit)]]);
  if (countsSlots(limit)) parameters.set("qu", "concurrent-requests");
  if (windowMs >= 1000) parameters.set("w", integer(windowMs / 1000));
  return serializeItem([limit.name, parameters]);
}

/**
 * `t` is the number of seconds during which no more than `r` can be used; the window when nothing has been used. Slots have
 * no `t`: they become free as soon as a request ends.
 */
function limitItem(decision: LimitDecision, limits: readonly Limit[]): string {
  const limit = limits.find(({ name }) => name === decision.name);
  const name = limit === undefined ? serializeItem(decision.name) : textsOf(limit).name;
  const slots = `${name};r=${integer(advertisedRemaining(decision))}`;
  if (countsSlots(decision)) return slots;
  const windowSeconds = integer(decision.windowMs / 1000);
  const seconds = integer(decision.replenishAfterMs / 1000);
  return `${slots};t=${seconds === 0 ? windowSeconds : Math.min(seconds, windowSeconds)}`;
}

/**
 * Adds fields to those that the origin sent. If an origin's field is no list of names, nothing is added: recipients
 * parse all lines of a field together, and would discard ours too (RFC 9651, section 4.2). Within a field, a name
 * identifies one policy. If the origin already uses one of our names, as another Headgate may, ours gets a prefix.
 */
export function addRateLimitFields(headers: Headers, fields: RateLimitFields): void {
  const existing = lists.map((name) => namesIn(headers.get(name)));
  if (existing.includes(null)) return;
  const origins = existing.flatMap((names) => names ?? []);
  // Most origins send none; ours need not be parsed then.
  const ours = origins.length === 0 ? [] : lists.flatMap((name) => namesIn(fields[name] ?? null) ?? []);
  const prefixes = prefixesOf(ours, new Set(origins));
  for (const [name, value] of Object.entries(fields)) {
    const isList = lists.some((each) => each === name);
    // Appending to an empty value would make an invalid list.
    if (headers.get(name) === "") headers.delete(name);
    headers.append(name, isList && origins.length > 0 ? prefixed(value, prefixes) : value);
  }
}

const lists = ["RateLimit", "RateLimit-Policy"] as const;

/**
 * Only 2xx, 4xx and 5xx: a client might take the fields of a redirect or an upgrade as a reason not to follow it, and a
 * cache would store those of a 304.
 */
export const mayHaveRateLimitFields = (status: number): boolean => status >= 200 && (status < 300 || status >= 400);

export const hasRateLimitFields = (headers: Headers): boolean => lists.some((name) => headers.has(name));

/** The names in lower case, as they are compared without regard to case. @returns null when the value is no list of names */
function namesIn(value: string | null): string[] | null {
  if (value === null) return [];
  try {
    const items = parseList(value).map(([item]) => (item instanceof Token ? String(item) : item));
    return items.every((item) => typeof item === "string") ? items.map((item) => item.toLowerCase()) : null;
  } catch {
    return null;
  }
}

/** A prefix for each of our names that the origin uses too. Prefixed names are unique. */
function prefixesOf(ours: readonly string[], origins: ReadonlySet<string>): ReadonlyMap<string, string> {
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
    return typeof name === "string" ? [`${prefixes.get(name.toLowerCase()) ?? ""}${name}`, item[1]] : item;
  });
  return serializeList(items);
}

export const legacyNames = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"] as const;

export type LegacyFields = Readonly<Record<(typeof legacyNames)[number], string>>;

/**
 * @param decisions at least one
 * @param nowMs the time of the decisions, since the Unix epoch
 * @throws RangeError when the decisions have no limits
 */
export function legacyFields(decisions: readonly Decision[], nowMs: number): LegacyFields {
  const all = decisions.flatMap(({ limits }) => limits);
  const violated = all.filter(({ allowed }) => !allowed);
  const [first] = (violated.length > 0 ? violated : all).toSorted(byLeastRemaining);
  if (first === undefined) throw new RangeError("a decision has no limits");
  const isDenied = decisions.some(({ allowed }) => !allowed);
  const isBanned = decisions.some(({ bannedForMs }) => bannedForMs > 0);
  const waitMs = isDenied ? advertisedWaitMs(decisions) : first.replenishAfterMs;
  const resetMs = nowMs + (waitMs ?? first.resetAfterMs);
  return {
    "X-RateLimit-Limit": String(first.limit),
    "X-RateLimit-Remaining": String(isBanned ? 0 : advertisedRemaining(first)),
    "X-RateLimit-Reset": String(Math.ceil(resetMs / 1000)),
  };
}

/** Adds nothing where the origin has sent any of the fields: clients read the three together. */
function addLegacyFields(headers: Headers, fields: LegacyFields): void {
  if (legacyNames.some((name) => headers.has(name))) return;
  for (const [name, value] of Object.entries(fields)) headers.set(name, value);
}

/** The rate limit fields of a response to a request that policies have decided. */
export interface DecisionFields {
  readonly standard: RateLimitFields;
  /** Null when `LEGACY_HEADERS` is off. */
  readonly legacy: LegacyFields | null;
}

/**
 * The fields for all enforced limits that apply to the request, with the decisions of objects. A key rule's limits
 * replace those of its policy; a policy that a key rule allows has none.
 * @returns null without such a decision: a local decision does not know the state of the key
 */
export function decisionFields(
  spends: readonly Spend[],
  { outcomes, decidedAtMs }: { readonly outcomes: readonly Outcome[]; readonly decidedAtMs: number },
  hasLegacyHeaders: boolean,
): DecisionFields | null {
  const decisions = outcomes.flatMap(({ kind, keyRule, policy, decision }) =>
    kind === "decided" && keyRule === undefined && !policy.isDryRun ? (decision ?? []) : [],
  );
  if (decisions.length === 0) return null;
  const limits = spends.flatMap(({ policy }) => (policy.isDryRun ? [] : limitsInEffect(policy, outcomes)));
  return {
    standard: rateLimitFields(currentLimits(limits, decidedAtMs), decisions),
    legacy: hasLegacyHeaders ? legacyFields(decisions, decidedAtMs) : null,
  };
}

/** The limits with their current windows. */
function currentLimits(limits: readonly Limit[], nowMs: number): readonly Limit[] {
  if (limits.every(({ period }) => period === undefined)) return limits;
  return limits.map((limit) => ({ ...limit, windowMs: windowMsAt(limit, nowMs) }));
}

/**
 * The limits of a policy's outcome. Without an outcome, because the request was denied before, the policy's own limits.
 */
function limitsInEffect(policy: Spend["policy"], outcomes: readonly Outcome[]): readonly Limit[] {
  const outcome = outcomes.find((each) => each.policy.name === policy.name);
  if (outcome === undefined) return policy.limits;
  return isByKeyRule(outcome, "allow") ? [] : outcome.policy.limits;
}

export function addDecisionFields({ status, headers }: Response, fields: DecisionFields | null): void {
  if (fields === null || !mayHaveRateLimitFields(status)) return;
  addRateLimitFields(headers, fields.standard);
  if (fields.legacy !== null) addLegacyFields(headers, fields.legacy);
}
