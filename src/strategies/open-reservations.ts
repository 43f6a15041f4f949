/**
 * The open reservations of one limit, by the instant of their spend: what a strategy keeps so that a settlement leaves
 * only its outcome behind (law 10). An immutable list, the newest first, of which states share what they have in common.
 *
 * An entry goes when its reservations are settled, or when their time is up. Nothing depends on that instant, for a
 * reservation that is never settled stands as spent either way: times are rounded up to whole seconds, which take fewer
 * bytes.
 */
import { packed } from "./log/varint.ts";

export interface OpenReservations {
  readonly atMs: number;
  /** Units, or reservations, whichever the strategy counts. */
  readonly amount: number;
  /** A whole second. */
  readonly expiresAtMs: number;
  /** Buckets only: the least credits owed after the next older entry, up to this one. */
  readonly leastBefore: number;
  readonly older: OpenReservations | null;
  readonly oldestAtMs: number;
  /** Entries, and the sum of their amounts, with all older ones. */
  readonly length: number;
  readonly totalAmount: number;
  readonly firstExpiresAtMs: number;
}

type Entry = Pick<OpenReservations, "atMs" | "amount" | "expiresAtMs" | "leastBefore">;

/**
 * Entries of one limit, a thousand reservations and as many provisional spends. What is reserved beyond is given back as
 * a plain refund is.
 */
export const mostOpenEntries = 2_048;

/** About what an entry takes of memory. */
const bytesOfEntry = 90;

/** A reservation's ttl, in milliseconds: 1 s to 1 day. */
export const shortestTtlMs = 1_000;
export const longestTtlMs = 86_400_000;

const secondMs = 1_000;

export const expiryOf = (atMs: number, ttlMs: number): number =>
  Math.ceil((atMs + Math.min(ttlMs, longestTtlMs)) / secondMs) * secondMs;

