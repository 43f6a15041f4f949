/** Who is charged: the values of a key's parts, from a request or from a caller of `/check`. */
import { type KeyPart, parsePath, normalizedHost, pathKey, type Policy } from "../config/index.ts";
import { addressKey, visitorKey, visitorOf, withoutPort } from "./address.ts";
import { parameterValues } from "./query-parameters.ts";
import { type Claims, pathOf, type RequestAttributes } from "./request-attributes.ts";

/** The value of one part; null when it is missing, which all requests that miss it share. */
export type KeyValue = string | null;

type KeySettings = Pick<Policy, "key" | "addresses" | "match">;

/**
 * The values of all parts.
 * @param claims those of the request's verified token; none without one
 */
export const requestKeyValues = (
  policy: KeySettings,
  attributes: RequestAttributes,
  claims: Claims,
): KeyValue[] => policy.key.map((part) => keyPartValue(part, policy, attributes, claims));

/** The parts that a request lacks. */
export const missingParts = (
  parts: readonly KeyPart[],
  values: readonly KeyValue[],
): readonly KeyPart[] =>
  parts.filter((part, index) => part.kind !== "global" && values[index] === null);

/** What a request has for one part. */
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
      return queryValue(attributes.url, part.name);
    case "jwt":
      return Object.hasOwn(claims, part.name) ? scalarText(claims[part.name]) : null;
    case "path":
      return pathKey(pathOf(attributes), match.path);
    case "method":
      return attributes.method.toUpperCase();
    case "host":
      return normalizedHost(attributes.url.hostname);
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

/** Fields of one name arrive as one with commas: whoever adds another must not get a key of its own for each. */
function headerValue(headers: Headers, name: string): KeyValue {
  const value = headers.get(name) ?? "";
  return value === "" || value.includes(",") ? null : value;
}

/** The value under exactly this name; missing where the origin may read another one. */
const queryValue = (url: URL, name: string): KeyValue =>
  url.searchParams.has(name) ? onlyValue(parameterValues(url, name)) : null;

/** Missing where there are several, since the origin may take any of them. */
function onlyValue(values: readonly string[]): KeyValue {
  const [first = "", ...others] = new Set(values);
  return first === "" || others.length > 0 ? null : first;
}

/** Lists and objects stand for no one. */
export function scalarText(value: unknown): KeyValue {
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return typeof value === "string" && value !== "" ? value : null;
}

/** What a caller states for one part, as it is charged; null when it is no value of the part. */
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
 * What the parts of a key are when a caller names them, one text for each part: the same values, so that caller and
 * proxy charge the same state. A part called `global` has no value: what stands for it is passed over, and a key of
 * nothing else may be left out. Null when they are not such a key.
 */
export function callerKeyValues(
  policy: KeySettings,
  texts: readonly string[] | undefined,
): KeyValue[] | null {
  const { key: parts } = policy;
  const isGlobal = parts.every((part) => part.kind === "global");
  if (texts === undefined) return isGlobal ? parts.map(() => null) : null;
  if (texts.length !== parts.length) return null;
  const values = parts.map((part, index) => {
    return callerKeyPartValue(part, policy, texts[index] ?? "");
  });
  return values.every((value, index) => value !== null || parts[index]?.kind === "global")
    ? values
    : null;
}
