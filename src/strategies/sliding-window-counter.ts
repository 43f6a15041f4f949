/**
 * Sliding window counter: the counts of the current and the previous bucket of W. The previous count is weighted by the
 * part of its bucket that the last W still covers.
 *
 * Promise: constant size; on even traffic, the result is within a few percent of the sliding log. Bound: 2L in any span of
 * W. Known weakness: it assumes that the units of the previous bucket are evenly spread.
 */
import {
  alignOption,
  type AlignedLimit,
  openingMs,
  addFinalSpend,
  addReservedSpend,
  decodeFirstSpends,
  encodeFinalSpends,
  encodeReservedSpends,
  type FirstSpends,
  firstSpendReservations,
  hasReservedSpend,
  noFirstSpends,
  removeFinalSpend,
  reopenedAtMs,
  settleReservedSpend,
  windowBytes,
} from "./window-opening.ts";
import { isCount, multiplyDivideCeil, multiplyDivideFloor, productProblem } from "./integers.ts";
import { decodeIntegers, encodeIntegers } from "./log/varint.ts";
import { type DatedUnits, type Limit, type ReservedUnits, type SettledUnits, strategyOfParts } from "./strategy.ts";

/** Counts for `[openedAtMs − W, openedAtMs)` and `[openedAtMs, openedAtMs + W)`; both 0 when nothing is spent. */
interface BucketPair {
  readonly openedAtMs: number;
  readonly previous: number;
  readonly current: number;
  /** Empty with `align = "clock"`, and once units of the first bucket no longer count. */
  readonly firstSpends: FirstSpends;
}

const none: BucketPair = { openedAtMs: 0, previous: 0, current: 0, firstSpends: noFirstSpends };

const isEmpty = (buckets: BucketPair): boolean => buckets.previous === 0 && buckets.current === 0;

/** The buckets at `nowMs`: after W, the current one becomes the previous one; after 2W, both are empty. */
function rollBuckets(limit: Limit, buckets: BucketPair, nowMs: number): BucketPair {
  const age = nowMs - buckets.openedAtMs;
  if (age < limit.windowMs || isEmpty(buckets)) return buckets;
  if (age >= 2 * limit.windowMs || buckets.current === 0) return none;
  const { final } = buckets.firstSpends;
  return {
    openedAtMs: buckets.openedAtMs + limit.windowMs,
    previous: buckets.current,
    current: 0,
    // Settlements can no longer move a bucket.
    firstSpends: final[0]?.atMs === buckets.openedAtMs ? { final, open: null } : noFirstSpends,
  };
}

/** The buckets after their opening moves to a later time. Units that may belong to either count in the later bucket. */
function reopenBuckets(limit: Limit, buckets: BucketPair, opensAtMs: number, nowMs: number): BucketPair {
  const { previous, current, firstSpends } = buckets;
  return nowMs < opensAtMs + limit.windowMs
    ? { openedAtMs: opensAtMs, previous: 0, current: previous + current, firstSpends }
    : { openedAtMs: opensAtMs + limit.windowMs, previous, current, firstSpends };
}

/** floor((current × W + previous × (W − elapsed)) / W), where only the second product needs a division. */
function used(limit: Limit, buckets: BucketPair, nowMs: number): number {
  const { openedAtMs, previous, current } = rollBuckets(limit, buckets, nowMs);
  if (previous === 0) return current;
  const leftMs = limit.windowMs - (nowMs - openedAtMs);
  return current + multiplyDivideFloor(previous, leftMs, limit.windowMs);
}

/**
 * The least time into a bucket, up to W, after which the weighted `previous` (greater than `room`) is at most `room`:
 * floor(previous × (W − elapsed) / W) <= room, which is previous × (W − elapsed) < (room + 1) × W.
 */
function elapsedUntil(limit: Limit, previous: number, room: number): number {
  return limit.windowMs - multiplyDivideCeil(room + 1, limit.windowMs, previous) + 1;
}

function spend(limit: AlignedLimit, buckets: BucketPair, spent: DatedUnits, nowMs: number): BucketPair {
  const { atMs, units } = spent;
  const before = rollBuckets(limit, buckets, nowMs);
  const isOnClock = limit.align === "clock";
  if (isEmpty(before)) {
    const firstSpends = isOnClock ? noFirstSpends : { final: [spent], open: null };
    const openedAtMs = openingMs(limit.align, limit.windowMs, atMs);
    return rollBuckets(limit, { openedAtMs, previous: 0, current: units, firstSpends }, nowMs);
  }
  const { openedAtMs, previous, current } = before;
  if (atMs < openedAtMs - limit.windowMs) return buckets;
  const firstSpends = isOnClock ? noFirstSpends : addFinalSpend(before.firstSpends, previous + current, spent);
  return atMs >= openedAtMs
    ? { openedAtMs, previous, current: current + units, firstSpends }
    : { openedAtMs, previous: previous + units, current, firstSpends };
}

