/**
 * Sliding log: the time of every admitted unit in the last W. A unit spent at s counts while t − s < W.
 *
 * Promise: exact, at most L units in any span of W. Known weakness: its size grows with what was admitted, so L is at
 * most 100,000. Units of one instant are one run, and all questions are answered by bisection, not by a walk.
 */
import { isCount } from "./integers.ts";
import type { Limit, Strategy } from "./strategy.ts";

const maximumLimit = 100_000;
/** Even a log over ten years has four bytes for a step between 100,000 runs, and one or two for the units. */
const mostBytesPerRun = 6;

/** Units spent at one instant. */
interface Run {
  readonly atMs: number;
  readonly units: number;
}

/**
 * A version of a log. `times` and `totals` are shared by the versions that grew from one another: a version owns the
 * runs from `start` to `end` and never changes them, so spending appends without copying. The newest run is held apart
 * because units of the same instant may still join it.
 */
interface Log {
  readonly times: number[];
  /** Units of this run and of all before it, since `times` began. */
  readonly totals: number[];
  readonly start: number;
  readonly end: number;
  readonly newest: Run;
}

const noRun: Run = { atMs: 0, units: 0 };

const totalAt = (log: Log, index: number): number => (index < 0 ? 0 : (log.totals[index] ?? 0));

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

/** The first run that still counts. */
function firstCounted(limit: Limit, log: Log, nowMs: number): number {
  const counts = (index: number): boolean => (log.times[index] ?? 0) > nowMs - limit.windowMs;
  return counts(log.start) || log.start === log.end
    ? log.start
    : bisect(log.start + 1, log.end, counts);
}

/** Whether anything counts: if the newest run does not, no older one does. */
const newestCounts = (limit: Limit, log: Log, nowMs: number): boolean =>
  log.newest.units > 0 && log.newest.atMs > nowMs - limit.windowMs;

function used(limit: Limit, log: Log, nowMs: number): number {
  if (!newestCounts(limit, log, nowMs)) return 0;
  const before = totalAt(log, firstCounted(limit, log, nowMs) - 1);
  return totalAt(log, log.end - 1) - before + log.newest.units;
}

function runsOf(limit: Limit, log: Log, nowMs: number): Run[] {
  const runs: Run[] = [];
  for (let index = firstCounted(limit, log, nowMs); index < log.end; index++) {
    runs.push({
      atMs: log.times[index] ?? 0,
      units: totalAt(log, index) - totalAt(log, index - 1),
    });
  }
  if (newestCounts(limit, log, nowMs)) runs.push(log.newest);
  return runs;
}

function logOf(runs: readonly Run[]): Log {
  const times: number[] = [];
  const totals: number[] = [];
  let total = 0;
  for (const run of runs.slice(0, -1)) {
    total += run.units;
    times.push(run.atMs);
    totals.push(total);
  }
  return { times, totals, start: 0, end: times.length, newest: runs.at(-1) ?? noRun };
}

/** A log whose newest run is closed and followed by another, later one. */
function appended(limit: Limit, log: Log, run: Run, nowMs: number): Log {
  if (!newestCounts(limit, log, nowMs)) return logOf([run]);
  const start = firstCounted(limit, log, nowMs);
  // Another version has appended here already, or most of what is kept counts no more: go on with a copy.
  if (log.times.length !== log.end || (start > 64 && start > log.end / 2)) {
    return logOf([...runsOf(limit, log, nowMs), run]);
  }
  log.times.push(log.newest.atMs);
  log.totals.push(totalAt(log, log.end - 1) + log.newest.units);
  return { times: log.times, totals: log.totals, start, end: log.end + 1, newest: run };
}

/** A copy in which the run of `atMs` has `units` more; runs come and go as their units do. */
function corrected(limit: Limit, log: Log, atMs: number, units: number, nowMs: number): Log {
  const runs = runsOf(limit, log, nowMs);
  const index = bisect(0, runs.length, (candidate) => (runs[candidate]?.atMs ?? 0) >= atMs);
  const found = runs[index]?.atMs === atMs ? runs[index] : undefined;
  const sum = (found?.units ?? 0) + units;
  runs.splice(index, found === undefined ? 0 : 1, ...(sum > 0 ? [{ atMs, units: sum }] : []));
  return logOf(runs);
}

