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

/** Where, how and how often a call is made. */
export type Caller = <Name extends Operation>(
  call: Call & { readonly operation: Name },
  signal: AbortSignal | undefined,
) => Promise<Answers[Name]>;

/**
 * The returned function throws a `HeadgateError` without an answer. When the signal aborts, it throws the reason of the
 * signal.
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

  /** Calls that wait together go on at different times, so that the answers to the first ones can hold back the others. */
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
   * Waits for this time at least, and a random time longer, because clients that were denied together would otherwise
   * return together.
   * @returns false, without a wait, if the total would exceed its bound
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

/** The least wait before the first repeat. Each further one is twice as long. */
const firstBackoffMs = 100;

/** Null when the call must not be repeated. */
function waitBeforeRepeat(error: unknown, repeats: number): number | null {
  if (!(error instanceof HeadgateError) || !error.isSafeToRepeat) return null;
  // A 429 without an advertised wait means that no wait suffices.
  const isTemporary = error.status === 429 ? error.retryAfterMs !== null : temporary.has(error.status);
  return isTemporary ? Math.max(error.retryAfterMs ?? 0, firstBackoffMs * 2 ** repeats) : null;
}

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
