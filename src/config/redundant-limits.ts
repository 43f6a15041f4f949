/** Limits that can never deny a request, because another limit of the same list always denies first. */
import {
  changesByDenial,
  isQueue,
  type Limit,
  holdsSlots,
  strategies,
} from "../strategies/index.ts";

export interface Redundancy {
  readonly limit: Limit;
  /** The limit that admits too few units for the other one to deny any. */
  readonly by: Limit;
}

/**
 * Certain cases only: each strategy's documented bound says how many units a limit admits in any span of its window.
 * The bound holds for requests whose cost is known when they are decided, by the object.
 */
export function redundantLimits(limits: readonly Limit[]): Redundancy[] {
  return limits.flatMap((limit) => {
    const by = limits.find((other) => other !== limit && neverDenies(limit, other));
    return by === undefined ? [] : [{ limit, by }];
  });
}

/** A calendar's period may be shorter or longer than its window, never by half of it or more. */
const shortestWindowMs = ({ windowMs, period }: Limit): number =>
  period === undefined ? windowMs : windowMs / 2;
const longestWindowMs = ({ windowMs, period }: Limit): number =>
  period === undefined ? windowMs : 2 * windowMs;

function neverDenies(limit: Limit, other: Limit): boolean {
  // Slots are held for as long as requests last, a queue delays what it admits, and an elastic window has no end.
  if (holdsSlots(limit) || holdsSlots(other) || isQueue(limit) || changesByDenial(limit))
    return false;
  const windowMs = longestWindowMs(limit);
  const perWindow = mostPerWindow(other);
  const mostIn = (spanMs: number): number =>
    Math.ceil(spanMs / shortestWindowMs(other)) * perWindow;
  switch (limit.strategy) {
    case "fixed-window":
    case "sliding-log":
      return mostIn(windowMs) <= limit.limit;
    case "sliding-window-counter":
      // What the current window has and a share of the previous one; the sum is greatest when a window opens.
      return mostIn(windowMs) + perWindow <= limit.limit;
    case "sliding-buckets":
      // A bucket that ends with the span may have begun one bucket's width before it, which is a window at most.
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
