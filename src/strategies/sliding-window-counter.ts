/**
 * Sliding window counter: the counts of the current and the previous bucket of W, the previous one weighed by the part
 * of it that the last W still covers.
 *
 * Promise: constant size, and on even traffic within a few percent of the log. Bound: 2L in any span of W, reached when
 * a full bucket follows a full one at once. Known weakness: it takes the previous bucket's units to be evenly spread.
 */
import { alignOption, type AlignedLimit, opensAt } from "./align.ts";
import { multiplyDivideCeil, multiplyDivideFloor, productProblem } from "./integers.ts";
import {
  noOpenings,
  opened,
  type Openings,
  reopensAt,
  revivedOpenings,
  withdrawn,
} from "./openings.ts";
import { packed, packedDates, unpacked } from "./packing.ts";
import { type Limit, strategyOfParts } from "./strategy.ts";

/** Two counts, for `[openedAtMs − W, openedAtMs)` and `[openedAtMs, openedAtMs + W)`; both 0 when nothing is spent. */
interface Buckets {
  readonly openedAtMs: number;
  readonly previous: number;
  readonly current: number;
  /** Of buckets that a request opened, until none of the first one's units counts any more. */
  readonly openings: Openings;
}

const none: Buckets = { openedAtMs: 0, previous: 0, current: 0, openings: noOpenings };

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
    openings: buckets.openings[0]?.atMs === buckets.openedAtMs ? buckets.openings : noOpenings,
  };
}

/** The buckets as they would stand had they opened later: what may belong to either counts as the later one's. */
function reopened(limit: Limit, buckets: Buckets, opensAtMs: number, nowMs: number): Buckets {
  const { previous, current, openings } = buckets;
  return nowMs < opensAtMs + limit.windowMs
    ? { openedAtMs: opensAtMs, previous: 0, current: previous + current, openings }
    : { openedAtMs: opensAtMs + limit.windowMs, previous, current, openings };
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
  problem: productProblem,
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
      const openings = limit.align === "clock" ? noOpenings : [{ atMs, units }];
      const first = {
        openedAtMs: opensAt(limit.align, limit.windowMs, atMs),
        previous: 0,
        current: units,
        openings,
      };
      return rolled(limit, first, nowMs);
    }
    const { openedAtMs, previous, current } = before;
    const openings = opened(before.openings, atMs, units);
    if (atMs >= openedAtMs) return { openedAtMs, previous, current: current + units, openings };
    if (atMs < openedAtMs - limit.windowMs) return buckets;
    return { openedAtMs, previous: previous + units, current, openings };
  },

  refund(limit, buckets, units, spentAtMs, nowMs) {
    const before = rolled(limit, buckets, nowMs);
    const { openedAtMs, previous, current } = before;
    const isCurrent = spentAtMs >= openedAtMs && current > 0;
    const isPrevious = spentAtMs < openedAtMs && spentAtMs >= openedAtMs - limit.windowMs;
    if (!isCurrent && !(isPrevious && previous > 0)) return buckets;
    const openings = withdrawn(before.openings, spentAtMs, units);
    const after: Buckets = {
      openedAtMs,
      previous: isCurrent ? previous : Math.max(0, previous - units),
      current: isCurrent ? Math.max(0, current - units) : current,
      openings,
    };
    if (limit.align === "clock") return after;
    // With the bucket before it empty, the current one would have been opened by the first to be spent in it.
    if (isPrevious && after.previous === 0 && current > 0) {
      const left = openings.filter(({ atMs }) => atMs >= openedAtMs);
      return { openedAtMs: left[0]?.atMs ?? nowMs, previous: 0, current, openings: left };
    }
    const firstAtMs = before.openings[0]?.atMs ?? openedAtMs;
    const opensAtMs = reopensAt(before.openings, openings, firstAtMs);
    return opensAtMs === firstAtMs ? after : reopened(limit, after, opensAtMs, nowMs);
  },

  idleAtMs(limit, buckets) {
    if (isEmpty(buckets)) return 0;
    return buckets.openedAtMs + (buckets.current === 0 ? 1 : 2) * limit.windowMs;
  },

  store: (_limit, { openedAtMs, previous, current, openings }, nowMs) =>
    packed([nowMs - openedAtMs, previous, current]) + packedDates(openings, nowMs),

  revive(_limit, stored, nowMs) {
    const [ageMs, previous, current, ...integers] = unpacked(stored) ?? [];
    if (ageMs === undefined || previous === undefined || current === undefined) return null;
    const openings = revivedOpenings(integers, nowMs);
    if (openings === null || ageMs > nowMs) return null;
    return { openedAtMs: nowMs - ageMs, previous, current, openings };
  },
});
