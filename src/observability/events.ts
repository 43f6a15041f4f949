/**
 * Events for operators: one line of JSON each. None carries a key, a token or an address. README.md documents each of
 * them, with what to do about it.
 */

export type Event =
  /** The Worker answers 500 until its variables are mended. */
  | { readonly event: "configuration-invalid"; readonly problems: readonly string[] }
  /** The configuration holds, but for what should rather not be used; once for each isolate. */
  | { readonly event: "configuration-warning"; readonly warnings: readonly string[] }
  /** Stored state was not what this version writes; the limits of the policy, or of the key, began afresh. */
  | { readonly event: "state-refused"; readonly policy?: string; readonly reason: string }
  /** An object did not answer in time. Of a check or a look the policy's `onError` holds instead. */
  | {
      readonly event: "object-silent";
      readonly call: string;
      readonly policies: readonly string[];
      readonly error: string;
    }
  /** A dry run would have denied a request by these limits, or for what else `reason` says. */
  | {
      readonly event: "dry-run-denied";
      readonly policy: string;
      readonly violated: readonly string[];
      readonly reason?: "key-missing" | "listed";
      readonly key?: string;
    }
  /** A policy denied a request; only with `LOG_DENIALS`. Of several policies that deny, each is a line. */
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
  /** So many denials were not logged, and none has followed that could say so. */
  | { readonly event: "denials-omitted"; readonly omitted: number }
  /** An isolate had more keys to send than it keeps: what it has spent on one under these policies is not counted. */
  | { readonly event: "spends-dropped"; readonly policies: readonly string[] }
  /** A row could not be written; the platform restarts the object from what is stored. */
  | { readonly event: "write-failed"; readonly error: string }
  /** The state of a key takes more than a row of 2 MB: that of these policies is stored in further rows. */
  | { readonly event: "state-oversized"; readonly policies: readonly string[] }
  /** An alarm could not be set; the next row that is written sets it. */
  | { readonly event: "alarm-failed"; readonly error: string }
  /** An alarm could not delete what is idle; it tries again in a minute. */
  | { readonly event: "sweep-failed"; readonly error: string }
  /** Bearer tokens could not be verified for want of a key; until there is one they count as missing. */
  | { readonly event: "token-key-unavailable"; readonly error: string }
  /** The runtime does not report the digits of a number beyond 2^53 in a token; that claim counts as missing. */
  | { readonly event: "token-number-inexact" }
  /** A request could not be forwarded; its client got 502. */
  | { readonly event: "origin-unreachable"; readonly error: string }
  /** The origin's response did not begin within `ORIGIN_TIMEOUT`; the client got 504. */
  | { readonly event: "origin-too-slow"; readonly timeoutMs: number }
  /** The origin answered with a status that HTTP does not have; the client got 502. */
  | { readonly event: "origin-response-invalid"; readonly status: number }
  /** The body of a response that holds a slot ended before it was complete; the client's response is cut off too. */
  | { readonly event: "origin-response-broken"; readonly error: string }
  /** `ORIGIN` is the Worker's own host, or the request has passed through this Worker before; the client got 508. */
  | { readonly event: "origin-loop"; readonly reason: "origin-is-self" | "via" }
  /** A gateway with a valid token asked `/check/forward` without describing a request; these fields are wrong. */
  | { readonly event: "forward-request-invalid"; readonly fields: readonly string[] }
  /** A fault of Headgate itself: it answered 500. */
  | { readonly event: "internal-error"; readonly error: string };

/** What is no fault of anything. */
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
 * A short name of a key: 96 bits of an HMAC with `KEY_SECRET`, so that customers can be counted, and found again by whoever
 * has the secret.
 * @param partitionKey an HMAC in base64url
 */
export const keyPseudonym = (partitionKey: string): string =>
  partitionKey.slice(0, pseudonymLength);

const longestErrorText = 500;

/** An error as text for an event. Messages may quote a URL: its query and its credentials are left out. */
export function errorText(error: unknown): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return text
    .slice(0, longestErrorText)
    .replace(/([a-z][a-z0-9+.-]*:\/\/)[^\s/?#"']*@/gi, "$1")
    .replace(/([a-z][a-z0-9+.-]*:\/\/[^\s?#"']*)[?#][^\s"']*/gi, "$1");
}
