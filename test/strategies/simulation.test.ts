/**
 * Compares every strategy with a reference that applies the strategy's rule literally to a list of all admitted
 * requests.
 */
import { expect, test } from "vitest";
import { createMeter, type Limit, strategies } from "../../src/strategies/index.ts";
import { isFull } from "../mode.ts";
import { type Random, randomFrom } from "../random.ts";
import { dayMs } from "./meters.ts";
import { capacityOf, delayMs, isElastic, longestWaitMs, type Request, type Rule, rules } from "./references.ts";
import { limitOf, type Variant, variants } from "./variants.ts";

interface Outcome {
  readonly allowed: boolean;
  readonly remaining: number;
  readonly delayMs: number;
  readonly retryAfterMs: number | null;
}

class Reference {
  readonly #limit: Limit;
  readonly #rule: Rule;
  #requests: readonly Request[] = [];
  #seenMs = 0;

  constructor(limit: Limit, rule: Rule) {
    this.#limit = limit;
    this.#rule = rule;
  }

  /** @param expectedWaitMs a wait to try before the slow search */
  consume(cost: number, nowMs: number, expectedWaitMs: number | null): Outcome {
    const before = { requests: this.#requests, seenMs: this.#seenMs };
    this.#correctClock(nowMs);
    const outcome = this.#decide(cost, nowMs, expectedWaitMs);
    // A cost of 0 is a look and changes nothing.
    if (cost === 0) {
      this.#requests = before.requests;
      this.#seenMs = before.seenMs;
    }
    return outcome;
  }

  #decide(cost: number, nowMs: number, expectedWaitMs: number | null): Outcome {
    const atMs = Math.max(nowMs, this.#seenMs);
    const allowed = this.#fits(cost, atMs);
    const delay = cost === 0 ? 0 : delayMs(this.#limit, this.#requests, atMs);
    const restarts = isElastic(this.#limit) && this.#used(atMs) > 0;
    if (cost > 0 && (allowed || restarts)) {
      this.#requests = [...this.#requests, { atMs, units: allowed ? cost : 0 }];
      this.#seenMs = atMs;
    }
    return {
      allowed,
      remaining: Math.max(0, capacityOf(this.#limit) - this.#used(atMs)),
      delayMs: allowed && delay > 0 ? delay + atMs - nowMs : 0,
      retryAfterMs: allowed ? 0 : this.#waitMs(cost, atMs, nowMs, expectedWaitMs),
    };
  }

  #used(atMs: number): number {
    return this.#rule(this.#limit, this.#requests, atMs);
  }

  #fits(cost: number, atMs: number): boolean {
    return cost === 0 || this.#used(atMs) + cost <= capacityOf(this.#limit);
  }

  /** Over time, used units only decrease, so a binary search finds the first time at which the cost fits. */
  #waitMs(cost: number, atMs: number, nowMs: number, expectedMs: number | null): number | null {
    if (cost > capacityOf(this.#limit)) return null;
    const expectedAtMs = nowMs + (expectedMs ?? 0);
    const isExact = expectedAtMs > atMs && this.#fits(cost, expectedAtMs) && !this.#fits(cost, expectedAtMs - 1);
    if (isExact) return expectedMs;
    let tooShortMs = 0;
    let enoughMs = longestWaitMs(this.#limit);
    while (enoughMs - tooShortMs > 1) {
      const middleMs = Math.floor((tooShortMs + enoughMs) / 2);
      if (this.#fits(cost, atMs + middleMs)) enoughMs = middleMs;
      else tooShortMs = middleMs;
    }
    return enoughMs + atMs - nowMs;
  }

  /**
   * If the latest time seen is more than one window ahead, the clock was wrong: the used units are spent again at
   * `nowMs`.
   */
  #correctClock(nowMs: number): void {
    if (this.#seenMs - nowMs <= this.#limit.windowMs) return;
    const units = this.#used(this.#seenMs);
    this.#requests = units === 0 ? [] : [{ atMs: nowMs, units }];
    this.#seenMs = nowMs;
  }
}

/** Random requests: in bursts, after idle times, at the edges of windows, and after the clock has stepped back. */
class Traffic {
  readonly #random: Random;
  readonly #limit: Limit;
  #edgesMs: number[] = [];
  nowMs: number;

  constructor(limit: Limit, random: Random) {
    this.#limit = limit;
    this.#random = random;
    const startMs = limit.period === undefined ? 1_000 * limit.windowMs : Date.UTC(2026, 0, 1);
    this.nowMs = startMs + this.#below(limit.windowMs);
  }

  #below(end: number): number {
    return Math.floor(this.#random() * end);
  }

  advance(): void {
    const { windowMs } = this.#limit;
    const kind = this.#below(100);
    if (kind < 40) return;
    if (kind < 60) this.nowMs += this.#below(Math.ceil(windowMs / 4) + 1);
    else if (kind < 65) this.nowMs += this.#below(4 * windowMs);
    else if (kind < 67) this.nowMs -= this.#below(windowMs) + 1;
    else if (kind < 68) this.nowMs -= windowMs + this.#below(windowMs) + 1;
    else this.#goToEdge();
  }

  /** Moves to an edge, or to one millisecond before or after it. */
  #goToEdge(): void {
    const edgesMs = this.#edgesMs.filter((edgeMs) => edgeMs > this.nowMs).slice(-20);
    const edgeMs = edgesMs[this.#below(edgesMs.length)] ?? this.nowMs;
    this.nowMs = Math.max(this.nowMs, edgeMs + this.#below(3) - 1);
  }

  cost(): number {
    const kind = this.#below(20);
    if (kind === 0) return 0;
    if (kind < 12) return 1;
    return this.#below(this.#limit.limit + 2);
  }

  /** Adds edges: the end of the wait, one window from now, and the end of the clock-aligned window. */
  addEdges({ retryAfterMs }: Outcome): void {
    const { windowMs } = this.#limit;
    if (retryAfterMs !== null) this.#edgesMs.push(this.nowMs + retryAfterMs);
    this.#edgesMs.push(this.nowMs + windowMs, this.nowMs - (this.nowMs % windowMs) + windowMs);
    this.#edgesMs = this.#edgesMs.slice(-60);
  }
}

function limitFor(variant: Variant, seed: number): Limit {
  const random = randomFrom(seed);
  if (random() < 0.05) return greatestLimitOf(variant);
  const units = [1, 2, 3, 5, 10, 100][Math.floor(random() * 6)] ?? 1;
  const windowMs = [1, 2, 3, 7, 10, 30, 1_000, 60_000, dayMs][Math.floor(random() * 9)] ?? 1;
  return limitOf(variant, units, windowMs);
}

/** The greatest limit that the strategy accepts, so that its products come close to 2^53. */
function greatestLimitOf(variant: Variant): Limit {
  const numbers = [10_000_000 * dayMs, 49_999_991, 100_000];
  const skipped = { "token-bucket": 1, "leaky-bucket": 1 }[variant.strategy] ?? 0;
  for (const units of numbers.slice(skipped)) {
    try {
      return limitOf(variant, units, dayMs);
    } catch {
      // A limit greater than this strategy accepts.
    }
  }
  throw new Error("expected a number that the strategy accepts");
}

const stepsPerLimit = 100;
const limitCount = isFull ? 500 : 50;
const stepCount = stepsPerLimit * limitCount;

/** @returns the number of requests that were allowed */
function simulate(variant: Variant, rule: Rule, seed: number): number {
  const limit = limitFor(variant, seed);
  const meter = createMeter([limit]);
  const reference = new Reference(limit, rule);
  const traffic = new Traffic(limit, randomFrom(seed + 1));
  let allowedCount = 0;
  for (let step = 0; step < stepsPerLimit; step++) {
    traffic.advance();
    const cost = traffic.cost();
    const decision = meter.consume(cost, traffic.nowMs);
    const expected = reference.consume(cost, traffic.nowMs, decision.retryAfterMs);
    const actual: Outcome = {
      allowed: decision.allowed,
      remaining: decision.limits[0]?.remaining ?? Number.NaN,
      delayMs: decision.delayMs,
      retryAfterMs: decision.retryAfterMs,
    };
    if (JSON.stringify(actual) !== JSON.stringify(expected)) {
      throw new Error(
        `seed ${seed}, step ${step}, ${JSON.stringify(limit)}, cost ${cost} at ${traffic.nowMs}: ` +
          `expected ${JSON.stringify(expected)}, got ${JSON.stringify(actual)}`,
      );
    }
    traffic.addEdges(expected);
    if (expected.allowed) allowedCount++;
  }
  return allowedCount;
}

test("every strategy has a reference rule", () => {
  expect(Object.keys(rules)).toEqual(expect.arrayContaining([...strategies.keys()]));
});

test.each(variants)(`$title makes the same decisions as its reference rule in ${stepCount} random steps`, (variant) => {
  const rule = rules[variant.strategy];
  if (rule === undefined) throw new Error(`expected a rule for ${variant.strategy}`);
  let allowedCount = 0;
  for (let index = 0; index < limitCount; index++) {
    allowedCount += simulate(variant, rule, 2 * index);
  }
  // Both outcomes must be frequent. An elastic window allows fewer requests, since repeated requests keep it closed.
  expect(allowedCount / stepCount).toBeGreaterThan(variant.isElastic ? 0.1 : 0.3);
  expect(allowedCount / stepCount).toBeLessThan(0.75);
});
