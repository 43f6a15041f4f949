/** A clock that stands still until a test advances it, and its timers in the order in which they are due. */
import type { Clock } from "../../limiter/clock.ts";
import { acceptedDuration, ConfigProblems, parseDuration } from "../../strategies/index.ts";

/** The time of a test. */
export interface TestClock {
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /**
   * Lets time pass. Timers and alarms fire in the order in which they are due, and `now()` is then their instant.
   * Before the next one fires, the work that the last one started runs until it is done or waits for time to pass. The
   * duration is a text such as `"1m"`, or an integer of milliseconds.
   */
  readonly advance: (duration: string | number) => Promise<void>;
}

/**
 * How many turns of the event loop must pass without work. Streams and other libraries continue some work only in a
 * later turn.
 */
const idleTurns = 5;

/**
 * `setImmediate`, or `setTimeout` in environments of test runners that lack it. Kept from before fake timers replace
 * it.
 */
const platformTurn: (act: () => void) => unknown =
  (globalThis as { readonly setImmediate?: (act: () => void) => unknown }).setImmediate ?? globalThis.setTimeout;

const nextTurn = (): Promise<void> => new Promise((resolve) => void platformTurn(resolve));

export class VirtualClock implements Clock, TestClock {
  nowMs: number;
  readonly #timers = new PendingTimers();
  readonly #held = new Set<Promise<unknown>>();
  #advancing: Promise<void> = Promise.resolve();

  constructor(startMs: number) {
    this.nowMs = startMs;
  }

  get hasTimer(): boolean {
    return !this.#timers.isEmpty;
  }

  readonly now = (): number => this.nowMs;

  readonly after = (afterMs: number, act: () => void): (() => void) =>
    this.#timers.add(this.nowMs + Math.max(0, afterMs), act);

  readonly hold = <Value>(work: Promise<Value>): Promise<Value> => {
    const release = (): void => void this.#held.delete(work);
    this.#held.add(work);
    work.then(release, release);
    return work;
  };

  readonly advance = async (duration: string | number): Promise<void> => {
    const ms = millisecondsOf(duration);
    // If time is already passing, this call waits for the earlier ones.
    this.#advancing = this.#advancing.then(() => this.#advanceTo(this.nowMs + ms));
    return this.#advancing;
  };

  async #advanceTo(untilMs: number): Promise<void> {
    await this.settle();
    for (
      let timer = this.#timers.next();
      timer !== undefined && timer.dueAtMs <= untilMs;
      timer = this.#timers.next()
    ) {
      this.nowMs = Math.max(this.nowMs, timer.dueAtMs);
      this.#timers.fire(timer);
      // oxlint-disable-next-line no-await-in-loop
      await this.settle();
    }
    this.nowMs = untilMs;
    await this.settle();
  }

  /** Resolves when all work is done or waits for a timer. */
  async settle(): Promise<void> {
    let idle = 0;
    while (idle < idleTurns) {
      // oxlint-disable no-await-in-loop
      await nextTurn();
      idle = this.#held.size === 0 ? idle + 1 : 0;
      await Promise.allSettled(this.#held);
      // oxlint-enable no-await-in-loop
    }
  }
}

/** @throws ConfigProblems */
function millisecondsOf(duration: string | number): number {
  const ms = typeof duration === "string" ? parseDuration(duration) : duration;
  if (Number.isSafeInteger(ms) && Number(ms) >= 0) return Number(ms);
  const accepted = `${acceptedDuration}, or an integer of milliseconds from 0`;
  throw new ConfigProblems([{ variable: "advance", field: "", value: duration, accepted }]);
}

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

  /** The timer that is due first. Among timers that are due at the same time, the one that was set first. */
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
