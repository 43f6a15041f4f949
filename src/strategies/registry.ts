/** Every strategy by its name. A strategy that is listed here is accepted, decided and tested everywhere. */
import { concurrency } from "./concurrency.ts";
import { fixedWindow } from "./fixed-window.ts";
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
export function strategyOf(limit: Limit): Strategy {
  const strategy = strategies.get(limit.strategy);
  // `parseLimits` lets no other name through: this can only be a limit sent by a newer version of the Worker.
  if (strategy === undefined) throw new RangeError(`unknown strategy "${limit.strategy}"`);
  return strategy;
}

/** By the limit as written: meters of many keys share what follows from it. */
const complete = new WeakMap<Limit, Limit>();

/** The limit with all that its strategy derives from its fields. */
export function completeLimit(limit: Limit): Limit {
  const known = complete.get(limit);
  if (known !== undefined) return known;
  const completed = strategyOf(limit).complete(limit);
  complete.set(limit, completed);
  return completed;
}

/** What a stored state belongs to: strategy, window and options, never the number, the burst or the name of a limit. */
export function identityOf(limit: Limit): string {
  const options = strategyOf(limit).identity(completeLimit(limit));
  return `${limit.strategy} ${limit.windowMs} ${options}`.trimEnd();
}