function refund(limit: AlignedLimit, buckets: BucketPair, refunded: DatedUnits, nowMs: number): BucketPair {
  const { atMs: spentAtMs, units } = refunded;
  const before = rollBuckets(limit, buckets, nowMs);
  const { openedAtMs, previous, current } = before;
  const isCurrent = spentAtMs >= openedAtMs && current > 0;
  const isPrevious = spentAtMs < openedAtMs && spentAtMs >= openedAtMs - limit.windowMs;
  if (!isCurrent && !(isPrevious && previous > 0)) return buckets;
  const firstSpends = removeFinalSpend(before.firstSpends, refunded);
  const after: BucketPair = {
    openedAtMs,
    previous: isCurrent ? previous : Math.max(0, previous - units),
    current: isCurrent ? Math.max(0, current - units) : current,
    firstSpends,
  };
  if (limit.align === "clock") return after;
  // The previous bucket is now empty, so the current one opens at its own first spend.
  if (isPrevious && after.previous === 0 && current > 0) {
    const final = firstSpends.final.filter(({ atMs }) => atMs >= openedAtMs);
    const left = { final, open: firstSpends.open };
    return { openedAtMs: final[0]?.atMs ?? nowMs, previous: 0, current, firstSpends: left };
  }
  const firstAtMs = before.firstSpends.final[0]?.atMs ?? openedAtMs;
  const count = after.previous + after.current;
  const opensAtMs = reopenedAtMs(before.firstSpends, firstSpends, firstAtMs, count);
  return opensAtMs === firstAtMs ? after : reopenBuckets(limit, after, opensAtMs, nowMs);
}

function reserve(limit: AlignedLimit, buckets: BucketPair, reserved: ReservedUnits, nowMs: number): BucketPair {
  const { units } = reserved;
  const before = rollBuckets(limit, buckets, nowMs);
  // The current bucket cannot move while the previous one counts.
  if (limit.align === "clock" || before.previous > 0) {
    return spend(limit, buckets, { atMs: nowMs, units }, nowMs);
  }
  const isFirst = isEmpty(before);
  const { openedAtMs, current, firstSpends } = isFirst ? { ...none, openedAtMs: nowMs } : before;
  return {
    openedAtMs,
    previous: 0,
    current: current + units,
    firstSpends: addReservedSpend(firstSpends, current, reserved, nowMs),
  };
}

function settle(limit: AlignedLimit, buckets: BucketPair, settlement: SettledUnits, nowMs: number): BucketPair {
  const { cost, actualCost, spentAtMs } = settlement;
  const units = cost - actualCost;
  const refunded = { atMs: spentAtMs, units };
  const before = rollBuckets(limit, buckets, nowMs);
  const { openedAtMs, previous, current } = before;
  if (spentAtMs < openedAtMs && previous > 0 && units > 0) {
    // It is too late to move a bucket.
    if (spentAtMs < openedAtMs - limit.windowMs) return buckets;
    if (previous <= units && current === 0) return none;
    const firstSpends = removeFinalSpend(before.firstSpends, refunded);
    return { openedAtMs, previous: Math.max(0, previous - units), current, firstSpends };
  }
  if (!hasReservedSpend(before.firstSpends, spentAtMs)) {
    return units === 0 ? buckets : refund(limit, buckets, refunded, nowMs);
  }
  if (units >= current) return none;
  const firstSpends = settleReservedSpend(before.firstSpends, settlement);
  const count = current - units;
  const opensMs = reopenedAtMs(before.firstSpends, firstSpends, openedAtMs, count);
  return { openedAtMs: opensMs, previous, current: count, firstSpends };
}

export const slidingWindowCounter = strategyOfParts<AlignedLimit, BucketPair>({
  name: "sliding-window-counter",
  options: alignOption(["first-request", "clock"]),
  problem: productProblem,
  identity: (limit) => (limit.align === "clock" ? "clock" : ""),
  capacity: (limit) => limit.limit,
  mostPerWindow: (limit) => 2 * limit.limit,
  mostStoredBytes: () => 100,

  fresh: () => none,

  used,

  account(limit, buckets, nowMs) {
    const { windowMs } = limit;
    const now = rollBuckets(limit, buckets, nowMs);
    return {
      kind: "two-windows",
      currentUnits: now.current,
      previousUnits: now.previous,
      overlapMs: isEmpty(now) ? 0 : windowMs - (nowMs - now.openedAtMs),
      windowMs,
    };
  },

  waitMs(limit, buckets, cost, nowMs) {
    const room = limit.limit - cost;
    const now = rollBuckets(limit, buckets, nowMs);
    if (now.current <= room) {
      return now.openedAtMs + elapsedUntil(limit, now.previous, room - now.current) - nowMs;
    }
    const nextOpensAtMs = now.openedAtMs + limit.windowMs;
    return nextOpensAtMs + elapsedUntil(limit, now.current, room) - nowMs;
  },

  spend,

  refund,

  reservations: {
    ...firstSpendReservations,
    reserve,
    settle,
    store: (limit, buckets, nowMs) => encodeReservedSpends(rollBuckets(limit, buckets, nowMs).firstSpends, nowMs),
  },

  idleAtMs(limit, buckets) {
    if (isEmpty(buckets)) return 0;
    return buckets.openedAtMs + (buckets.current === 0 ? 1 : 2) * limit.windowMs;
  },

  store: (_limit, { openedAtMs, previous, current, firstSpends }, nowMs) =>
    encodeIntegers([nowMs - openedAtMs, previous, current]) + encodeFinalSpends(firstSpends, nowMs),

  sizeBytes: windowBytes,

  restore(_limit, stored, nowMs, storedReservations = "") {
    const [ageMs, previous, current, ...integers] = decodeIntegers(stored) ?? [];
    if (ageMs === undefined || previous === undefined || current === undefined) return null;
    const firstSpends = decodeFirstSpends(integers, storedReservations, previous + current, nowMs);
    if (firstSpends === null || ageMs > nowMs || !isCount(previous + current)) return null;
    return { openedAtMs: nowMs - ageMs, previous, current, firstSpends };
  },
});
