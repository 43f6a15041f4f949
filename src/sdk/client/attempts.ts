/** Makes a call over HTTP or a service binding, repeats it where that is safe, and waits as the answers demand. */
import { type Clock, wait, within } from "./clock.ts";
import { HeadgateError, answerProblem, type Answers, type Operation } from "./messages.ts";

export interface Bounds {
  /** How often a call is repeated at most. */
  readonly retries: number;
  /** The longest total of the waits of one call. */
  readonly maxWaitMs: number;
  /** The longest time for one attempt. */
  readonly timeoutMs: number;
}

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
export function createCaller(settings: CallerSettings): Caller {
  const { clock, transport, timeoutMs } = settings;

  async function attempt<Name extends Operation>(
    call: Call & { readonly operation: Name },
    signal: AbortSignal | undefined,
  ): Promise<Answers[Name]> {
    const { operation, isIdempotent } = call;
    const place = transport.placeOf(operation);
    const late = (): HeadgateError =>
      new HeadgateError(`${place}: no answer within ${timeoutMs} ms (timeoutMs)`, {
        isSafeToRepeat: isIdempotent,
      });
    const answer = await within(clock, { timeoutMs, late }, signal, (ended) => transport.send(call, ended));
    const problem = answerProblem(operation, answer);
    if (problem === null) {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- answerProblem has verified the shape
      return answer as Answers[Name];
    }
    throw new HeadgateError(`${place}: ${problem}`, { status: 200, isSafeToRepeat: isIdempotent });
  }

  return async (call, signal) => {
    const waits = new BoundedWaits(settings, signal);
    for (let repeats = 0; ; repeats += 1) {
      await untilNotHeldBack(call, settings, waits);
      try {
        return await attempt(call, signal);
      } catch (error) {
        const waitMs = repeats < settings.retries ? waitBeforeRepeat(error, repeats) : null;
        if (waitMs === null || !(await waits.wait(waitMs))) throw error;
      }
    }
  };
}

/** Calls that wait together go on at different times, so that the answers to the first ones can hold back the others. */
async function untilNotHeldBack(
  { operation }: Call,
  { transport, maxWaitMs }: CallerSettings,
  waits: BoundedWaits,
): Promise<void> {
  for (;;) {
    const retryAfterMs = transport.heldBackMs(operation);
    if (retryAfterMs === 0) return;
    if (await waits.wait(retryAfterMs)) continue;
    const place = transport.placeOf(operation);
    throw new HeadgateError(
      `${place}: not sent, because the limits on calls leave none for ${Math.ceil(retryAfterMs)} ms, which exceeds maxWaitMs (${maxWaitMs} ms)`,
      { retryAfterMs, isSafeToRepeat: true },
    );
  }
}

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

const longestSpreadMs = 1_000;

/** The waits of one call. */
class BoundedWaits {
  readonly #settings: CallerSettings;
  readonly #signal: AbortSignal | undefined;
  #leftMs: number;

  constructor(settings: CallerSettings, signal: AbortSignal | undefined) {
    this.#settings = settings;
    this.#signal = signal;
    this.#leftMs = settings.maxWaitMs;
  }

  /**
   * Waits for this time at least, and a random time longer, because clients that were denied together would otherwise
   * return together.
   * @returns false, without a wait, if the total would exceed its bound
   */
  async wait(leastMs: number): Promise<boolean> {
    if (leastMs > this.#leftMs) return false;
    const { clock, random } = this.#settings;
    const spreadMs = random() * Math.min(leastMs, longestSpreadMs);
    const ms = Math.min(Math.ceil(leastMs + spreadMs), this.#leftMs);
    this.#leftMs -= ms;
    await wait(clock, ms, this.#signal);
    return true;
  }
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
