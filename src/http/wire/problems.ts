/**
 * The problem details (RFC 9457) of every failure. The table is total: a new kind of failure does not compile without an
 * entry. No problem contains a key, a token, an address or a configured value.
 */
import { mostJsonDepth } from "../../validation/json.ts";
import type { DenialReason } from "../../limiter/isolate/outcome.ts";
import {
  type AdminFailures,
  adminProblems,
  type ConfigurationFailures,
  configurationProblems,
} from "./admin-problems.ts";
import { retryAfterField, retryAfterSeconds } from "./rate-limit-fields.ts";

/** An invalid field of a request, and what is accepted there. */
export interface FieldError {
  readonly field: string;
  readonly accepted: string;
}

interface Failures extends AdminFailures, ConfigurationFailures {
  "quota-exceeded": {
    readonly reason: DenialReason;
    readonly violated: readonly string[];
    readonly retryAfterMs: number | null;
  };
  "key-missing": { readonly parts: readonly string[] };
  /** The key is banned. `violated` lists limits that are exceeded as well. */
  "abnormal-usage": { readonly violated: readonly string[]; readonly retryAfterMs: number | null };
  /** The key is on a `deny` list, or a key rule blocks it. */
  blocked: object;
  "reservations-full": { readonly retryAfterMs: number };
  "in-flight-full": object;
  undecided: object;
  "origin-unset": object;
  "origin-is-self": object;
  "origin-unreachable": object;
  "origin-response-invalid": object;
  "origin-too-slow": object;
  loop: object;
  "unknown-path": object;
  "unknown-policy": object;
  "openapi-missing": object;
  "method-not-allowed": { readonly allowed: readonly string[] };
  unauthorized: { readonly hasTokens: boolean; readonly isGiven: boolean };
  "not-permitted": { readonly right: string };
  "url-malformed": object;
  "query-malformed": object;
  "body-malformed": object;
  "json-too-deep": { readonly place: string; readonly position: number };
  "body-too-large": { readonly limitBytes: number };
  /** Default of `types`: `application/json`. */
  "body-of-other-type": { readonly types?: readonly string[] };
  "fields-invalid": { readonly errors: readonly FieldError[] };
  internal: object;
}

type FailureOf<Kind extends keyof Failures = keyof Failures> = {
  [Each in Kind]: { readonly kind: Each } & Failures[Each];
}[Kind];

export type Failure = FailureOf;
export type FieldsInvalid = FailureOf<"fields-invalid">;

/** Whether a value is a failure. No other value passed here has a `kind`. */
export const isFailure = <Refused extends Failure>(value: object | Refused): value is Refused => "kind" in value;

/** Members that only some problems have. */
interface Members {
  /** The reason of a denial, as in answers of `/check`. */
  readonly reason?: DenialReason;
  readonly "violated-policies"?: readonly string[];
  readonly missing_parts?: readonly string[];
  readonly errors?: readonly FieldError[];
}

export interface ProblemDetails extends Members {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
}

export interface Problem {
  readonly status: number;
  readonly title: string;
  readonly detail: string;
  /** A registered problem type; `about:blank` by default. */
  readonly type?: string;
  readonly members?: Members;
  readonly headers?: Readonly<Record<string, string>>;
  /** The error of `Proxy-Status` (RFC 9209, section 2.3). */
  readonly proxyError?: ProxyError;
}

/** https://www.ietf.org/archive/id/draft-ietf-httpapi-ratelimit-headers-11.html#section-5 */
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const abnormalUsage = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected";

interface Replacement {
  readonly status: number;
  /** Null keeps the problem details. */
  readonly body: string | null;
  readonly contentType: string;
}

/** The status, header fields and body of a problem response. */
export interface ProblemAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly proxyError: ProxyError;
}

/**
 * @param headers added to those of the problem
 * @param replacement sent in place of the problem details
 */
export function problemAnswer(
  failure: Failure,
  headers: Readonly<Record<string, string>> = {},
  replacement: Replacement | null = null,
): ProblemAnswer {
  const problem = problemOf(failure);
  const status = replacement?.status ?? problem.status;
  const body = replacement?.body ?? JSON.stringify({ ...detailsOf(problem), status });
  return {
    status,
    headers: {
      "Content-Type": typeof replacement?.body === "string" ? replacement.contentType : "application/problem+json",
      // Caches must not store a 429 (RFC 6585, section 4), and have no use for the other problems.
      "Cache-Control": "no-store",
      ...problem.headers,
      ...headers,
    },
    body,
    proxyError: problem.proxyError ?? "http_request_error",
  };
}