function onTop(
  older: OpenReservations | null,
  atMs: number,
  amount: number,
  expiresAtMs: number,
  leastBefore: number,
): OpenReservations {
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

/** Adds a reservation no older than the newest; null when there is no room for another entry. */
export function withReservation(
  open: OpenReservations | null,
  entry: Entry,
): OpenReservations | null {
  const { atMs, amount, expiresAtMs, leastBefore } = entry;
  if (open?.atMs === atMs) {
    const latestMs = Math.max(open.expiresAtMs, expiresAtMs);
    return onTop(open.older, atMs, open.amount + amount, latestMs, open.leastBefore);
  }
  const length = open === null ? 0 : open.length;
  return length < mostOpenEntries ? onTop(open, atMs, amount, expiresAtMs, leastBefore) : null;
}

/** The newest entry of an instant or before. */
export function entryUntil(open: OpenReservations | null, atMs: number): OpenReservations | null {
  let entry = open;
  while (entry !== null && entry.atMs > atMs) entry = entry.older;
  return entry;
}

/** The entry of an instant. */
export function entryAt(open: OpenReservations | null, atMs: number): OpenReservations | null {
  const entry = entryUntil(open, atMs);
  return entry?.atMs === atMs ? entry : null;
}

/** The oldest first. */
export function entriesOf(open: OpenReservations | null): OpenReservations[] {
  const entries: OpenReservations[] = [];
  for (let entry = open; entry !== null; entry = entry.older) entries.push(entry);
  return entries.toReversed();
}

/** The entries from an instant on, the oldest first, and the list of those before. */
function splitAt(open: OpenReservations | null, fromMs: number) {
  const newer: OpenReservations[] = [];
  let older = open;
  for (; older !== null && older.atMs >= fromMs; older = older.older) newer.push(older);
  return { older, newer: newer.toReversed() };
}

/**
 * The list with its entries from an instant on changed: null removes one. Older ones are shared. The least credits
 * before a removed entry pass to the next newer one, or are answered as `leastAfter` where there is none.
 */
export function changedFrom(
  open: OpenReservations | null,
  fromMs: number,
  change: (entry: OpenReservations) => Entry | null,
): { readonly open: OpenReservations | null; readonly leastAfter: number } {
  const { older, newer } = splitAt(open, fromMs);
  let list = older;
  let leastAfter = Number.POSITIVE_INFINITY;
  for (const entry of newer) {
    const next = change(entry);
    leastAfter = Math.min(leastAfter, entry.leastBefore);
    if (next === null) continue;
    list = onTop(list, next.atMs, next.amount, next.expiresAtMs, leastAfter);
    leastAfter = Number.POSITIVE_INFINITY;
  }
  return { open: list, leastAfter };
}

/** The list with the least credits before each entry that is newer than an instant changed. */
export function withLeasts(
  open: OpenReservations,
  afterMs: number,
  leastOf: (leastBefore: number, isFirst: boolean) => number,
): OpenReservations {
  const { older, newer } = splitAt(open, afterMs + 1);
  let list = older;
  for (const { atMs, amount, expiresAtMs, leastBefore } of newer) {
    list = onTop(list, atMs, amount, expiresAtMs, leastOf(leastBefore, list === older));
  }
  return list ?? open;
}

/** The list with less at an instant; nothing of an entry that has no more. */
export const withLess = (open: OpenReservations | null, atMs: number, amount: number) =>
  changedFrom(open, atMs, (entry) => {
    if (entry.atMs !== atMs) return entry;
    return entry.amount > amount ? { ...entry, amount: entry.amount - amount } : null;
  });

export const areExpired = (open: OpenReservations | null, nowMs: number): boolean =>
  open !== null && open.firstExpiresAtMs <= nowMs;

/** Without those whose time is up, which are answered beside, the oldest first. */
export function unexpired(open: OpenReservations | null, nowMs: number) {
  const expired: OpenReservations[] = [];
  const changed = changedFrom(open, 0, (entry) => {
    if (entry.expiresAtMs > nowMs) return entry;
    expired.push(entry);
    return null;
  });
  return { ...changed, expired };
}

/** The list in which a reservation lasts for its ttl from now, which was made or last renewed at `heldAtMs`. */
export function renewedOpen(
  open: OpenReservations | null,
  heldAtMs: number,
  ttlMs: number,
  nowMs: number,
): OpenReservations | null {
  const expiredAtMs = expiryOf(heldAtMs, ttlMs);
  const expiresAtMs = expiryOf(nowMs, ttlMs);
  // After the first renewal only the expiry is known. To keep another with the same expiry for longer does no harm.
  const isIt = (entry: OpenReservations): boolean =>
    entry.atMs === heldAtMs || (entry.atMs < heldAtMs && entry.expiresAtMs === expiredAtMs);
  let oldest: OpenReservations | null = null;
  for (let entry = open; entry !== null; entry = entry.older) {
    if (isIt(entry) && entry.expiresAtMs < expiresAtMs) oldest = entry;
  }
  if (oldest === null) return open;
  const extended = (entry: OpenReservations): Entry =>
    isIt(entry) ? { ...entry, expiresAtMs: Math.max(entry.expiresAtMs, expiresAtMs) } : entry;
  return changedFrom(open, oldest.atMs, extended).open;
}

export const sizeOfOpen = (open: OpenReservations | null | undefined): number =>
  (open?.length ?? 0) * bytesOfEntry;

/**
 * Age of the first, then step to each other; amount; seconds left; and with `leasts`, which do not decrease, the least
 * credits owed since the entry, as a step too.
 */
export function packedOpen(
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
  return packed(integers);
}

/** What `packedOpen` wrote at `nowMs`, of its integers, the oldest first; null for what it cannot have written. */
export function unpackedOpen(
  integers: readonly number[],
  nowMs: number,
  hasLeasts: boolean,
): { readonly entries: readonly Omit<Entry, "leastBefore">[]; readonly leasts: number[] } | null {
  const width = hasLeasts ? 4 : 3;
  if (integers.length % width !== 0 || integers.length > width * mostOpenEntries) return null;
  const nowSeconds = Math.floor(nowMs / secondMs);
  const entries: Omit<Entry, "leastBefore">[] = [];
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

/** A list of entries, the oldest first; the least credits before each are those after the one before it. */
export function openOf(
  entries: readonly Omit<Entry, "leastBefore">[],
  leasts: readonly number[],
): OpenReservations | null {
  return entries.reduce<OpenReservations | null>(
    (open, entry, index) =>
      onTop(
        open,
        entry.atMs,
        entry.amount,
        entry.expiresAtMs,
        index === 0 ? Number.POSITIVE_INFINITY : (leasts[index - 1] ?? 0),
      ),
    null,
  );
}
