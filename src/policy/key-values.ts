/** The values of key parts, in a request or in a call of `/check`. */
import { canonicalText } from "./key-text.ts";
import type { KeyPart } from "./key.ts";
import { normalizedHost } from "./match.ts";
import { pathKey, pathKeys } from "./path-pattern.ts";
import type { Policy } from "./policy.ts";
import { visitorKey, visitorOf } from "./address.ts";
import { parameterValues, type Claims, type RequestAttributes, membersIn } from "./request.ts";

/** The value of one part; null when it is missing. All requests without the part share that value. */
export type KeyValue = string | null;

export type KeySettings = Pick<Policy, "name" | "addresses" | "match">;

export type KeyReader = (attributes: RequestAttributes, claims: Claims) => readonly KeyValue[];
export type KeyPartReader = (attributes: RequestAttributes, claims: Claims) => KeyValue;

/** Reads one value for each part of the policy's key. */
export function keyReader(policy: KeySettings & Pick<Policy, "key">): KeyReader {
  const readers = policy.key.map((part) => keyPartReader(part, policy));
  return (attributes, claims) => readers.map((read) => read(attributes, claims));
}

export const missingParts = (parts: readonly KeyPart[], values: readonly KeyValue[]): readonly KeyPart[] =>
  parts.filter((part, index) => part.kind !== "global" && values[index] === null);

/** Reads the value of one part in a request. */
export function keyPartReader(part: KeyPart, { name, addresses, match }: KeySettings): KeyPartReader {
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

/** The text of a scalar; null for lists, objects and empty texts. */
export function scalarText(value: unknown): KeyValue {
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return typeof value === "string" && value !== "" ? value : null;
}

/**
 * The values of a key that a caller names, equal to those of a request, so that `/check` and the proxy charge the same
 * state. The text for `global` is ignored, and a key of `global` alone may be omitted.
 * @param texts one for each part; null for a part that is missing
 * @returns null when they do not fit the policy's key
 */
export function callerKeyValues(
  policy: KeySettings & Pick<Policy, "key">,
  texts: readonly (string | null)[] | undefined,
): KeyValue[] | null {
  const { key: parts } = policy;
  const isGlobal = parts.every((part) => part.kind === "global");
  if (texts === undefined) return isGlobal ? parts.map(() => null) : null;
  if (texts.length !== parts.length) return null;
  const values = parts.map((part, index) => {
    const text = texts[index] ?? null;
    return text === null ? null : canonicalText(part, policy, text);
  });
  const isValid = values.every(
    (value, index) => value !== null || texts[index] === null || parts[index]?.kind === "global",
  );
  return isValid ? values : null;
}

/** Whether a request may have several values of a part, so that the part counts as missing. */
export const isRepeatable = ({ kind }: KeyPart): boolean =>
  kind === "jwt" || kind === "header" || kind === "cookie" || kind === "query";

export type TextsReader = (request: RequestAttributes, claims: Claims) => readonly string[];

/** Each item of a list claim, each value of a repeated header, and each reading of a path is a separate value. */
export function textsReader(part: KeyPart, settings: KeySettings): TextsReader {
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
