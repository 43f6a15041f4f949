/**
 * What decides when a window opens that requests open: the first instants at which anything was spent for good, and the
 * open reservations from before them. When all that was spent at the first of these instants is given back, the window
 * opens at the next, as had the spend not been made.
 *
 * Of final spends only a few are kept. They are added for as long as the list accounts for all units of the window: once
 * it has skipped some, later ones are not the next. When none is left of those that are known, the window stays where it
 * is.
 */
import {
  entriesOf,
  entryAt,
  openOf,
  type OpenReservations,
  packedOpen,
  renewedOpen,
  areExpired,
  unexpired,
  unpackedOpen,
  withLess,
  withReservation,
} from "./open-reservations.ts";
import { packedDates, unpacked, unpackedDates } from "./log/varint.ts";

/** Units spent at an instant. */
interface Opening {
  readonly atMs: number;
  readonly units: number;
}

export interface Openings {
  /** The first final spends, the oldest first. */
  readonly final: readonly Opening[];
  /** Reservations made before anything was spent for good; amounts are units. */
  readonly open: OpenReservations | null;
}

const mostOpenings = 3;

const noFinal: readonly Opening[] = [];

export const noOpenings: Openings = { final: noFinal, open: null };

/** Of a window that is opened by units spent for good. */
export const openedBy = (atMs: number, units: number): Openings => ({
  final: [{ atMs, units }],
  open: null,
});

/** Whether all units of a window are in the list. */
function isComplete({ final, open }: Openings, count: number): boolean {
  let units = open === null ? 0 : open.totalAmount;
  for (const opening of final) units += opening.units;
  return units === count;
}

/**
 * With units spent for good at an instant, if that is one of the first.
 * @param count units of the window before the spend
 */
export function spentAt(openings: Openings, count: number, atMs: number, units: number): Openings {
  const { final, open } = openings;
  const last = final.at(-1);
  if (last !== undefined && atMs === last.atMs) {
    return { final: [...final.slice(0, -1), { atMs, units: last.units + units }], open };
  }
  const latestMs = last?.atMs ?? open?.atMs ?? 0;
  if (final.length >= mostOpenings || atMs < latestMs) return openings;
  return isComplete(openings, count) ? { final: [...final, { atMs, units }], open } : openings;
}

/**
 * With units reserved now.
 * @param count units of the window before
 */
export function reservedAt(
  before: Openings,
  count: number,
  nowMs: number,
  units: number,
  expiresAtMs: number,
): Openings {
  const openings = withoutExpired(before, nowMs);
  // After a final spend no reservation changes when the window opens.
  if (openings.final.length === 0 && isComplete(openings, count)) {
    const entry = { atMs: nowMs, amount: units, expiresAtMs, leastBefore: 0 };
    const open = withReservation(openings.open, entry);
    if (open !== null) return { final: noFinal, open };
  }
  return spentAt(openings, count, nowMs, units);
}

/** A reservation whose time is up stands as spent, and so its spend is final. */
function withoutExpired(openings: Openings, nowMs: number): Openings {
  if (!areExpired(openings.open, nowMs)) return openings;
  const { open, expired } = unexpired(openings.open, nowMs);
  return expired.reduce(
    ({ final }, { atMs, amount }) => ({ final: withFinal(final, atMs, amount), open }),
    { final: openings.final, open },
  );
}

/** With a final spend among the first, wherever its instant is. */
function withFinal(final: readonly Opening[], atMs: number, units: number): readonly Opening[] {
  const known = final.find((opening) => opening.atMs === atMs);
  const others = final.filter((opening) => opening !== known);
  return [...others, { atMs, units: units + (known?.units ?? 0) }]
    .toSorted((one, other) => one.atMs - other.atMs)
    .slice(0, mostOpenings);
}

export const isReserved = ({ open }: Openings, atMs: number): boolean =>
  entryAt(open, atMs) !== null;

/** With a reservation settled that is in the list. */
export function settledAt(
  { final, open }: Openings,
  atMs: number,
  cost: number,
  actualCost: number,
): Openings {
  const left = withLess(open, atMs, cost).open;
  return { final: actualCost > 0 ? withFinal(final, atMs, actualCost) : final, open: left };
}

/** Without units that were spent for good at an instant. */
export function withdrawn(openings: Openings, spentAtMs: number, units: number): Openings {
  const { final, open } = openings;
  const index = final.findIndex(({ atMs }) => atMs === spentAtMs);
  const found = final[index];
  if (found === undefined) return openings;
  const left = found.units - units;
  const openingsLeft = left > 0 ? [{ atMs: spentAtMs, units: left }] : [];
  return { final: final.toSpliced(index, 1, ...openingsLeft), open };
}

/** What the reservations of every window that a request opens have in common. */
export const openingReservations = {
  isOpen: ({ openings }: { readonly openings: Openings }, spentAtMs: number): boolean =>
    isReserved(openings, spentAtMs),

  renew<State extends { readonly openings: Openings }>(
    state: State,
    heldAtMs: number,
    ttlMs: number,
    nowMs: number,
  ): State {
    const { final, open: before } = state.openings;
    const open = renewedOpen(before, heldAtMs, ttlMs, nowMs);
    return open === before ? state : { ...state, openings: { final, open } };
  },
};

/** The first instant of the list; infinity for none. */
const firstOf = ({ final, open }: Openings): number =>
  Math.min(
    final[0]?.atMs ?? Number.POSITIVE_INFINITY,
    open?.oldestAtMs ?? Number.POSITIVE_INFINITY,
  );

/**
 * When a window opens that opened at `openedAtMs`, of whose openings so many are left.
 * @param count units that are left in the window
 */
export function reopensAt(
  openings: Openings,
  left: Openings,
  openedAtMs: number,
  count: number,
): number {
  if (firstOf(openings) !== openedAtMs) return openedAtMs;
  // A final spend that the list has skipped may be older than an open reservation.
  if (left.final.length === 0 && !isComplete(left, count)) return openedAtMs;
  const firstMs = firstOf(left);
  return firstMs === Number.POSITIVE_INFINITY ? openedAtMs : firstMs;
}

/** The final spends, as their strategies' texts end. */
export const storedOpenings = (openings: Openings, nowMs: number): string =>
  packedDates(withoutExpired(openings, nowMs).final, nowMs);

/** The open reservations, as a text of their own. */
export const storedOpen = (openings: Openings, nowMs: number): string =>
  packedOpen(entriesOf(withoutExpired(openings, nowMs).open), nowMs, null);

/**
 * What `storedOpenings`, of its integers, and `storedOpen` wrote at `nowMs`; null when they did not.
 * @param count units of the window
 */
export function revivedOpenings(
  integers: readonly number[],
  stored: string,
  count: number,
  nowMs: number,
): Openings | null {
  const final = unpackedDates(integers, nowMs);
  if (final === null || final.length > mostOpenings) return null;
  if (stored === "") return final.length === 0 ? noOpenings : { final, open: null };
  const read = unpackedOpen(unpacked(stored) ?? [], nowMs, false);
  if (read === null || read.entries.length === 0) return null;
  const open = openOf(read.entries, read.leasts);
  return open !== null && open.totalAmount <= count ? { final, open } : null;
}
