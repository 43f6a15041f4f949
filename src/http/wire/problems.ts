/**
 * Everything that Headgate itself refuses, as problem details (RFC 9457). One total function: a new kind of failure
 * does not compile until it is described here. None of them tells a key, a token, an address or a configured value.
 */
import type { TypedResponse } from "hono";
import type { ClientErrorStatusCode, ServerErrorStatusCode } from "hono/utils/http-status";
import type { ConfigProblem, DenialAnswer } from "../../config/index.ts";
import { mostJsonDepth } from "../../validation/json.ts";
import type { DenialReason } from "../../limiter/client/outcome.ts";

/** A field of a request that is wrong, and what is accepted there. */
export interface FieldError {
  readonly field: string;
  readonly accepted: string;
}

/** What can be refused, and the facts that come with it. */
interface Failures {
  "quota-exceeded": {
    readonly reason: DenialReason;
    readonly violated: readonly string[];
    readonly retryAfterMs: number | null;
  };
  /** The parts by their names alone. */
  "key-missing": { readonly parts: readonly string[] };
  /** The key is banned, whether or not a limit is exceeded as well. */
  "abnormal-usage": { readonly violated: readonly string[]; readonly retryAfterMs: number | null };
  /** On a policy's list of those it refuses. */
  barred: object;
  "reservations-full": { readonly retryAfterMs: number };
  "in-flight-full": object;
  undecided: object;
  "configuration-invalid": { readonly problems: readonly ConfigProblem[] };
  "origin-unset": object;
  "origin-is-self": object;
  "origin-unreachable": object;
  "origin-unintelligible": object;
  "origin-too-slow": object;
  loop: object;
  "unknown-path": object;
  "unknown-policy": object;
  "method-not-allowed": { readonly allowed: readonly string[] };
  unauthorized: { readonly hasTokens: boolean; readonly isGiven: boolean };
  /** Of a token that is known, and not for this. */
  "not-permitted": { readonly right: string };
  "url-malformed": object;
  "query-malformed": object;
  "body-malformed": object;
  /** JSON of a request. */
  "json-too-deep": { readonly place: string; readonly position: number };
  "body-too-large": { readonly limitBytes: number };
  "body-of-other-type": object;
  "fields-invalid": { readonly errors: readonly FieldError[] };
  internal: object;
}

type FailureOf<Kind extends keyof Failures = keyof Failures> = {
  [Each in Kind]: { readonly kind: Each } & Failures[Each];
}[Kind];

export type Failure = FailureOf;
export type FieldsInvalid = FailureOf<"fields-invalid">;

/** Whether it is why something was refused, not what came of it. */
export const isFailure = <Refused extends Failure>(value: object | Refused): value is Refused =>
  "kind" in value;

/** What only some problems have. */
interface Members {
  /** Every denial has a reason, the same as in the answers of `/check`. */
  readonly reason?: DenialReason;
  readonly "violated-policies"?: readonly string[];
  readonly missing_parts?: readonly string[];
  readonly errors?: readonly FieldError[];
}

/** What a problem's body holds. */
export interface ProblemDetails extends Members {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
}

/** As typed clients see it. */
export type ProblemResponse = Response &
  TypedResponse<ProblemDetails, ClientErrorStatusCode | ServerErrorStatusCode, "json">;

interface Problem {
  readonly status: number;
  readonly title: string;
  readonly detail: string;
  /** A registered problem type; without one the status says it all. */
  readonly type?: string;
  readonly members?: Members;
  readonly headers?: Readonly<Record<string, string>>;
  /** What a proxy calls it (RFC 9209, section 2.3). */
  readonly proxyError?: ProxyError;
}

type ProxyError =
  | "destination_unavailable"
  | "http_protocol_error"
  | "http_request_denied"
  | "http_request_error"
  | "http_response_timeout"
  | "proxy_configuration_error"
  | "proxy_internal_error"
  | "proxy_loop_detected";

const proxyErrors = new WeakMap<Response, ProxyError>();

/** What a proxy calls a problem that it answers with; null of every other response. */
export const proxyErrorOf = (response: Response): ProxyError | null =>
  proxyErrors.get(response) ?? null;

/** https://www.ietf.org/archive/id/draft-ietf-httpapi-ratelimit-headers-11.html#section-5 */
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const abnormalUsage = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected";

/**
 * @param headers added to those that the problem itself calls for
 * @param own what is answered in place of the details, where anything is
 */
