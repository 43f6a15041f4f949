/**
 * What a bucket keeps of its open reservations (law 10): the least level of credits owed since each was opened. Of units
 * given back, no more than that has not drained since. Giving back `credits` lowers the least level of each reservation
 * opened later by as much, and that of each opened earlier to what the bucket owed at the least since, less `credits`.
 */
import { multiplyDivideFloor } from "./integers.ts";
import {
  areExpired,
  entriesOf,
  entryAt,
  entryUntil,
  openOf,
  type OpenReservations,
  packedOpen,
  renewedOpen,
  unexpired,
  unpackedOpen,
  withLeasts,
  withLess,
  withReservation,
} from "./open-reservations.ts";
import { packed, unpacked } from "./log/varint.ts";

export interface BucketReservations {
  /** The amount of an entry is a number of reservations. */
  readonly newest: OpenReservations;
  /** The least credits owed after the newest entry, as far as spends have shown. */
  readonly least: number;
  /**
   * Refill by interval only. Null: the refill periods stay where they are. Otherwise an open reservation has begun the
   * first of them, and this is the instant of the earliest final spend, or infinity while there is none.
   */
  readonly firstFinalAtMs: number | null;
}

type Reserved = BucketReservations | null;

const never = Number.POSITIVE_INFINITY;

const withNewest = (
  reserved: BucketReservations,
  newest: OpenReservations | null,
  least: number,
): Reserved =>
  newest === null ? null : { newest, least, firstFinalAtMs: reserved.firstFinalAtMs };

/** With a spend at an instant that found so much owed. */
export function passed(reserved: Reserved, atMs: number, owed: number): Reserved {
  if (reserved === null) return null;
  const { newest, least, firstFinalAtMs } = reserved;
  return owed >= least || atMs <= newest.atMs ? reserved : { newest, least: owed, firstFinalAtMs };
}

/** With another reservation, made at an instant after `passed` at it. */
export function opened(
  before: Reserved,
  atMs: number,
  expiresAtMs: number,
  nowMs: number,
  firstFinalAtMs: number | null,
): Reserved {
  const reserved = withoutExpired(before, nowMs);
  const least = reserved?.least ?? never;
  const entry = { atMs, amount: 1, expiresAtMs, leastBefore: least };
  const newest = withReservation(reserved?.newest ?? null, entry);
  // Without an entry it is given back as a plain refund is, and moves no refill period.
  if (newest === null) return reserved === null ? null : withFinal(reserved, atMs);
  return {
    newest,
    // Nothing has drained since this instant, whatever was owed at it when a snapshot was taken.
    least: never,
    firstFinalAtMs: reserved === null ? firstFinalAtMs : reserved.firstFinalAtMs,
  };
}

/** A reservation whose time is up stands as spent, and so its spend is final. */
export function withoutExpired(reserved: Reserved, nowMs: number): Reserved {
  if (reserved === null || !areExpired(reserved.newest, nowMs)) return reserved;
  const { open, leastAfter, expired } = unexpired(reserved.newest, nowMs);
  const final = withFinal(reserved, expired[0]?.atMs ?? never);
  return withNewest(final, open, Math.min(reserved.least, leastAfter));
}

/** With a final spend in the first refill period. */
export function withFinal(reserved: BucketReservations, atMs: number): BucketReservations {
  const { newest, least, firstFinalAtMs } = reserved;
  if (firstFinalAtMs === null || firstFinalAtMs <= atMs) return reserved;
  return { newest, least, firstFinalAtMs: atMs };
}

/** With refill periods that stay where they are. */
export function withFixedPeriods(reserved: Reserved): Reserved {
  if (reserved === null || reserved.firstFinalAtMs === null) return reserved;
  return { newest: reserved.newest, least: reserved.least, firstFinalAtMs: null };
}

export const isOpenAt = (reserved: Reserved, atMs: number): boolean =>
  reserved !== null && entryAt(reserved.newest, atMs) !== null;

/** Without one of the reservations of an instant. */
export function closed(reserved: BucketReservations, atMs: number): Reserved {
  const { open, leastAfter } = withLess(reserved.newest, atMs, 1);
  return withNewest(reserved, open, Math.min(reserved.least, leastAfter));
}

/** At least so much was owed at every instant since `atMs`: exact for the instant of an open reservation. */
export function leastSince(reserved: Reserved, atMs: number, owedNow: number): number {
  const from = reserved === null ? null : entryUntil(reserved.newest, atMs);
  if (reserved === null || from === null) return 0;
  let least = Math.min(reserved.least, owedNow);
  for (let entry = reserved.newest; entry !== from; entry = entry.older ?? from) {
    least = Math.min(least, entry.leastBefore);
  }
  return least;
}

