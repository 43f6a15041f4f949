/** The functions and values that requests need of a policy, compiled once from its fields. */
import { visitorKey, visitorOf } from "./address.ts";
import { memoized } from "./caches.ts";
import { conditionParts } from "./lists.ts";
import { priorityParts } from "./shares.ts";
import type { KeyPart, KeyValue } from "./key.ts";
import { canonicalText } from "./key-text.ts";
import { matcherOf, normalizedHost } from "./match.ts";
import { pathKey, pathKeys } from "./path-pattern.ts";
import type { Policy } from "./policy.ts";
import { type Claims, membersIn, parameterValues, type RequestAttributes, scalarText } from "./request.ts";
import type { Limit } from "../strategies/index.ts";
import { type AddressedKey, addressedKey, keyLevels, matchesOf, settingsOfPart } from "./within.ts";

export const compiledPolicy = memoized((policy: Policy) => {
  const { key, lists, ruleLists, isOff } = policy;
  const all = [lists, ruleLists];
  const overrides = all.flatMap((each) => each.overrides);
  const conditions = [...conditionParts(overrides), ...priorityParts(policy)];
  const hasEntries =
    conditions.length > 0 || overrides.length > 0 || all.some(({ allow, deny }) => allow.length > 0 || deny.length > 0);
  const compared = hasEntries ? [...key, ...conditions] : [];
  const texts = new Map(compared.map((part) => [part, textsReader(part, settingsOfPart(policy, part))]));
  const readers = key.map((part) => keyPartReader(part, settingsOfPart(policy, part)));
  const levels = keyLevels(policy);
  const addressed = new Map<string, AddressedKey>();
  return {
    ...matcherOf(matchesOf(policy)),
    /** The levels of the key: one without ancestors. */
    levels,
    /** See `PartitionKeyParts`. */
    ancestorParts: policy.ancestors.map(({ keyParts }) => keyParts),
    /** See `addressedKey`. One object for each result, because derived values are cached by the list of parts. */
    addressedKey: (isAddressed: readonly boolean[]): AddressedKey => {
      const name = isAddressed.join();
      const known = addressed.get(name) ?? addressedKey(key, levels, isAddressed);
      addressed.set(name, known);
      return known;
    },
    /** One value for each part of the key. */
    keyValues: (request: RequestAttributes, claims: Claims): readonly KeyValue[] =>
      readers.map((read) => read(request, claims)),
    /** The value of the part `ip`, which the key need not have. */
    addressValue: keyPartReader({ kind: "ip" }, policy),
    /** Whether the policy has overrides, weights or classes by condition, or entries in an allowlist or blocklist. */
    hasEntries,
    /** All values of a part that entries are compared with. */
    textsOf: (part: KeyPart) => texts.get(part) ?? textsReader(part, settingsOfPart(policy, part)),
    /** Whether a request needs the claims of a token. */
    needsClaims: !isOff && [...key, ...conditions].some(({ kind }) => kind === "jwt"),
    /** This policy with the limits of each override: one object each, because derived values are cached by policy object. */
    overridden: new Map<readonly Limit[], Policy>(overrides.map(({ limits }) => [limits, { ...policy, limits }])),
  };
});

/** The policy of a dry run as if it were enforced, but without its ban. */
export const enforcedPolicy = memoized((dryRun: Policy): Policy => ({ ...dryRun, isDryRun: false, ban: null }));

/** In the order of the configuration. */
export const matchingPolicies = (policies: readonly Policy[], attributes: RequestAttributes): readonly Policy[] =>
  policies.filter((policy) => compiledPolicy(policy).matches(attributes));

export type KeySettings = Pick<Policy, "name" | "addresses" | "match">;

type RequestReader<Value> = (request: RequestAttributes, claims: Claims) => Value;

/** Reads the value of one part in a request. */
export function keyPartReader(part: KeyPart, { name, addresses, match }: KeySettings): RequestReader<KeyValue> {
  switch (part.kind) {
    case "ip":
      return ({ headers }) => visitorKey(visitorOf(headers, addresses), addresses.ipv6Prefix);
    case "header":
      return ({ headers }) => headerValue(headers, part.name);
    case "cookie":
      return ({ cookies }) => onlyValue(cookies(part.name));
    case "query":
      return ({ target }) => queryValue(target.url, part.name);
    case "jwt":
      return (_, claims) => (Object.hasOwn(claims, part.name) ? scalarText(claims[part.name]) : null);
    case "path":
      return ({ target }) => pathKey(target.path, match.path);
    case "method":
      return ({ method }) => method.toUpperCase();
    case "host":
      return ({ target }) => normalizedHost(target.hostname);
    case "country":
    case "continent":
    case "asn":
    case "colo":
      return ({ cf }) => {
        const text = scalarText(cf(part.kind));
        return text === null ? null : canonicalText(part, { addresses, match }, text);
      };
    case "custom":
      return ({ customKey }) => customKey?.(name) ?? null;
    case "global":
      return () => null;
    default:
      return part satisfies never;
  }
}

/** Missing for repeated headers, which arrive joined by commas: otherwise a client could make new keys by adding headers. */
function headerValue(headers: Headers, name: string): KeyValue {
  const value = headers.get(name) ?? "";
  return value === "" || value.includes(",") ? null : value;
}

/** Missing unless the query has exactly this name, and only one value that origins may read under it. */
const queryValue = (url: URL, name: string): KeyValue =>
  url.searchParams.has(name) ? onlyValue(parameterValues(url, name)) : null;

/** Missing when there are several values, since the origin may use any of them. */
function onlyValue(values: readonly string[]): KeyValue {
  const [first = "", ...others] = new Set(values);
  return first === "" || others.length > 0 ? null : first;
}

/** Each item of a list claim, each value of a repeated header, and each reading of a path is a separate value. */
function textsReader(part: KeyPart, settings: KeySettings): RequestReader<readonly string[]> {
  if (part.kind === "jwt") return (_, claims) => claimTexts(claims, part.name);
  if (part.kind === "header") {
    return ({ headers }) => {
      const value = headers.get(part.name) ?? "";
      return [value, ...membersIn(value)];
    };
  }
  if (part.kind === "cookie") return ({ cookies }) => cookies(part.name);
  if (part.kind === "query") return ({ target }) => parameterValues(target.url, part.name);
  if (part.kind === "path") return ({ target }) => pathKeys(target.path, settings.match.path);
  const read = keyPartReader(part, settings);
  return (request, claims) => {
    const value = read(request, claims);
    return value === null ? [] : [value];
  };
}

function claimTexts(claims: Claims, name: string): readonly string[] {
  const claimed = Object.hasOwn(claims, name) ? claims[name] : undefined;
  const texts: unknown[] = Array.isArray(claimed) ? claimed : [claimed];
  return texts.map(scalarText).filter((text) => text !== null);
}