export function problemResponse(
  failure: Failure,
  headers: Readonly<Record<string, string>> = {},
  own: DenialAnswer | null = null,
): ProblemResponse {
  const problem = problemOf(failure);
  const status = own?.status ?? problem.status;
  const body = own?.body ?? JSON.stringify({ ...detailsOf(problem), status });
  const isOwn = own !== null && own.body !== null;
  const response = new Response(body, {
    status,
    headers: {
      "Content-Type": isOwn ? own.contentType : "application/problem+json",
      // RFC 6585, section 4: a cache must not store a 429; none of the others is worth storing either.
      "Cache-Control": "no-store",
      ...problem.headers,
      ...headers,
    },
  });
  proxyErrors.set(response, problem.proxyError ?? "http_request_error");
  // What is beyond a Response is not there: it only tells clients of the routes what they get.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return response as ProblemResponse;
}

/** The same for who is not asked over HTTP. */
export function problemError(failure: Failure): Error {
  const problem = problemDetails(failure);
  // A plain Error with a field: over RPC that is what arrives of it.
  return Object.assign(new Error(`${problem.title}: ${problem.detail}`), { problem });
}

export const problemDetails = (failure: Failure): ProblemDetails => detailsOf(problemOf(failure));

function detailsOf({ status, title, detail, type, members }: Problem): ProblemDetails {
  return { type: type ?? "about:blank", title, status, detail, ...members };
}

/** `Retry-After` in whole seconds: at least 1, since clients take 0 for "at once"; no more than 31 bits hold. */
export function retryAfterSeconds(retryAfterMs: number): number {
  return Math.min(Math.max(1, Math.ceil(retryAfterMs / 1000)), 2 ** 31 - 1);
}

const inSeconds = (seconds: number): string => `${seconds} ${seconds === 1 ? "second" : "seconds"}`;

/** Of what is wrong with a request no more is told: a body may be nothing but wrong fields. */
const mostErrors = 500;

/** RFC 6750, section 3; without credentials there is nothing wrong with them. */
const challenge = (error: "invalid_token" | "insufficient_scope" | null): string =>
  `Bearer realm="headgate"${error === null ? "" : `, error="${error}"`}`;

const badRequest = (detail: string): Problem => ({ status: 400, title: "Bad Request", detail });

