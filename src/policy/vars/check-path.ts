/** The form of the variables `CHECK_PATH` and `ADMIN_PATH`, and the spelling in which request paths are compared with it. */
import { isSet, type ReportProblem } from "./variables.ts";

export const readCheckPath = (value: unknown, report: ReportProblem): string =>
  readPath("CHECK_PATH", value, "/check", report);

/** The path in the variable; the default when it is not set, or invalid. */
export function readPath(
  variable: "CHECK_PATH" | "ADMIN_PATH",
  value: unknown,
  fallback: string,
  report: ReportProblem,
): string {
  if (!isSet(value)) return fallback;
  if (typeof value === "string" && /^(?:\/(?!\.\.?(?:\/|$))[a-z0-9_.-]+)+$/i.test(value)) return value;
  report({
    variable,
    field: "",
    value,
    accepted: `a path such as "${fallback}" of letters, digits, "_", "." and "-", without a slash at its end`,
  });
  return fallback;
}

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
