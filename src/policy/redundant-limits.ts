/** Limits that can never deny a request, because another limit of the same list always denies first. */
import { changesByDenial, isQueue, type Limit, holdsSlots, strategies } from "../strategies/index.ts";

export interface Redundancy {
  readonly limit: Limit;
  /** The limit that always denies first, so that the other one never denies. */
  readonly by: Limit;
}

/**
 * Reports only limits that are provably redundant, by each strategy's documented bound on the units in any span of
 * its window. The bound holds only if the object decides and the cost is known at the decision.
 */
export function redundantLimits(limits: readonly Limit[]): Redundancy[] {
  return limits.flatMap((limit) => {
    const by = limits.find((other) => other !== limit && neverDenies(limit, other));
    return by === undefined ? [] : [{ limit, by }];
  });
}

/** A calendar period differs from its nominal window by less than half. */
const shortestWindowMs = ({ windowMs, period }: Limit): number => (period === undefined ? windowMs : windowMs / 2);
const longestWindowMs = ({ windowMs, period }: Limit): number => (period === undefined ? windowMs : 2 * windowMs);

function neverDenies(limit: Limit, other: Limit): boolean {
  // The bounds do not hold for slots, which last as long as requests, for queues, which delay requests, or for
  // elastic windows.
  if (holdsSlots(limit) || holdsSlots(other) || isQueue(limit) || changesByDenial(limit)) return false;
  const windowMs = longestWindowMs(limit);
  const perWindow = mostPerWindow(other);
  const mostIn = (spanMs: number): number => Math.ceil(spanMs / shortestWindowMs(other)) * perWindow;
  switch (limit.strategy) {
    case "fixed-window":
    case "sliding-log":
      return mostIn(windowMs) <= limit.limit;
    case "sliding-window-counter":
      // The current window's units plus a share of the previous window's. The sum is greatest when a window opens.
      return mostIn(windowMs) + perWindow <= limit.limit;
    case "sliding-buckets":
      // The oldest bucket may begin up to one bucket's width, at most a window, before the span.
      return mostIn(2 * windowMs) <= limit.limit;
    case "token-bucket":
    case "leaky-bucket":
      return mostIn(windowMs) <= Math.min(capacityOf(limit), limit.limit);
    default:
      return false;
  }
}

function mostPerWindow(limit: Limit): number {
  const strategy = strategies.get(limit.strategy);
  return strategy?.mostPerWindow(strategy.complete(limit)) ?? Number.POSITIVE_INFINITY;
}

function capacityOf(limit: Limit): number {
  const strategy = strategies.get(limit.strategy);
  return strategy?.capacity(strategy.complete(limit)) ?? 0;
}
