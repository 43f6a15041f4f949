/** What the bench compares: a function that decides one request, by Headgate and by its peers, on one key or many. */
import { RateLimiter } from "limiter";
import { RateLimiterMemory } from "rate-limiter-flexible";
import { createMeter, type Meter } from "../../src/strategies/index.ts";
import { type Form, limitsOf } from "./forms.ts";

/** How requests arrive. */
export interface Load {
  readonly keys: number;
  /** Of each key. */
  readonly limit: number;
  readonly windowMs: number;
  /** Between two requests of one key. */
  readonly everyMs: number;
}

/** Decides the next request and answers whether it is allowed. */
export type Decide = () => boolean | Promise<boolean>;

export interface Contestant {
  readonly title: string;
  readonly start: (load: Load) => Decide;
}

/**
 * A clock for all contestants, so that each is asked as often within its window, however fast it is. It costs what the
 * clocks that it stands for cost: they are read each time.
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

export const headgate = (form: Form): Contestant => ({
  title: form.title,
  start: (load) => {
    const limits = limitsOf(form, load.limit, load.windowMs);
    if (load.keys === 1) return decideOne(createMeter(limits), load);
    const meters = new Map<string, Meter>(keysOf(load).map((key) => [key, createMeter(limits)]));
    const next = roundRobin(load);
    return () => meters.get(next())?.consume(1, Date.now()).allowed ?? false;
  },
});

function decideOne(meter: Meter, load: Load): Decide {
  return () => {
    clock.nowMs += load.everyMs;
    return meter.consume(1, Date.now()).allowed;
  };
}

/** What `limiter` decides with is told of in two rows: alone, and with the answers that the others give. */
export const peers: readonly Contestant[] = [
  { title: "rate-limiter-flexible", start: startFlexible },
  { title: "limiter", start: (load) => startLimiter(load, (key) => key.tryRemoveTokens(1)) },
  { title: "limiter with remaining and wait", start: (load) => startLimiter(load, decideAndTell) },
];

function decideAndTell(limiter: RateLimiter): boolean {
  const allowed = limiter.tryRemoveTokens(1);
  const told = { remaining: limiter.getTokensRemaining(), waitMs: limiter.getWaitTime(1) };
  return allowed && told.remaining >= 0 && told.waitMs >= 0;
}

const yes = (): boolean => true;
const no = (): boolean => false;

/** Fixed windows. It keeps its own map of keys, and rejects the promise of what it denies. */
function startFlexible(load: Load): Decide {
  const { limit, windowMs } = load;
  const limiter = new RateLimiterMemory({ points: limit, duration: windowMs / 1_000 });
  const next = load.keys === 1 ? advance(load) : roundRobin(load);
  return () => limiter.consume(next()).then(yes, no);
}

/** A token bucket within a fixed window, of a key that its caller keeps. */
function startLimiter(load: Load, decide: (limiter: RateLimiter) => boolean): Decide {
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

const keysOf = ({ keys }: Load): string[] =>
  Array.from({ length: keys }, (_, index) => `203.0.113.7:${index}`);

function advance({ everyMs }: Load): () => string {
  return () => {
    clock.nowMs += everyMs;
    return "203.0.113.7";
  };
}

/** The keys' windows are spread over time: else all would allow at once, and all deny. */
function roundRobin(load: Load): () => string {
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
