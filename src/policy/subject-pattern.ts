/** Entries of `allow`, `deny` and `overrides`: addresses, networks, keys, and conditions on claims or locations. */
import { parseAddress, type Network, parseNetwork } from "./address.ts";
import { type KeyPart, partName, readKeyPart, traitsOf } from "./key.ts";
import { canonicalText } from "./key-text.ts";
import type { PathPattern } from "./path-pattern.ts";
import type { ReadResult } from "./schemas.ts";
import { asText } from "../validation/problems.ts";

export type Pattern =
  | { readonly kind: "text"; readonly text: string }
  /** The texts between the `*`, in order. */
  | { readonly kind: "wildcard"; readonly pieces: readonly string[] }
  | { readonly kind: "network"; readonly network: Network };

/** All clients with some addresses, whatever their key; or all keys that match a pattern for each part. */
export type SubjectPattern =
  | { readonly kind: "address"; readonly pattern: Pattern }
  | { readonly kind: "key"; readonly patterns: readonly Pattern[] };

/** A condition on one part, which need not be in the key. */
export interface Condition {
  readonly part: KeyPart;
  readonly pattern: Pattern;
}

export const mostListEntries = 256;
/** Also the longest text of a key in `/check`. */
export const longestText = 1024;

export const acceptedList = `a list of up to ${mostListEntries} keys, addresses and CIDR blocks`;

const acceptedCondition =
  '"<part>=<value>" with a part that callers cannot invent, such as "jwt:plan=pro", "ip=10.0.0.0/8" or "country=DE"';

const acceptedRequestCondition =
  '"<part>=<value>" with a claim, a header, a cookie, a query parameter, an address or a location, such as "jwt:plan=free" or "header:X-Batch=1"';

/**
 * Reads an address or network, a text for a key of one part, or a list with a text for each part of the key.
 * @param path the policy's path pattern, which determines how the key part `path` is written
 */
export function readSubjectPattern(
  written: unknown,
  key: readonly KeyPart[],
  path: PathPattern | null,
): ReadResult<SubjectPattern> {
  if (typeof written === "string" && looksLikeAddress(written)) {
    const pattern = addressPattern(written);
    return pattern === null ? { accepted: acceptedAddress } : { value: { kind: "address", pattern } };
  }
  const texts: readonly unknown[] = Array.isArray(written) ? written : [written];
  const names = key.map(partName).join(", ");
  if (key.every(({ kind }) => kind === "global")) {
    return { accepted: `an address or a CIDR block: no other text is a key of ${names}` };
  }
  if (texts.length !== key.length) {
    const shape = key.length === 1 ? "a text" : `a list of ${key.length} texts`;
    return { accepted: `an address, a CIDR block, or ${shape} for ${names}` };
  }
  const patterns: Pattern[] = [];
  for (const [index, part] of key.entries()) {
    const pattern = readPattern(texts[index], part, path);
    if ("accepted" in pattern) return pattern;
    patterns.push(pattern.value);
  }
  return { value: { kind: "key", patterns } };
}

/** Reads `<part>=<value>`, for a part that callers cannot invent. */
export const readCondition = (written: unknown): ReadResult<Condition> =>
  readConditionOn((part) => traitsOf(part).isVerified === true, acceptedCondition, written);

/** Like `readCondition`, but also for headers, cookies and query parameters, which callers can invent. */
export const readRequestCondition = (written: unknown): ReadResult<Condition> =>
  readConditionOn((part) => traitsOf(part).isVerified === true || "name" in part, acceptedRequestCondition, written);

function readConditionOn(isAccepted: (part: KeyPart) => boolean, accepted: string, written: unknown) {
  const text = asText(written);
  const at = text.indexOf("=");
  const part = at < 0 ? null : readKeyPart(text.slice(0, at));
  if (part === null || !isAccepted(part)) return { accepted };
  const pattern = readPattern(text.slice(at + 1).trim(), part, null);
  return "accepted" in pattern ? pattern : { value: { part, pattern: pattern.value } };
}

function readPattern(written: unknown, part: KeyPart, path: PathPattern | null): ReadResult<Pattern> {
  const text = asText(written);
  const name = partName(part);
  if (text === "" || text.length > longestText || !text.isWellFormed()) {
    return { accepted: `a well-formed text of 1 to ${longestText} characters for ${name}` };
  }
  if (part.kind === "ip") {
    const pattern = text === "*" ? wildcard(text) : addressPattern(text);
    return pattern === null ? { accepted: acceptedAddress } : { value: pattern };
  }
  // Addresses were handled as patterns above, so the prefix has no effect here. The value of `global` is ignored.
  const settings = { addresses: { ipv6Prefix: 128 }, match: { path } };
  const canonical = canonicalText(part, settings, text) ?? text;
  if (!text.includes("*") || part.kind === "global") {
    return { value: { kind: "text", text: canonical } };
  }
  // A caller that can invent values could invent a matching one.
  return traitsOf(part).isVerified === true
    ? { value: wildcard(canonical) }
    : {
        accepted: `a value without "*" for ${name}, because callers can invent it; "*" is for addresses and verified claims`,
      };
}

const wildcard = (text: string): Pattern => ({ kind: "wildcard", pieces: text.split("*") });

const acceptedAddress =
  'an address, an IPv4 address with "*" for parts of it such as "203.0.113.*", or a CIDR block such as "10.0.0.0/8"';

/** Whether a text has four numbers or two colons. A mistyped address must be a problem, not a key that matches nothing. */
export const looksLikeAddress = (text: string): boolean =>
  /^(?:[\d*]+\.){3}[\d*]+(?:\/.*)?$|^[0-9a-f]*:[0-9a-f.]*:[0-9a-f:.]*(?:\/.*)?$/i.test(text);

function addressPattern(text: string): Pattern | null {
  // `*` may stand for some of the four numbers of an IPv4 address.
  const numbers = text.split(".").map((number) => (number === "*" ? "0" : number));
  const isStarred = text.includes("*") && !text.includes(":") && parseAddress(numbers.join(".")) !== null;
  if (isStarred) return wildcard(text);
  const network = parseNetwork(text);
  return network === null ? null : { kind: "network", network };
}
