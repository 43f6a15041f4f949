/** A clock for tests of the client. Waits take no time, and deadlines pass only when a test lets them. */
import type { Clock } from "../../../src/sdk/client/clock.ts";

/** The `timeoutMs` of clients with this clock, longer than any wait, so that timers of this length are deadlines. */
export const timeoutMs = 2 ** 31 - 1;

interface Timer {
  readonly dueMs: number;
  readonly act: () => void;
}

export class SkippingClock implements Clock {
  /** The waits that were begun, in milliseconds. */
  readonly waits: number[] = [];
  #now = Date.UTC(2100, 0, 1);
  readonly #waiting = new Set<Timer>();
  readonly #deadlines = new Set<Timer>();
  /** Whether waits end without a call of the test. */
  #isSkipping = true;

  readonly now = (): number => this.#now;

  readonly after = (ms: number, act: () => void): (() => void) => {
    const timer = { dueMs: this.#now + ms, act };
    const timers = ms === timeoutMs ? this.#deadlines : this.#waiting;
    timers.add(timer);
    if (timers === this.#waiting) {
      this.waits.push(ms);
      if (this.#isSkipping) setImmediate(() => this.#skip());
    }
    return () => void timers.delete(timer);
  };

  /** The number of timers that have neither fired nor been cancelled. */
  get pending(): number {
    return this.#waiting.size + this.#deadlines.size;
  }

  /** From now on, waits do not end. */
  stop(): void {
    this.#isSkipping = false;
  }

  advance(ms: number): void {
    this.#now += ms;
  }

  /** Lets all deadlines pass. */
  expire(): void {
    this.#now += timeoutMs;
    for (const { act } of this.#deadlines) act();
  }

  /** Moves the clock to the end of the wait that ends first. */
  #skip(): void {
    const [first] = [...this.#waiting].toSorted((a, b) => a.dueMs - b.dueMs);
    if (first === undefined) return;
    this.#waiting.delete(first);
    this.#now = Math.max(this.#now, first.dueMs);
    first.act();
  }
}
