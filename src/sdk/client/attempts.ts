/** Makes a call over HTTP or a service binding, repeats it where that is safe, and waits as the answers demand. */
import { type Clock, wait, within } from "./clock.ts";
import { HeadgateError, answerProblem, type Answers, type Operation } from "./messages.ts";
import type { Bounds } from "./options.ts";

interface CallerSettings extends Bounds {
  readonly transport: Transport;
  readonly clock: Clock;
  /** Returns a number of at least 0 and below 1. */
  readonly random: () => number;
}

/** Makes a call, repeats it where that is safe, and returns its answer. */
export type Caller = <Name extends Operation>(
  call: Call & { readonly operation: Name },
  signal: AbortSignal | undefined,
) => Promise<Answers[Name]>;

/**
 * Returns a function that makes calls. It throws a `HeadgateError` when a call gets no answer. When the signal aborts,
 * it throws the reason of the signal.
 */
export const createCaller =
  (settings: CallerSettings): Caller =>
  async <Name extends Operation>(call: Call & { readonly operation: Name }, signal: AbortSignal | undefined) => {
    const answer = await new Attempts(settings, call, signal).run();
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- answerProblem has verified the shape
    return answer as Answers[Name];
  };

/** The attempts of one call, and the waits between them. */
class Attempts {
  readonly #settings: CallerSettings;
  readonly #call: Call;
  readonly #signal: AbortSignal | undefined;
  readonly #place: string;
  #waitsLeftMs: number;

  constructor(settings: CallerSettings, call: Call, signal: AbortSignal | undefined) {
    this.#settings = settings;
    this.#call = call;
    this.#signal = signal;
    this.#place = settings.transport.placeOf(call.operation);
    this.#waitsLeftMs = settings.maxWaitMs;
  }

  async run(): Promise<unknown> {
    for (let repeats = 0; ; repeats += 1) {
      await this.#untilNotHeldBack();
      try {
        return await this.#attempt();
      } catch (error) {
        const waitMs = repeats < this.#settings.retries ? waitBeforeRepeat(error, repeats) : null;
        if (waitMs === null || !(await this.#wait(waitMs))) throw error;
      }
    }
  }

  /**
   * Waits while earlier answers hold the call back. Waiting calls continue at different times, so that the first
   * answers can hold back the other calls again.
   */
  async #untilNotHeldBack(): Promise<void> {
    const { transport, maxWaitMs } = this.#settings;
    for (;;) {
      const retryAfterMs = transport.heldBackMs(this.#call.operation);
      if (retryAfterMs === 0) return;
      if (await this.#wait(retryAfterMs)) continue;
      throw new HeadgateError(
        `${this.#place}: not sent, because the limits on calls leave none for ${Math.ceil(retryAfterMs)} ms, which exceeds maxWaitMs (${maxWaitMs} ms)`,
        { retryAfterMs, isSafeToRepeat: true },
      );
    }
  }

  async #attempt(): Promise<unknown> {
    const { clock, transport, timeoutMs } = this.#settings;
    const { operation, isIdempotent: isSafeToRepeat } = this.#call;
    const late = (): Error =>
      new HeadgateError(`${this.#place}: no answer within ${timeoutMs} ms (timeoutMs)`, { isSafeToRepeat });
    const answer = await within(clock, timeoutMs, late, this.#signal, (ended) => transport.send(this.#call, ended));
    const problem = answerProblem(operation, answer);
    if (problem !== null) throw new HeadgateError(`${this.#place}: ${problem}`, { status: 200, isSafeToRepeat });
    return answer;
  }

  /**
   * Waits for at least this time, plus a random time. Without the random time, clients that were denied together would
   * all repeat their calls together.
   * @returns false, without a wait, if the total of the waits would exceed its bound
   */
  async #wait(leastMs: number): Promise<boolean> {
    if (leastMs > this.#waitsLeftMs) return false;
    const { clock, random } = this.#settings;
    const spreadMs = random() * Math.min(leastMs, longestSpreadMs);
    const ms = Math.min(Math.ceil(leastMs + spreadMs), this.#waitsLeftMs);
    this.#waitsLeftMs -= ms;
    await wait(clock, ms, this.#signal);
    return true;
  }
}

const longestSpreadMs = 1_000;

/** Statuses of a service, or a gateway before it, that may work again soon. */
const temporary: ReadonlySet<number | null> = new Set([null, 502, 503, 504]);

/** The shortest wait before the first repeat. It doubles with each further repeat. */
const firstBackoffMs = 100;

/** The wait before the next repeat; null when the call must not be repeated. */
function waitBeforeRepeat(error: unknown, repeats: number): number | null {
  if (!(error instanceof HeadgateError) || !error.isSafeToRepeat) return null;
  // A 429 without an advertised wait means that no wait suffices.
  const isTemporary = error.status === 429 ? error.retryAfterMs !== null : temporary.has(error.status);
  return isTemporary ? Math.max(error.retryAfterMs ?? 0, firstBackoffMs * 2 ** repeats) : null;
}

export interface Call {
  readonly operation: Operation;
  readonly input: object;
  /** Whether the call charges nothing, or has no further effect when it is repeated. */
  readonly isIdempotent: boolean;
}

export interface Transport {
  /** The target of a call, for error messages. It contains no key. */
  readonly placeOf: (operation: Operation) => string;
  /** How long earlier answers still hold back this operation; 0 if they do not. */
  readonly heldBackMs: (operation: Operation) => number;
  /**
   * Makes the call once.
   * @returns the answer, whatever its shape
   * @throws HeadgateError without an answer
   */
  readonly send: (call: Call, signal: AbortSignal) => Promise<unknown>;
}
