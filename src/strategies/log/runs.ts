/**
 * Units by the instant at which they count, the oldest first; those of one instant are one run. Spending appends without
 * copying, and what is asked is found by bisection over running totals: no decision walks or copies what is kept. Of a
 * long log all but the latest runs are in sealed segments; what changes there copies one of them.
 */
import { isCount } from "../integers.ts";
import { encodeDated, decodeIntegers, decodeDated } from "./varint.ts";
import {
  firstAtLeast,
  joinSegments,
  lastMsOf,
  mergeSmall,
  type Run,
  runsBetween,
  runsFrom,
  runsPerSegment,
  sealRuns,
  segmentAt,
  segmentEndingFrom,
  decodeSegment,
  type Segments,
  segmentsFor,
  type Segment,
  encodeSegment,
  appendSegment,
} from "./segments.ts";
import type { StoredState } from "../strategy.ts";

/**
 * A version of the runs: sealed segments, then a tail. `times` and `totals` of the tail are shared by the versions that
 * grew from one another: a version owns the entries before `end` and never changes them. The newest run is held apart
 * because units of the same instant may still join it.
 */
export interface Runs {
  readonly older: Segments;
  readonly times: number[];
  /** Units of this run and of all before it, since `times` began. */
  readonly totals: number[];
  /** The first run that may count: of the first segment, or of the tail where there is none. */
  readonly start: number;
  readonly end: number;
  readonly newest: Run;
}

/** So few runs need no segments. */
const fewRuns = 256;

const noRun: Run = { atMs: 0, units: 0 };

export const noRuns = (): Runs => runsOf([]);

/** The sum of what is before an index, of running totals. An index below 0 would be looked for by name, at length. */
const totalBefore = (totals: readonly number[], index: number): number =>
  index === 0 ? 0 : (totals[index - 1] ?? 0);

/** Units of all runs, whether they count or not. */
const unitsOfAll = ({ older, totals, end, newest }: Runs): number =>
  older.units + totalBefore(totals, end) + newest.units;

/** Where the tail begins: with the first run that may count, if that is in the tail. */
const tailStart = ({ older, start }: Runs): number => (older.list.length === 0 ? start : 0);

/** The first run from an instant on, in a segment; or in the tail, if the index is that after the last segment. */
function firstFrom(runs: Runs, segment: number, leastMs: number): number {
  const start = segment === 0 ? runs.start : 0;
  const found = segmentAt(runs.older.list, segment);
  return found === undefined
    ? firstAtLeast(runs.times, start, runs.end, leastMs)
    : firstAtLeast(found.times, start, found.times.length, leastMs);
}

/** The first run that counts, likewise. */
const startIn = (runs: Runs, segment: number, afterMs: number): number =>
  firstFrom(runs, segment, afterMs + 1);

/** Whether anything counts: if the newest run does not, no older one does. */
const newestCounts = ({ newest }: Runs, afterMs: number): boolean =>
  newest.units > 0 && newest.atMs > afterMs;

/** Units that count after an instant. */
export function unitsAfter(runs: Runs, afterMs: number): number {
  if (!newestCounts(runs, afterMs)) return 0;
  const { older } = runs;
  const segment = segmentEndingFrom(older, afterMs + 1);
  const start = startIn(runs, segment, afterMs);
  const found = segmentAt(older.list, segment);
  const totals = found === undefined ? runs.totals : found.totals;
  return unitsOfAll(runs) - totalBefore(older.ends, segment) - totalBefore(totals, start);
}

/** The instant of the run with which, counted from the oldest, no more than so many of all units are left. */
export function instantLeaving(runs: Runs, units: number): number {
  const { older, times, totals, start, end, newest } = runs;
  if (units < newest.units) return newest.atMs;
  const enough = unitsOfAll(runs) - units;
  const { list, ends } = older;
  const segment = firstAtLeast(ends, 0, ends.length, enough);
  const least = enough - totalBefore(ends, segment);
  const found = segmentAt(list, segment);
  if (found === undefined) {
    return times[firstAtLeast(totals, tailStart(runs), end, least)] ?? 0;
  }
  const index = firstAtLeast(found.totals, segment === 0 ? start : 0, found.times.length, least);
  return found.times[index] ?? 0;
}