/**
 * Without `credits` that were owed since `atMs`.
 * @param leastAfter credits that were owed at the least since then, no fewer than are given back
 */
export function lowered(
  reserved: Reserved,
  atMs: number,
  credits: number,
  leastAfter: number,
): Reserved {
  if (reserved === null) return null;
  const { newest, least } = reserved;
  const less = (its: number): number => Math.max(0, its - credits);
  if (newest.atMs < atMs) {
    return withNewest(reserved, newest, Math.min(least, less(leastAfter)));
  }
  const from = entryUntil(newest, atMs);
  // Between two entries a part of what was owed is from before the instant.
  const isBetween = from !== null && from.atMs < atMs;
  const left = withLeasts(newest, atMs, (leastBefore, isFirst) =>
    isFirst && isBetween ? Math.min(leastBefore, less(leastAfter)) : less(leastBefore),
  );
  return withNewest(reserved, left, less(least));
}

/** When the first refill period begins: with the earliest spend that is left. */
export function firstBegins(reserved: Reserved, firstFinalAtMs: number): number {
  return Math.min(reserved === null ? never : reserved.newest.oldestAtMs, firstFinalAtMs);
}

/** With a reservation of `heldAtMs` open for another ttl. */
export function renewed(
  reserved: BucketReservations,
  heldAtMs: number,
  ttlMs: number,
  nowMs: number,
): BucketReservations {
  const newest = renewedOpen(reserved.newest, heldAtMs, ttlMs, nowMs);
  if (newest === null || newest === reserved.newest) return reserved;
  return { newest, least: reserved.least, firstFinalAtMs: reserved.firstFinalAtMs };
}

/** Of each entry, the oldest first, the least credits owed since it. */
function leastsOf({ newest, least }: BucketReservations, owedNow: number): number[] {
  const leasts: number[] = [];
  let lowest = Math.min(least, owedNow);
  for (let entry: OpenReservations | null = newest; entry !== null; entry = entry.older) {
    leasts.push(lowest);
    lowest = Math.min(lowest, entry.leastBefore);
  }
  return leasts.toReversed();
}

/** The reservations of a limit whose unit costs `creditsPerUnit`, for one whose unit costs other credits. */
export function rescaled(
  before: Reserved,
  creditsThen: number,
  creditsPerUnit: number,
  owedThen: number,
  nowMs: number,
): Reserved {
  const reserved = withoutExpired(before, nowMs);
  if (reserved === null) return null;
  const leasts = leastsOf(reserved, owedThen).map((credits) =>
    multiplyDivideFloor(credits, creditsPerUnit, creditsThen),
  );
  return reservationsOf(entriesOf(reserved.newest), leasts, reserved.firstFinalAtMs);
}

function reservationsOf(
  entries: Parameters<typeof openOf>[0],
  leasts: readonly number[],
  firstFinalAtMs: number | null,
): Reserved {
  const newest = openOf(entries, leasts);
  return newest === null ? null : { newest, least: leasts.at(-1) ?? 0, firstFinalAtMs };
}

/** Of a first refill period: 0 when it stays, 1 without a final spend, else 2 and how long after it began that was. */
export function storedReservations(
  before: Reserved,
  owedNow: number,
  begunAtMs: number,
  nowMs: number,
): string {
  const reserved = withoutExpired(before, nowMs);
  if (reserved === null || owedNow === 0) return "";
  const { newest, firstFinalAtMs } = reserved;
  const first =
    firstFinalAtMs === null ? 0 : firstFinalAtMs === never ? 1 : 2 + firstFinalAtMs - begunAtMs;
  return packed([first]) + packedOpen(entriesOf(newest), nowMs, leastsOf(reserved, owedNow));
}

/** What `storedReservations` wrote; undefined when it did not. */
export function revivedReservations(
  stored: string,
  begunAtMs: number,
  nowMs: number,
): Reserved | undefined {
  if (stored === "") return null;
  const [first, ...integers] = unpacked(stored) ?? [];
  const read = unpackedOpen(integers, nowMs, true);
  if (first === undefined || read === null || read.entries.length === 0) return undefined;
  const firstFinalAtMs = first === 0 ? null : first === 1 ? never : begunAtMs + first - 2;
  if (firstFinalAtMs !== null && firstFinalAtMs !== never && firstFinalAtMs > nowMs)
    return undefined;
  return reservationsOf(read.entries, read.leasts, firstFinalAtMs);
}
