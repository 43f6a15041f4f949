/**
 * The open reservations of one limit, with one entry for each instant at which units were reserved. A strategy needs them
 * for exact settlements. The entries form an immutable linked list, the newest first, and states share older entries.
 *
 * An entry is removed when its reservations are settled or expire. The exact expiry affects no decision, because an
 * unsettled reservation counts as spent before and after it. Expiries are rounded up to seconds, which take fewer bytes.
 */
import { encodeIntegers } from "./log/varint.ts";
import type { Renewal } from "./strategy.ts";

/** The most open reservations of a key. This also bounds its requests in flight through the proxy. */
export const mostReserved = 1_000;

export interface OpenReservations {
  readonly atMs: number;
  /** For windows, the reserved units; for buckets, the number of reservations. */
  readonly amount: number;
  /** Rounded up to a whole second. */
  readonly expiresAtMs: number;
  /** For buckets, the least credits owed between the next older entry and this one. */
  readonly leastBefore: number;
  readonly older: OpenReservations | null;
  readonly oldestAtMs: number;
  /** `length`, `totalAmount` and `firstExpiresAtMs` cover this entry and all older ones. */
  readonly length: number;
  readonly totalAmount: number;
  readonly firstExpiresAtMs: number;
}

type ReservationEntry = Pick<OpenReservations, "atMs" | "amount" | "expiresAtMs" | "leastBefore">;
type DecodedEntry = Omit<ReservationEntry, "leastBefore">;

/** Enough for 1,000 reservations and 1,000 provisional spends. Settlements of further reservations are best effort. */
const mostOpenEntries = 2_048;

/** Approximate memory of an entry. */
const bytesPerOpenEntry = 90;

/** The bounds of a reservation's ttl: 1 s to 1 day. */
export const shortestTtlMs = 1_000;
export const longestTtlMs = 86_400_000;

const secondMs = 1_000;

/** When a reservation expires, rounded up to a whole second. */
export const expiryMs = (atMs: number, ttlMs: number): number =>
  Math.ceil((atMs + Math.min(ttlMs, longestTtlMs)) / secondMs) * secondMs;

function pushEntry(older: OpenReservations | null, entry: ReservationEntry): OpenReservations {
  const { atMs, amount, expiresAtMs, leastBefore } = entry;
  const isOldest = older === null;
  return {
    atMs,
    amount,
    expiresAtMs,
    leastBefore,
    older,
    oldestAtMs: isOldest ? atMs : older.oldestAtMs,
    length: isOldest ? 1 : older.length + 1,
    totalAmount: isOldest ? amount : older.totalAmount + amount,
    firstExpiresAtMs: isOldest ? expiresAtMs : Math.min(older.firstExpiresAtMs, expiresAtMs),
  };
}

/** Adds a reservation that is not older than the newest entry; null when the list is full. */
export function addEntry(open: OpenReservations | null, entry: ReservationEntry): OpenReservations | null {
  if (open?.atMs === entry.atMs) {
    const { older, atMs, leastBefore } = open;
    const amount = open.amount + entry.amount;
    const expiresAtMs = Math.max(open.expiresAtMs, entry.expiresAtMs);
    return pushEntry(older, { atMs, amount, expiresAtMs, leastBefore });
  }
  const length = open === null ? 0 : open.length;
  return length < mostOpenEntries ? pushEntry(open, entry) : null;
}

/** The newest entry that is not later than an instant. */
export function entryUntil(open: OpenReservations | null, atMs: number): OpenReservations | null {
  let entry = open;
  while (entry !== null && entry.atMs > atMs) entry = entry.older;
  return entry;
}

/** The entry at an instant. */
export function entryAt(open: OpenReservations | null, atMs: number): OpenReservations | null {
  const entry = entryUntil(open, atMs);
  return entry?.atMs === atMs ? entry : null;
}

/** All entries, the oldest first. */
export const listEntries = (open: OpenReservations | null): OpenReservations[] => splitAt(open, 0).newer;

/** The entries from an instant on, the oldest first, and the list of the older ones. */
function splitAt(open: OpenReservations | null, fromMs: number) {
  const newer: OpenReservations[] = [];
  let older = open;
  for (; older !== null && older.atMs >= fromMs; older = older.older) newer.push(older);
  return { older, newer: newer.toReversed() };
}

/**
 * Changes the entries from an instant on; `change` returns null to remove one. Older entries are shared. When an entry is
 * removed, its `leastBefore` passes to the next newer entry, or to `leastAfter` if there is none.
 */
function changeEntriesFrom(
  open: OpenReservations | null,
  fromMs: number,
  change: (entry: OpenReservations) => ReservationEntry | null,
): { readonly open: OpenReservations | null; readonly leastAfter: number } {
  const { older, newer } = splitAt(open, fromMs);
  let list = older;
  let leastAfter = Number.POSITIVE_INFINITY;
  for (const entry of newer) {
    const next = change(entry);
    leastAfter = Math.min(leastAfter, entry.leastBefore);
    if (next === null) continue;
    const { atMs, amount, expiresAtMs } = next;
    list = pushEntry(list, { atMs, amount, expiresAtMs, leastBefore: leastAfter });
    leastAfter = Number.POSITIVE_INFINITY;
  }
  return { open: list, leastAfter };
}