/** The runs with `units` more at an instant; those that do not count after `afterMs` may go. */
export function addUnits(runs: Runs, units: number, atMs: number, afterMs: number): Runs {
  const { newest } = runs;
  if (atMs > newest.atMs) return appendRun(runs, { atMs, units }, afterMs);
  return atMs === newest.atMs
    ? replaceNewest(runs, { atMs, units: newest.units + units })
    : correctRun(runs, atMs, units, afterMs);
}

/**
 * The runs without `units` of those spent at an instant: a spend made while the clock lagged behind counts from the
 * latest instant seen by then, so of those of the first run that is not before it. One made while the clock was ahead of
 * `nowMs` has been booked again since, before anything that was spent later: it is taken from the oldest.
 */
export function removeUnits(
  runs: Runs,
  units: number,
  spentAtMs: number,
  afterMs: number,
  nowMs: number,
): Runs {
  if (spentAtMs > nowMs) return removeUnits(runs, units, afterMs + 1, afterMs, nowMs);
  if (spentAtMs <= afterMs || !newestCounts(runs, afterMs)) return runs;
  const { newest } = runs;
  const segment = segmentEndingFrom(runs.older, spentAtMs);
  const index = firstFrom(runs, segment, spentAtMs);
  const atMs = (runs.older.list[segment] ?? runs).times[index] ?? 0;
  const isNewest = segment === runs.older.list.length && index === runs.end;
  if (!isNewest) return correctRun(runs, atMs, -units, afterMs);
  if (newest.atMs < spentAtMs) return runs;
  if (newest.units > units) return replaceNewest(runs, { ...newest, units: newest.units - units });
  return removeNewest(runs, afterMs);
}

function replaceNewest({ older, times, totals, start, end }: Runs, newest: Run): Runs {
  return { older, times, totals, start, end, newest };
}

function removeNewest(runs: Runs, afterMs: number): Runs {
  const { older, times, totals, start, end } = runs;
  const last = end - 1;
  if (last >= tailStart(runs) && (times[last] ?? 0) > afterMs) {
    const newest = {
      atMs: times[last] ?? 0,
      units: totalBefore(totals, end) - totalBefore(totals, last),
    };
    return unsealedIfFew({ older, times, totals, start, end: last, newest }, afterMs);
  }
  // The latest segment becomes the tail again.
  const first = segmentEndingFrom(older, afterMs + 1);
  const latest = older.list.length - 1;
  const segment = older.list[latest];
  if (segment === undefined || first > latest) return noRuns();
  const tail = runsFrom(segment, first === latest ? startIn(runs, latest, afterMs) : 0);
  const list = older.list.slice(first, latest);
  const runsLeft = runsOf(tail, list, list.length === 0 ? 0 : startIn(runs, first, afterMs));
  return unsealedIfFew(runsLeft, afterMs);
}

/** The runs whose newest is closed and followed by another, later one. */
function appendRun(runs: Runs, run: Run, afterMs: number): Runs {
  if (!newestCounts(runs, afterMs)) return runsOf([run]);
  const { older, times, totals, end, newest } = runs;
  const start = startIn(runs, 0, afterMs);
  const next = tidyRuns(runs, start, afterMs);
  if (next !== null) return appendRun(next, run, afterMs);
  const total = totalBefore(totals, end) + newest.units;
  if (times.length === end) {
    times.push(newest.atMs);
    totals.push(total);
  } else if (times[end] !== newest.atMs || totals[end] !== total) {
    // Another version has closed another run here: go on with a copy.
    const isShort = older.list.length === 0;
    return runsOf([...tailOf(runs, isShort ? start : 0), run], older.list, isShort ? 0 : start);
  }
  return { older, times, totals, start, end: end + 1, newest: run };
}

/**
 * The runs without segments that count no more, or with a tail that has been sealed for being long enough, or without
 * what counts no more where it is the most of all; null where there is nothing to do.
 * @param start of the first segment, or else of the tail, the first run that counts
 */
