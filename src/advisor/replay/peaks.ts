/** The most units that each key spends within a span of time. Keys that cannot be denied need no replay. */
import type { Timelines } from "./timelines.ts";

/** Distinct spans that are kept for each timelines. A search for a limit asks for few of them again and again. */
const mostKept = 64;
const known = new WeakMap<Timelines, Map<number, Float64Array>>();

/**
 * The most units of each key within any span of `windowMs`, by the costs of its arrivals, allowed or not. Two arrivals exactly
 * one window apart are never in the same span. The result is kept as long as the timelines are.
 */
export function peaks(timelines: Timelines, windowMs: number): Float64Array {
  const kept = known.get(timelines) ?? new Map<number, Float64Array>();
  known.set(timelines, kept);
  const found = kept.get(windowMs);
  if (found !== undefined) return found;
  const { firstRow, atMs, cost } = timelines;
  const most = new Float64Array(timelines.keys.length);
  for (let key = 0; key < most.length; key++) {
    const [from = 0, to = 0] = [firstRow[key], firstRow[key + 1]];
    most[key] = mostWithin(atMs, cost, { from, to, windowMs, isIncluded: null });
  }
  const [oldest] = kept.keys();
  if (kept.size === mostKept && oldest !== undefined) kept.delete(oldest);
  kept.set(windowMs, most);
  return most;
}

interface Rows {
  readonly from: number;
  /** Exclusive. */
  readonly to: number;
  readonly windowMs: number;
  /** Nonzero for the rows that count; null: all of them. */
  readonly isIncluded: Uint8Array | null;
}

/** The most units of rows in order of time within any span of a window. */
export function mostWithin(atMs: Float64Array, units: Float64Array, { from, to, windowMs, isIncluded }: Rows): number {
  let [most, sum, oldest] = [0, 0, from];
  for (let row = from; row < to; row++) {
    if (isIncluded?.[row] === 0) continue;
    const endedMs = (atMs[row] ?? 0) - windowMs;
    for (; oldest < row && (atMs[oldest] ?? 0) <= endedMs; oldest++) {
      if (isIncluded?.[oldest] !== 0) sum -= units[oldest] ?? 0;
    }
    sum += units[row] ?? 0;
    if (sum > most) most = sum;
  }
  return most;
}
