/** `/api/denials`: the log of denials, and the search for the denials of a key or of a problem response. */
import * as v from "valibot";
import {
  awayMs,
  type DenialKey,
  type DenialsQuery,
  type LoggedDenials,
  type LoggedLimit,
  type StoredDenial,
} from "../control/denial-calls.ts";
import { instanceUri } from "../http/wire/problems.ts";
import { callerKeyValues, unmatchedText } from "../policy/key-text.ts";
import { keyLevels } from "../policy/within.ts";
import type { Policy } from "../policy/policy.ts";
import { spanText, waitText } from "../strategies/index.ts";
import { fields } from "../validation/problems.ts";
import {
  type AdminContext,
  type AuthorizedCall,
  answer,
  bodyOf,
  fieldsRefused,
  instant,
  instantText,
  keyIdOf,
  nextLink,
  pageEntries,
  parsed,
  policyNameText,
  policyOf,
  queryIn,
  text,
} from "./context.ts";
import { keyNameEntries, namedKey, refuseSecondName } from "./key-routes.ts";
import type { DenialPage, DenialView, FoundDenials } from "./wire.ts";

const denialsQuery = {
  policy: v.exactOptional(policyNameText),
  id: v.exactOptional(text("the id of a key")),
  from: v.optional(instant),
  to: v.optional(instant),
  at: v.exactOptional(instant),
  ...pageEntries(/^\d{1,16}-\d{1,16}$/),
};

/** The newest first; with `at`, those nearest to it. The default period is all that is kept. */
export async function listDenials(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const { policy, id, from = 0, to = Number.MAX_SAFE_INTEGER, at, cursor, limit } = queryIn(c, denialsQuery);
  if (at !== undefined && cursor !== undefined) {
    throw fieldsRefused([{ field: "at", accepted: "no value together with cursor" }]);
  }
  if (from >= to) throw fieldsRefused([{ field: "from", accepted: "an instant before to" }]);
  if (policy !== undefined) policyOf(context, policy);
  const query: DenialsQuery = {
    fromMs: from,
    toMs: to,
    limit,
    ...(policy !== undefined && { policy }),
    ...(id !== undefined && { keys: keysOfId(context, id, policy) }),
    ...(cursor !== undefined && { cursor }),
    ...(at !== undefined && { nearMs: at }),
  };
  const page = await readLog(context, query);
  const { items, cursor: next, hasNewer } = page;
  const view = { denials: items.map(denialView), next, ...(hasNewer !== undefined && { hasNewer }), ...logState(page) };
  return answer<DenialPage>(view, 200, nextLink(c, `${context.apiPath}/denials`, next));
}

/** Makes isolates report each second for a while, so that a denial of this moment is found soon. */
async function readLog({ controlPlane, control }: AdminContext, query: DenialsQuery): Promise<LoggedDenials> {
  const found = await controlPlane.call((stub) => stub.denials(query));
  control.watch();
  return found;
}

/** Policies with equal keys have keys with equal ids. */
function keysOfId({ policies }: AdminContext, id: string, policy?: string): DenialKey[] {
  const key = keyIdOf(id);
  return (policy === undefined ? policies.map(({ name }) => name) : [policy]).map((name) => ({ policy: name, key }));
}

const acceptedInstance = 'the instance of a problem response, such as "urn:uuid:…"';

