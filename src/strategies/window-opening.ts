/**
 * Where windows begin: with the first admitted request, or at multiples of their length since the Unix epoch.
 *
 * A window that opens with its first request keeps its first spends. When all units of the first spend are given back, the
 * window moves: it opens at the second spend, as if the first had not been made.
 *
 * A spend is final if it can no longer be settled. Only the first few final spends are kept. After one was left out, no
 * later one is added. When all kept spends are given back, the window no longer moves.
 */
import { decodeDated, decodeIntegers, encodeDated } from "./log/varint.ts";
import {
  addEntry,
  decodeEntries,
  encodeEntries,
  entryAt,
  hasExpired,
  linkEntries,
  listEntries,
  openBytes,
  type OpenReservations,
  reduceEntry,
  removeExpired,
  renewEntries,
} from "./open-reservations.ts";
import {
  constantSizeBytes,
  type DatedUnits,
  type Limit,
  type Renewal,
  type ReservedUnits,
  type SettledUnits,
} from "./strategy.ts";
import * as v from "valibot";

export interface FirstSpends {
  /** The first final spends, the oldest first. */
  readonly final: readonly DatedUnits[];
  /** Open reservations from before the first final spend. Their amounts are units. */
  readonly open: OpenReservations | null;
}

const mostFinal = 3;

/** Approximate memory of the state of a window. */
export const windowBytes = ({ firstSpends: { open } }: { readonly firstSpends: FirstSpends }): number =>
  open === null ? constantSizeBytes : constantSizeBytes + openBytes(open);

export const noFirstSpends: FirstSpends = { final: [], open: null };

/** Whether the kept spends account for all units of a window. */
function isComplete({ final, open }: FirstSpends, count: number): boolean {
  let units = open === null ? 0 : open.totalAmount;
  for (const spend of final) units += spend.units;
  return units === count;
}

/**
 * Adds a final spend if no earlier one was left out.
 * @param count units of the window before the spend
 */
export function addFinalSpend(before: FirstSpends, count: number, spend: DatedUnits): FirstSpends {
  const { final, open } = before;
  const { atMs, units } = spend;
  const last = final.at(-1);
  if (last !== undefined && atMs === last.atMs) {
    return { final: [...final.slice(0, -1), { atMs, units: last.units + units }], open };
  }
  const latestMs = last?.atMs ?? open?.atMs ?? 0;
  if (final.length >= mostFinal || atMs < latestMs || !isComplete(before, count)) return before;
  return { final: [...final, spend], open };
}

/**
 * Adds a reservation made now if it is older than all final spends.
 * @param count units of the window before the reservation
 */
export function addReservedSpend(
  before: FirstSpends,
  count: number,
  { units, expiresAtMs }: ReservedUnits,
  nowMs: number,
): FirstSpends {
  const current = finalizeExpired(before, nowMs);
  // A reservation after a final spend never decides when the window opens.
  if (current.final.length === 0 && isComplete(current, count)) {
    const entry = { atMs: nowMs, amount: units, expiresAtMs, leastBefore: 0 };
    const open = addEntry(current.open, entry);
    if (open !== null) return { final: [], open };
  }
  return addFinalSpend(current, count, { atMs: nowMs, units });
}

/** Turns expired reservations into final spends, because they count as spent. */
function finalizeExpired(before: FirstSpends, nowMs: number): FirstSpends {
  if (!hasExpired(before.open, nowMs)) return before;
  const { open, expired } = removeExpired(before.open, nowMs);
  const final = expired.reduce(
    (spends, { atMs, amount }) => insertFinalSpend(spends, { atMs, units: amount }),
    before.final,
  );
  return { final, open };
}

function insertFinalSpend(final: readonly DatedUnits[], { atMs, units }: DatedUnits): readonly DatedUnits[] {
  const known = final.find((spend) => spend.atMs === atMs);
  const others = final.filter((spend) => spend !== known);
  return [...others, { atMs, units: units + (known?.units ?? 0) }]
    .toSorted((one, other) => one.atMs - other.atMs)
    .slice(0, mostFinal);
}

export const hasReservedSpend = ({ open }: FirstSpends, atMs: number): boolean => entryAt(open, atMs) !== null;

