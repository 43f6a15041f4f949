/**
 * Every failure, with the fields that describe it, and its problem details (RFC 9457). No problem contains a key, a token,
 * an address or a configured value, except for names of policies and the address of the console.
 */
import { mostJsonDepth } from "../../validation/json.ts";
import type { ConfigProblem } from "../../validation/problems.ts";
import type { DenialReason } from "../../limiter/isolate/outcome.ts";
import { retryAfterField, retryAfterSeconds } from "./rate-limit-fields.ts";

/** An invalid field of a request, and what is accepted there. */
export interface FieldError {
  readonly field: string;
  readonly accepted: string;
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

export interface ProblemDetails {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  /** Identifies a denial in the log of denials. */
  readonly instance?: string;
  /** The reason of a denial, as in answers of `/check`. */
  readonly reason?: DenialReason;
  readonly "violated-policies"?: readonly string[];
  readonly missing_parts?: readonly string[];
  readonly errors?: readonly FieldError[];
}

/** A problem response. */
export interface Problem {
  readonly details: ProblemDetails;
  readonly headers: Readonly<Record<string, string>>;
  /** The error of `Proxy-Status` (RFC 9209, section 2.3). */
  readonly proxyError: ProxyError;
}

const titles = {
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  409: "Conflict",
  410: "Gone",
  412: "Precondition Failed",
  413: "Content Too Large",
  415: "Unsupported Media Type",
  422: "Unprocessable Content",
  426: "Upgrade Required",
  428: "Precondition Required",
  429: "Too Many Requests",
  500: "Internal Server Error",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
  508: "Loop Detected",
} as const;

const problem = (
  status: keyof typeof titles,
  detail: string,
  { headers, proxyError, ...members }: Partial<Omit<Problem, "details"> & ProblemDetails> = {},
): Problem => ({
  details: { type: "about:blank", title: titles[status], status, detail, ...members },
  headers: headers ?? {},
  proxyError: proxyError ?? "http_request_error",
});

/** https://www.ietf.org/archive/id/draft-ietf-httpapi-ratelimit-headers-11.html#section-5 */
const registeredTypes = "https://iana.org/assignments/http-problem-types";

function secondsText(waitMs: number): string {
  const seconds = retryAfterSeconds(waitMs);
  return `${seconds} ${seconds === 1 ? "second" : "seconds"}`;
}

const fullKey = (detail: string, retryAfterMs: number, instance?: string): Problem =>
  problem(429, `${detail} in ${secondsText(retryAfterMs)}.`, {
    reason: "reservations",
    ...(instance !== undefined && { instance }),
    headers: retryAfterField(retryAfterMs),
  });

/** `WWW-Authenticate` (RFC 6750, section 3). `error` is null when the request has no credentials. */
const challenge = (error: "invalid_token" | "insufficient_scope" | null, realm: string): Problem["headers"] => ({
  "WWW-Authenticate": `Bearer realm="${realm}"${error === null ? "" : `, error="${error}"`}`,
});

const checkRealm = "headgate";
const adminRealm = "headgate admin";

/** Bounds the answer to a body with many invalid fields. */
const mostErrors = 500;

/** The problems without the values, which may be secret. */
const errorsOf = (problems: readonly ConfigProblem[]): Omit<ConfigProblem, "value">[] =>
  problems.map(({ variable, field, policy, accepted }) => ({
    variable,
    field,
    ...(policy !== undefined && { policy }),
    accepted,
  }));

interface OperatorCredentials {
  readonly hasTokens: boolean;
  /** The credentials of the request; null when it has none. */
  readonly given: "token" | "access" | null;
}

function operatorText({ hasTokens, given }: OperatorCredentials): string {
  if (given === "access") return "The Cloudflare Access JWT is invalid, or the host of the request is not ADMIN_HOST.";
  return hasTokens
    ? `The bearer token is ${given === null ? "missing" : "invalid"}. Send a token from ADMIN_TOKENS: Authorization: Bearer <token>.`
    : "The admin API requires a Cloudflare Access JWT on ADMIN_HOST, or a token from ADMIN_TOKENS, which is not set.";
}

interface Violation {
  readonly violated: readonly string[];
  readonly retryAfterMs: number | null;
  /** The percentage that the class of the request may use. Default: it is unknown, or there is none. */
  readonly upTo?: number | null;
}

/** Why the quota is exceeded although units are left. */
const boundTexts: Partial<Record<DenialReason, (upTo?: number | null) => string>> = {
  share: () => " Other keys are guaranteed the rest.",
  class: (upTo) => ` Requests of this class may use ${typeof upTo === "number" ? `${upTo} %` : "only a part"} of it.`,
  keys: () => " It has too many keys in use for a new one.",
};

/** The problem of each kind of failure, by the fields of the failure. */
export const problems = {
  "quota-exceeded": ({ reason, violated, retryAfterMs, upTo }: Violation & { readonly reason: DenialReason }) => {
    const names = violated.map((name) => `"${name}"`).join(", ");
    const outlook =
      retryAfterMs === null
        ? `Its cost exceeds ${reason === "class" ? "that" : "the quota's capacity"}; therefore it can never be allowed.`
        : `Retry in ${secondsText(retryAfterMs)}.`;
    return problem(429, `The request exceeds the quota of ${names}.${boundTexts[reason]?.(upTo) ?? ""} ${outlook}`, {
      type: `${registeredTypes}#quota-exceeded`,
      title: "Quota Exceeded",
      reason,
      "violated-policies": violated,
      headers: retryAfterField(retryAfterMs),
    });
  },

  /** The key is banned. `violated` lists limits that are exceeded as well. */
  "abnormal-usage": ({ violated, retryAfterMs }: Violation) => {
    const outlook = retryAfterMs === null ? "" : ` Retry in ${secondsText(retryAfterMs)}.`;
    return problem(429, `Temporarily blocked after repeated rate-limit violations.${outlook}`, {
      type: `${registeredTypes}#abnormal-usage-detected`,
      title: "Abnormal Usage Detected",
      reason: "ban",
      "violated-policies": violated,
      headers: retryAfterField(retryAfterMs),
    });
  },

  /** The key is on a `deny` list, or a key rule blocks it. */
  blocked: () => problem(403, "Access denied by policy.", { proxyError: "http_request_denied", reason: "deny" }),

  "key-missing": ({ parts }: { readonly parts: readonly string[] }) =>
    problem(403, `The request is missing a required key part: ${parts.join(", ")}.`, {
      proxyError: "http_request_denied",
      reason: "deny",
      missing_parts: parts,
    }),

  "reservations-full": ({ retryAfterMs, instance }: { readonly retryAfterMs: number; readonly instance?: string }) =>
    fullKey("The key has reached its maximum of open reservations. Settle some, or retry", retryAfterMs, instance),

  "in-flight-full": () => fullKey("Too many requests for this key are in flight. Retry", 1_000),

  undecided: () =>
    problem(503, "The rate limiter did not reach a decision in time. Retry in 1 second.", {
      proxyError: "proxy_internal_error",
      headers: { "Retry-After": "1" },
    }),

  internal: () =>
    problem(500, "Headgate failed unexpectedly. Its log has the cause.", { proxyError: "proxy_internal_error" }),

  /** With `isOfPackage`, in a Worker of a user of the package: it has no command that checks the configuration. */
  "configuration-invalid": (failure: { readonly problems: readonly ConfigProblem[]; readonly isOfPackage?: boolean }) =>
    problem(
      500,
      failure.isOfPackage === true
        ? "The configuration of Headgate is invalid. The log also shows the values."
        : "The configuration of Headgate is invalid. `npm run check-config` and the log also show the values.",
      { proxyError: "proxy_configuration_error", errors: errorsOf(failure.problems) },
    ),

  /** Required variables are not set yet. Those that are set are valid. */
  "configuration-missing": (failure: { readonly problems: readonly ConfigProblem[] }) =>
    problem(
      503,
      "Headgate is not configured yet. It charges and forwards no request until the variables in `errors` are set. Secrets go in .dev.vars locally, where `npm start` creates them; on Cloudflare, run `npx wrangler secret put <NAME>`.",
      {
        proxyError: "proxy_configuration_error",
        errors: errorsOf(failure.problems),
        headers: { "Retry-After": "60" },
      },
    ),

  "origin-unset": () =>
    problem(404, "There is no origin to forward to: the variable ORIGIN is not set.", {
      proxyError: "proxy_configuration_error",
    }),

  "origin-is-self": () =>
    problem(
      508,
      'ORIGIN is the host of this request, which would loop. On a route of the origin\'s own host, set ORIGIN to "route".',
      { proxyError: "proxy_loop_detected" },
    ),

  "origin-unreachable": () =>
    problem(502, "The origin could not be reached.", { proxyError: "destination_unavailable" }),

  "origin-response-invalid": () =>
    problem(502, "The origin returned an invalid response.", { proxyError: "http_protocol_error" }),

  "origin-too-slow": () => problem(504, "The origin did not respond in time.", { proxyError: "http_response_timeout" }),

  loop: () =>
    problem(508, "The request has already passed through this gateway, according to its Via field.", {
      proxyError: "proxy_loop_detected",
    }),

  "unknown-path": () => problem(404, "The rate limiter has no endpoint at this path."),
  "unknown-policy": () => problem(404, "There is no policy with this name."),
  "openapi-missing": () =>
    problem(
      404,
      "This deployment does not serve its OpenAPI document: the binding ASSETS is missing in wrangler.toml, or its folder is empty.",
    ),

  "method-not-allowed": ({ allowed }: { readonly allowed: readonly string[] }) =>
    problem(405, `The endpoint accepts only ${allowed.join(", ")}.`, { headers: { Allow: allowed.join(", ") } }),

  unauthorized: ({ hasTokens, isGiven }: { readonly hasTokens: boolean; readonly isGiven: boolean }) =>
    problem(
      401,
      hasTokens
        ? `The bearer token is ${isGiven ? "invalid" : "missing"}. Send a token from CHECK_TOKENS: Authorization: Bearer <token>.`
        : "The endpoint requires a token, but none is configured. Set the secret CHECK_TOKENS to one or more bearer tokens.",
      { headers: challenge(isGiven ? "invalid_token" : null, checkRealm) },
    ),

  "not-permitted": ({ right }: { readonly right: string }) =>
    problem(403, `The token lacks the right "${right}": its "may" in CHECK_TOKENS does not list it.`, {
      headers: challenge("insufficient_scope", checkRealm),
    }),

  "url-malformed": () => problem(400, "The Host field and the target of the request do not form a valid URL."),
  "query-malformed": () => problem(400, "The query is not valid percent-encoded UTF-8."),
  "body-malformed": () => problem(400, "The body is not valid JSON encoded in UTF-8."),

  "json-too-deep": ({ place, position }: { readonly place: string; readonly position: number }) =>
    problem(400, `The JSON in the ${place} is nested deeper than ${mostJsonDepth} levels at character ${position}.`),

  "body-too-large": ({ limitBytes }: { readonly limitBytes: number }) =>
    problem(413, `The body is larger than ${limitBytes} bytes.`),

  "body-of-other-type": ({ types = ["application/json"] }: { readonly types?: readonly string[] }) =>
    problem(415, `The Content-Type of the body must be ${types.join(" or ")}.`, {
      headers: { Accept: types.join(", ") },
    }),

  "fields-invalid": ({ errors }: { readonly errors: readonly FieldError[] }) => {
    const shown = errors.slice(0, mostErrors);
    const omitted = errors.length - shown.length;
    const details = shown.map(({ field, accepted }) => `${field}: expected ${accepted}`);
    const texts = [...details, ...(omitted > 0 ? [`and ${omitted} more invalid fields`] : [])];
    return problem(422, texts.join("; "), { errors: shown });
  },

  /** Neither a valid token nor a valid Access JWT. */
  "operator-unknown": (operator: OperatorCredentials) =>
    problem(401, operatorText(operator), {
      headers: challenge(operator.given === null ? null : "invalid_token", adminRealm),
    }),

  "operator-not-permitted": ({ right, via }: { readonly right: string; readonly via: "token" | "access" }) =>
    problem(
      403,
      via === "token"
        ? `The token lacks the right "${right}": its "may" in ADMIN_TOKENS does not list it.`
        : `Access identities have the right "${right}" only if REVEAL is "admins".`,
      { headers: challenge("insufficient_scope", adminRealm) },
    ),

  "cross-site": () =>
    problem(
      403,
      "With Cloudflare Access, requests that change something or reveal keys, and WebSockets, must have Sec-Fetch-Site: same-origin.",
    ),

  "attempts-exceeded": ({ retryAfterMs }: { readonly retryAfterMs: number }) =>
    problem(
      429,
      `Too many requests with invalid credentials from this address. Retry in ${retryAfterSeconds(retryAfterMs)} s.`,
      { headers: retryAfterField(retryAfterMs) },
    ),

  "access-unavailable": () =>
    problem(503, "The keys of Cloudflare Access could not be fetched. Retry in 5 seconds.", {
      headers: { "Retry-After": "5" },
    }),

  "control-plane-missing": () =>
    problem(503, "The admin API has credentials, but the binding CONTROL_PLANE is missing in wrangler.toml."),

  "control-plane-silent": () =>
    problem(503, "The control plane did not answer in time. A change may have been made. Retry in 2 seconds.", {
      headers: { "Retry-After": "2" },
    }),

  "unknown-rule": () => problem(404, "There is no rule with this id."),
  "unknown-key": () =>
    problem(404, "There is no key with this id. An id has 43 characters of base64url for each level."),

  "precondition-required": () =>
    problem(428, "The request must have If-Match with the ETag of the state that it changes."),

  /** `etag` is that of the current state. */
  "precondition-failed": ({ etag }: { readonly etag: string }) =>
    problem(
      412,
      "If-Match is not the ETag of the current state, which has changed since it was read. Read it again, then repeat the change.",
      { headers: { ETag: etag } },
    ),

  "idempotency-key-reused": () => problem(422, "This Idempotency-Key was used for a request with another body."),

  "rule-gone": () =>
    problem(
      410,
      "The first request with this Idempotency-Key made a rule, which has been deleted or has expired since. Send another key to make a new rule.",
    ),

  "rollback-replaced": () => problem(409, "Another rollback replaced this one before it had ended."),

  /** The audit entry `seq` has changed a rule of an undo since. */
  "changed-since": ({ seq }: { readonly seq: number }) =>
    problem(409, `Entry ${seq} of the audit log has changed the rule since. Nothing is undone.`),

  "nothing-to-undo": () =>
    problem(409, "Nothing is left to undo: the rules are as they were, or would have ended by now."),

  "rules-full": ({ most }: { readonly most: number }) =>
    problem(409, `There are ${most} rules already, which is the maximum. Delete a rule first.`),

  "rules-too-large": ({ mostBytes }: { readonly mostBytes: number }) =>
    problem(
      409,
      `The rules of the policy would have more than ${mostBytes / 1_024} KB together. Shorten or delete a rule first.`,
    ),

  "recordings-full": ({ most, nextEnd }: { readonly most: number; readonly nextEnd: string }) =>
    problem(409, `${most} keys are recorded, which is the maximum. Stop a recording, or wait until ${nextEnd}.`),

  "upgrade-required": () =>
    problem(426, "The tail requires a WebSocket handshake, with Upgrade: websocket.", {
      headers: { Upgrade: "websocket" },
    }),

  "ticket-invalid": () =>
    problem(401, "The ticket is unknown, used or expired. Get a new one with POST /api/tail/ticket.", {
      headers: challenge("invalid_token", adminRealm),
    }),

  "tails-full": () => problem(503, "The maximum number of tails is open. Close one, then open the tail again."),
  /** `url` is the address of the console; null without ADMIN_HOST, which it needs. */
  "console-elsewhere": ({ url }: { readonly url: string | null }) =>
    problem(
      404,
      url === null
        ? "The console is not served: it needs ADMIN_HOST, the variable with its host."
        : `The console is on another host, that of ADMIN_HOST: ${url}`,
    ),
  "console-missing": () =>
    problem(
      404,
      "This deployment has no console: the binding ASSETS is missing in wrangler.toml, or its folder is empty.",
    ),
};
