/**
 * The open reservations of one limit, by the instant of their spend: what a strategy keeps so that a settlement leaves
 * only its outcome behind (law 10). An immutable list, the newest first, of which states share what they have in common.
 *
 * An entry goes when its reservations are settled, or when their time is up. Nothing depends on that instant, for a
 * reservation that is never settled stands as spent either way: times are rounded up to whole seconds, which take fewer
 * bytes.
 */
import { packed } from "./packing.ts";

export interface OpenReservations {
  readonly atMs: number;
  /** Units, or reservations, whichever the strategy counts. */
  readonly amount: number;
  /** A whole second. */
  readonly expiresAtMs: number;
  /** Buckets only: the least credits owed after the next older entry, up to this one. */
  readonly leastBefore: number;
  readonly older: OpenReservations | null;
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

/** No reservation is longer. */
const longestTtlMs = 86_400_000;

const secondMs = 1_000;

export const expiryOf = (atMs: number, ttlMs: number): number =>
  Math.ceil((atMs + Math.min(ttlMs, longestTtlMs)) / secondMs) * secondMs;

function onTop(older: OpenReservations | null, entry: Entry): OpenReservations {
  const { atMs, amount, expiresAtMs, leastBefore } = entry;
  if (older === null) {
    const [length, totalAmount, firstExpiresAtMs] = [1, amount, expiresAtMs];
    return { atMs, amount, expiresAtMs, leastBefore, older, length, totalAmount, firstExpiresAtMs };
  }
  return {
    atMs,
    amount,
    expiresAtMs,
    leastBefore,
    older,
    length: older.length + 1,
    totalAmount: older.totalAmount + amount,
    firstExpiresAtMs: Math.min(older.firstExpiresAtMs, expiresAtMs),
  };
}

/** Adds a reservation no older than the newest; null when there is no room for another entry. */
export function withReservation(
  open: OpenReservations | null,
  entry: Entry,
): OpenReservations | null {
  if (open?.atMs === entry.atMs) {
    return onTop(open.older, {
      atMs: open.atMs,
      amount: open.amount + entry.amount,
      expiresAtMs: Math.max(open.expiresAtMs, entry.expiresAtMs),
      leastBefore: open.leastBefore,
    });
  }
  return (open?.length ?? 0) < mostOpenEntries ? onTop(open, entry) : null;
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

export function oldestEntry(open: OpenReservations | null): OpenReservations | null {
  let entry = open;
  while (entry !== null && entry.older !== null) entry = entry.older;
  return entry;
}

/** The oldest first. */
export function entriesOf(open: OpenReservations | null): OpenReservations[] {
  const entries: OpenReservations[] = [];
  for (let entry = open; entry !== null; entry = entry.older) entries.push(entry);
  return entries.toReversed();
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
  const newer: OpenReservations[] = [];
  let list = open;
  for (; list !== null && list.atMs >= fromMs; list = list.older) newer.push(list);
  let leastBefore = Number.POSITIVE_INFINITY;
  for (const entry of newer.toReversed()) {
    const next = change(entry);
    leastBefore = Math.min(leastBefore, (next ?? entry).leastBefore);
    if (next === null) continue;
    list = onTop(list, { ...next, leastBefore });
    leastBefore = Number.POSITIVE_INFINITY;
  }
  return { open: list, leastAfter: leastBefore };
}

/** The entry with less; null when nothing of it is left. */
export const lessened = (entry: OpenReservations, amount: number): Entry | null =>
  entry.amount > amount ? { ...entry, amount: entry.amount - amount } : null;

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
      onTop(open, {
        ...entry,
        leastBefore: index === 0 ? Number.POSITIVE_INFINITY : (leasts[index - 1] ?? 0),
      }),
    null,
  );
}