/** Settles a reservation for which `hasReservedSpend` is true. */
export function settleReservedSpend(
  { final, open }: FirstSpends,
  { cost, actualCost, spentAtMs }: SettledUnits,
): FirstSpends {
  const spend = { atMs: spentAtMs, units: actualCost };
  return {
    final: actualCost > 0 ? insertFinalSpend(final, spend) : final,
    open: reduceEntry(open, spentAtMs, cost).open,
  };
}

/** Removes units of a final spend. */
export function removeFinalSpend(before: FirstSpends, spend: DatedUnits): FirstSpends {
  const { final, open } = before;
  const index = final.findIndex(({ atMs }) => atMs === spend.atMs);
  const found = final[index];
  if (found === undefined) return before;
  const units = found.units - spend.units;
  const spendsLeft = units > 0 ? [{ atMs: spend.atMs, units }] : [];
  return { final: final.toSpliced(index, 1, ...spendsLeft), open };
}

/** The `ReservationParts` that all windows with first spends share. */
export const firstSpendReservations = {
  isOpen: ({ firstSpends }: { readonly firstSpends: FirstSpends }, spentAtMs: number): boolean =>
    hasReservedSpend(firstSpends, spentAtMs),

  renew<State extends { readonly firstSpends: FirstSpends }>(state: State, renewal: Renewal, nowMs: number): State {
    const { final, open } = state.firstSpends;
    const renewed = renewEntries(open, renewal, nowMs);
    return renewed === open ? state : { ...state, firstSpends: { final, open: renewed } };
  },
};

/** The instant of the first kept spend; infinity for none. */
const firstAtMs = ({ final, open }: FirstSpends): number =>
  Math.min(final[0]?.atMs ?? Number.POSITIVE_INFINITY, open?.oldestAtMs ?? Number.POSITIVE_INFINITY);

/**
 * The opening of a window after units were given back.
 * @param openedAtMs the opening before that
 * @param count units left in the window
 */
export function reopenedAtMs(before: FirstSpends, left: FirstSpends, openedAtMs: number, count: number): number {
  if (firstAtMs(before) !== openedAtMs) return openedAtMs;
  // A final spend that was left out may be older than the open reservations.
  if (left.final.length === 0 && !isComplete(left, count)) return openedAtMs;
  const firstMs = firstAtMs(left);
  return firstMs === Number.POSITIVE_INFINITY ? openedAtMs : firstMs;
}

/** The final spends as text, which ends the text of the window. */
export const encodeFinalSpends = (firstSpends: FirstSpends, nowMs: number): string =>
  encodeDated(finalizeExpired(firstSpends, nowMs).final, nowMs);

/** The open reservations as a separate text. */
export const encodeReservedSpends = (firstSpends: FirstSpends, nowMs: number): string =>
  encodeEntries(listEntries(finalizeExpired(firstSpends, nowMs).open), nowMs, null);

/**
 * Decodes first spends; null for invalid data.
 * @param integers the integers in the text of `encodeFinalSpends`
 * @param stored the text of `encodeReservedSpends`
 * @param count units of the window
 */
export function decodeFirstSpends(
  integers: readonly number[],
  stored: string,
  count: number,
  nowMs: number,
): FirstSpends | null {
  const final = decodeDated(integers, nowMs);
  if (final === null || final.length > mostFinal) return null;
  if (stored === "") return final.length === 0 ? noFirstSpends : { final, open: null };
  const read = decodeEntries(decodeIntegers(stored) ?? [], nowMs, false);
  if (read === null || read.entries.length === 0) return null;
  const open = linkEntries(read.entries, read.leasts);
  return open !== null && open.totalAmount <= count ? { final, open } : null;
}

type Align = "first-request" | "clock";

export interface AlignedLimit extends Limit {
  readonly align: Align;
}

/** The option `align`; the first alignment is the default. */
export function alignOption<const Alignments extends readonly [string, ...string[]]>(alignments: Alignments) {
  const accepted = `one of ${alignments.map((each) => `"${each}"`).join(", ")}`;
  return { align: v.optional(v.picklist(alignments, accepted), () => alignments[0]) };
}

/** When the window of a first request at `atMs` opens. */
export function openingMs(align: Align, windowMs: number, atMs: number): number {
  return align === "clock" ? Math.floor(atMs / windowMs) * windowMs : atMs;
}