const problems: { readonly [Kind in keyof Failures]: (failure: FailureOf<Kind>) => Problem } = {
  "quota-exceeded": ({ reason, violated, retryAfterMs }) => {
    const seconds = retryAfterMs === null ? null : retryAfterSeconds(retryAfterMs);
    const names = violated.map((name) => `"${name}"`).join(", ");
    const outlook =
      seconds === null
        ? "It costs more than this quota ever holds."
        : `Retry in ${inSeconds(seconds)}.`;
    return {
      status: 429,
      type: quotaExceeded,
      title: "Quota Exceeded",
      detail: `The request exceeds the quota of ${names}. ${outlook}`,
      members: { reason, "violated-policies": violated },
      headers: seconds === null ? {} : { "Retry-After": String(seconds) },
    };
  },

  "abnormal-usage": ({ retryAfterMs, violated }) => {
    const seconds = retryAfterMs === null ? null : retryAfterSeconds(retryAfterMs);
    const outlook = seconds === null ? "" : ` Retry in ${inSeconds(seconds)}.`;
    return {
      status: 429,
      type: abnormalUsage,
      title: "Abnormal Usage Detected",
      detail: `Temporarily blocked after repeated rate-limit violations.${outlook}`,
      members: { reason: "ban", "violated-policies": violated },
      headers: seconds === null ? {} : { "Retry-After": String(seconds) },
    };
  },

  barred: () => ({
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

  "reservations-full": ({ retryAfterMs }) => {
    const seconds = retryAfterSeconds(retryAfterMs);
    return {
      status: 429,
      title: "Too Many Requests",
      detail: `The key has as many open reservations as it may: settle some, or retry in ${inSeconds(seconds)}.`,
      members: { reason: "reservations" },
      headers: { "Retry-After": String(seconds) },
    };
  },

  "in-flight-full": () => ({
    status: 429,
    title: "Too Many Requests",
    detail: "Too many requests of this key are in flight. Retry in 1 second.",
    members: { reason: "reservations" },
    headers: { "Retry-After": "1" },
  }),

  undecided: () => ({
    status: 503,
    proxyError: "proxy_internal_error",
    title: "Service Unavailable",
    detail: "The rate limiter could not decide in time.",
    headers: { "Retry-After": "1" },
  }),

  "configuration-invalid": (failure) => ({
    status: 500,
    proxyError: "proxy_configuration_error",
    title: "Internal Server Error",
    detail:
      "Headgate's variables have problems; `npm run check-config` and the log show the values too.",
    // Configured values stay out of what anyone may read.
    members: {
      errors: failure.problems.map(({ variable, field, accepted }) => ({
        variable,
        field,
        accepted,
      })),
    },
  }),

  internal: () => ({
    status: 500,
    proxyError: "proxy_internal_error",
    title: "Internal Server Error",
    detail: "A fault of Headgate's own; the log has more.",
  }),

  "origin-unset": () => ({
    status: 404,
    proxyError: "proxy_configuration_error",
    title: "Not Found",
    detail: "There is nothing behind this limiter: the variable ORIGIN is not set.",
  }),

  "origin-is-self": () => ({
    status: 508,
    proxyError: "proxy_loop_detected",
    title: "Loop Detected",
    detail:
      'ORIGIN is the host of this request. On a route of the origin\'s own host set ORIGIN to "route".',
  }),

  "origin-unreachable": () => ({
    status: 502,
    proxyError: "destination_unavailable",
    title: "Bad Gateway",
    detail: "The origin could not be reached.",
  }),

  "origin-unintelligible": () => ({
    status: 502,
    proxyError: "http_protocol_error",
    title: "Bad Gateway",
    detail: "The origin's answer is none that could be passed on.",
  }),

  "origin-too-slow": () => ({
    status: 504,
    proxyError: "http_response_timeout",
    title: "Gateway Timeout",
    detail: "The origin did not answer in time.",
  }),

  loop: () => ({
    status: 508,
    proxyError: "proxy_loop_detected",
    title: "Loop Detected",
    detail: "The request has been here before: its Via field says so.",
  }),

  "unknown-path": () => ({
    status: 404,
    title: "Not Found",
    detail: "The limiter has nothing at this path.",
  }),

  "unknown-policy": () => ({
    status: 404,
    title: "Not Found",
    detail: "There is no policy of this name.",
  }),

  "method-not-allowed": ({ allowed }) => ({
    status: 405,
    title: "Method Not Allowed",
    detail: `Accepted here: ${allowed.join(", ")}.`,
    headers: { Allow: allowed.join(", ") },
  }),

  unauthorized: ({ hasTokens, isGiven }) => ({
    status: 401,
    title: "Unauthorized",
    detail: hasTokens
      ? "A bearer token from CHECK_TOKENS is needed: Authorization: Bearer <token>."
      : "This endpoint is closed until the secret CHECK_TOKENS is set to one or more bearer tokens.",
    headers: { "WWW-Authenticate": challenge(isGiven ? "invalid_token" : null) },
  }),

  "not-permitted": ({ right }) => ({
    status: 403,
    title: "Forbidden",
    detail: `The token is not for this: its "may" does not list "${right}".`,
    headers: { "WWW-Authenticate": challenge("insufficient_scope") },
  }),

  "url-malformed": () => badRequest("Host and target of the request are no URL of a host."),

  "query-malformed": () => badRequest("The query is not UTF-8 in percent-encoding."),

  "body-malformed": () => badRequest("The body is not valid JSON in UTF-8."),

  "json-too-deep": ({ place, position }) =>
    badRequest(
      `The JSON of the ${place} is nested deeper than ${mostJsonDepth} levels, at character ${position}.`,
    ),

  "body-too-large": ({ limitBytes }) => ({
    status: 413,
    title: "Content Too Large",
    detail: `The body is larger than ${limitBytes} bytes.`,
  }),

  "body-of-other-type": () => ({
    status: 415,
    title: "Unsupported Media Type",
    detail: "The body must be JSON, with Content-Type: application/json.",
    headers: { Accept: "application/json" },
  }),

  "fields-invalid": ({ errors }) => {
    const told = errors.slice(0, mostErrors);
    const untold = errors.length - told.length;
    const details = told.map(({ field, accepted }) => `${field}: accepted is ${accepted}`);
    return {
      status: 422,
      title: "Unprocessable Content",
      detail: [...details, ...(untold > 0 ? [`and ${untold} more`] : [])].join("; "),
      members: { errors: told },
    };
  },
};

function problemOf<Kind extends keyof Failures>(failure: FailureOf<Kind>): Problem {
  return problems[failure.kind](failure);
}