function tidyRuns(runs: Runs, start: number, afterMs: number): Runs | null {
  const { older, times, totals, end, newest } = runs;
  const first = segmentAt(older.list, 0);
  if (first === undefined) {
    if (start > 64 && start > end / 2) return runsOf(tailOf(runs, start));
    if (end - start < runsPerSegment) return null;
    const only = appendSegment(older, sealRuns(times, totals, start, end));
    return { older: only, times: [], totals: [], start: 0, end: 0, newest };
  }
  if (start === first.times.length) {
    const segment = segmentEndingFrom(older, afterMs + 1);
    const left = joinSegments(older.list.slice(segment));
    return { older: left, times, totals, start: startIn(runs, segment, afterMs), end, newest };
  }
  if (end < runsPerSegment)
    return isFew(runs, 0, start) ? runsOf(countingRuns(runs, afterMs)) : null;
  const more = appendSegment(older, sealRuns(times, totals, 0, end));
  return { older: more, times: [], totals: [], start, end: 0, newest };
}

/**
 * Whether so few runs count that they need no segments. Three segments hold more: of neighbours that have shrunk, none
 * fit in one.
 * @param segment the first that counts, from an index on
 */
function isFew({ older: { list }, end }: Runs, segment: number, start: number): boolean {
  if (list.length > segment + 2) return false;
  let count = end + 1 - start;
  for (let index = segment; index < list.length; index++) count += list[index]?.times.length ?? 0;
  return count <= fewRuns;
}

function unsealedIfFew(runs: Runs, afterMs: number): Runs {
  const first = segmentEndingFrom(runs.older, afterMs + 1);
  const isDone = runs.older.list.length === 0 || !isFew(runs, first, startIn(runs, first, afterMs));
  return isDone ? runs : runsOf(countingRuns(runs, afterMs));
}

/** A copy in which the run of `atMs` has `units` more or fewer; runs come and go as their units do. */
function correctRun(runs: Runs, atMs: number, units: number, afterMs: number): Runs {
  const { older, times, totals, end, newest } = runs;
  const first = segmentEndingFrom(older, afterMs + 1);
  const start = startIn(runs, first, afterMs);
  const counting = older.list.slice(first);
  const index = segmentEndingFrom(older, Math.max(atMs, afterMs + 1)) - first;
  const segment = counting[index];
  if (segment === undefined) {
    const tail = changeUnits(tailOf(runs, first === older.list.length ? start : 0), atMs, units);
    return unsealedIfFew(runsOf(tail, counting, counting.length === 0 ? 0 : start), afterMs);
  }
  const its = changeUnits(runsFrom(segment, index === 0 ? start : 0), atMs, units);
  const replaced = counting.toSpliced(index, 1, ...segmentsFor(its));
  const isFirstKept = replaced[0] === counting[0];
  const list = units < 0 ? mergeSmall(replaced, index, isFirstKept ? start : 0) : replaced;
  const startOfFirst = list[0] === counting[0] ? start : 0;
  const next = { older: joinSegments(list), times, totals, start: startOfFirst, end, newest };
  return unsealedIfFew(next, afterMs);
}

/** The list, in order, with `units` more or fewer at an instant. */
function changeUnits(list: Run[], atMs: number, units: number): Run[] {
  const found = list.findIndex((run) => run.atMs >= atMs);
  const index = found === -1 ? list.length : found;
  const isThere = list[index]?.atMs === atMs;
  const sum = (isThere ? (list[index]?.units ?? 0) : 0) + units;
  list.splice(index, isThere ? 1 : 0, ...(sum > 0 ? [{ atMs, units: sum }] : []));
  return list;
}

/** The runs of the tail from an index on. */
const tailOf = ({ times, totals, end, newest }: Runs, start: number): Run[] => [
  ...runsBetween(times, totals, start, end),
  newest,
];

