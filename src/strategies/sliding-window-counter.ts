/**
 * Sliding window counter: the counts of the current and the previous bucket of W, the previous one weighed by the part
 * of it that the last W still covers.
 *
 * Promise: constant size, and on even traffic within a few percent of the log. Bound: 2L in any span of W, reached when
 * a full bucket follows a full one at once. Known weakness: it takes the previous bucket's units to be evenly spread.
 */
import { alignOption, type AlignedLimit, opensAt } from "./align.ts";
import { isCount, multiplyDivideCeil, multiplyDivideFloor, productProblem } from "./integers.ts";
import {
  isReserved,
  openingReservations,
  noOpenings,
  openedBy,
  type Openings,
  reopensAt,
  reservedAt,
  revivedOpenings,
  settledAt,
  spentAt,
  storedOpen,
  storedOpenings,
  withdrawn,
} from "./first-spends.ts";
import { sizeOfOpen } from "./open-reservations.ts";
import { packed, unpacked } from "./log/varint.ts";
import { constantSizeBytes, type Limit, type Settled, strategyOfParts } from "./strategy.ts";

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
  const { final } = buckets.openings;
  return {
    openedAtMs: buckets.openedAtMs + limit.windowMs,
    previous: buckets.current,
    current: 0,
    // What is settled from now on moves no bucket.
    openings: final[0]?.atMs === buckets.openedAtMs ? { final, open: null } : noOpenings,
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

function spend(
  limit: AlignedLimit,
  buckets: Buckets,
  units: number,
  atMs: number,
  nowMs: number,
): Buckets {
  const before = rolled(limit, buckets, nowMs);
  if (isEmpty(before)) {
    const openings = limit.align === "clock" ? noOpenings : openedBy(atMs, units);
    const openedAtMs = opensAt(limit.align, limit.windowMs, atMs);
    return rolled(limit, { openedAtMs, previous: 0, current: units, openings }, nowMs);
  }
  const { openedAtMs, previous, current } = before;
  if (atMs < openedAtMs - limit.windowMs) return buckets;
  const openings =
    limit.align === "clock"
      ? noOpenings
      : spentAt(before.openings, previous + current, atMs, units);
  return atMs >= openedAtMs
    ? { openedAtMs, previous, current: current + units, openings }
    : { openedAtMs, previous: previous + units, current, openings };
}

function refund(
  limit: AlignedLimit,
  buckets: Buckets,
  units: number,
  spentAtMs: number,
  nowMs: number,
): Buckets {
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
    const final = openings.final.filter(({ atMs }) => atMs >= openedAtMs);
    const left = { final, open: openings.open };
    return { openedAtMs: final[0]?.atMs ?? nowMs, previous: 0, current, openings: left };
  }
  const firstAtMs = before.openings.final[0]?.atMs ?? openedAtMs;
  const count = after.previous + after.current;
  const opensAtMs = reopensAt(before.openings, openings, firstAtMs, count);
  return opensAtMs === firstAtMs ? after : reopened(limit, after, opensAtMs, nowMs);
}

function reserve(
  limit: AlignedLimit,
  buckets: Buckets,
  units: number,
  expiresAtMs: number,
  nowMs: number,
): Buckets {
  const before = rolled(limit, buckets, nowMs);
  // Behind a bucket that counts, the current one stays where it is.
  if (limit.align === "clock" || before.previous > 0) {
    return spend(limit, buckets, units, nowMs, nowMs);
  }
  const { openedAtMs, current, openings } = isEmpty(before)
    ? { ...none, openedAtMs: nowMs }
    : before;
  return {
    openedAtMs,
    previous: 0,
    current: current + units,
    openings: reservedAt(openings, current, nowMs, units, expiresAtMs),
  };
}

function settle(
  limit: AlignedLimit,
  buckets: Buckets,
  { cost, actualCost, spentAtMs }: Settled,
  nowMs: number,
): Buckets {
  const units = cost - actualCost;
  const before = rolled(limit, buckets, nowMs);
  const { openedAtMs, previous, current } = before;
  if (spentAtMs < openedAtMs && previous > 0 && units > 0) {
    // Too late to move a bucket.
    if (spentAtMs < openedAtMs - limit.windowMs) return buckets;
    if (previous <= units && current === 0) return none;
    const openings = withdrawn(before.openings, spentAtMs, units);
    return { openedAtMs, previous: Math.max(0, previous - units), current, openings };
  }
  if (!isReserved(before.openings, spentAtMs)) {
    return units === 0 ? buckets : refund(limit, buckets, units, spentAtMs, nowMs);
  }
  if (units >= current) return none;
  const openings = settledAt(before.openings, spentAtMs, cost, actualCost);
  const count = current - units;
  const opensAtMs = reopensAt(before.openings, openings, openedAtMs, count);
  return { openedAtMs: opensAtMs, previous, current: count, openings };
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

  spend,

  refund,

  reservations: {
    ...openingReservations,
    reserve,
    settle,
    store: (limit, buckets, nowMs) => storedOpen(rolled(limit, buckets, nowMs).openings, nowMs),
  },

  idleAtMs(limit, buckets) {
    if (isEmpty(buckets)) return 0;
    return buckets.openedAtMs + (buckets.current === 0 ? 1 : 2) * limit.windowMs;
  },

  store: (_limit, { openedAtMs, previous, current, openings }, nowMs) =>
    packed([nowMs - openedAtMs, previous, current]) + storedOpenings(openings, nowMs),

  sizeBytes: ({ openings }) => constantSizeBytes + sizeOfOpen(openings.open),

  revive(_limit, stored, nowMs, storedReservations = "") {
    const [ageMs, previous, current, ...integers] = unpacked(stored) ?? [];
    if (ageMs === undefined || previous === undefined || current === undefined) return null;
    const openings = revivedOpenings(integers, storedReservations, previous + current, nowMs);
    if (openings === null || ageMs > nowMs || !isCount(previous + current)) return null;
    return { openedAtMs: nowMs - ageMs, previous, current, openings };
  },
});
