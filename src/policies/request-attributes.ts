/** The parts of a request that policies match and that keys are made of. */
import { PathReadings } from "../config/index.ts";

export interface RequestAttributes {
  readonly method: string;
  /** Must not be modified: values derived from it are cached for this `URL` object. */
  readonly url: URL;
  /** The path before URL parsing, if a gateway may forward it to the origin in that form. */
  readonly unparsedPath?: string;
  readonly headers: Headers;
  /** A property of `request.cf`; undefined where the runtime knows no location. */
  readonly cf: (name: string) => unknown;
  readonly cookies: (name: string) => readonly string[];
}

/** The claims of a verified token; empty without one. */
export type Claims = Readonly<Record<string, unknown>>;

const pathsByUrl = new WeakMap<URL, PathReadings>();

/** The path of a request, in every form in which origins may read it. */
export function pathOf({
  url,
  unparsedPath,
}: Pick<RequestAttributes, "url" | "unparsedPath">): PathReadings {
  const known = pathsByUrl.get(url);
  if (known !== undefined) return known;
  const path = new PathReadings(unparsedPath ?? url.pathname, url.pathname);
  pathsByUrl.set(url, path);
  return path;
}