const searchSchema = fields({
  policy: v.optional(policyNameText),
  ...keyNameEntries,
  instance: v.optional(
    v.pipe(
      v.string(acceptedInstance),
      v.trim(),
      v.toLowerCase(),
      v.regex(/^(?:urn:uuid:)?[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/, acceptedInstance),
      v.transform((uri) => uri.slice(-36)),
    ),
  ),
  at: v.optional(instant),
});
type Search = v.InferOutput<typeof searchSchema>;

const mostFound = 200;
/** The shortest beginning of an id that a search accepts. The console shows eight characters. */
const shortestId = 8;

/** Finds the denial of a problem response, or the newest denial of a key, or the one nearest to `at`. */
export async function searchDenials(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const search = parsed(searchSchema, await bodyOf(c));
  const { policy, instance, at } = search;
  if (policy !== undefined) policyOf(context, policy);
  const sought = await soughtKeys(context, search);
  const query: DenialsQuery = {
    fromMs: 0,
    toMs: Number.MAX_SAFE_INTEGER,
    limit: mostFound,
    ...(policy !== undefined && { policy }),
    ...sought,
    ...(instance !== undefined && { instance }),
    ...(at !== undefined && { nearMs: at }),
  };
  const found = await readLog(context, query);
  const { keyPrefix, keys = found.keys ?? [] } = sought;
  // An object of an earlier version does not know `keyPrefix`, and answers with the denials of all keys.
  const items = keyPrefix !== undefined && found.keys === undefined ? [] : found.items;
  const [denial = null] =
    at === undefined ? items : items.toSorted((one, other) => awayMs(one, at) - awayMs(other, at));
  const same = items.filter(({ policy: of, key }) => of === denial?.policy && key === denial.key);
  return answer<FoundDenials>({
    denial: denial && denialView(denial),
    count: same.reduce((sum, { count }) => sum + count, 0),
    since: same.length === 0 ? null : instantText(Math.min(...same.map(({ atMs }) => atMs))),
    until: same.length === 0 ? null : instantText(Math.max(...same.map(({ lastAtMs }) => lastAtMs))),
    near: at === undefined || denial === null ? null : nearView(found, denial, at),
    denials: items.map(denialView),
    next: items.length === 0 ? null : found.cursor,
    hasNewer: found.hasNewer ?? false,
    keys: keys.map(({ policy: of, key }) => ({ policy: of, id: key })),
    ...logState(found),
  });
}

/** How the denial relates to the asked instant. An object of an earlier version has read the newest entries only. */
function nearView({ near, dropped }: LoggedDenials, denial: StoredDenial, at: number): FoundDenials["near"] {
  const log = near ?? { dropped, isComplete: false };
  const away = awayMs(denial, at);
  const side = denial.atMs > at ? "after" : "before";
  const place = away === 0 ? includedText(denial) : `The nearest denial is ${waitText(away)} ${side} the asked time.`;
  const gap = log.isComplete ? "" : ` ${gapText(near)}, so a nearer one may be missing.`;
  return { at: instantText(at), awayMs: away, ...log, text: place + gap };
}

/** Only the first and the last denial of an entry have a known instant. */
const includedText = ({ atMs, lastAtMs, count }: StoredDenial): string =>
  atMs === lastAtMs
    ? "It was denied at the asked time."
    : `Denials from ${instantText(atMs)} to ${instantText(lastAtMs)}, ${numberText(count)} in all, include the asked time.`;

function gapText(near: LoggedDenials["near"]): string {
  if (near === undefined) return "The log may lack denials of that time";
  const { dropped } = near;
  if (dropped === 0) return "The log does not reach back to that time";
  return `The log lacks ${numberText(dropped)} ${dropped === 1 ? "denial" : "denials"} of that time`;
}

/**
 * The keys that a search names, or the beginning of their ids; neither for an instance. Without a policy, a key is sought
 * in each policy whose key it fits.
 * @throws CallRefused when the search names no key and no instance, or both, or when the key fits no policy
 */
async function soughtKeys(context: AdminContext, search: Search): Promise<Pick<DenialsQuery, "keys" | "keyPrefix">> {
  const { policy, key, id, tenant, instance } = search;
  const hasKey = key !== undefined || id !== undefined || tenant !== undefined;
  if (instance !== undefined) {
    if (hasKey) throw fieldsRefused([{ field: "instance", accepted: "no value together with key, id or tenant" }]);
    return {};
  }
  refuseSecondName({ key, id, tenant });
  if (id !== undefined) return isBeginning(id) ? { keyPrefix: id } : { keys: keysOfId(context, id, policy) };
  if (policy === undefined && key === undefined) {
    throw fieldsRefused([{ field: "key", accepted: "a key, the id of a key, or an instance" }]);
  }
  const policies =
    policy === undefined ? context.policies.filter((each) => fits(each, key)) : [policyOf(context, policy)];
  if (policies.length === 0) {
    throw fieldsRefused([{ field: "key", accepted: "a key that fits the key of a policy; or its id, or a policy" }]);
  }
  const name = { key, tenant };
  const keys = await Promise.all(
    policies.map(async (each) => ({ policy: each.name, key: (await namedKey(context, each, name)).key })),
  );
  return { keys };
}

const isBeginning = (id: string): boolean => id.length >= shortestId && /^[\w-]{1,42}$/.test(id);

/** Whether requests can have this key under the policy. */
function fits(policy: Policy, texts: Search["key"]): boolean {
  if (texts === undefined || callerKeyValues(policy, texts) === null) return false;
  const { key: parts } = policy;
  return keyLevels(policy).every(({ from, to, onMissingKey }) =>
    parts.slice(from, to).every((part, offset) => {
      const given = texts[from + offset] ?? null;
      if (given === null && part.kind !== "global" && onMissingKey !== "shared") return false;
      return unmatchedText(part, policy, given) === null;
    }),
  );
}

const logState = ({ dropped, completeSinceMs, isOn }: LoggedDenials) => ({
  dropped,
  completeSince: instantText(completeSinceMs),
  isOn,
});

const denialView = (denial: StoredDenial): DenialView => {
  const { seq: _seq, key: id, atMs, lastAtMs, instance, ...facts } = denial;
  return {
    ...facts,
    id,
    instance: instanceUri(instance),
    at: instantText(atMs),
    lastAt: instantText(lastAtMs),
    cause: causeText(denial),
  };
};

/**
 * Such as "5 of 5 per minute used; could retry after 23 s", or "2 limits denied: 10 of 10 per second and 100 of 100 per
 * minute used; could retry after 23 s, the longest wait".
 */
export function causeText(denial: Pick<StoredDenial, "retryAfterMs" | "reason"> & Cause): string {
  const { retryAfterMs, reason, bannedForMs, limits } = denial;
  const cause = causeWithoutWait(denial);
  // The text of a ban already has the wait until its end.
  const isStated = retryAfterMs === null || retryAfterMs <= (reason === "ban" ? bannedForMs : 0);
  if (isStated) return cause;
  return `${cause}; could retry after ${waitText(retryAfterMs)}${limits.length > 1 ? ", the longest wait" : ""}`;
}

type Cause = Pick<StoredDenial, "outcome" | "reason" | "limits" | "bannedForMs" | "cost">;

function causeWithoutWait({ outcome, reason, limits, bannedForMs, cost }: Cause): string {
  if (outcome === "fallback-closed") return 'the object did not answer in time, and onError is "closed"';
  switch (reason) {
    case "ban":
      return `banned for another ${waitText(bannedForMs)} after repeated denials`;
    case "deny":
      return "on the deny list, or blocked by a rule";
    case "key-missing":
      return "the request lacked a required part of the key";
    case "reservations":
      return "too many requests or reservations of the key were open";
    case "cost":
      return `its cost of ${numberText(cost)} exceeds the capacity; ${usedText(limits)}`;
    case "delay":
      return `the wait would have exceeded maxDelay; ${usedText(limits)}`;
    // The request had less left than the limit, so the used units are not known.
    case "share":
      return "other keys were guaranteed the rest of the limit";
    case "class":
      return "the class of the request may not use the rest of the limit";
    case "keys":
      return "too many keys of the root were in use for a new one";
    case "limit":
      return usedText(limits);
    default:
      return reason satisfies never;
  }
}

function usedText(limits: readonly LoggedLimit[]): string {
  const used = limits.map(({ used: units, capacity, windowMs }) => {
    const span = windowMs === 0 ? "at once" : `per ${spanText(windowMs)}`;
    return `${numberText(units)} of ${numberText(capacity)} ${span}`;
  });
  return `${limits.length > 1 ? `${limits.length} limits denied: ` : ""}${used.join(" and ")} used`;
}

const numberText = (value: number): string => value.toLocaleString("en-US");
