/** The variables `ORIGIN` and `ORIGIN_TIMEOUT`, and the paths that are not forwarded. */
import { durationMsBetween } from "../schemas.ts";
import { hidden, type ReportProblem } from "../../validation/problems.ts";
import { isSet } from "./variables.ts";

/**
 * Where allowed requests are forwarded: to a URL, to the zone's origin behind the Worker's route, or nowhere. In the demo,
 * they are charged, and answered with a page that says what to configure.
 */
export type Origin =
  | { readonly kind: "url"; readonly url: URL }
  | { readonly kind: "route" }
  | { readonly kind: "demo" }
  | { readonly kind: "none" };

export function readOrigin(value: unknown, report: ReportProblem): Origin {
  if (!isSet(value)) return { kind: "none" };
  if (value === "route") return { kind: "route" };
  const url = typeof value === "string" && URL.canParse(value) ? new URL(value) : null;
  const hasCredentials = url !== null && `${url.username}${url.password}` !== "";
  const isBare = url !== null && `${url.pathname}${url.search}${url.hash}` === "/";
  if (url !== null && /^https?:$/.test(url.protocol) && isBare && !hasCredentials) {
    return { kind: "url", url };
  }
  report({
    variable: "ORIGIN",
    field: "",
    // A text with these characters may contain credentials.
    value: typeof value === "string" && /[@?#]/.test(value) ? hidden : value,
    accepted: 'an http or https URL without path, query or credentials such as "https://api.example.com", or "route"',
  });
  return { kind: "none" };
}

const leastTimeoutMs = 100;
const mostTimeoutMs = 3_600_000;
/** Cloudflare's own timeout for origins. */
const defaultTimeoutMs = 100_000;

/** The longest wait in ms for the beginning of a response; the body may take longer. */
export function readOriginTimeout(value: unknown, report: ReportProblem): number {
  if (!isSet(value)) return defaultTimeoutMs;
  const milliseconds = durationMsBetween(value, leastTimeoutMs, mostTimeoutMs);
  if (milliseconds !== null) return milliseconds;
  const accepted = 'a duration from 100 ms to 1 hour such as "30s"';
  report({ variable: "ORIGIN_TIMEOUT", field: "", value, accepted });
  return defaultTimeoutMs;
}

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
