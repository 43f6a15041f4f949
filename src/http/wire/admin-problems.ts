/** The problems of the admin API and of the configuration. Like those of `problems.ts`, none contains a key, a token or an address. */
import type { Problem } from "./problems.ts";
import { retryAfterField, retryAfterSeconds } from "./rate-limit-fields.ts";
import type { ConfigProblem } from "../../validation/problems.ts";

export interface AdminFailures {
  /** Neither a valid token nor a valid Access JWT. */
  "operator-unknown": {
    readonly hasTokens: boolean;
    /** The credentials of the request; null when it has none. */
    readonly given: "token" | "access" | null;
  };
  "operator-not-permitted": { readonly right: string; readonly via: "token" | "access" };
  "cross-site": object;
  "attempts-exceeded": { readonly retryAfterMs: number };
  "access-unavailable": object;
  "control-plane-missing": object;
  "control-plane-silent": object;
  "unknown-rule": object;
  "unknown-key": object;
  "precondition-required": object;
  /** `etag` is that of the current state. */
  "precondition-failed": { readonly etag: string };
  "idempotency-key-reused": object;
  /** The rule that the first request with the `Idempotency-Key` has made. */
  "rule-gone": object;
  "rollback-replaced": object;
  /** The audit entry `seq` has changed a rule of an undo since. */
  "changed-since": { readonly seq: number };
  "nothing-to-undo": object;
  "rules-full": { readonly most: number };
  "rules-too-large": { readonly mostBytes: number };
  "upgrade-required": object;
  "ticket-invalid": object;
  "tails-full": object;
  "console-elsewhere": object;
  "console-missing": object;
}

/** `WWW-Authenticate` (RFC 6750, section 3). */
const challenge = (error: string): Readonly<Record<string, string>> => ({
  "WWW-Authenticate": `Bearer realm="headgate admin"${error}`,
});

const invalid = ', error="invalid_token"';

const unauthorized = (detail: string, error: string): Problem => ({
  status: 401,
  title: "Unauthorized",
  detail,
  headers: challenge(error),
});

const forbidden = (detail: string): Problem => ({ status: 403, title: "Forbidden", detail });
const notFound = (detail: string): Problem => ({ status: 404, title: "Not Found", detail });

const unavailable = (detail: string, headers: Problem["headers"] = {}): Problem => ({
  status: 503,
  title: "Service Unavailable",
  detail,
  headers,
});

function credentialsText(hasTokens: boolean, given: AdminFailures["operator-unknown"]["given"]): string {
  if (given === "access") return "The Cloudflare Access JWT is invalid, or the host of the request is not ADMIN_HOST.";
  return hasTokens
    ? `The bearer token is ${given === null ? "missing" : "invalid"}. Send a token from ADMIN_TOKENS: Authorization: Bearer <token>.`
    : "The admin API requires a Cloudflare Access JWT on ADMIN_HOST, or a token from ADMIN_TOKENS, which is not set.";
}

