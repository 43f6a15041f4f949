/**
 * The context of a request, with the restrictions of the platform. The request's timers, calls and promises end
 * together with it. It ends when all of its `waitUntil` work is done and it has been answered or its client has
 * disconnected.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Clock } from "../../../src/limiter/clock.ts";

const current = new AsyncLocalStorage<RequestContext>();

export class RequestContext {
  readonly number: number;
  /** Whether the request ends without warning as soon as another request wakes it. */
  readonly diesWhenWoken: boolean;
  openTimers = 0;
  /** The number of timers that the request had when it ended after its answer. */
  timersLeft = 0;
  #isAnswered = false;
  #work = 0;
  #isGone = false;
  /**
   * The number of the event in which the request's last work ended. Code that still runs in this event may begin new
   * work.
   */
  #idleSince = Number.POSITIVE_INFINITY;
  readonly #eventNumber: () => number;

  constructor(number: number, eventNumber: () => number, diesWhenWoken = false) {
    this.number = number;
    this.#eventNumber = eventNumber;
    this.diesWhenWoken = diesWhenWoken;
  }

  get isGone(): boolean {
    if (!this.#isGone && this.#eventNumber() > this.#idleSince) {
      this.timersLeft = this.openTimers;
      this.vanish();
    }
    return this.#isGone;
  }

  readonly waitUntil = (work: Promise<unknown>): void => {
    if (this.isGone) return;
    this.#work++;
    this.#idleSince = Number.POSITIVE_INFINITY;
    void this.#endAfter(work);
  };

  run<Result>(act: () => Result): Result {
    return current.run(this, act);
  }

  /** Records that the request is answered, or that its client has disconnected. */
  answered(): void {
    this.#isAnswered = true;
    this.#endIfIdle();
  }

  /** Ends the request without warning, even if work is left. */
  vanish(): void {
    this.#isGone = true;
    this.openTimers = 0;
  }

  async #endAfter(work: Promise<unknown>): Promise<void> {
    await Promise.allSettled([work]);
    this.#work--;
    this.#endIfIdle();
  }

  #endIfIdle(): void {
    if (this.#isAnswered && this.#work === 0) this.#idleSince = this.#eventNumber();
  }
}

/** The request on whose behalf the current code runs. */
export function currentContext(): RequestContext {
  const context = current.getStore();
  if (context === undefined) throw new Error("expected code that works for a request");
  return context;
}

/** A clock whose timers belong to the requests that set them. */
export const clockOfRequests = ({ now, after }: Clock): Clock => ({
  now,
  after: (afterMs, act) => {
    const context = currentContext();
    let isOpen = true;
    context.openTimers++;
    const close = (): boolean => {
      if (!isOpen || context.isGone) return false;
      isOpen = false;
      context.openTimers--;
      return true;
    };
    const cancel = after(afterMs, () => {
      if (close()) context.run(act);
    });
    return () => {
      close();
      cancel();
    };
  },
});

const withResolvers = Promise.withResolvers.bind(Promise);

/**
 * Replaces `Promise.withResolvers`. A promise belongs to the request that creates it, and its continuation does not run
 * after the end of this request.
 */
export function resolversOfRequest<Value>(): PromiseWithResolvers<Value> {
  const context = current.getStore();
  const resolvers = withResolvers<Value>();
  if (context === undefined) return resolvers;
  const { promise, resolve, reject } = resolvers;
  return {
    promise,
    resolve: (value) => {
      const isOther = current.getStore() !== context;
      if (isOther && context.diesWhenWoken) context.vanish();
      if (!context.isGone) resolve(value);
    },
    reject: (error) => {
      if (!context.isGone) reject(error);
    },
  };
}
