/** The registry of strategies, and limits with the values derived from their strategies. */
import { concurrency, slidingBuckets, slidingLog } from "./log-strategies.ts";
import { fixedWindow } from "./fixed-window.ts";
import { leakyBucket, tokenBucket } from "./bucket-strategies.ts";
import { formatDuration } from "./notation.ts";
import { slidingWindowCounter } from "./sliding-window-counter.ts";
import type { Limit, Strategy } from "./strategy.ts";

/** Every strategy by its name. Configuration accepts all of them, and the shared tests cover all of them. */
export const strategies: ReadonlyMap<string, Strategy> = new Map(
  [fixedWindow, slidingLog, slidingWindowCounter, slidingBuckets, tokenBucket, leakyBucket, concurrency].map(
    (strategy) => [strategy.name, strategy],
  ),
);

/** The names of all strategies. */
export const strategyNames: readonly string[] = [...strategies.keys()];

/** The strategy of a policy that names none. */
export const defaultStrategy: string = slidingWindowCounter.name;

/** Whether units of a limit are slots, which are given back when the work ends. */
export const holdsSlots = ({ strategy }: Limit): boolean => strategies.get(strategy)?.holdsSlots === true;

/**
 * Returns how long a meter keeps the data that it needs to give a provisional spend back, in milliseconds. A meter
 * frees the slots of a reservation at its ttl. A spend that is not given back holds its slots for the whole window, so
 * the ttl is no shorter.
 */
export const provisionalTtlMs = (limits: readonly Limit[], provisionalMs: number): number =>
  limits.reduce((ttlMs, limit) => (holdsSlots(limit) ? Math.max(ttlMs, limit.windowMs) : ttlMs), provisionalMs);

/** Whether a denial by a limit affects later decisions. */
export const changesByDenial = (limit: Limit): boolean => Reflect.get(limit, "elastic") === true;

/** A limit with its strategy and derived values, computed once for all meters that have it. */
export interface CompiledLimit {
  readonly name: string;
  /** Units per window. */
  readonly units: number;
  readonly windowMs: number;
  readonly capacity: number;
  /** The key of a stored state: strategy, window and options, but not the limit's units, burst or name. */
  readonly identity: string;
  /** How long a spend of the whole capacity can affect decisions. */
  readonly retentionMs: number;
  readonly strategy: Strategy;
  readonly limit: Limit;
}

const compiledLimits = new WeakMap<Limit, CompiledLimit>();

/** @throws RangeError if the strategy is unknown: a newer version of the Worker sent the limit */
export function compiledLimit(written: Limit): CompiledLimit {
  const known = compiledLimits.get(written);
  if (known !== undefined) return known;
  const strategy = strategies.get(written.strategy);
  if (strategy === undefined) throw new RangeError(`unknown strategy "${written.strategy}"`);
  const limit = strategy.complete(written);
  const { name, windowMs } = limit;
  const compiled: CompiledLimit = {
    name,
    units: limit.limit,
    windowMs,
    capacity: strategy.capacity(limit),
    identity: `${strategy.name} ${formatDuration(windowMs)} ${strategy.identity(limit)}`.trimEnd(),
    retentionMs: retentionMsOf(strategy, limit),
    strategy,
    limit,
  };
  compiledLimits.set(written, compiled);
  return compiled;
}

/** The length of a limit's window at an instant; for a calendar window, that of the current period. */
export function windowMsAt(written: Limit, nowMs: number): number {
  const { strategy, limit } = compiledLimit(written);
  return strategy.windowMs === null ? limit.windowMs : strategy.windowMs(limit, nowMs);
}

/** The most bytes that the stored state of a limit takes. */
export function mostStoredBytesOf(written: Limit): number {
  const { strategy, limit } = compiledLimit(written);
  return strategy.mostStoredBytes(limit);
}

/** Upper bound on how much a clock change lengthens a calendar period. */
const longestClockChangeMs = 2 * 3_600_000;

function retentionMsOf(strategy: Strategy, limit: Limit): number {
  if (limit.period !== undefined) return limit.windowMs + longestClockChangeMs;
  const spent = { atMs: 0, units: strategy.capacity(limit) };
  const full = strategy.spend(limit, strategy.fresh(), spent, 0);
  return strategy.idleAtMs(limit, full);
}

/** Bounds the memory of an isolate: callers may send any number of ad hoc limits. */
const mostLists = 256;
const listByText = new Map<string, readonly Limit[]>();
const internedByList = new WeakMap<readonly Limit[], readonly Limit[]>();

/**
 * Returns the same list for all equal lists, so that lists are compared by identity. Each call of an object brings a copy,
 * and a hundred thousand keys need not keep one each.
 */
export function internedLimits(limits: readonly Limit[]): readonly Limit[] {
  const known = internedByList.get(limits);
  if (known !== undefined) return known;
  const text = JSON.stringify(limits);
  const interned = listByText.get(text) ?? limits;
  listByText.delete(text);
  listByText.set(text, interned);
  internedByList.set(limits, interned);
  const [oldest] = listByText.keys();
  if (listByText.size > mostLists && oldest !== undefined) listByText.delete(oldest);
  return interned;
}
