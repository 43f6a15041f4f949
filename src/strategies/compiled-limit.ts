/** Every strategy by its name. A strategy that is listed here is accepted, decided and tested everywhere. */
import { concurrency } from "./concurrency.ts";
import { fixedWindow } from "./fixed-window.ts";
import { formatDuration } from "./notation.ts";
import { leakyBucket } from "./leaky-bucket.ts";
import { slidingBuckets } from "./sliding-buckets.ts";
import { slidingLog } from "./sliding-log.ts";
import { slidingWindowCounter } from "./sliding-window-counter.ts";
import type { Limit, Strategy } from "./strategy.ts";
import { tokenBucket } from "./token-bucket.ts";

const listed = [
  fixedWindow,
  slidingLog,
  slidingWindowCounter,
  slidingBuckets,
  tokenBucket,
  leakyBucket,
  concurrency,
];

export const strategies: ReadonlyMap<string, Strategy> = new Map(
  listed.map((strategy) => [strategy.name, strategy]),
);

/** What a policy that names no strategy gets. */
export const defaultStrategy = slidingWindowCounter.name;

/** The strategy that decides a limit. */
function strategyOf(limit: Limit): Strategy {
  const strategy = strategies.get(limit.strategy);
  // `parseLimits` lets no other name through: this can only be a limit sent by a newer version of the Worker.
  if (strategy === undefined) throw new RangeError(`unknown strategy "${limit.strategy}"`);
  return strategy;
}

/** Whether units of a limit are given back when the work is done for which they were spent. */
export const holdsSlots = ({ strategy }: Limit): boolean =>
  strategies.get(strategy)?.holdsSlots === true;

/** Whether a denial by a limit counts for those that follow. */
export const changesByDenial = (limit: Limit): boolean => Reflect.get(limit, "elastic") === true;

/** A limit and what follows from it, for all meters that have it. */
export interface CompiledLimit {
  readonly name: string;
  /** Units per window. */
  readonly units: number;
  readonly windowMs: number;
  readonly capacity: number;
  /** What a stored state belongs to: strategy, window and options, never the number, the burst or the name of a limit. */
  readonly identity: string;
  /** For how long after all of the capacity is spent at once anything of it is remembered. */
  readonly retentionMs: number;
  readonly strategy: Strategy;
  /** The limit as its strategy wants it. */
  readonly limit: Limit;
}

const compiledLimits = new WeakMap<Limit, CompiledLimit>();

/** The compiled of a limit as written. */
export function compiledLimit(written: Limit): CompiledLimit {
  const known = compiledLimits.get(written);
  if (known !== undefined) return known;
  const strategy = strategyOf(written);
  const limit = strategy.complete(written);
  const { name, windowMs } = limit;
  const window = formatDuration(windowMs);
  const compiled: CompiledLimit = {
    name,
    units: limit.limit,
    windowMs,
    capacity: strategy.capacity(limit),
    identity: `${strategy.name} ${window} ${strategy.identity(limit)}`.trimEnd(),
    retentionMs: retentionMsOf(strategy, limit),
    strategy,
    limit,
  };
  compiledLimits.set(written, compiled);
  return compiled;
}

/** The length of a limit's window at an instant: of a calendar's that of the current one. */
export function windowMsAt(written: Limit, nowMs: number): number {
  const { strategy, limit } = compiledLimit(written);
  return strategy.windowMs === null ? limit.windowMs : strategy.windowMs(limit, nowMs);
}

/** The most bytes that the state of a limit takes in storage. */
export function mostStoredBytesOf(written: Limit): number {
  const { strategy, limit } = compiledLimit(written);
  return strategy.mostStoredBytes(limit);
}

/** By so much a period is longer at the most than its window says, when clocks are set back. */
const longestClockChangeMs = 2 * 3_600_000;

function retentionMsOf(strategy: Strategy, limit: Limit): number {
  // What is spent at the epoch may be spent late in its period, and it is remembered until that ends.
  if (limit.period !== undefined) return limit.windowMs + longestClockChangeMs;
  const full = strategy.spend(limit, strategy.fresh(), strategy.capacity(limit), 0, 0);
  return strategy.idleAtMs(limit, full);
}
