/**
 * Units by the instant at which they count, the oldest first; those of one instant are one run. Spending appends without
 * copying, and what is asked is found by bisection over running totals: no decision walks or copies what is kept.
 */
import { packedDates, unpacked, unpackedDates } from "./packing.ts";

/** Units that count from one instant. */
interface Run {
  readonly atMs: number;
  readonly units: number;
}

/**
 * A version of the runs. `times` and `totals` are shared by the versions that grew from one another: a version owns the
 * entries from `start` to `end` and never changes them. The newest run is held apart because units of the same instant
 * may still join it.
 */
export interface Runs {
  readonly times: number[];
  /** Units of this run and of all before it, since `times` began. */
  readonly totals: number[];
  readonly start: number;
  readonly end: number;
  readonly newest: Run;
}

const noRun: Run = { atMs: 0, units: 0 };

export const noRuns = (): Runs => runsOf([]);

const totalAt = (runs: Runs, index: number): number => (index < 0 ? 0 : (runs.totals[index] ?? 0));

/** The first index in `[start, end)` for which `test` holds, where it holds for all later ones; `end` if for none. */
function bisect(start: number, end: number, test: (index: number) => boolean): number {
  let low = start;
  let high = end;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (test(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The first run that counts. Mostly it is the first of all, or one soon after: a decision follows another closely. */
function firstAfter(runs: Runs, afterMs: number): number {
  const { times, start, end } = runs;
  let step = 1;
  let low = start;
  while (low < end && (times[low] ?? 0) <= afterMs) {
    const next = low + step;
    if (next >= end || (times[next] ?? 0) > afterMs) {
      const counts = (index: number): boolean => (times[index] ?? 0) > afterMs;
      return bisect(low + 1, Math.min(next, end), counts);
    }
    low = next;
    step *= 2;
  }
  return low;
}

/** Whether anything counts: if the newest run does not, no older one does. */
const newestCounts = ({ newest }: Runs, afterMs: number): boolean =>
  newest.units > 0 && newest.atMs > afterMs;

/** Units that count after an instant. */
export function unitsAfter(runs: Runs, afterMs: number): number {
  if (!newestCounts(runs, afterMs)) return 0;
  const before = totalAt(runs, firstAfter(runs, afterMs) - 1);
  return totalAt(runs, runs.end - 1) - before + runs.newest.units;
}

/** The instant of the run with which so many of the oldest units that count after `afterMs` are all told. */
export function instantOfOldest(runs: Runs, units: number, afterMs: number): number {
  const start = firstAfter(runs, afterMs);
  const enough = totalAt(runs, start - 1) + units;
  if (totalAt(runs, runs.end - 1) < enough) return runs.newest.atMs;
  const index = bisect(start, runs.end, (candidate) => totalAt(runs, candidate) >= enough);
  return index < runs.end ? (runs.times[index] ?? 0) : runs.newest.atMs;
}

/** The runs with `units` more at an instant; those that do not count after `afterMs` may go. */
export function withUnits(runs: Runs, units: number, atMs: number, afterMs: number): Runs {
  const { newest } = runs;
  if (atMs > newest.atMs) return appended(runs, { atMs, units }, afterMs);
  return atMs === newest.atMs
    ? withNewest(runs, { atMs, units: newest.units + units })
    : corrected(runs, atMs, units, afterMs);
}

/**
 * The runs without `units` of those spent at an instant: a spend made while the clock lagged behind counts from the
 * latest instant seen by then, so of those of the first run that is not before it. One made while the clock was ahead of
 * `nowMs` has been booked again since, before anything that was spent later: it is taken from the oldest.
 */
export function withoutUnits(
  runs: Runs,
  units: number,
  spentAtMs: number,
  afterMs: number,
  nowMs: number,
): Runs {
  if (spentAtMs > nowMs) return withoutUnits(runs, units, afterMs + 1, afterMs, nowMs);
  if (spentAtMs <= afterMs || !newestCounts(runs, afterMs)) return runs;
  const { newest, times, end } = runs;
  const start = firstAfter(runs, afterMs);
  const index = bisect(start, end, (candidate) => (times[candidate] ?? 0) >= spentAtMs);
  if (index < end) return corrected(runs, times[index] ?? 0, -units, afterMs);
  if (newest.atMs < spentAtMs) return runs;
  if (newest.units > units) return withNewest(runs, { ...newest, units: newest.units - units });
  const last = end - 1;
  if (last < start) return noRuns();
  const unitsOfLast = totalAt(runs, last) - totalAt(runs, last - 1);
  return { times, totals: runs.totals, start, end: last, newest: runAt(times[last], unitsOfLast) };
}

const runAt = (atMs: number | undefined, units: number): Run => ({ atMs: atMs ?? 0, units });

function withNewest({ times, totals, start, end }: Runs, newest: Run): Runs {
  return { times, totals, start, end, newest };
}

/** The runs whose newest is closed and followed by another, later one. */
function appended(runs: Runs, run: Run, afterMs: number): Runs {
  const { times, totals, end, newest } = runs;
  if (!newestCounts(runs, afterMs)) return runsOf([run]);
  const start = firstAfter(runs, afterMs);
  const total = totalAt(runs, end - 1) + newest.units;
  // Another version has closed another run here, or most of what is kept counts no more: go on with a copy.
  const isTaken = times.length > end && (times[end] !== newest.atMs || totals[end] !== total);
  if (isTaken || (start > 64 && start > end / 2)) return runsOf([...listed(runs, afterMs), run]);
  if (times.length === end) {
    times.push(newest.atMs);
    totals.push(total);
  }
  return { times, totals, start, end: end + 1, newest: run };
}

/** A copy in which the run of `atMs` has `units` more or fewer; runs come and go as their units do. */
function corrected(runs: Runs, atMs: number, units: number, afterMs: number): Runs {
  const list = listed(runs, afterMs);
  const index = bisect(0, list.length, (candidate) => (list[candidate]?.atMs ?? 0) >= atMs);
  const found = list[index]?.atMs === atMs ? list[index] : undefined;
  const sum = (found?.units ?? 0) + units;
  list.splice(index, found === undefined ? 0 : 1, ...(sum > 0 ? [{ atMs, units: sum }] : []));
  return runsOf(list);
}

/** The runs that count, in order. */
function listed(runs: Runs, afterMs: number): Run[] {
  const list: Run[] = [];
  for (let index = firstAfter(runs, afterMs); index < runs.end; index++) {
    list.push(runAt(runs.times[index], totalAt(runs, index) - totalAt(runs, index - 1)));
  }
  if (newestCounts(runs, afterMs)) list.push(runs.newest);
  return list;
}

function runsOf(list: readonly Run[]): Runs {
  const times: number[] = [];
  const totals: number[] = [];
  let total = 0;
  for (const run of list.slice(0, -1)) {
    total += run.units;
    times.push(run.atMs);
    totals.push(total);
  }
  return { times, totals, start: 0, end: times.length, newest: list.at(-1) ?? noRun };
}

/** A run takes six characters at most where 100,000 of them last ten years: five for the step, one for the units. */
export const mostBytesPerRun = 6;

/** The runs that count, as a text. */
export const packedRuns = (runs: Runs, afterMs: number, nowMs: number): string =>
  packedDates(listed(runs, afterMs), nowMs);

/** What `packedRuns` wrote at `nowMs`; null when it did not. */
export function unpackedRuns(text: unknown, nowMs: number): Runs | null {
  const list = unpackedDates(unpacked(text), nowMs);
  return list === null || list.some(({ units }) => units === 0) ? null : runsOf(list);
}
