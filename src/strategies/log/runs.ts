/**
 * A log of units by the instant from which they count, the oldest first. Units of one instant form a run. Spending appends
 * to shared arrays, and decisions bisect running totals, so that no decision walks or copies the log. In a long log, all
 * but the latest runs are in sealed segments, and a correction copies one segment.
 */
import { isCount } from "../integers.ts";
import type { StoredState } from "../strategy.ts";
import {
  appendSegment,
  decodeSegment,
  encodeSegment,
  firstAtLeast,
  joinSegments,
  lastMsOf,
  mergeSmall,
  type Run,
  runsBetween,
  runsFrom,
  runsPerSegment,
  sealRuns,
  type Segment,
  segmentAt,
  segmentEndingFrom,
  type Segments,
  segmentsFor,
} from "./segments.ts";
import { decodeDated, decodeIntegers, encodeDated } from "./varint.ts";

/**
 * An immutable log: sealed segments, then a tail, then the newest run, which is separate because units may be added to it.
 * A log and its successors share the arrays of the tail. Each uses the entries before its own `end`, which never change.
 */
export interface Runs {
  readonly older: Segments;
  readonly times: number[];
  /** For each run of the tail, its units and those of all runs before it in `times`. */
  readonly totals: number[];
  /** The index of the first run that may count, in the first segment, or in the tail if there is no segment. */
  readonly start: number;
  readonly end: number;
  readonly newest: Run;
}

/** Logs of up to this number of runs have no segments. */
const fewRuns = 256;

const noRun: Run = { atMs: 0, units: 0 };

export const noRuns = (): Runs => runsOf([]);

/** The total before an index. It avoids reading index −1, which engines look up slowly as a property name. */
const totalBefore = (totals: readonly number[], index: number): number => (index === 0 ? 0 : (totals[index - 1] ?? 0));

const unitsOfAll = ({ older, totals, end, newest }: Runs): number =>
  older.units + totalBefore(totals, end) + newest.units;

/** The index of the first run of the tail that may count. */
const tailStart = ({ older, start }: Runs): number => (older.list.length === 0 ? start : 0);

/** The first run at `leastMs` or later in a segment, or in the tail if `segment` is the number of segments. */
function firstFrom(runs: Runs, segment: number, leastMs: number): number {
  const start = segment === 0 ? runs.start : 0;
  const found = segmentAt(runs.older.list, segment);
  return found === undefined
    ? firstAtLeast(runs.times, start, runs.end, leastMs)
    : firstAtLeast(found.times, start, found.times.length, leastMs);
}

/** The position of the first run at `leastMs` or later. In the tail, `segment` is the number of segments. */
function positionFrom(runs: Runs, leastMs: number): { segment: number; index: number } {
  const segment = segmentEndingFrom(runs.older, leastMs);
  return { segment, index: firstFrom(runs, segment, leastMs) };
}

/** Whether the newest run counts. If it does not, no run does. */
const newestCounts = ({ newest }: Runs, afterMs: number): boolean => newest.units > 0 && newest.atMs > afterMs;

/** The units later than an instant. */
export function unitsAfter(runs: Runs, afterMs: number): number {
  if (!newestCounts(runs, afterMs)) return 0;
  const { older } = runs;
  const segment = segmentEndingFrom(older, afterMs + 1);
  const index = firstFrom(runs, segment, afterMs + 1);
  const totals = segmentAt(older.list, segment)?.totals ?? runs.totals;
  return unitsOfAll(runs) - totalBefore(older.ends, segment) - totalBefore(totals, index);
}

/** The least instant such that removing all runs up to it leaves at most `units`. */
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

/** Adds units at an instant. Runs at or before `afterMs` no longer count and may be dropped. */
export function addToRuns(runs: Runs, units: number, atMs: number, afterMs: number): Runs {
  const { newest } = runs;
  if (atMs > newest.atMs) return appendRun(runs, { atMs, units }, afterMs);
  return atMs === newest.atMs
    ? { ...runs, newest: { atMs, units: newest.units + units } }
    : correctRun(runs, atMs, units, afterMs);
}

/**
 * Removes units spent at an instant from the first run at or after it, because a spend may have been booked later, at the
 * latest time seen. If the clock was ahead of `nowMs` at the spend, its units have been booked again since: they are
 * removed from the oldest run.
 */
