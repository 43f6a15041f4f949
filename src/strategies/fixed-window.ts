/**
 * Fixed window: one counter per window of W, at most L units in each.
 *
 * Promise: never more than L units in one window. Bound: 2L in any span of W, since a full window may end where the
 * next one, full at once, begins. That burst across the boundary is its known weakness.
 */
import { alignOption, type AlignedLimit, opensAt } from "./align.ts";
import { isCount } from "./integers.ts";
import type { Limit, Strategy } from "./strategy.ts";

/** A window that is open, or was the last to be; a count of 0 stands for none. */
interface Window {
  readonly openedAtMs: number;
  readonly count: number;
}

const none: Window = { openedAtMs: 0, count: 0 };

const isOver = (limit: Limit, window: Window, nowMs: number): boolean =>
  window.count === 0 || nowMs >= window.openedAtMs + limit.windowMs;

const used = (limit: Limit, window: Window, nowMs: number): number =>
  isOver(limit, window, nowMs) ? 0 : window.count;

export const fixedWindow: Strategy<AlignedLimit, Window> = {
  name: "fixed-window",
  options: alignOption,
  problem: () => null,
  identity: (limit) => limit.align,
  capacity: (limit) => limit.limit,
  mostStoredBytes: () => 100,

  fresh: () => none,

  used,

  waitMs(limit, window, cost, nowMs) {
    const fits = used(limit, window, nowMs) + cost <= limit.limit;
    return fits ? 0 : window.openedAtMs + limit.windowMs - nowMs;
  },

  spend(limit, window, units, atMs, nowMs) {
    if (!isOver(limit, window, nowMs)) {
      // A late booking from before a window that the clock opened belongs to one that is over. Before a window that
      // a request opened it would have opened one itself: it counts in the open one, which never adds quota.
      if (limit.align === "clock" && atMs < window.openedAtMs) return window;
      if (atMs + limit.windowMs <= nowMs) return window;
      return { openedAtMs: window.openedAtMs, count: window.count + units };
    }
    const openedAtMs = opensAt(limit, atMs);
    return nowMs >= openedAtMs + limit.windowMs ? window : { openedAtMs, count: units };
  },

  refund(limit, window, units, spentAtMs, nowMs) {
    if (isOver(limit, window, nowMs) || spentAtMs < window.openedAtMs) return window;
    // With its last unit the window goes too: had nothing been spent, none would be open.
    return units >= window.count
      ? none
      : { openedAtMs: window.openedAtMs, count: window.count - units };
  },

  idleAtMs: (limit, window) => (window.count === 0 ? 0 : window.openedAtMs + limit.windowMs),

  store: (_limit, window) => [window.openedAtMs, window.count],

  revive(_limit, stored, nowMs) {
    if (!Array.isArray(stored) || stored.length !== 2) return null;
    const [openedAtMs, count]: unknown[] = stored;
    return isCount(openedAtMs) && isCount(count) && openedAtMs <= nowMs
      ? { openedAtMs, count }
      : null;
  },
};
