/** By which path a request finds its way: the one that policies are matched with, however it is spelled. */
import type { Context, Next } from "hono";
import { normalizedPath } from "../config/index.ts";
import { problemResponse } from "./problems.ts";

/** What has no path is refused on any. */
export const routedPath = ({ url }: Request): string =>
  normalizedPath(URL.parse(url)?.pathname ?? "/");

/** A `Host` may be anything, and makes a URL that is none. */
export async function refuseUnreadable(c: Context, next: Next): Promise<Response | undefined> {
  if (!URL.canParse(c.req.url)) return problemResponse({ kind: "url-malformed" });
  await next();
  return undefined;
}
