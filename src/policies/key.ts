/** The values of key parts, from a request or from a call of `/check`. */
import { type KeyPart, parsePath, normalizedHost, pathKey, type Policy } from "../config/index.ts";
import { addressKey, visitorKey, visitorOf, withoutPort } from "./address.ts";
import { parameterValues } from "./query-parameters.ts";
import type { Claims, RequestAttributes } from "./request-attributes.ts";

/** The value of one part; null when it is missing. All requests without the part share that value. */
export type KeyValue = string | null;

type KeySettings = Pick<Policy, "key" | "addresses" | "match">;

/** One value for each part of the policy's key. */
export const requestKeyValues = (
  policy: KeySettings,
  attributes: RequestAttributes,
  claims: Claims,
): KeyValue[] => policy.key.map((part) => keyPartValue(part, policy, attributes, claims));

export const missingParts = (
  parts: readonly KeyPart[],
  values: readonly KeyValue[],
): readonly KeyPart[] =>
  parts.filter((part, index) => part.kind !== "global" && values[index] === null);

/** The value of one part in a request. */
export function keyPartValue(
  part: KeyPart,
  { addresses, match }: Pick<KeySettings, "addresses" | "match">,
  attributes: RequestAttributes,
  claims: Claims,
): KeyValue {
  switch (part.kind) {
    case "ip":
      return visitorKey(visitorOf(attributes.headers, addresses), addresses.ipv6Prefix);
    case "header":
      return headerValue(attributes.headers, part.name);
    case "cookie":
      return onlyValue(attributes.cookies(part.name));
    case "query":
      return queryValue(attributes.target.url, part.name);
    case "jwt":
      return Object.hasOwn(claims, part.name) ? scalarText(claims[part.name]) : null;
    case "path":
      return pathKey(attributes.target.path, match.path);
    case "method":
      return attributes.method.toUpperCase();
    case "host":
      return normalizedHost(attributes.target.hostname);
    case "country":
    case "continent":
    case "asn":
    case "colo":
      return scalarText(attributes.cf(part.kind));
    case "global":
      return null;
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

/** A caller's text for one part, in the form of a request's value; null when it is not valid for the part. */
export function callerKeyPartValue(
  { kind }: KeyPart,
  { addresses, match }: Pick<KeySettings, "addresses" | "match">,
  text: string,
): KeyValue {
  if (kind === "global") return null;
  if (kind === "ip") return addressKey(withoutPort(text), addresses.ipv6Prefix);
  if (kind === "host") return normalizedHost(text);
  if (kind === "path") return pathKey(parsePath(text), match.path);
  return kind === "method" ? text.toUpperCase() : text;
}

/**
 * The values of a key that a caller names, equal to those of a request, so that `/check` and the proxy charge the same
 * state. The text for `global` is ignored, and a key of `global` alone may be omitted.
 * @param texts one for each part; null for a part that is missing
 * @returns null when they do not fit the policy's key
 */
export function callerKeyValues(
  policy: KeySettings,
  texts: readonly (string | null)[] | undefined,
): KeyValue[] | null {
  const { key: parts } = policy;
  const isGlobal = parts.every((part) => part.kind === "global");
  if (texts === undefined) return isGlobal ? parts.map(() => null) : null;
  if (texts.length !== parts.length) return null;
  const values = parts.map((part, index) => {
    const text = texts[index] ?? null;
    return text === null ? null : callerKeyPartValue(part, policy, text);
  });
  const isValid = values.every(
    (value, index) => value !== null || texts[index] === null || parts[index]?.kind === "global",
  );
  return isValid ? values : null;
}
