/**
 * The contestants of `npm run bench -- strategies`: functions that decide one request, by Headgate and by other
 * libraries.
 */
import { RateLimiter } from "limiter";
import { RateLimiterMemory } from "rate-limiter-flexible";
import { createMeter, type Meter } from "../../src/strategies/index.ts";
import { type Form, limitsOf } from "./forms.ts";

/** The limit of each key and the rate of its requests. */
export interface BenchLoad {
  readonly keys: number;
  /** The limit of each key. */
  readonly limit: number;
  readonly windowMs: number;
  /** The time between two requests of one key. */
  readonly everyMs: number;
}

/** Decides the next request. Returns whether it is allowed. */
export type Decide = () => boolean | Promise<boolean>;

export interface DecisionContestant {
  readonly title: string;
  readonly start: (load: BenchLoad) => Decide;
}

/**
 * One virtual clock for all contestants, so that each decides equally many requests per window, however fast it is. The
 * clock also reads the real clock, so that it costs as much as the clocks that it replaces.
 */
const clock = { nowMs: 1_800_000_000_000, read: 0 };

export function installClock(): void {
  const dateNow = Date.now.bind(Date);
  const performanceNow = performance.now.bind(performance);
  Date.now = () => {
    clock.read = dateNow();
    return clock.nowMs;
  };
  performance.now = () => {
    clock.read = performanceNow();
    return clock.nowMs;
  };
}

export const headgate = (form: Form): DecisionContestant => ({
  title: form.title,
  start: (load) => {
    const limits = limitsOf(form, load.limit, load.windowMs);
    if (load.keys === 1) return decideOne(createMeter(limits), load);
    const meters = new Map<string, Meter>(keysOf(load).map((key) => [key, createMeter(limits)]));
    const next = roundRobin(load);
    return () => meters.get(next())?.consume(1, Date.now()).allowed ?? false;
  },
});

function decideOne(meter: Meter, load: BenchLoad): Decide {
  return () => {
    clock.nowMs += load.everyMs;
    return meter.consume(1, Date.now()).allowed;
  };
}

/**
 * `limiter` has two rows: the decision alone, and the decision with the remaining units and the wait, which other
 * libraries return.
 */
export const peers: readonly DecisionContestant[] = [
  { title: "rate-limiter-flexible", start: startFlexible },
  { title: "limiter", start: (load) => startLimiter(load, (key) => key.tryRemoveTokens(1)) },
  { title: "limiter with remaining and wait", start: (load) => startLimiter(load, decideAndTell) },
];

function decideAndTell(limiter: RateLimiter): boolean {
  const allowed = limiter.tryRemoveTokens(1);
  const state = { remaining: limiter.getTokensRemaining(), waitMs: limiter.getWaitTime(1) };
  return allowed && state.remaining >= 0 && state.waitMs >= 0;
}

const yes = (): boolean => true;
const no = (): boolean => false;

/** Fixed windows in the library's own map of keys. The library rejects the promise of a denied request. */
function startFlexible(load: BenchLoad): Decide {
  const { limit, windowMs } = load;
  const limiter = new RateLimiterMemory({ points: limit, duration: windowMs / 1_000 });
  const next = load.keys === 1 ? advance(load) : roundRobin(load);
  return () => limiter.consume(next()).then(yes, no);
}

/** A token bucket inside of a fixed window. The caller keeps one instance for each key. */
function startLimiter(load: BenchLoad, decide: (limiter: RateLimiter) => boolean): Decide {
  const options = { tokensPerInterval: load.limit, interval: load.windowMs };
  if (load.keys === 1) {
    const limiter = new RateLimiter(options);
    return () => {
      clock.nowMs += load.everyMs;
      return decide(limiter);
    };
  }
  const limiters = new Map(keysOf(load).map((key) => [key, new RateLimiter(options)]));
  const next = roundRobin(load);
  return () => {
    const limiter = limiters.get(next());
    return limiter !== undefined && decide(limiter);
  };
}

const keysOf = ({ keys }: BenchLoad): string[] => Array.from({ length: keys }, (_, index) => `203.0.113.7:${index}`);

function advance({ everyMs }: BenchLoad): () => string {
  return () => {
    clock.nowMs += everyMs;
    return "203.0.113.7";
  };
}

/**
 * The windows of the keys start at different times. Otherwise all keys would be allowed at the same time, and then all
 * be denied.
 */
function roundRobin(load: BenchLoad): () => string {
  const keys = keysOf(load);
  const perWindow = load.windowMs / load.everyMs;
  let roundAtMs = clock.nowMs;
  let index = -1;
  return () => {
    if (++index === keys.length) {
      index = 0;
      roundAtMs += load.everyMs;
    }
    clock.nowMs = roundAtMs + (index % perWindow) * load.everyMs;
    return keys[index] ?? "";
  };
}
