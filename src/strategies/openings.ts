/**
 * The first instants at which anything was spent in a window that requests open. When all that was spent at the first of
 * them is given back, the window opens at the next: as had the spend not been made. Only a few are kept: when all of them
 * are given back and later ones are left, the window stays where it is.
 */
import { unpackedDates } from "./packing.ts";

/** Units spent at an instant. */
interface Opening {
  readonly atMs: number;
  readonly units: number;
}

export type Openings = readonly Opening[];

const mostOpenings = 3;

export const noOpenings: Openings = [];

/** With units spent at an instant, if that is one of the first; to none nothing is added: their first is not known. */
export function opened(openings: Openings, atMs: number, units: number): Openings {
  const last = openings.at(-1);
  if (last === undefined || atMs < last.atMs) return openings;
  if (atMs === last.atMs) return [...openings.slice(0, -1), { atMs, units: last.units + units }];
  return openings.length < mostOpenings ? [...openings, { atMs, units }] : openings;
}

/** Without units that were spent at an instant. */
export function withdrawn(openings: Openings, spentAtMs: number, units: number): Openings {
  const index = openings.findIndex(({ atMs }) => atMs === spentAtMs);
  const found = openings[index];
  if (found === undefined) return openings;
  const left = found.units - units;
  return openings.toSpliced(index, 1, ...(left > 0 ? [{ atMs: spentAtMs, units: left }] : []));
}

/** When a window opens of whose openings so many are left, which opened at `openedAtMs`. */
export function reopensAt(openings: Openings, left: Openings, openedAtMs: number): number {
  const wasFirst = openings[0]?.atMs === openedAtMs;
  return wasFirst ? (left[0]?.atMs ?? openedAtMs) : openedAtMs;
}

/** What `packedDates` wrote of openings at `nowMs`, of its integers; null when it did not. */
export function revivedOpenings(integers: readonly number[], nowMs: number): Openings | null {
  const openings = unpackedDates(integers, nowMs);
  return openings === null || openings.length > mostOpenings ? null : openings;
}
