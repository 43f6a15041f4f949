/** What an operator should know of: one structured line each. None carries a key, a token or an address. */

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
    }
  /** A row could not be written; the platform restarts the object from what is stored. */
  | { readonly event: "write-failed"; readonly error: string }
  /** An alarm could not be set; the next row that is written sets it. */
  | { readonly event: "alarm-failed"; readonly error: string }
  /** An alarm could not delete what is idle; it tries again in a minute. */
  | { readonly event: "sweep-failed"; readonly error: string }
  /** Bearer tokens could not be verified for want of a key; until there is one they count as missing. */
  | { readonly event: "token-key-unavailable"; readonly error: string }
  /** The runtime does not report the digits of a number beyond 2^53 in a token; that claim counts as missing. */
  | { readonly event: "token-number-inexact" }
  | { readonly event: "origin-unreachable"; readonly error: string }
  /** A fault of Headgate itself: it answered 500. */
  | { readonly event: "internal-error"; readonly error: string };

export function report(event: Event): void {
  const line = JSON.stringify(event);
  if (event.event === "configuration-warning" || event.event === "dry-run-denied") {
    console.warn(line);
  } else console.error(line);
}

/** An error as a line of text. */
export function errorText(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}
