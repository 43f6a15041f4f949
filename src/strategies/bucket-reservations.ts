/**
 * The open reservations of a bucket. For each one, the bucket keeps the least credits owed since the reservation was
 * made. A settlement gives back at most these credits, because everything beyond them has drained.
 *
 * A refund lowers the least credits owed. For reservations made after the refunded spend, the refunded credits are
 * subtracted. For earlier ones, the new value is at most the least credits owed since the refunded spend, minus the
 * refunded credits.
 */
import { multiplyDivideFloor } from "./integers.ts";
import { decodeIntegers, encodeIntegers } from "./log/varint.ts";
import {
  addEntry,
  changeLeasts,
  decodeEntries,
  encodeEntries,
  entryAt,
  entryUntil,
  hasExpired,
  linkEntries,
  listEntries,
  type OpenReservations,
  reduceEntry,
  removeExpired,
  renewEntries,
} from "./open-reservations.ts";
import type { Renewal } from "./strategy.ts";

export interface BucketReservations {
  /** The newest entry. The amount of an entry is its number of reservations. */
  readonly newest: OpenReservations;
  /** The least credits owed at any spend since the newest entry. */
  readonly least: number;
  /**
   * Used with `refill = "interval"` while an open reservation may still move the refill periods: the instant of the
   * first final spend of the first period, or infinity if there is none. Null if the periods are fixed.
   */
  readonly firstFinalAtMs: number | null;
}

type MaybeReservations = BucketReservations | null;

const never = Number.POSITIVE_INFINITY;

const withNewest = (reserved: BucketReservations, newest: OpenReservations | null, least: number): MaybeReservations =>
  newest === null ? null : { newest, least, firstFinalAtMs: reserved.firstFinalAtMs };

/** Records a spend that found `owed` credits owed. */
export function recordSpend(reserved: BucketReservations, atMs: number, owed: number): BucketReservations {
  const { newest, least, firstFinalAtMs } = reserved;
  return owed >= least || atMs <= newest.atMs ? reserved : { newest, least: owed, firstFinalAtMs };
}

/**
 * Adds a reservation, after `recordSpend` recorded its spend.
 * @param opened its instants; `firstFinalAtMs` applies if no other reservation is open
 */
export function addReservation(
  before: MaybeReservations,
  opened: {
    readonly atMs: number;
    readonly expiresAtMs: number;
    readonly firstFinalAtMs: number | null;
  },
  nowMs: number,
): MaybeReservations {
  const reserved = dropExpired(before, nowMs);
  const { atMs, expiresAtMs } = opened;
  const entry = { atMs, amount: 1, expiresAtMs, leastBefore: reserved?.least ?? never };
  const newest = addEntry(reserved?.newest ?? null, entry);
  // The list is full. The reservation counts as a final spend, and its settlement is a best-effort refund.
  if (newest === null) return reserved === null ? null : recordFinalSpend(reserved, atMs);
  return {
    newest,
    // No spend has followed yet.
    least: never,
    firstFinalAtMs: reserved === null ? opened.firstFinalAtMs : reserved.firstFinalAtMs,
  };
}

/** Turns expired reservations into final spends, because they count as spent. */
function dropExpired(reserved: MaybeReservations, nowMs: number): MaybeReservations {
  if (reserved === null || !hasExpired(reserved.newest, nowMs)) return reserved;
  const { open, leastAfter, expired } = removeExpired(reserved.newest, nowMs);
  const final = recordFinalSpend(reserved, expired[0]?.atMs ?? never);
  return withNewest(final, open, Math.min(reserved.least, leastAfter));
}

/** Records a final spend in the first refill period. */
export function recordFinalSpend(reserved: BucketReservations, atMs: number): BucketReservations {
  const { newest, least, firstFinalAtMs } = reserved;
  if (firstFinalAtMs === null || firstFinalAtMs <= atMs) return reserved;
  return { newest, least, firstFinalAtMs: atMs };
}

/** Fixes the refill periods, so that no settlement moves them. */
export function fixPeriods(reserved: MaybeReservations): MaybeReservations {
  if (reserved === null || reserved.firstFinalAtMs === null) return reserved;
  return { newest: reserved.newest, least: reserved.least, firstFinalAtMs: null };
}

export const isOpenAt = (reserved: MaybeReservations, atMs: number): boolean =>
  reserved !== null && entryAt(reserved.newest, atMs) !== null;

/** Removes one of the reservations made at an instant. */
export function closeReservation(reserved: BucketReservations, atMs: number): MaybeReservations {
  const { open, leastAfter } = reduceEntry(reserved.newest, atMs, 1);
  return withNewest(reserved, open, Math.min(reserved.least, leastAfter));
}