export function removeFromRuns(runs: Runs, units: number, spentAtMs: number, afterMs: number, nowMs: number): Runs {
  if (spentAtMs > nowMs) return removeFromRuns(runs, units, afterMs + 1, afterMs, nowMs);
  if (spentAtMs <= afterMs || !newestCounts(runs, afterMs)) return runs;
  const { newest } = runs;
  const { segment, index } = positionFrom(runs, spentAtMs);
  const atMs = (runs.older.list[segment] ?? runs).times[index] ?? 0;
  const isNewest = segment === runs.older.list.length && index === runs.end;
  if (!isNewest) return correctRun(runs, atMs, -units, afterMs);
  if (newest.atMs < spentAtMs) return runs;
  const left = newest.units - units;
  return left > 0 ? { ...runs, newest: { atMs: newest.atMs, units: left } } : removeNewest(runs, afterMs);
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
  const { segment: first, index } = positionFrom(runs, afterMs + 1);
  const latest = older.list.length - 1;
  const segment = older.list[latest];
  if (segment === undefined || first > latest) return noRuns();
  const tail = runsFrom(segment, first === latest ? index : 0);
  const list = older.list.slice(first, latest);
  return unsealedIfFew(runsOf(tail, list, list.length === 0 ? 0 : index), afterMs);
}

function appendRun(runs: Runs, run: Run, afterMs: number): Runs {
  if (!newestCounts(runs, afterMs)) return runsOf([run]);
  const { older, times, totals, end, newest } = runs;
  const start = firstFrom(runs, 0, afterMs + 1);
  const next = tidyRuns(runs, start, afterMs);
  if (next !== null) return appendRun(next, run, afterMs);
  const total = totalBefore(totals, end) + newest.units;
  if (times.length === end) {
    times.push(newest.atMs);
    totals.push(total);
  } else if (times[end] !== newest.atMs || totals[end] !== total) {
    // Another successor of this log has appended a different run: continue with a copy.
    const isShort = older.list.length === 0;
    return runsOf([...tailOf(runs, isShort ? start : 0), run], older.list, isShort ? 0 : start);
  }
  return { older, times, totals, start, end: end + 1, newest: run };
}

/**
 * Drops segments that no longer count, seals a long tail, or drops runs of the tail if most of them no longer count; null
 * if there is nothing to do.
 * @param start the first run that counts, as an index of the first segment or else of the tail
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
    const { segment, index } = positionFrom(runs, afterMs + 1);
    return {
      older: joinSegments(older.list.slice(segment)),
      times,
      totals,
      start: index,
      end,
      newest,
    };
  }
  if (end < runsPerSegment) return isFew(runs, 0, start) ? runsOf(countingRuns(runs, afterMs)) : null;
  const more = appendSegment(older, sealRuns(times, totals, 0, end));
  return { older: more, times: [], totals: [], start, end: 0, newest };
}

/**
 * Whether at most `fewRuns` count. Three segments always hold more, because small neighbours are merged into one.
 * @param segment the first segment that counts
 * @param start the first run of it that counts
 */
function isFew({ older: { list }, end }: Runs, segment: number, start: number): boolean {
  if (list.length > segment + 2) return false;
  let count = end + 1 - start;
  for (let index = segment; index < list.length; index++) count += list[index]?.times.length ?? 0;
  return count <= fewRuns;
}

function unsealedIfFew(runs: Runs, afterMs: number): Runs {
  const { segment, index } = positionFrom(runs, afterMs + 1);
  const isDone = runs.older.list.length === 0 || !isFew(runs, segment, index);
  return isDone ? runs : runsOf(countingRuns(runs, afterMs));
}

