/**
 * The older runs of a long log, in sealed segments that never change. A correction therefore copies one segment instead
 * of the log, and each segment is encoded once.
 */
import { bisect } from "../integers.ts";
import type { DatedUnits } from "../strategy.ts";
import { decodeIntegers, encodeDated } from "./varint.ts";

/** Units that count from one instant. */
export type Run = DatedUnits;

export interface Segment {
  readonly times: readonly number[];
  /** For each run, its units and those of all runs before it in the segment. */
  readonly totals: readonly number[];
  /** The encoded segment; null until it is first stored. */
  text: string | null;
}

export interface Segments {
  readonly list: readonly Segment[];
  /** For each segment, its units and those of all segments before it. */
  readonly ends: readonly number[];
  readonly units: number;
}

/** The runs of a new segment. Corrections may leave fewer, or up to twice as many. */
export const runsPerSegment = 512;

/** The first index in `[start, end)` of increasing values that is at least `least`; `end` if there is none. */
export function firstAtLeast(values: readonly number[], start: number, end: number, least: number): number {
  // Most results are near the start, so the step doubles until it passes the result.
  let low = start;
  let step = 1;
  for (; low + step < end && (values[low + step] ?? 0) < least; step *= 2) low += step;
  let high = Math.min(low + step, end);
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((values[middle] ?? 0) >= least) high = middle;
    else low = middle + 1;
  }
  return low;
}

export const lastMsOf = ({ times }: Segment): number => times[times.length - 1] ?? 0;

const segmentUnits = ({ totals }: Segment): number => totals[totals.length - 1] ?? 0;

/** Reads an element without reading past the end, which is slow. A short log would do that on every decision. */
export const segmentAt = (list: readonly Segment[], index: number): Segment | undefined =>
  index < list.length ? list[index] : undefined;

/** The first segment that ends at `leastMs` or later; the number of segments if there is none. */
export function segmentEndingFrom({ list }: Segments, leastMs: number): number {
  const oldest = segmentAt(list, 0);
  // The first segment is the most frequent result.
  if (oldest === undefined || lastMsOf(oldest) >= leastMs) return 0;
  return bisect(1, list.length, (index) => {
    const segment = list[index];
    return segment !== undefined && lastMsOf(segment) >= leastMs;
  });
}

export function joinSegments(list: readonly Segment[]): Segments {
  const ends: number[] = [];
  let units = 0;
  for (const segment of list) ends.push((units += segmentUnits(segment)));
  return { list, ends, units };
}

export function appendSegment({ list, ends, units }: Segments, segment: Segment): Segments {
  const sum = units + segmentUnits(segment);
  return { list: [...list, segment], ends: [...ends, sum], units: sum };
}

/** The runs in `[start, end)` of a segment or a tail. */
export function runsBetween(times: readonly number[], totals: readonly number[], start: number, end: number): Run[] {
  const list: Run[] = [];
  let before = start === 0 ? 0 : (totals[start - 1] ?? 0);
  for (let index = start; index < end; index++) {
    const total = totals[index] ?? 0;
    list.push({ atMs: times[index] ?? 0, units: total - before });
    before = total;
  }
  return list;
}

export const runsFrom = ({ times, totals }: Segment, start: number): Run[] =>
  runsBetween(times, totals, start, times.length);

/** A segment of the runs in `[start, end)` of a tail. */
export function sealRuns(times: readonly number[], totals: readonly number[], start: number, end: number): Segment {
  const before = start === 0 ? 0 : (totals[start - 1] ?? 0);
  const sealedTotals = totals.slice(start, end).map((total) => total - before);
  return { times: times.slice(start, end), totals: sealedTotals, text: null };
}

function segmentOf(list: readonly Run[], text: string | null): Segment {
  let units = 0;
  const totals = list.map((run) => (units += run.units));
  return { times: list.map(({ atMs }) => atMs), totals, text };
}

/** The segments for a list of runs: none, one, or two if they are too many for one. */
export function segmentsFor(list: readonly Run[]): Segment[] {
  if (list.length === 0) return [];
  if (list.length <= 2 * runsPerSegment) return [segmentOf(list, null)];
  const middle = list.length >>> 1;
  return [segmentOf(list.slice(0, middle), null), segmentOf(list.slice(middle), null)];
}

/**
 * Merges the segment at an index with a neighbour if both fit in one.
 * @param startOfFirst the index of the first run that counts in the first segment
 */
export function mergeSmall(list: readonly Segment[], index: number, startOfFirst: number): Segment[] {
  const result = [...list];
  for (const left of [index, index - 1]) {
    const [one, other] = [result[left], result[left + 1]];
    if (one === undefined || other === undefined) continue;
    const start = left === 0 ? startOfFirst : 0;
    if (one.times.length - start + other.times.length > runsPerSegment) continue;
    result.splice(left, 2, segmentOf([...runsFrom(one, start), ...runsFrom(other, 0)], null));
  }
  return result;
}

/** The segment as text, which does not depend on the current time. */
export function encodeSegment(segment: Segment): string {
  segment.text ??= encodeDated(runsFrom(segment, 0), 0);
  return segment.text;
}

/** Reverses `encodeSegment`; null for invalid data, or if a run is not later than `afterMs`. */
export function decodeSegment(text: unknown, afterMs: number): Segment | null {
  const integers = decodeIntegers(text);
  if (typeof text !== "string" || integers === null || integers.length % 2 !== 0) return null;
  if (integers.length === 0 || integers.length > 4 * runsPerSegment) return null;
  const times: number[] = [];
  const totals: number[] = [];
  let atMs = 0;
  let total = 0;
  for (let index = 0; index < integers.length; index += 2) {
    const step = integers[index] ?? 0;
    const units = integers[index + 1] ?? 0;
    atMs += step;
    total += units;
    if (units === 0 || (index > 0 && step === 0)) return null;
    times.push(atMs);
    totals.push(total);
  }
  return (times[0] ?? 0) > afterMs ? { times, totals, text } : null;
}