export const slidingLog: Strategy<Limit, Log> = {
  name: "sliding-log",
  options: {},
  problem: (limit) =>
    limit.limit <= maximumLimit
      ? null
      : { field: "limit", accepted: `at most ${maximumLimit} for the strategy sliding-log` },
  identity: () => "",
  capacity: (limit) => limit.limit,

  fresh: () => logOf([]),

  used,

  waitMs(limit, log, cost, nowMs) {
    const spent = used(limit, log, nowMs);
    const excess = spent + cost - limit.limit;
    if (excess <= 0) return 0;
    const start = firstCounted(limit, log, nowMs);
    const enough = totalAt(log, start - 1) + excess;
    const index =
      excess > spent - log.newest.units
        ? log.end
        : bisect(start, log.end, (candidate) => totalAt(log, candidate) >= enough);
    const expiresAtMs =
      (index < log.end ? (log.times[index] ?? 0) : log.newest.atMs) + limit.windowMs;
    return expiresAtMs - nowMs;
  },

  spend(limit, log, units, atMs, nowMs) {
    if (atMs + limit.windowMs <= nowMs) return log;
    if (atMs < log.newest.atMs) return corrected(limit, log, atMs, units, nowMs);
    if (atMs > log.newest.atMs) return appended(limit, log, { atMs, units }, nowMs);
    return {
      times: log.times,
      totals: log.totals,
      start: log.start,
      end: log.end,
      newest: { atMs, units: log.newest.units + units },
    };
  },

  refund(limit, log, units, spentAtMs, nowMs) {
    if (spentAtMs + limit.windowMs <= nowMs) return log;
    // A spend made while the clock lagged behind was booked later, at the latest instant seen by then.
    const run = runsOf(limit, log, nowMs).find((candidate) => candidate.atMs >= spentAtMs);
    return run === undefined
      ? log
      : corrected(limit, log, run.atMs, -Math.min(units, run.units), nowMs);
  },

  idleAtMs: (limit, log) => (log.newest.units === 0 ? 0 : log.newest.atMs + limit.windowMs),

  // There is a run for each instant, and no more instants than milliseconds.
  mostStoredBytes: ({ limit, windowMs }) => Math.min(limit, windowMs) * mostBytesPerRun,

  /** Instant and units of the first run, then step and units of each other, as integers of seven bits a byte. */
  store(limit, log, nowMs) {
    const bytes: number[] = [];
    let previousMs = 0;
    for (const run of runsOf(limit, log, nowMs)) {
      writeInteger(bytes, run.atMs - previousMs);
      writeInteger(bytes, run.units);
      previousMs = run.atMs;
    }
    return new Uint8Array(bytes);
  },

  revive(_limit, stored, nowMs) {
    const flat = stored instanceof Uint8Array ? readIntegers(stored) : null;
    if (flat === null || flat.length % 2 !== 0) return null;
    const runs: Run[] = [];
    let atMs = 0;
    for (let index = 0; index < flat.length; index += 2) {
      const step = flat[index] ?? 0;
      const units = flat[index + 1] ?? 0;
      if (units === 0 || (index > 0 && step === 0)) return null;
      atMs += step;
      runs.push({ atMs, units });
    }
    return atMs <= nowMs ? logOf(runs) : null;
  },
};

/** The lowest seven bits first; the eighth says that more follow. */
function writeInteger(bytes: number[], integer: number): void {
  let rest = integer;
  while (rest >= 128) {
    bytes.push((rest % 128) + 128);
    rest = Math.floor(rest / 128);
  }
  bytes.push(rest);
}

/** The integers in bytes that `writeInteger` wrote; null when the bytes are no such, or one is not a safe integer. */
function readIntegers(bytes: Uint8Array): number[] | null {
  const integers: number[] = [];
  let integer = 0;
  let place = 1;
  for (const byte of bytes) {
    integer += (byte % 128) * place;
    if (!isCount(integer) || place > Number.MAX_SAFE_INTEGER) return null;
    place *= 128;
    if (byte >= 128) continue;
    integers.push(integer);
    integer = 0;
    place = 1;
  }
  return place === 1 ? integers : null;
}
