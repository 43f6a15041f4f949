/** The way to Headgate: HTTP, or a service binding. */
import type { Operation } from "./read-answer.ts";

export interface Call {
  readonly operation: Operation;
  readonly input: object;
  /** Whether it charges nothing, or a repeated call changes nothing more. */
  readonly isIdempotent: boolean;
}

export interface Transport {
  /** Where a call goes, for errors. It contains no key. */
  readonly placeOf: (operation: Operation) => string;
  /** How long earlier answers hold the call back; 0 if they do not. */
  readonly heldBackMs: (operation: Operation) => number;
  /**
   * Makes the call once.
   * @returns the answer, whatever its shape
   * @throws HeadgateError without an answer
   */
  readonly send: (call: Call, signal: AbortSignal) => Promise<unknown>;
}
