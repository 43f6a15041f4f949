/** Every strategy by its name. A strategy that is listed here is accepted, decided and tested everywhere. */
import { fixedWindow } from "./fixed-window.ts";
import { slidingLog } from "./sliding-log.ts";
import { slidingWindowCounter } from "./sliding-window-counter.ts";
import type { Limit, Strategy } from "./strategy.ts";

export const strategies: ReadonlyMap<string, Strategy> = new Map<string, Strategy>(
  [fixedWindow as Strategy, slidingLog as Strategy, slidingWindowCounter as Strategy].map(
    (strategy) => [strategy.name, strategy],
  ),
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

/** What a stored state belongs to: strategy, window and options, never the number, the burst or the name of a limit. */
export function identityOf(limit: Limit): string {
  return `${limit.strategy} ${limit.windowMs} ${strategyOf(limit).identity(limit)}`.trimEnd();
}