/** A copy with `units` more (or fewer, if negative) at an instant. */
function correctRun(runs: Runs, atMs: number, units: number, afterMs: number): Runs {
  const { older, times, totals, end, newest } = runs;
  const { segment: first, index: start } = positionFrom(runs, afterMs + 1);
  const counting = older.list.slice(first);
  const index = segmentEndingFrom(older, Math.max(atMs, afterMs + 1)) - first;
  const segment = counting[index];
  if (segment === undefined) {
    const tail = changeUnits(tailOf(runs, first === older.list.length ? start : 0), atMs, units);
    return unsealedIfFew(runsOf(tail, counting, counting.length === 0 ? 0 : start), afterMs);
  }
  const corrected = changeUnits(runsFrom(segment, index === 0 ? start : 0), atMs, units);
  const replaced = counting.toSpliced(index, 1, ...segmentsFor(corrected));
  const isFirstUnchanged = replaced[0] === counting[0];
  const list = units < 0 ? mergeSmall(replaced, index, isFirstUnchanged ? start : 0) : replaced;
  const startOfFirst = list[0] === counting[0] ? start : 0;
  const next = { older: joinSegments(list), times, totals, start: startOfFirst, end, newest };
  return unsealedIfFew(next, afterMs);
}

/** Adds units (or removes them, if negative) at an instant of a list that is in order of time. */
function changeUnits(list: Run[], atMs: number, units: number): Run[] {
  const found = list.findIndex((run) => run.atMs >= atMs);
  const index = found === -1 ? list.length : found;
  const run = list[index];
  const known = run?.atMs === atMs ? run : undefined;
  const sum = (known?.units ?? 0) + units;
  list.splice(index, known ? 1 : 0, ...(sum > 0 ? [{ atMs, units: sum }] : []));
  return list;
}

const tailOf = ({ times, totals, end, newest }: Runs, start: number): Run[] => [
  ...runsBetween(times, totals, start, end),
  newest,
];

/** The runs later than an instant, the oldest first, as a copy. */
export function countingRuns(runs: Runs, afterMs: number): Run[] {
  if (!newestCounts(runs, afterMs)) return [];
  const { list } = runs.older;
  const { segment: first, index: start } = positionFrom(runs, afterMs + 1);
  const inSegments = list.slice(first).flatMap((segment, index) => runsFrom(segment, index === 0 ? start : 0));
  return [...inSegments, ...tailOf(runs, first === list.length ? start : 0)];
}

/** A log of segments and later runs. Runs that are too many for a tail are sealed. */
function runsOf(tail: readonly Run[], older: readonly Segment[] = [], start = 0): Runs {
  const segments = [...older];
  let from = 0;
  // The newest run is never sealed.
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

/** The runs that count: one text for few runs, else the texts of their segments and of the tail. */
export function encodeRuns(runs: Runs, afterMs: number, nowMs: number): StoredState {
  const { list } = runs.older;
  const { segment, index } = positionFrom(runs, afterMs + 1);
  if (segment === list.length || isFew(runs, segment, index)) {
    return encodeDated(countingRuns(runs, afterMs), nowMs);
  }
  return [...list.slice(segment).map(encodeSegment), encodeDated(tailOf(runs, 0), nowMs)];
}

/** Reverses `encodeRuns`, which was called with the same `nowMs`; null for invalid data. */
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

/** Approximate memory of two numbers in growing arrays. */
const bytesPerRun = 16;
const bytesPerSegment = 200;
const bytesOfRuns = 350;

/** Approximate memory of a log. A segment that several logs share counts for each of them. */
export function runsBytes({ older, times }: Runs): number {
  let sizeBytes = bytesOfRuns + times.length * bytesPerRun;
  for (const { times: sealedTimes, text } of older.list) {
    sizeBytes += bytesPerSegment + sealedTimes.length * bytesPerRun + (text?.length ?? 0);
  }
  return sizeBytes;
}

/** A lower bound: five characters for the time since the run before, and one for the units. */
const bytesPerStoredRun = 6;

/**
 * The most bytes of a stored log with this number of runs and units within a span. A number takes one character for every
 * five bits, so that numbers of a given sum take the most characters if they are equal.
 */
export function mostBytesOfRuns(runs: number, spanMs: number, units: number): number {
  // The first segment may hold further runs that no longer count. Each segment starts with an instant, which takes
  // more characters than a difference.
  const isLong = runs > runsPerSegment;
  const count = isLong ? runs + 2 * runsPerSegment : runs;
  const digits = (sum: number): number => Math.log2(Math.max(1, (2 * sum) / count)) / 5 + 1;
  const segments = isLong ? 2 + (2 * count) / runsPerSegment : 0;
  const bytes = Math.ceil(count * (digits(spanMs) + digits(units)) + segments * 20);
  return Math.max(bytes, runs * bytesPerStoredRun);
}