/** Changes `leastBefore` of each entry that is newer than an instant. */
export function changeLeasts(
  open: OpenReservations,
  afterMs: number,
  leastOf: (leastBefore: number, isFirst: boolean) => number,
): OpenReservations {
  const { older, newer } = splitAt(open, afterMs + 1);
  let list = older;
  for (const { atMs, amount, expiresAtMs, leastBefore } of newer) {
    const least = leastOf(leastBefore, list === older);
    list = pushEntry(list, { atMs, amount, expiresAtMs, leastBefore: least });
  }
  return list ?? open;
}

/** Subtracts an amount from the entry at an instant, and removes the entry when nothing is left. */
export const reduceEntry = (open: OpenReservations | null, atMs: number, amount: number) =>
  changeEntriesFrom(open, atMs, (entry) => {
    if (entry.atMs !== atMs) return entry;
    return entry.amount > amount ? { ...entry, amount: entry.amount - amount } : null;
  });

export const hasExpired = (open: OpenReservations | null, nowMs: number): boolean =>
  open !== null && open.firstExpiresAtMs <= nowMs;

/** Removes expired entries. Also returns the removed entries, the oldest first. */
export function removeExpired(open: OpenReservations | null, nowMs: number) {
  const expired: OpenReservations[] = [];
  const changed = changeEntriesFrom(open, 0, (entry) => {
    if (entry.expiresAtMs > nowMs) return entry;
    expired.push(entry);
    return null;
  });
  return { ...changed, expired };
}

/** Extends a reservation to its ttl from now. */
export function renewEntries(
  open: OpenReservations | null,
  { heldAtMs, ttlMs }: Renewal,
  nowMs: number,
): OpenReservations | null {
  const formerExpiryMs = expiryMs(heldAtMs, ttlMs);
  const nextExpiryMs = expiryMs(nowMs, ttlMs);
  // After its first renewal, a reservation is found by its expiry. Extending others of the same expiry does no harm.
  const isRenewed = (entry: OpenReservations): boolean =>
    entry.atMs === heldAtMs || (entry.atMs < heldAtMs && entry.expiresAtMs === formerExpiryMs);
  let oldest: OpenReservations | null = null;
  for (let entry = open; entry !== null; entry = entry.older) {
    if (isRenewed(entry) && entry.expiresAtMs < nextExpiryMs) oldest = entry;
  }
  if (oldest === null) return open;
  const extend = (entry: OpenReservations): ReservationEntry =>
    isRenewed(entry) ? { ...entry, expiresAtMs: Math.max(entry.expiresAtMs, nextExpiryMs) } : entry;
  return changeEntriesFrom(open, oldest.atMs, extend).open;
}

export const openBytes = (open: OpenReservations | null | undefined): number => (open?.length ?? 0) * bytesPerOpenEntry;

/**
 * Encodes entries, the oldest first. An entry consists of the time since the entry before it (for the first, its
 * age), its amount and the seconds until its expiry. With `leasts`, a further integer follows: by how much the least
 * credits owed since this entry exceed those since the entry before it.
 */
export function encodeEntries(
  entries: readonly OpenReservations[],
  nowMs: number,
  leasts: readonly number[] | null,
): string {
  const integers: number[] = [];
  const nowSeconds = Math.floor(nowMs / secondMs);
  let previousMs: number | null = null;
  let previousLeast = 0;
  entries.forEach(({ atMs, amount, expiresAtMs }, index) => {
    const least = leasts?.[index] ?? 0;
    const step = previousMs === null ? nowMs - atMs : atMs - previousMs;
    integers.push(step, amount, expiresAtMs / secondMs - nowSeconds);
    if (leasts !== null) integers.push(least - previousLeast);
    [previousMs, previousLeast] = [atMs, least];
  });
  return encodeIntegers(integers);
}

/** Decodes the integers in the text of `encodeEntries`, the oldest entry first; null for invalid data. */
export function decodeEntries(
  integers: readonly number[],
  nowMs: number,
  hasLeasts: boolean,
): { readonly entries: readonly DecodedEntry[]; readonly leasts: number[] } | null {
  const width = hasLeasts ? 4 : 3;
  if (integers.length % width !== 0 || integers.length > width * mostOpenEntries) return null;
  const nowSeconds = Math.floor(nowMs / secondMs);
  const entries: DecodedEntry[] = [];
  const leasts: number[] = [];
  let atMs = nowMs;
  let least = 0;
  for (let index = 0; index < integers.length; index += width) {
    const [step = 0, amount = 0, seconds = 0, leastStep = 0] = integers.slice(index, index + width);
    const isFirst = index === 0;
    if ((!isFirst && step === 0) || amount === 0) return null;
    if (seconds === 0 || seconds * secondMs > longestTtlMs + 2 * secondMs) return null;
    atMs += isFirst ? -step : step;
    least += leastStep;
    if (atMs < 0 || atMs > nowMs || !Number.isSafeInteger(least)) return null;
    entries.push({ atMs, amount, expiresAtMs: (nowSeconds + seconds) * secondMs });
    leasts.push(least);
  }
  return { entries, leasts };
}

/**
 * Links decoded entries to a list.
 * @param leasts for each entry, the least credits owed since it; they become `leastBefore` of the next newer entry
 */
export function linkEntries(entries: readonly DecodedEntry[], leasts: readonly number[]): OpenReservations | null {
  return entries.reduce<OpenReservations | null>((open, entry, index) => {
    const leastBefore = index === 0 ? Number.POSITIVE_INFINITY : (leasts[index - 1] ?? 0);
    return pushEntry(open, { ...entry, leastBefore });
  }, null);
}
