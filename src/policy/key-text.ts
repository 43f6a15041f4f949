/** The canonical text of key parts. Lists, runtime rules, `/check` and requests all name a key by this text. */
import { addressKey, parseAddress, withoutPort } from "./address.ts";
import { type AddressSettings, type KeyPart, type KeyValue, partName, token } from "./key.ts";
import { type Match, normalizedHost } from "./match.ts";
import { pathKey } from "./path-pattern.ts";
import { parsePath } from "./path-readings.ts";
import { type KeyedPolicy, settingsOfPart } from "./within.ts";
import { jsonOrNull } from "../validation/json.ts";

/** The fields of a policy on which canonical texts depend. */
interface KeyTextSettings {
  readonly addresses: Pick<AddressSettings, "ipv6Prefix">;
  readonly match: Pick<Match, "path">;
}

/**
 * The text for a key part as a request would spell it. Also accepts values that no request can have.
 * @returns null for `global`, which has no value, and for an `ip` that is no address
 */
export function canonicalText(part: KeyPart, { addresses, match }: KeyTextSettings, text: string): string | null {
  switch (part.kind) {
    case "global":
      return null;
    case "ip":
      return addressKey(withoutPort(text), addresses.ipv6Prefix);
    case "host":
      return hostIn(text) ?? normalizedHost(text);
    case "path":
      return pathKey(parsePath(text), match.path);
    case "asn":
      return text.replace(/^AS(?=[\d*])/i, "").replace(/^0+(?=\d)/, "");
    case "method":
    case "country":
    case "continent":
    case "colo":
      return text.toUpperCase();
    case "header":
    case "cookie":
    case "query":
    case "jwt":
      return text;
    case "custom":
      return customText(text);
    default:
      return part satisfies never;
  }
}

/**
 * The values of a key that a caller names, equal to those of a request, so that `/check` and the proxy charge the same
 * state. The text for `global` is ignored, and a key of `global` alone may be omitted.
 * @param texts one for each part; null for a part that is missing
 * @returns null when they do not fit the policy's key
 */
export function callerKeyValues(policy: KeyedPolicy, texts: readonly KeyValue[] | undefined): KeyValue[] | null {
  const { key: parts } = policy;
  const isGlobal = parts.every((part) => part.kind === "global");
  if (texts === undefined) return isGlobal ? parts.map(() => null) : null;
  if (texts.length !== parts.length) return null;
  const values = parts.map((part, index) => {
    const text = texts[index] ?? null;
    return text === null ? null : canonicalText(part, settingsOfPart(policy, part), text);
  });
  const isValid = values.every(
    (value, index) => value !== null || texts[index] === null || parts[index]?.kind === "global",
  );
  return isValid ? values : null;
}

/** The middleware's text for a key that a function returns: `text` is that text, or a list of texts in JSON. */
function customText(text: string): string {
  if (!text.startsWith("[")) return text;
  const parsed = jsonOrNull(text);
  const list: readonly unknown[] = Array.isArray(parsed) ? parsed : [];
  const isKey = list.length > 0 && list.every((part) => part !== "" && isText(part));
  const [only = "", ...others] = isKey ? list.map(String) : [text];
  return others.length === 0 && !only.startsWith("[") ? only : JSON.stringify([only, ...others]);
}

const isText = (part: unknown): boolean => typeof part === "string" || typeof part === "number";

/** The host of an authority such as `api.example.com:8443`, as URLs spell it; null when the text is no authority. */
function hostIn(text: string): string | null {
  if (!/^[^\0-\x20/?#@\\]+$/.test(text)) return null;
  const isIpv6 = text.includes(":") && parseAddress(text) !== null;
  const url = URL.parse(`http://${isIpv6 ? `[${text}]` : text}`);
  return url === null ? null : normalizedHost(url.hostname);
}

/** The canonical texts that requests can have as the value of a part. */
interface PossibleTexts {
  readonly includes: (value: string) => boolean;
  readonly accepted: string;
}

const matching = (pattern: RegExp, accepted: string): PossibleTexts => ({
  includes: (value) => pattern.test(value),
  accepted,
});

const code = (example: string): PossibleTexts =>
  matching(/^[A-Z][A-Z0-9]$/, `a code of two letters such as "${example}"`);

/** The requirement of the policy's `match` on a value; null when `match` accepts the value. */
function unmatchedValue({ kind }: KeyPart, { methods, path, host }: Match, text: string, value: string): string | null {
  if (kind === "method" && methods !== null) {
    // A policy for GET also matches HEAD.
    const isMatched = methods.has(value) || (value === "HEAD" && methods.has("GET"));
    return isMatched ? null : `a method in match.methods (${[...methods].join(", ")})`;
  }
  if (kind === "path" && path !== null && !path.mayHaveKey(parsePath(text))) {
    return `a path that match.path ("${path.pathname}") matches`;
  }
  if (kind === "host" && host !== null && !host.test(value)) {
    return `a host that match.host ("${host.hostname}") matches`;
  }
  return null;
}

/** The possible values by kind of key part; null for a part that can have any text. */
const possibleTexts: Readonly<Record<KeyPart["kind"], PossibleTexts | null>> = {
  method: matching(token, 'an HTTP method such as "POST"'),
  host: { includes: (value) => hostIn(value) === value, accepted: 'a host such as "api.example.com"' },
  country: code("DE"),
  continent: code("EU"),
  asn: {
    includes: (value) => /^\d{1,10}$/.test(value) && Number(value) < 2 ** 32,
    accepted: 'an AS number such as "13335" or "AS13335"',
  },
  colo: matching(/^[A-Z]{3}$/, 'an airport code of three letters such as "FRA"'),
  // HTTP trims surrounding white space, and a comma separates several values: no value of a request has either.
  header: matching(
    /^[^\p{Cc} ,](?:(?:[^\p{Cc},]|\t)*[^\p{Cc} ,])?$/u,
    "a value without commas, control characters and surrounding white space, as a request header has",
  ),
  cookie: matching(/^[^,]+$/, "a value without commas, as a cookie has"),
  // In lists, `*` in a claim stands for any characters.
  jwt: matching(/^[^*]+$/, 'the value of one claim, without "*"'),
  ip: null,
  path: null,
  query: null,
  custom: null,
  global: null,
};

const isNeverMissing = ({ kind }: KeyPart): boolean => kind === "path" || kind === "method" || kind === "host";

/**
 * Whether requests that the policy matches can have a key with this text.
 * @param text null for a part that is missing
 * @returns null if they can, else what is accepted in place of the text
 */
export function unmatchedText(part: KeyPart, policy: KeyedPolicy, text: string | null): string | null {
  const name = partName(part);
  const settings = settingsOfPart(policy, part);
  if (part.kind === "global") {
    return text === null || text === name ? null : `null for ${name}, which has no value${got(text)}`;
  }
  if (text === null) return isNeverMissing(part) ? `a text for ${name}; it is never missing` : null;
  const value = canonicalText(part, settings, text);
  if (value === null) return `an IPv4 or IPv6 address for ${name}${got(text)}`;
  const possible = possibleTexts[part.kind];
  const accepted =
    possible === null || possible.includes(value)
      ? unmatchedValue(part, settings.match, text, value)
      : possible.accepted;
  return accepted && `${accepted} for ${name}${got(text)}`;
}

const longestQuote = 64;

const got = (text: string): string =>
  `, got ${JSON.stringify(text.length > longestQuote ? `${text.slice(0, longestQuote)}…` : text)}`;