export const adminProblems: {
  readonly [Kind in keyof AdminFailures]: (failure: AdminFailures[Kind]) => Problem;
} = {
  "operator-unknown": ({ hasTokens, given }) =>
    unauthorized(credentialsText(hasTokens, given), given === null ? "" : invalid),

  "operator-not-permitted": ({ right, via }) => ({
    ...forbidden(
      via === "token"
        ? `The token lacks the right "${right}": its "may" in ADMIN_TOKENS does not list it.`
        : `Access identities have the right "${right}" only if REVEAL is "admins".`,
    ),
    headers: challenge(', error="insufficient_scope"'),
  }),

  "cross-site": () =>
    forbidden(
      "With Cloudflare Access, requests that change something or reveal keys, and WebSockets, must have Sec-Fetch-Site: same-origin.",
    ),

  "attempts-exceeded": ({ retryAfterMs }) => ({
    status: 429,
    title: "Too Many Requests",
    detail: `Too many requests with invalid credentials from this address. Retry in ${retryAfterSeconds(retryAfterMs)} s.`,
    headers: retryAfterField(retryAfterMs),
  }),

  "access-unavailable": () =>
    unavailable("The keys of Cloudflare Access could not be fetched. Retry in 5 seconds.", {
      "Retry-After": "5",
    }),

  "control-plane-missing": () =>
    unavailable("The admin API has credentials, but the binding CONTROL_PLANE is missing in wrangler.toml."),

  "control-plane-silent": () =>
    unavailable("The control plane did not answer in time. A change may have been made. Retry in 2 seconds.", {
      "Retry-After": "2",
    }),

  "unknown-rule": () => notFound("There is no rule with this id."),

  "unknown-key": () => notFound("There is no key with this id. An id has 43 characters of base64url."),

  "precondition-required": () => ({
    status: 428,
    title: "Precondition Required",
    detail: "The request must have If-Match with the ETag of the state that it changes.",
  }),

  "precondition-failed": ({ etag }) => ({
    status: 412,
    title: "Precondition Failed",
    detail:
      "If-Match is not the ETag of the current state, which has changed since it was read. Read it again, then repeat the change.",
    headers: { ETag: etag },
  }),

  "idempotency-key-reused": () => ({
    status: 422,
    title: "Unprocessable Content",
    detail: "This Idempotency-Key was used for a request with another body.",
  }),

  "rule-gone": () => ({
    status: 410,
    title: "Gone",
    detail:
      "The first request with this Idempotency-Key made a rule, which has been deleted or has expired since. Send another key to make a new rule.",
  }),

  "rollback-replaced": () => ({
    status: 409,
    title: "Conflict",
    detail: "Another rollback replaced this one before it had ended.",
  }),

  "changed-since": ({ seq }) => ({
    status: 409,
    title: "Conflict",
    detail: `Entry ${seq} of the audit log has changed the rule since. Nothing is undone.`,
  }),

  "nothing-to-undo": () => ({
    status: 409,
    title: "Conflict",
    detail: "Nothing is left to undo: the rules are as they were, or would have ended by now.",
  }),

  "rules-full": ({ most }) => ({
    status: 409,
    title: "Conflict",
    detail: `There are ${most} rules already, which is the maximum. Delete a rule first.`,
  }),

  "rules-too-large": ({ mostBytes }) => ({
    status: 409,
    title: "Conflict",
    detail: `The rules of the policy would have more than ${mostBytes / 1_024} KB together. Shorten or delete a rule first.`,
  }),

  "upgrade-required": () => ({
    status: 426,
    title: "Upgrade Required",
    detail: "The tail requires a WebSocket handshake, with Upgrade: websocket.",
    headers: { Upgrade: "websocket" },
  }),

  "ticket-invalid": () =>
    unauthorized("The ticket is unknown, used or expired. Get a new one with POST /api/tail/ticket.", invalid),

  "tails-full": () => unavailable("The maximum number of tails is open. Close one, then open the tail again."),

  "console-elsewhere": () => notFound("The console is served only on the host in ADMIN_HOST."),

  "console-missing": () =>
    notFound("This deployment has no console: the binding ASSETS is missing in wrangler.toml, or its folder is empty."),
};

interface Found {
  readonly problems: readonly ConfigProblem[];
}

export interface ConfigurationFailures {
  /** With `isOfPackage`, in a Worker of a user of the package: it has no command that checks the configuration. */
  "configuration-invalid": Found & { readonly isOfPackage?: boolean };
  /** Required variables are not set yet. Those that are set are valid. */
  "configuration-missing": Found;
}

const errorsIn = ({ problems }: Found): Omit<ConfigProblem, "value">[] =>
  problems.map(({ variable, field, accepted }) => ({ variable, field, accepted }));

export const configurationProblems: {
  readonly [Kind in keyof ConfigurationFailures]: (failure: ConfigurationFailures[Kind]) => Problem;
} = {
  "configuration-invalid": (failure) => ({
    status: 500,
    proxyError: "proxy_configuration_error",
    title: "Internal Server Error",
    detail:
      failure.isOfPackage === true
        ? "The configuration of Headgate is invalid. The log also shows the values."
        : "The configuration of Headgate is invalid. `npm run check-config` and the log also show the values.",
    members: { errors: errorsIn(failure) },
  }),

  "configuration-missing": (failure) => ({
    status: 503,
    proxyError: "proxy_configuration_error",
    title: "Service Unavailable",
    detail:
      "Headgate is not configured yet. It charges and forwards no request until the variables in `errors` are set.",
    members: { errors: errorsIn(failure) },
    headers: { "Retry-After": "60" },
  }),
};
