/** The path of a request, read once for all policies. */
import { PathReadings } from "../config/index.ts";
import type { RequestAttributes } from "./request-attributes.ts";

const paths = new WeakMap<URL, PathReadings>();

export function pathOf({
  url,
  unparsedPath,
}: Pick<RequestAttributes, "url" | "unparsedPath">): PathReadings {
  const known = paths.get(url);
  if (known !== undefined) return known;
  const path = new PathReadings(unparsedPath ?? url.pathname, url.pathname);
  paths.set(url, path);
  return path;
}
