/** Whom a policy treats in a way of their own, as written: keys, addresses and networks, and claims. */
import { parseAddress, type Network, parseNetwork } from "./address.ts";
import { type KeyPart, partName, readKeyPart, traitsOf } from "./key.ts";
import { normalizedHost } from "./match.ts";
import { type PathPattern, pathKey } from "./path-pattern.ts";
import { parsePath } from "./path-readings.ts";
import type { ReadResult } from "./schemas.ts";
import { piecesOf } from "./wildcard.ts";
import { asText } from "../validation/problems.ts";

/** What the text of one part of a key is compared with. */
export type Pattern =
  | { readonly kind: "text"; readonly text: string }
  /** What stands between the `*`, in this order. */
  | { readonly kind: "wildcard"; readonly pieces: readonly string[] }
  | { readonly kind: "network"; readonly network: Network };

/** Whoever comes from somewhere, whatever they are charged as; or a key, with a pattern for each of its parts. */
export type SubjectPattern =
  | { readonly kind: "address"; readonly pattern: Pattern }
  | { readonly kind: "key"; readonly patterns: readonly Pattern[] };

/** A condition on one part that need not be in the key. */
export interface Condition {
  readonly part: KeyPart;
  readonly pattern: Pattern;
}

export const mostListEntries = 256;
/** As long as a key of `/check` may be. */
const longestText = 1024;

export const acceptedList = `a list of up to ${mostListEntries} keys, addresses and CIDR blocks`;

export const acceptedCondition =
  '"<part>=<value>" with a part that callers cannot invent, such as "jwt:plan=pro", "ip=10.0.0.0/8" or "country=DE"';

/**
 * A text that is an address or a network stands for all who come from there. Any other text is a key of one part; a list
 * of texts, a key of as many.
 * @param path the policy's pattern, by which paths are spelled
 */
export function readSubjectPattern(
  written: unknown,
  key: readonly KeyPart[],
  path: PathPattern | null,
): ReadResult<SubjectPattern> {
  if (typeof written === "string" && looksLikeAddress(written)) {
    const pattern = addressPattern(written);
    return pattern === null
      ? { accepted: acceptedAddress }
      : { value: { kind: "address", pattern } };
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

/** `<part>=<value>`. */
export function readCondition(written: unknown): ReadResult<Condition> {
  const text = asText(written);
  const at = text.indexOf("=");
  const part = at < 0 ? null : readKeyPart(text.slice(0, at));
  if (part === null || traitsOf(part).isVerified !== true) return { accepted: acceptedCondition };
  const pattern = readPattern(text.slice(at + 1).trim(), part, null);
  return "accepted" in pattern ? pattern : { value: { part, pattern: pattern.value } };
}

function readPattern(
  written: unknown,
  part: KeyPart,
  path: PathPattern | null,
): ReadResult<Pattern> {
  const text = asText(written);
  const name = partName(part);
  if (text === "" || text.length > longestText || !text.isWellFormed()) {
    return { accepted: `a well-formed text of 1 to ${longestText} characters for ${name}` };
  }
  if (part.kind === "ip") {
    const pattern = text === "*" ? wildcard(text) : addressPattern(text);
    return pattern === null ? { accepted: acceptedAddress } : { value: pattern };
  }
  // What stands for a part that all share is passed over.
  if (!text.includes("*") || part.kind === "global") {
    return { value: { kind: "text", text: canonicalText(text, part, path) } };
  }
  // Whoever invents a value could make it match.
  return traitsOf(part).isVerified === true
    ? { value: wildcard(text) }
    : {
        accepted: `a value without "*" for ${name}, because callers can invent it; "*" is for addresses and verified claims`,
      };
}

const wildcard = (text: string): Pattern => ({ kind: "wildcard", pieces: piecesOf(text) });

const acceptedAddress =
  'an address, an IPv4 address with "*" for parts of it such as "203.0.113.*", or a CIDR block such as "10.0.0.0/8"';

/** A mistake in an address must not make a key of it, which would be nobody's: four numbers, or two colons. */
export const looksLikeAddress = (text: string): boolean =>
  /^(?:[\d*]+\.){3}[\d*]+(?:\/.*)?$|^[0-9a-f]*:[0-9a-f.]*:[0-9a-f:.]*(?:\/.*)?$/i.test(text);

function addressPattern(text: string): Pattern | null {
  if (isStarredAddress(text)) return wildcard(text);
  const network = parseNetwork(text);
  return network === null ? null : { kind: "network", network };
}

/** Whether it is an IPv4 address when each star is one of its four numbers. */
function isStarredAddress(text: string): boolean {
  const numbers = text.split(".").map((number) => (number === "*" ? "0" : number));
  return text.includes("*") && !text.includes(":") && parseAddress(numbers.join(".")) !== null;
}

/** A text for a key part, in the spelling of a request's value. */
export function canonicalText(text: string, part: KeyPart, path: PathPattern | null): string {
  if (part.kind === "host") return normalizedHost(text);
  if (part.kind === "path") return pathKey(parsePath(text), path);
  if (part.kind === "asn") return text.replace(/^AS(?=\d)/i, "");
  return traitsOf(part).isUpperCase === true ? text.toUpperCase() : text;
}
