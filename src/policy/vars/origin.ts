/** The variables `ORIGIN` and `ORIGIN_TIMEOUT`. */
import { durationMsBetween } from "../schemas.ts";
import { hidden, isSet, type ReportProblem } from "./variables.ts";

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