export const problemResponse = (failure: Failure): Response => responseOf(problemAnswer(failure));

export function responseOf({ status, headers, body, proxyError }: ProblemAnswer): Response {
  const response = new Response(body, { status, headers });
  noteProxyError(response, proxyError);
  return response;
}

/** The failure as an exception, for the service binding. */
export function problemError(failure: Failure): Error {
  const problem = problemDetails(failure);
  // RPC transfers the fields of an Error, but not its class: the caller receives a plain Error.
  return Object.assign(new Error(`${problem.title}: ${problem.detail}`), { problem });
}

export const problemDetails = (failure: Failure): ProblemDetails => detailsOf(problemOf(failure));

function detailsOf({ status, title, detail, type, members }: Problem): ProblemDetails {
  return { type: type ?? "about:blank", title, status, detail, ...members };
}

function secondsText(waitMs: number): string {
  const seconds = retryAfterSeconds(waitMs);
  return `${seconds} ${seconds === 1 ? "second" : "seconds"}`;
}

const retryText = (retryAfterMs: number): string => `Retry in ${secondsText(retryAfterMs)}.`;

/** Bounds the answer to a body with many invalid fields. */
const mostErrors = 500;

/** `WWW-Authenticate` (RFC 6750, section 3). `error` is null when the request has no credentials. */
const challenge = (error: "invalid_token" | "insufficient_scope" | null): string =>
  `Bearer realm="headgate"${error === null ? "" : `, error="${error}"`}`;

const badRequest = (detail: string): Problem => ({ status: 400, title: "Bad Request", detail });
const notFound = (detail: string): Problem => ({ status: 404, title: "Not Found", detail });
const fullKey = (detail: string, retryAfterMs: number): Problem => ({
  status: 429,
  title: "Too Many Requests",
  detail: `${detail} in ${secondsText(retryAfterMs)}.`,
  members: { reason: "reservations" },
  headers: retryAfterField(retryAfterMs),
});

