/**
 * Sliding window counter: the counts of the current and the previous bucket of W, the previous one weighed by the part
 * of it that the last W still covers.
 *
 * Promise: constant size, and on even traffic within a few percent of the log. Bound: 2L in any span of W, reached when
 * a full bucket follows a full one at once. Known weakness: it takes the previous bucket's units to be evenly spread. A
 * refund leaves buckets where they opened, be it that of the request which opened them.
 */
import { alignOption, type AlignedLimit, opensAt } from "./align.ts";
import { multiplyDivideCeil, multiplyDivideFloor, productProblem } from "./integers.ts";
import { packed, unpacked } from "./packing.ts";
import { type Limit, strategyOfParts } from "./strategy.ts";

/** Two counts, for `[openedAtMs − W, openedAtMs)` and `[openedAtMs, openedAtMs + W)`; both 0 when nothing is spent. */
interface Buckets {
  readonly openedAtMs: number;
  readonly previous: number;
  readonly current: number;
}

const none: Buckets = { openedAtMs: 0, previous: 0, current: 0 };

const isEmpty = (buckets: Buckets): boolean => buckets.previous === 0 && buckets.current === 0;

/** The buckets as they stand at `nowMs`: after W the current one becomes the previous, after 2W both are empty. */
function rolled(limit: Limit, buckets: Buckets, nowMs: number): Buckets {
  const age = nowMs - buckets.openedAtMs;
  if (age < limit.windowMs || isEmpty(buckets)) return buckets;
  if (age >= 2 * limit.windowMs || buckets.current === 0) return none;
  return {
    openedAtMs: buckets.openedAtMs + limit.windowMs,
    previous: buckets.current,
    current: 0,
  };
}

/** floor((current × W + previous × (W − elapsed)) / W); the first product needs no division. */
function used(limit: Limit, buckets: Buckets, nowMs: number): number {
  const { openedAtMs, previous, current } = rolled(limit, buckets, nowMs);
  if (previous === 0) return current;
  const leftMs = limit.windowMs - (nowMs - openedAtMs);
  return current + multiplyDivideFloor(previous, leftMs, limit.windowMs);
}

/**
 * The least time into a bucket, up to W, after which `previous`, more than `room`, weighs at most `room` units:
 * floor(previous × (W − elapsed) / W) <= room, that is, previous × (W − elapsed) < (room + 1) × W.
 */
function elapsedUntil(limit: Limit, previous: number, room: number): number {
  return limit.windowMs - multiplyDivideCeil(room + 1, limit.windowMs, previous) + 1;
}

export const slidingWindowCounter = strategyOfParts<AlignedLimit, Buckets>({
  name: "sliding-window-counter",
  options: alignOption(["first-request", "clock"]),
  problem: (limit) => productProblem(limit),
  identity: (limit) => (limit.align === "clock" ? "clock" : ""),
  capacity: (limit) => limit.limit,
  mostPerWindow: (limit) => 2 * limit.limit,
  mostStoredBytes: () => 100,

  fresh: () => none,

  used,

  waitMs(limit, buckets, cost, nowMs) {
    const room = limit.limit - cost;
    const now = rolled(limit, buckets, nowMs);
    if (now.current <= room) {
      return now.openedAtMs + elapsedUntil(limit, now.previous, room - now.current) - nowMs;
    }
    const nextOpensAtMs = now.openedAtMs + limit.windowMs;
    return nextOpensAtMs + elapsedUntil(limit, now.current, room) - nowMs;
  },

  spend(limit, buckets, units, atMs, nowMs) {
    const before = rolled(limit, buckets, nowMs);
    if (isEmpty(before)) {
      return rolled(
        limit,
        { openedAtMs: opensAt(limit, atMs), previous: 0, current: units },
        nowMs,
      );
    }
    if (atMs >= before.openedAtMs) {
      return {
        openedAtMs: before.openedAtMs,
        previous: before.previous,
        current: before.current + units,
      };
    }
    if (atMs < before.openedAtMs - limit.windowMs) return buckets;
    return {
      openedAtMs: before.openedAtMs,
      previous: before.previous + units,
      current: before.current,
    };
  },

  refund(limit, buckets, units, spentAtMs, nowMs) {
    const { openedAtMs, previous, current } = rolled(limit, buckets, nowMs);
    if (spentAtMs >= openedAtMs && current > 0) {
      return { openedAtMs, previous, current: Math.max(0, current - units) };
    }
    const wasSpentBefore = spentAtMs < openedAtMs && spentAtMs >= openedAtMs - limit.windowMs;
    return wasSpentBefore && previous > 0
      ? { openedAtMs, previous: Math.max(0, previous - units), current }
      : buckets;
  },

  idleAtMs(limit, buckets) {
    if (isEmpty(buckets)) return 0;
    return buckets.openedAtMs + (buckets.current === 0 ? 1 : 2) * limit.windowMs;
  },

  store: (_limit, { openedAtMs, previous, current }, nowMs) =>
    packed([nowMs - openedAtMs, previous, current]),

  revive(_limit, stored, nowMs) {
    const [ageMs, previous, current] = unpacked(stored, 3) ?? [];
    if (ageMs === undefined || previous === undefined || current === undefined) return null;
    return ageMs > nowMs ? null : { openedAtMs: nowMs - ageMs, previous, current };
  },
});
