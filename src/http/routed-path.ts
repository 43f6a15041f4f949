/** The path by which routes are chosen, and the rejection of requests whose URL has no valid host. */
import type { Context, Next } from "hono";
import { problemResponse } from "./wire/problems.ts";
import { optionsAnswer } from "./proxy/forward.ts";
import { urlOf } from "./attributes.ts";

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

/** URL parsing accepts more characters, but in `Forwarded` they could be read as further parameters. */
const hostName = /^(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])$/;

/** `OPTIONS *` asks for the server's capabilities (RFC 9110, section 9.3.7); workerd appends the `*` to the host. */
const isServerWideOptions = ({ method, url }: Request): boolean =>
  method === "OPTIONS" && /^https?:\/\/[^/]*\*\/?$/i.test(url);

/** Answers 400 when the URL has no valid host: a client may send any `Host` (RFC 9112, section 3.2). */
export async function rejectMalformedUrl(c: Context, next: Next): Promise<Response | undefined> {
  if (isServerWideOptions(c.req.raw)) return optionsAnswer();
  const url = urlOf(c.req.raw);
  if (url === null || !hostName.test(url.hostname)) return problemResponse({ kind: "url-malformed" });
  await next();
  return undefined;
}
