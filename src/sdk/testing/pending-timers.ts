/** Timers in virtual time, in the order in which they are due. */

export interface PendingTimer {
  readonly dueAtMs: number;
  readonly act: () => void;
}

export class PendingTimers {
  /** In the order in which they were set. */
  readonly #timers = new Set<PendingTimer>();

  get isEmpty(): boolean {
    return this.#timers.size === 0;
  }

  /** @returns a function that cancels the timer */
  add(dueAtMs: number, act: () => void): () => void {
    const timer = { dueAtMs, act };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  /** The timer that is due first, and that was set first among those due together. */
  next(): PendingTimer | undefined {
    let next: PendingTimer | undefined;
    for (const timer of this.#timers) {
      if (next === undefined || timer.dueAtMs < next.dueAtMs) next = timer;
    }
    return next;
  }

  fire(timer: PendingTimer): void {
    this.#timers.delete(timer);
    timer.act();
  }

  clear(): void {
    this.#timers.clear();
  }
}