/** The runs that count, in order. */
function countingRuns(runs: Runs, afterMs: number): Run[] {
  if (!newestCounts(runs, afterMs)) return [];
  const { list } = runs.older;
  const first = segmentEndingFrom(runs.older, afterMs + 1);
  const start = startIn(runs, first, afterMs);
  const inSegments = list
    .slice(first)
    .flatMap((segment, index) => runsFrom(segment, index === 0 ? start : 0));
  return [...inSegments, ...tailOf(runs, first === list.length ? start : 0)];
}

/** Runs of a tail, in order, after those of segments; what is too long for a tail is sealed. */
function runsOf(tail: readonly Run[], older: readonly Segment[] = [], start = 0): Runs {
  const segments = [...older];
  let from = 0;
  // The newest is not yet of those that are sealed.
  for (; tail.length - from > runsPerSegment + 1; from += runsPerSegment) {
    segments.push(...segmentsFor(tail.slice(from, from + runsPerSegment)));
  }
  const times: number[] = [];
  const totals: number[] = [];
  let total = 0;
  for (const run of tail.slice(from, -1)) {
    total += run.units;
    times.push(run.atMs);
    totals.push(total);
  }
  const newest = tail.at(-1) ?? noRun;
  return { older: joinSegments(segments), times, totals, start, end: times.length, newest };
}

/** The runs that count, as a text; of more than a few the texts of their segments, then of the tail. */
export function encodeRuns(runs: Runs, afterMs: number, nowMs: number): StoredState {
  const { list } = runs.older;
  const first = segmentEndingFrom(runs.older, afterMs + 1);
  if (first === list.length || isFew(runs, first, startIn(runs, first, afterMs))) {
    return encodeDated(countingRuns(runs, afterMs), nowMs);
  }
  return [...list.slice(first).map(encodeSegment), encodeDated(tailOf(runs, 0), nowMs)];
}

/** What `storedRuns` wrote at `nowMs`; null when it did not. */
export function decodeRuns(stored: unknown, nowMs: number): Runs | null {
  const texts: readonly unknown[] = Array.isArray(stored) ? stored : [stored];
  const segments: Segment[] = [];
  let afterMs = -1;
  for (const text of texts.slice(0, -1)) {
    const segment = decodeSegment(text, afterMs);
    if (segment === null) return null;
    segments.push(segment);
    afterMs = lastMsOf(segment);
  }
  const tail = decodeDated(decodeIntegers(texts.at(-1)), nowMs);
  if (tail === null || tail.some(({ units }) => units === 0)) return null;
  const [oldest] = tail;
  const isInOrder = segments.length > 0 && oldest !== undefined && oldest.atMs > afterMs;
  if (Array.isArray(stored) && !isInOrder) return null;
  const runs = runsOf(tail, segments);
  return isCount(unitsOfAll(runs)) ? runs : null;
}

/** The bytes of an array that has grown by one at a time, of two numbers each, and of what holds them. */
const bytesPerRun = 16;
const bytesPerSegment = 200;
const bytesOfRuns = 350;

/** What the runs take of memory, roughly; segments that versions share are counted for each. */
export function runsBytes({ older, times }: Runs): number {
  let sizeBytes = bytesOfRuns + times.length * bytesPerRun;
  for (const { times: its, text } of older.list) {
    sizeBytes += bytesPerSegment + its.length * bytesPerRun + (text?.length ?? 0);
  }
  return sizeBytes;
}

/** What is allowed for at the least: five characters for the step to a run, and one for its units. */
const bytesPerStoredRun = 6;

/**
 * The most bytes that so many runs within a span take, and units in all of them. A number takes a character for each
 * factor of 32: numbers of a given sum take the most when they are equal.
 */
export function mostBytesOfRuns(runs: number, spanMs: number, units: number): number {
  // The first segment may hold as much again that counts no more; each is a text of its own with an instant.
  const isLong = runs > runsPerSegment;
  const count = isLong ? runs + 2 * runsPerSegment : runs;
  const digits = (sum: number): number => Math.log2(Math.max(1, (2 * sum) / count)) / 5 + 1;
  const segments = isLong ? 2 + (2 * count) / runsPerSegment : 0;
  const packed = Math.ceil(count * (digits(spanMs) + digits(units)) + segments * 20);
  return Math.max(packed, runs * bytesPerStoredRun);
}
