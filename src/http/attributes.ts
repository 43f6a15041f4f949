/** Reads a request: its URL, the path by which routes are chosen, and the attributes that policies match and keys are made of. */
import { parse } from "hono/utils/cookie";
import { memoized } from "../policy/caches.ts";
import { type RequestAttributes, RequestTarget } from "../policy/request.ts";

/** The URL of a request, parsed once; null when it is invalid. Callers must not change it. */
export const urlOf = memoized((request: Request) => URL.parse(request.url));

/** @throws TypeError when the URL is invalid, which `rejectMalformedUrl` prevents */
export const targetOf = (request: Request): RequestTarget =>
  RequestTarget.plain(request.url) ?? RequestTarget.of(urlOf(request) ?? new URL(request.url));

export function attributesOf(request: Request, target: RequestTarget = targetOf(request)): RequestAttributes {
  const { method, headers } = request;
  return {
    method,
    target,
    headers,
    cf: (name) => (request.cf === undefined ? undefined : Reflect.get(request.cf, name)),
    cookies: (name) => cookiesOf(headers.get("Cookie") ?? "", name),
  };
}

/**
 * The values of a cookie. Several lines of the field arrive joined by commas, and origins may read them as one line or
 * as several. When the two readings differ, the list gets an empty value, so that the cookie never has a single value.
 */
function cookiesOf(header: string, name: string): string[] {
  const values = cookiesIn(header.split(";"), name);
  if (!header.includes(",")) return values;
  const others = cookiesIn(header.split(/[;,]/), name);
  const isSame = values.length > 0 && new Set([...values, ...others]).size === 1;
  return isSame ? values : ["", ...values, ...others];
}

/**
 * Parses the cookies one by one: for a whole header, the parser would return only the first cookie of each name. It
 * also skips values that it cannot decode.
 */
const cookiesIn = (pairs: readonly string[], name: string): string[] =>
  pairs.filter((pair) => pair.split("=", 1)[0]?.trim() === name).map((pair) => validCookie(parse(pair, name)[name]));

/** A cookie contains no comma (RFC 6265, section 4.1.1). */
const validCookie = (value: string | undefined): string => (value === undefined || value.includes(",") ? "" : value);

/** Normalised like `CHECK_PATH`, so that another spelling of it cannot reach the origin; `/` without a valid URL. */
export const routedPath = (request: Request): string => normalizedPath(urlOf(request)?.pathname ?? "/");

/**
 * The path with single slashes, none at the end, and without needless escapes (RFC 3986, section 6.2.2.2). Case is kept.
 * The URL parser has already resolved dot segments. A more lenient comparison would make the limiter answer paths that
 * belong to the origin.
 */
export function normalizedPath(pathname: string): string {
  const single = pathname
    .replace(/%(?![0-9a-f]{2})/gi, "%25")
    .replace(/%[0-9a-f]{2}/gi, (escape) => decodable(escape) ?? escape.toUpperCase())
    .replace(/\/{2,}/g, "/");
  return single.length > 1 && single.endsWith("/") ? single.slice(0, -1) : single;
}

/** Decodes printable characters, except those that would change the path's structure (`/ \ % ? #`): null for these. */
function decodable(escape: string): string | null {
  const character = String.fromCharCode(Number.parseInt(escape.slice(1), 16));
  return /[\x21-\x7e]/.test(character) && !/[/\\%?#]/.test(character) ? character : null;
}
