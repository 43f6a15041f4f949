/**
 * Events for operators, one line of JSON each. No event contains a key, a token or an address. `docs/operate/logs.md`
 * documents every event and what to do about it.
 */

export type Event =
  /**
   * The configuration is invalid, and the Worker answers every request with 500. If a function returned invalid limits,
   * only requests with these limits get 500.
   */
  | { readonly event: "configuration-invalid"; readonly problems: readonly string[] }
  /** The configuration is valid but has settings that are not recommended. Logged once per isolate. */
  | { readonly event: "configuration-warning"; readonly warnings: readonly string[] }
  /** Stored state could not be read; the limits of the policy, or of the whole key, started empty. */
  | { readonly event: "state-refused"; readonly policy?: string; readonly reason: string }
  /** An object did not answer in time. Checks and looks are decided by the policy's `onError`. */
  | {
      readonly event: "object-silent";
      readonly call: string;
      readonly policies: readonly string[];
      readonly error: string;
    }
  /** A dry-run policy would have denied a request: by the limits in `violated`, or for `reason`. */
  | {
      readonly event: "dry-run-denied";
      readonly policy: string;
      readonly violated: readonly string[];
      readonly reason?: "key-missing" | "listed";
      readonly key?: string;
    }
  /** A policy denied a request. Logged only with `LOG_DENIALS`, once for each policy that denies. */
  | {
      readonly event: "request-denied";
      readonly policy: string;
      readonly reason: string;
      readonly violated: readonly string[];
      readonly missing?: readonly string[];
      readonly key?: string;
      readonly retryAfterMs: number | null;
      readonly omitted?: number;
    }
  /** The number of denials that were not logged, when no later `request-denied` event has reported it. */
  | { readonly event: "denials-omitted"; readonly omitted: number }
  /** An isolate had too many keys with unsent spends and dropped those of one key under these policies. */
  | { readonly event: "spends-dropped"; readonly policies: readonly string[] }
  /** A row could not be written; the platform restarts the object from the stored rows. */
  | { readonly event: "write-failed"; readonly error: string }
  /** The state of a key exceeds a row of 2 MB; the state of these policies is stored in additional rows. */
  | { readonly event: "state-oversized"; readonly policies: readonly string[] }
  /** More than 10,000 children of a key of this policy are active; the shares of the newest are not guaranteed. */
  | { readonly event: "shares-full"; readonly policy: string }
  /** An alarm could not be set; the next write of a row tries again. */
  | { readonly event: "alarm-failed"; readonly error: string }
  /** An alarm could not delete idle keys; it tries again in a minute. */
  | { readonly event: "sweep-failed"; readonly error: string }
  /** Work of the control plane object failed; it runs again in a minute. */
  | { readonly event: "control-plane-failed"; readonly error: string }
  /** The control plane did not answer a beat. Logged once until it answers; the last known rules stay in effect. */
  | { readonly event: "control-plane-silent"; readonly error: string }
  /**
   * The configuration does not accept a runtime rule, so the rule has no effect. `rule` is null when none could be
   * read.
   */
  | {
      readonly event: "rule-refused";
      readonly policy: string;
      readonly rule: string | null;
      readonly reason: string;
    }
  /** The receiver of `ALERT_WEBHOOK` did not confirm an alert; the alert is given up after the last attempt. */
  | { readonly event: "alert-undelivered"; readonly cause: string; readonly error: string }
  /** No verification key was available; bearer tokens count as missing until there is one. */
  | { readonly event: "token-key-unavailable"; readonly error: string }
  /** The keys of Cloudflare Access could not be fetched; its callers of the admin API got 503. */
  | { readonly event: "access-keys-unavailable"; readonly error: string }
  /** The runtime does not provide the digits of a number beyond 2^53 in a token; the claim counts as missing. */
  | { readonly event: "token-number-inexact" }
  /** The origin could not be reached; the client got 502. */
  | { readonly event: "origin-unreachable"; readonly error: string }
  /** The origin's response did not begin within `ORIGIN_TIMEOUT`; the client got 504. */
  | { readonly event: "origin-too-slow"; readonly timeoutMs: number }
  /** The origin answered with a status that HTTP does not have; the client got 502. */
  | { readonly event: "origin-response-invalid"; readonly status: number }
  /** The origin aborted the body of a response that holds a slot; the client's response was aborted too. */
  | { readonly event: "origin-response-broken"; readonly error: string }
  /** `ORIGIN` is the Worker's own host, or the request has already passed through this Worker; the client got 508. */
  | { readonly event: "origin-loop"; readonly reason: "origin-is-self" | "via" }
  /** A gateway with a valid token called `/check/forward` without a valid description of a request; `fields` lists what is invalid. */
  | { readonly event: "forward-request-invalid"; readonly fields: readonly string[] }
  /** Headgate failed unexpectedly; the client got 500. */
  | { readonly event: "internal-error"; readonly error: string };

/** The levels of events that are no errors. */
const levels: Partial<Record<Event["event"], "warn" | "log">> = {
  "configuration-warning": "warn",
  "dry-run-denied": "warn",
  "request-denied": "log",
  "denials-omitted": "log",
};

export function report(event: Event): void {
  console[levels[event.event] ?? "error"](JSON.stringify(event));
}

const pseudonymLength = 16;

/**
 * A pseudonym of a key in events: 96 bits of its HMAC. The holder of `KEY_SECRET` can compute it for a known key.
 * @param partitionKey an HMAC in base64url
 */
export function keyPseudonym(partitionKey: string): string {
  // A key within others begins with their keys.
  const start = partitionKey.lastIndexOf(".") + 1;
  return partitionKey.slice(start, start + pseudonymLength);
}

const longestErrorText = 500;

/** An error as text for an event, without the queries and credentials of URLs in it. */
export function errorText(error: unknown): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return text
    .slice(0, longestErrorText)
    .replace(/([a-z][a-z0-9+.-]*:\/\/)[^\s/?#"']*@/gi, "$1")
    .replace(/([a-z][a-z0-9+.-]*:\/\/[^\s?#"']*)[?#][^\s"']*/gi, "$1");
}
