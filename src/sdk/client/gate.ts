/** Holds back calls of which the last answer says that the limits on `/check` itself leave nothing. */
import type { Clock } from "./clock.ts";
import type { Operation } from "./read-answer.ts";
import { type HeaderFields, replenishMsIn } from "./waits.ts";

/**
 * The longest time for which an answer holds back further calls. The limits may be raised meanwhile, which only another
 * answer shows.
 */
const longestMs = 60_000;

export interface GateAnswer {
  readonly status: number;
  readonly headers: HeaderFields;
  readonly retryAfterMs: number | null;
  /** The reason in the problem details. */
  readonly reason: string | undefined;
}

interface Closure {
  readonly atMs: number;
  readonly untilMs: number;
}

export class Gate {
  readonly #clock: Clock;
  /** By operation: a policy may limit one call of `/check` and not the others. */
  readonly #closures = new Map<Operation, Closure>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** 0 when the operation can be called now. */
  waitMs(operation: Operation): number {
    const closure = this.#closures.get(operation);
    const nowMs = this.#clock.now();
    // A clock that has stepped back must not prolong the wait.
    if (closure === undefined || nowMs < closure.atMs) return 0;
    return Math.max(0, closure.untilMs - nowMs);
  }

  note(operation: Operation, { status, headers, retryAfterMs, reason }: GateAnswer): void {
    // Too many open reservations concern one key, and not the calls.
    if (status === 429 && reason === "reservations") return;
    // `Retry-After` takes precedence over `RateLimit`.
    const waitMs = status === 429 && retryAfterMs !== null ? retryAfterMs : replenishMsIn(headers);
    if (waitMs <= this.waitMs(operation)) return;
    const atMs = this.#clock.now();
    this.#closures.set(operation, { atMs, untilMs: atMs + Math.min(waitMs, longestMs) });
  }
}
