/**
 * Requests that wait for other requests of the isolate. On the platform, everything that a request starts belongs to
 * it:
 *
 * - A call or a timer ends with its request.
 * - A continuation runs in the request that created the promise, and never runs once that request has ended. A request
 *   that awaits a promise of another request may therefore wait forever.
 * - Settling a promise of a request that has ended has no effect, and the platform logs a warning.
 *
 * So the isolate keeps values between requests, and never promises, timers or streams. A request that must wait for
 * another one does so here: with a promise of its own, and under its own `waitUntil`, so that it does not end
 * meanwhile.
 */
import { type Clock, type WaitUntil, withDeadline } from "../clock.ts";

/**
 * Whether one request can resume another. The platform then continues the resumed request in its own context. This is
 * the default from compatibility date 2024-10-14 on.
 */
export const canResumeRequests = (): boolean => {
  const flags = "Cloudflare" in globalThis ? Cloudflare.compatibilityFlags : {};
  return flags["handle_cross_request_promise_resolution"] !== false;
};

/** Lets other requests resume the request that creates it. */
export class Waiter {
  #own = Promise.withResolvers<void>();

  /** Resolves when another request has called `wake` since the last `rest`. Only for the request itself. */
  get woken(): Promise<void> {
    return this.#own.promise;
  }

  /** Waits for the next `wake`. Only for the request itself. */
  rest(): void {
    this.#own = Promise.withResolvers();
  }

  wake(): void {
    this.#own.resolve();
  }
}

/** A value that one request finds out, and for which others wait. */
export class SharedValue<Value> {
  #known: { readonly value: Value } | null = null;
  readonly #waiters = new Set<Waiter>();

  /** The first value is final. */
  set(value: Value): void {
    this.#known ??= { value };
    for (const waiter of this.#waiters) waiter.wake();
  }

  /** @returns null when there is no value after `mostMs` */
  async wait(clock: Clock, mostMs: number, waitUntil: WaitUntil): Promise<Value | null> {
    if (this.#known === null && mostMs > 0) {
      const waiter = new Waiter();
      this.#waiters.add(waiter);
      const waiting = withDeadline(clock, waiter.woken, mostMs).catch(() => undefined);
      waitUntil(waiting);
      await waiting;
      this.#waiters.delete(waiter);
    }
    return this.#known === null ? null : this.#known.value;
  }
}
