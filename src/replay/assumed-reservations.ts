/**
 * Reservations of requests that the recording denied. Nothing states how long they would have run, or what they would have
 * cost. They are assumed to be like the median of the key's own settled reservations, or of all keys if it has none.
 */
import type { ArrivalReservation, Timelines } from "./timelines.ts";

export interface TypicalReservation {
  readonly ttlMs: number;
  /** From the arrival to the settlement; null when nothing was settled. */
  readonly runsMs: number | null;
  /** The actual cost as a share of the reserved cost. */
  readonly costShare: number;
}

/** Null without a reservation among the rows. */
export function typicalReservation(
  { reservations, atMs, cost }: Timelines,
  rows: Iterable<number>,
): TypicalReservation | null {
  const ttlsMs: number[] = [];
  const runsMs: number[] = [];
  const costShares: number[] = [];
  for (const row of rows) {
    const reservation = reservations.get(row);
    if (reservation === undefined) continue;
    const { ttlMs, settledAtMs, settledCost } = reservation;
    ttlsMs.push(ttlMs);
    if (settledAtMs === null) continue;
    runsMs.push(settledAtMs - (atMs[row] ?? 0));
    costShares.push(settledCost / Math.max(1, cost[row] ?? 0));
  }
  const ttlMs = median(ttlsMs);
  return ttlMs === null
    ? null
    : { ttlMs, runsMs: median(runsMs), costShare: median(costShares) ?? 1 };
}

/** The reservation that a request like the typical one would have made. */
export function assumedReservation(
  { ttlMs, runsMs, costShare }: TypicalReservation,
  atMs: number,
  cost: number,
): ArrivalReservation {
  const settledAtMs = runsMs === null ? null : atMs + runsMs;
  return { ttlMs, settledAtMs, settledCost: Math.round(cost * costShare) };
}

/** The lower one of two in the middle. */
function median(values: readonly number[]): number | null {
  return values.toSorted((a, b) => a - b)[(values.length - 1) >> 1] ?? null;
}
