/** The error of a call without an answer. */
import type { Problem } from "./messages.ts";

export interface ErrorDetails {
  readonly status?: number;
  readonly problem?: Problem | null;
  readonly retryAfterMs?: number | null;
  readonly isSafeToRepeat: boolean;
  readonly cause?: unknown;
}

/** Headgate has rejected the call, or gave no answer that could be read. A denied check is an answer, and no error. */
export class HeadgateError extends Error {
  override readonly name = "HeadgateError";
  /** The HTTP status; null when no answer arrived. Over a service binding, it is that of the problem, or 200. */
  readonly status: number | null;
  /** Problem details (RFC 9457); null when the answer has none. */
  readonly problem: Problem | null;
  /** The advertised wait before the call may be repeated; null if none was advertised. */
  readonly retryAfterMs: number | null;
  /** Whether the same call can be made again without being charged twice. */
  readonly isSafeToRepeat: boolean;

  constructor(message: string, details: ErrorDetails) {
    super(message, details.cause === undefined ? {} : { cause: details.cause });
    this.status = details.status ?? null;
    this.problem = details.problem ?? null;
    this.retryAfterMs = details.retryAfterMs ?? null;
    this.isSafeToRepeat = details.isSafeToRepeat;
  }
}
