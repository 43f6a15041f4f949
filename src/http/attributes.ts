/** What policies see of a request. */
import { parse } from "hono/utils/cookie";
import type { RequestAttributes } from "../policies/request-attributes.ts";

const urls = new WeakMap<Request, URL | null>();

/** The URL of a request, parsed once and not to be changed; null where it is none. */
export function urlOf(request: Request): URL | null {
  const known = urls.get(request);
  if (known !== undefined) return known;
  const url = URL.parse(request.url);
  urls.set(request, url);
  return url;
}

/** The same of a request that is known to have one. @throws TypeError of another */
export const knownUrlOf = (request: Request): URL => urlOf(request) ?? new URL(request.url);

export function attributesOf(request: Request): RequestAttributes {
  const { method, headers } = request;
  return {
    method,
    url: knownUrlOf(request),
    headers,
    cf: (name) => (request.cf === undefined ? undefined : Reflect.get(request.cf, name)),
    cookies: (name) => cookiesOf(headers.get("Cookie") ?? "", name),
  };
}

/** Parsed one by one, since the parser tells of the first and passes over what it cannot read. */
function cookiesOf(header: string, name: string): string[] {
  return header
    .split(";")
    .filter((pair) => pair.split("=", 1)[0]?.trim() === name)
    .map((pair) => readable(parse(pair, name)[name]));
}

/** A comma is what the lines of a header are joined by; no cookie holds one (RFC 6265, section 4.1.1). */
const readable = (value: string | undefined): string =>
  value === undefined || value.includes(",") ? "" : value;
