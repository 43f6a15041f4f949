/** The field `maxDelay` bounds the wait in a leaky-bucket queue. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  createMeter,
  type Limit,
  type LimitDecision,
  type Meter,
  parseLimits,
  withMaxDelay,
} from "../../src/strategies/index.ts";
import { forAll } from "../for-all.ts";
import { startMs } from "./meters.ts";

const queueOf = (limit: number, windowMs: number, burst: number, maxDelayMs: number): Limit[] => [
  ...withMaxDelay(parseLimits({ limit, window: `${windowMs}ms`, strategy: "leaky-bucket", burst }), maxDelayMs),
];

/**
 * A queue whose slots are W/L ms apart (window W ms, limit L). It counts in units of 1/L ms, so that all numbers are
 * integers.
 */
class NaiveQueue {
  #freeAt = 0;
  readonly #limit: number;
  readonly #slot: number;
  readonly #most: number;

  constructor(limit: number, windowMs: number, burst: number, maxDelayMs: number) {
    this.#limit = limit;
    this.#slot = windowMs;
    this.#most = Math.min(burst * windowMs, maxDelayMs * limit);
  }

  /** The wait for the first slot, in 1/L ms. */
  wait(nowMs: number): number {
    return Math.max(0, this.#freeAt - nowMs * this.#limit);
  }

  /** Whether the last unit of a request waits no longer than burst and maxDelay allow. */
  admits(cost: number, nowMs: number): boolean {
    return this.wait(nowMs) + (cost - 1) * this.#slot <= this.#most;
  }

  /**
   * The wait until the cost fits.
   * @returns null if the cost never fits
   */
  retryAfterMs(cost: number, nowMs: number): number | null {
    const excess = this.wait(nowMs) + (cost - 1) * this.#slot - this.#most;
    if ((cost - 1) * this.#slot > this.#most) return null;
    return Math.ceil(Math.max(0, excess) / this.#limit);
  }

  admit(cost: number, nowMs: number): number {
    const wait = this.wait(nowMs);
    this.#freeAt = nowMs * this.#limit + wait + cost * this.#slot;
    return Math.ceil(wait / this.#limit);
  }
}

const only = ({ limits }: { limits: LimitDecision[] }): LimitDecision => {
  const [limit] = limits;
  if (limit === undefined) throw new Error("expected one limit");
  return limit;
};

function expectLikeNaive(meter: Meter, naive: NaiveQueue, cost: number, nowMs: number): void {
  const allowed = naive.admits(cost, nowMs);
  const retryAfterMs = naive.retryAfterMs(cost, nowMs);
  const delayMs = allowed ? naive.admit(cost, nowMs) : 0;
  expect(meter.consume(cost, nowMs)).toMatchObject({ allowed, retryAfterMs, delayMs });
}

describe("a queue with maxDelay", () => {
  it("a queue of 2 per second with maxDelay 1.5 s has capacity 4", () => {
    const meter = createMeter(queueOf(2, 1_000, 10, 1_500));
    const delays = [0, 500, 1_000, 1_500].map(() => meter.consume(1, startMs).delayMs);
    expect(delays).toEqual([0, 500, 1_000, 1_500]);
    const denied = meter.consume(1, startMs);
    expect(denied).toMatchObject({ allowed: false, delayMs: 0, retryAfterMs: 500 });
    expect(only(denied)).toMatchObject({ capacity: 4, remaining: 0 });
  });

  it("a queue admits a request from the first millisecond on at which its wait is at most maxDelay", () => {
    const meter = createMeter(queueOf(1, 1_000, 10, 1_500));
    meter.consume(1, startMs);
    meter.consume(1, startMs);
    expect(meter.look(1, startMs + 499)).toMatchObject({ allowed: false, retryAfterMs: 1 });
    expect(meter.consume(1, startMs + 500)).toMatchObject({ allowed: true, delayMs: 1_500 });
  });

  it("a queue whose maxDelay is shorter than the time between slots delays requests by at most maxDelay", () => {
    const meter = createMeter(queueOf(1, 60_000, 10, 1));
    expect(meter.consume(1, startMs)).toMatchObject({ allowed: true, delayMs: 0 });
    expect(meter.look(1, startMs)).toMatchObject({ allowed: false, retryAfterMs: 59_999 });
    expect(meter.consume(1, startMs + 59_999)).toMatchObject({ allowed: true, delayMs: 1 });
  });

  it("the burst bounds the queue if it allows a shorter wait than maxDelay does", () => {
    const meter = createMeter(queueOf(1, 1_000, 2, 3_600_000));
    const allowed = [1, 2, 3, 4].map(() => meter.consume(1, startMs).allowed);
    expect(allowed).toEqual([true, true, true, false]);
  });

  it("spent units stay spent when maxDelay changes", () => {
    const before = createMeter(queueOf(1, 1_000, 10, 5_000));
    for (let request = 0; request < 4; request++) before.consume(1, startMs);
    const after = createMeter(queueOf(1, 1_000, 10, 4_000), before.snapshot());
    expect(after.consume(1, startMs)).toMatchObject({ allowed: true, delayMs: 4_000 });
    expect(after.consume(1, startMs).allowed).toBe(false);
  });

  it(
    "a queue with maxDelay decides like slots counted one by one",
    forAll(
      [
        fc.integer({ min: 1, max: 7 }),
        fc.integer({ min: 1, max: 3_000 }),
        fc.integer({ min: 1, max: 6 }),
        fc.integer({ min: 1, max: 5_000 }),
        fc.array(fc.tuple(fc.integer({ min: 0, max: 1_500 }), fc.integer({ min: 1, max: 3 })), {
          maxLength: 40,
        }),
      ],
      (limit, windowMs, burst, maxDelayMs, requests) => {
        const limits = queueOf(limit, windowMs, burst, maxDelayMs);
        const naive = new NaiveQueue(limit, windowMs, burst, maxDelayMs);
        let meter = createMeter(limits);
        let nowMs = startMs;
        for (const [gapMs, cost] of requests) {
          nowMs += gapMs;
          meter = createMeter(limits, meter.snapshot());
          const { remaining, capacity } = only(meter.look(1, nowMs));
          expect(remaining === 0 || naive.admits(remaining, nowMs)).toBe(true);
          expect(remaining < capacity && naive.admits(remaining + 1, nowMs)).toBe(false);
          expectLikeNaive(meter, naive, cost, nowMs);
        }
      },
    ),
  );
});
