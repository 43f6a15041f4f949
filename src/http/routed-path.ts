/** By which path a request finds its way: the one that policies are matched with, however it is spelled. */
import type { Context, Next } from "hono";
import { normalizedPath } from "../config/index.ts";
import { problemResponse } from "./problems.ts";

/** What has no path is refused on any. */
export const routedPath = ({ url }: Request): string =>
  normalizedPath(URL.parse(url)?.pathname ?? "/");

/** What URLs allow besides would be read as more than a host in the fields that tell the origin of it. */
const hostName = /^(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])$/;

/** A `Host` may be anything, and makes a URL that is none, or of no host (RFC 9112, section 3.2). */
export async function refuseUnreadable(c: Context, next: Next): Promise<Response | undefined> {
  const url = URL.parse(c.req.url);
  if (url === null || !hostName.test(url.hostname))
    return problemResponse({ kind: "url-malformed" });
  await next();
  return undefined;
}