/** A lower bound on the least credits owed since `atMs`. It is exact for an open reservation. */
export function leastOwedSince(reserved: MaybeReservations, atMs: number, owedNow: number): number {
  const from = reserved === null ? null : entryUntil(reserved.newest, atMs);
  if (reserved === null || from === null) return 0;
  let least = Math.min(reserved.least, owedNow);
  for (let entry = reserved.newest; entry !== from; entry = entry.older ?? from) {
    least = Math.min(least, entry.leastBefore);
  }
  return least;
}

/**
 * Lowers the least credits owed after a refund.
 * @param leastSince the least credits owed since the refunded spend; at least `refund.credits`
 */
export function lowerLeastOwed(
  reserved: MaybeReservations,
  refund: { readonly atMs: number; readonly credits: number },
  leastSince: number,
): MaybeReservations {
  if (reserved === null) return null;
  const { newest, least } = reserved;
  const { atMs, credits } = refund;
  const lower = (owed: number): number => Math.max(0, owed - credits);
  if (newest.atMs < atMs) return withNewest(reserved, newest, Math.min(least, lower(leastSince)));
  const from = entryUntil(newest, atMs);
  // If the refunded spend lies between two entries, `leastBefore` of the newer entry may be from before that spend.
  const isBetween = from !== null && from.atMs < atMs;
  const lowered = changeLeasts(newest, atMs, (leastBefore, isFirst) =>
    isFirst && isBetween ? Math.min(leastBefore, lower(leastSince)) : lower(leastBefore),
  );
  return withNewest(reserved, lowered, lower(least));
}

/** The start of the first refill period, which is its first remaining spend. */
export const firstPeriodStartMs = (reserved: MaybeReservations, firstFinalAtMs: number): number =>
  Math.min(reserved === null ? never : reserved.newest.oldestAtMs, firstFinalAtMs);

export function renewBucketReservations(
  reserved: BucketReservations,
  renewal: Renewal,
  nowMs: number,
): BucketReservations {
  const newest = renewEntries(reserved.newest, renewal, nowMs);
  if (newest === null || newest === reserved.newest) return reserved;
  return { newest, least: reserved.least, firstFinalAtMs: reserved.firstFinalAtMs };
}

/** For each entry, the least credits owed since it, the oldest entry first. */
function leastsOf({ newest, least }: BucketReservations, owedNow: number): number[] {
  const leasts: number[] = [];
  let lowest = Math.min(least, owedNow);
  for (let entry: OpenReservations | null = newest; entry !== null; entry = entry.older) {
    leasts.push(lowest);
    lowest = Math.min(lowest, entry.leastBefore);
  }
  return leasts.toReversed();
}

/**
 * Converts the reservations to another number of credits per unit.
 * @param owedNow credits owed, before the conversion
 */
export function rescaleReservations(
  before: MaybeReservations,
  rate: { readonly creditsBefore: number; readonly creditsPerUnit: number },
  owedNow: number,
  nowMs: number,
): MaybeReservations {
  const reserved = dropExpired(before, nowMs);
  if (reserved === null) return null;
  const leasts = leastsOf(reserved, owedNow).map((credits) =>
    multiplyDivideFloor(credits, rate.creditsPerUnit, rate.creditsBefore),
  );
  return linkReservations(listEntries(reserved.newest), leasts, reserved.firstFinalAtMs);
}

function linkReservations(
  entries: Parameters<typeof linkEntries>[0],
  leasts: readonly number[],
  firstFinalAtMs: number | null,
): MaybeReservations {
  const newest = linkEntries(entries, leasts);
  return newest === null ? null : { newest, least: leasts.at(-1) ?? 0, firstFinalAtMs };
}

/**
 * The reservations as text. The first integer describes the first refill period: 0 if it is fixed, 1 if it has no final
 * spend, else 2 plus the time from its start to its first final spend.
 */
export function encodeReservations(
  before: MaybeReservations,
  owedNow: number,
  periodStartMs: number,
  nowMs: number,
): string {
  const reserved = dropExpired(before, nowMs);
  if (reserved === null || owedNow === 0) return "";
  const { newest, firstFinalAtMs } = reserved;
  const first = firstFinalAtMs === null ? 0 : firstFinalAtMs === never ? 1 : 2 + firstFinalAtMs - periodStartMs;
  const leasts = leastsOf(reserved, owedNow);
  return encodeIntegers([first]) + encodeEntries(listEntries(newest), nowMs, leasts);
}

/** Decodes the text of `encodeReservations`; undefined for invalid data. */
export function decodeReservations(
  stored: string,
  periodStartMs: number,
  nowMs: number,
): MaybeReservations | undefined {
  if (stored === "") return null;
  const [first, ...integers] = decodeIntegers(stored) ?? [];
  const read = decodeEntries(integers, nowMs, true);
  if (first === undefined || read === null || read.entries.length === 0) return undefined;
  const firstFinalAtMs = first === 0 ? null : first === 1 ? never : periodStartMs + first - 2;
  if (firstFinalAtMs !== null && firstFinalAtMs !== never && firstFinalAtMs > nowMs) return undefined;
  return linkReservations(read.entries, read.leasts, firstFinalAtMs);
}
