/** By which path a request finds its way: the one that policies are matched with, however it is spelled. */
import type { Context, Next } from "hono";
import { normalizedPath } from "../config/index.ts";
import { problemResponse } from "./wire/problems.ts";
import { forwardable } from "./proxy/forward.ts";
import { urlOf } from "./attributes.ts";

/** What has no path is refused on any. */
export const routedPath = (request: Request): string =>
  normalizedPath(urlOf(request)?.pathname ?? "/");

/** What URLs allow besides would be read as more than a host in the fields that tell the origin of it. */
const hostName = /^(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])$/;

/** `OPTIONS *` asks what the server takes at all (RFC 9110, section 9.3.7); the runtime makes a part of the host of it. */
const isOfServer = ({ method, url }: Request): boolean =>
  method === "OPTIONS" && /^https?:\/\/[^/]*\*\/?$/i.test(url);

/** A `Host` may be anything, and makes a URL that is none, or of no host (RFC 9112, section 3.2). */
export async function refuseUnreadable(c: Context, next: Next): Promise<Response | undefined> {
  if (isOfServer(c.req.raw)) return c.body(null, 204, { Allow: forwardable.join(", ") });
  const url = urlOf(c.req.raw);
  if (url === null || !hostName.test(url.hostname))
    return problemResponse({ kind: "url-malformed" });
  await next();
  return undefined;
}
