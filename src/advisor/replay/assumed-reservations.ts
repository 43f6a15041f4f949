/**
 * Reservations of requests that the recording denied. Nothing states how long they would have run, or what they would have
 * cost. They are assumed to be like the median of the key's own settled reservations, or of all keys if it has none.
 */
import type { ArrivalReservation, Timelines } from "./timelines.ts";

interface TypicalReservation {
  readonly ttlMs: number;
  /** From the arrival to the settlement; null when nothing was settled. */
  readonly runsMs: number | null;
  /** The actual cost as a share of the reserved cost. */
  readonly costShare: number;
}

/**
 * The reservations that are assumed for arrivals of one set of timelines. Medians are only computed for keys that need them.
 */
export class AssumedReservations {
  readonly #timelines: Timelines;
  #ofAll: TypicalReservation | null = null;
  /** The key of `#ofKey`. */
  #key = -1;
  #ofKey: TypicalReservation | null = null;

  constructor(timelines: Timelines) {
    this.#timelines = timelines;
  }

  /**
   * The reservation that a row would have made; null without any reservation in the timelines.
   * @param ttlMs that of the row, if it is known
   */
  of(key: number, row: number, ttlMs?: number): ArrivalReservation | null {
    const { atMs, cost, firstRow, reservations } = this.#timelines;
    if (reservations.size === 0) return null;
    this.#ofAll ??= typicalReservation(this.#timelines, 0, atMs.length);
    if (this.#key !== key) {
      this.#key = key;
      const [from = 0, to = 0] = [firstRow[key], firstRow[key + 1]];
      this.#ofKey = typicalReservation(this.#timelines, from, to);
    }
    const typical = this.#ofKey?.runsMs == null ? this.#ofAll : this.#ofKey;
    return typical === null ? null : reservationLike(typical, atMs[row] ?? 0, cost[row] ?? 0, ttlMs);
  }
}

/** Null without a reservation among the rows. */
function typicalReservation(
  { reservations, atMs, cost }: Timelines,
  from: number,
  to: number,
): TypicalReservation | null {
  const ttlsMs = new Float64Array(to - from);
  const runsMs = new Float64Array(to - from);
  const costShares = new Float64Array(to - from);
  let [reserved, settled] = [0, 0];
  for (let row = from; row < to; row++) {
    const reservation = reservations.get(row);
    if (reservation === undefined) continue;
    const { ttlMs, settledAtMs, settledCost } = reservation;
    ttlsMs[reserved++] = ttlMs;
    if (settledAtMs === null) continue;
    runsMs[settled] = settledAtMs - (atMs[row] ?? 0);
    costShares[settled++] = settledCost / Math.max(1, cost[row] ?? 0);
  }
  const ttlMs = median(ttlsMs.subarray(0, reserved));
  if (ttlMs === null) return null;
  const costShare = median(costShares.subarray(0, settled)) ?? 1;
  return { ttlMs, runsMs: median(runsMs.subarray(0, settled)), costShare };
}

function reservationLike(
  { ttlMs, runsMs, costShare }: TypicalReservation,
  atMs: number,
  cost: number,
  ownTtlMs = ttlMs,
): ArrivalReservation {
  const settledAtMs = runsMs === null ? null : atMs + runsMs;
  return { ttlMs: ownTtlMs, settledAtMs, settledCost: Math.round(cost * costShare) };
}

/** The lower one of two in the middle. */
const median = (values: Float64Array): number | null => values.toSorted()[(values.length - 1) >> 1] ?? null;