const problems: { readonly [Kind in keyof Failures]: (failure: FailureOf<Kind>) => Problem } = {
  ...adminProblems,
  ...configurationProblems,

  "quota-exceeded": ({ reason, violated, retryAfterMs }) => {
    const names = violated.map((name) => `"${name}"`).join(", ");
    const outlook =
      retryAfterMs === null
        ? "Its cost exceeds the quota's capacity; therefore it can never be allowed."
        : retryText(retryAfterMs);
    return {
      status: 429,
      type: quotaExceeded,
      title: "Quota Exceeded",
      detail: `The request exceeds the quota of ${names}. ${outlook}`,
      members: { reason, "violated-policies": violated },
      headers: retryAfterField(retryAfterMs),
    };
  },

  "abnormal-usage": ({ retryAfterMs, violated }) => {
    const outlook = retryAfterMs === null ? "" : ` ${retryText(retryAfterMs)}`;
    return {
      status: 429,
      type: abnormalUsage,
      title: "Abnormal Usage Detected",
      detail: `Temporarily blocked after repeated rate-limit violations.${outlook}`,
      members: { reason: "ban", "violated-policies": violated },
      headers: retryAfterField(retryAfterMs),
    };
  },

  blocked: () => ({
    status: 403,
    proxyError: "http_request_denied",
    title: "Forbidden",
    detail: "Access denied by policy.",
    members: { reason: "deny" },
  }),

  "key-missing": ({ parts }) => ({
    status: 403,
    proxyError: "http_request_denied",
    title: "Forbidden",
    detail: `The request is missing a required key part: ${parts.join(", ")}.`,
    members: { reason: "deny", missing_parts: parts },
  }),

  "reservations-full": ({ retryAfterMs }) =>
    fullKey("The key has reached its maximum of open reservations. Settle some, or retry", retryAfterMs),

  "in-flight-full": () => fullKey("Too many requests for this key are in flight. Retry", 1_000),

  undecided: () => ({
    status: 503,
    proxyError: "proxy_internal_error",
    title: "Service Unavailable",
    detail: "The rate limiter did not reach a decision in time. Retry in 1 second.",
    headers: { "Retry-After": "1" },
  }),

  internal: () => ({
    status: 500,
    proxyError: "proxy_internal_error",
    title: "Internal Server Error",
    detail: "Headgate failed unexpectedly. Its log has the cause.",
  }),

  "origin-unset": () => ({
    status: 404,
    proxyError: "proxy_configuration_error",
    title: "Not Found",
    detail: "There is no origin to forward to: the variable ORIGIN is not set.",
  }),

  "origin-is-self": () => ({
    status: 508,
    proxyError: "proxy_loop_detected",
    title: "Loop Detected",
    detail:
      'ORIGIN is the host of this request, which would loop. On a route of the origin\'s own host, set ORIGIN to "route".',
  }),

  "origin-unreachable": () => ({
    status: 502,
    proxyError: "destination_unavailable",
    title: "Bad Gateway",
    detail: "The origin could not be reached.",
  }),

  "origin-response-invalid": () => ({
    status: 502,
    proxyError: "http_protocol_error",
    title: "Bad Gateway",
    detail: "The origin returned an invalid response.",
  }),

  "origin-too-slow": () => ({
    status: 504,
    proxyError: "http_response_timeout",
    title: "Gateway Timeout",
    detail: "The origin did not respond in time.",
  }),

  loop: () => ({
    status: 508,
    proxyError: "proxy_loop_detected",
    title: "Loop Detected",
    detail: "The request has already passed through this gateway, according to its Via field.",
  }),

  "unknown-path": () => notFound("The rate limiter has no endpoint at this path."),

  "unknown-policy": () => notFound("There is no policy with this name."),

  "openapi-missing": () =>
    notFound(
      "This deployment does not serve its OpenAPI document: the binding ASSETS is missing in wrangler.toml, or its folder is empty.",
    ),

  "method-not-allowed": ({ allowed }) => ({
    status: 405,
    title: "Method Not Allowed",
    detail: `The endpoint accepts only ${allowed.join(", ")}.`,
    headers: { Allow: allowed.join(", ") },
  }),

  unauthorized: ({ hasTokens, isGiven }) => ({
    status: 401,
    title: "Unauthorized",
    detail: hasTokens
      ? `The bearer token is ${isGiven ? "invalid" : "missing"}. Send a token from CHECK_TOKENS: Authorization: Bearer <token>.`
      : "The endpoint requires a token, but none is configured. Set the secret CHECK_TOKENS to one or more bearer tokens.",
    headers: { "WWW-Authenticate": challenge(isGiven ? "invalid_token" : null) },
  }),

  "not-permitted": ({ right }) => ({
    status: 403,
    title: "Forbidden",
    detail: `The token lacks the right "${right}": its "may" in CHECK_TOKENS does not list it.`,
    headers: { "WWW-Authenticate": challenge("insufficient_scope") },
  }),

  "url-malformed": () => badRequest("The Host field and the target of the request do not form a valid URL."),

  "query-malformed": () => badRequest("The query is not valid percent-encoded UTF-8."),

  "body-malformed": () => badRequest("The body is not valid JSON encoded in UTF-8."),

  "json-too-deep": ({ place, position }) =>
    badRequest(`The JSON in the ${place} is nested deeper than ${mostJsonDepth} levels at character ${position}.`),

  "body-too-large": ({ limitBytes }) => ({
    status: 413,
    title: "Content Too Large",
    detail: `The body is larger than ${limitBytes} bytes.`,
  }),

  "body-of-other-type": ({ types = ["application/json"] }) => ({
    status: 415,
    title: "Unsupported Media Type",
    detail: `The Content-Type of the body must be ${types.join(" or ")}.`,
    headers: { Accept: types.join(", ") },
  }),

  "fields-invalid": ({ errors }) => {
    const shown = errors.slice(0, mostErrors);
    const omitted = errors.length - shown.length;
    const details = shown.map(({ field, accepted }) => `${field}: expected ${accepted}`);
    return {
      status: 422,
      title: "Unprocessable Content",
      detail: [...details, ...(omitted > 0 ? [`and ${omitted} more invalid fields`] : [])].join("; "),
      members: { errors: shown },
    };
  },
};

function problemOf<Kind extends keyof Failures>(failure: FailureOf<Kind>): Problem {
  return problems[failure.kind](failure);
}

export type ProxyError =
  | "destination_unavailable"
  | "http_protocol_error"
  | "http_request_denied"
  | "http_request_error"
  | "http_response_timeout"
  | "proxy_configuration_error"
  | "proxy_internal_error"
  | "proxy_loop_detected";

const proxyErrors = new WeakMap<Response, ProxyError>();

function noteProxyError(response: Response, error: ProxyError): void {
  proxyErrors.set(response, error);
}

/** Null for every response that is not a problem response. */
export const proxyErrorOf = (response: Response): ProxyError | null => proxyErrors.get(response) ?? null;
