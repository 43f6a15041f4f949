/**
 * The older runs of a long log, cut into segments that never change. So a correction copies one segment, not the log,
 * and the text of a segment is made once, whatever else is spent.
 */
import { encodeDated, decodeIntegers } from "./varint.ts";

/** Units that count from one instant. */
export interface Run {
  readonly atMs: number;
  readonly units: number;
}

export interface Segment {
  readonly times: readonly number[];
  /** Units of this run and of all before it in the segment. */
  readonly totals: readonly number[];
  /** What is stored of it, once it has been asked for. */
  text: string | null;
}

export interface Segments {
  /** The oldest first. */
  readonly list: readonly Segment[];
  /** Units of this segment and of all before it. */
  readonly ends: readonly number[];
  /** Units of all. */
  readonly units: number;
}

/** So many runs are sealed together. Corrections may leave up to twice as many, or fewer. */
export const runsPerSegment = 512;

/** The first of increasing values that is `least` or more, in `[start, end)`; `end` if none is. Mostly an early one. */
export function firstAtLeast(
  values: readonly number[],
  start: number,
  end: number,
  least: number,
): number {
  let low = start;
  let step = 1;
  while (low < end && (values[low] ?? 0) < least) {
    const next = low + step;
    if (next >= end || (values[next] ?? 0) >= least) {
      return bisected(values, low + 1, Math.min(next, end), least);
    }
    low = next;
    step *= 2;
  }
  return low;
}

function bisected(values: readonly number[], start: number, end: number, least: number): number {
  let low = start;
  let high = end;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((values[middle] ?? 0) >= least) high = middle;
    else low = middle + 1;
  }
  return low;
}

export const lastMsOf = ({ times }: Segment): number => times[times.length - 1] ?? 0;

const segmentUnits = ({ totals }: Segment): number => totals[totals.length - 1] ?? 0;

/** Of a list that is mostly empty, and is read at every decision: what is not there is not looked for. */
export const segmentAt = (list: readonly Segment[], index: number): Segment | undefined =>
  index < list.length ? list[index] : undefined;

/** The first segment that ends at `leastMs` or later; as many as there are if none does. Mostly it is the first. */
export function segmentEndingFrom({ list }: Segments, leastMs: number): number {
  const oldest = segmentAt(list, 0);
  if (oldest === undefined || lastMsOf(oldest) >= leastMs) return 0;
  let low = 1;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const segment = list[middle];
    if (segment !== undefined && lastMsOf(segment) >= leastMs) high = middle;
    else low = middle + 1;
  }
  return low;
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

/** The runs of a segment, or of a list that grows, from one index to before another. */
export function runsBetween(
  times: readonly number[],
  totals: readonly number[],
  start: number,
  end: number,
): Run[] {
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

/** Of a list that grows, the runs from one index to before another, which from now on do not change. */
export function sealRuns(
  times: readonly number[],
  totals: readonly number[],
  start: number,
  end: number,
): Segment {
  const its = totals.slice(start, end);
  const before = start === 0 ? 0 : (totals[start - 1] ?? 0);
  for (let index = 0; index < its.length; index++) its[index] = (its[index] ?? 0) - before;
  return { times: times.slice(start, end), totals: its, text: null };
}

function segmentOf(list: readonly Run[], text: string | null): Segment {
  let units = 0;
  const totals = list.map((run) => (units += run.units));
  return { times: list.map(({ atMs }) => atMs), totals, text };
}

/** The runs as a segment, as two when they are too many for one, or as none. */
export function segmentsFor(list: readonly Run[]): Segment[] {
  if (list.length === 0) return [];
  if (list.length <= 2 * runsPerSegment) return [segmentOf(list, null)];
  const middle = list.length >>> 1;
  return [segmentOf(list.slice(0, middle), null), segmentOf(list.slice(middle), null)];
}

/**
 * Where few runs are left in the segment of an index, it and a neighbour may fit in one.
 * @param startOfFirst the runs of the first segment before this index are of no use any more
 */
export function mergeSmall(
  list: readonly Segment[],
  index: number,
  startOfFirst: number,
): Segment[] {
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

/** The segment as a text that is the same whenever it is written. */
export function encodeSegment(segment: Segment): string {
  segment.text ??= encodeDated(runsFrom(segment, 0), 0);
  return segment.text;
}

/** The segment of a text, all of it later than `afterMs`; null for what `textOf` did not write. */
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
