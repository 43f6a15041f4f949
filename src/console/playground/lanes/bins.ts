/** Sums the rows of a lane by columns of the plot, because a run has more rows than a screen has pixels. */
import { type LaneRun, outcome } from "../model/scenario.ts";
import type { Span } from "../page-state.ts";

/** One value for each column of the plot. */
export interface Bins {
  /** Units that were allowed, also those that waited. */
  readonly allowed: Float64Array;
  readonly denied: Float64Array;
  /** Units of the allowed ones that waited in a queue. */
  readonly delayed: Float64Array;
  /** The longest wait in a queue, in milliseconds. */
  readonly waitMs: Float64Array;
  readonly mostAllowed: number;
  readonly mostDenied: number;
  readonly mostWaitMs: number;
}

const rowsPerStep = 20_000;

/** Yields after each step of about a millisecond. @param columns the last one may be a part of a column, so that columns and the time axis agree exactly */
export function* binsOf(run: LaneRun, { fromMs, toMs }: Span, columns: number): Generator<void, Bins> {
  const column = () => new Float64Array(Math.ceil(columns));
  const [allowed, denied, delayed, waitMs] = [column(), column(), column(), column()];
  const perMs = columns / (toMs - fromMs);
  const end = firstRowAt(run, toMs);
  for (let row = firstRowAt(run, fromMs); row < end; row++) {
    if (row % rowsPerStep === 0) yield;
    const bin = Math.floor(((run.atMs[row] ?? 0) - fromMs) * perMs);
    const cost = run.cost[row] ?? 0;
    const kind = run.outcome[row];
    if (kind === outcome.denied) {
      denied[bin] = (denied[bin] ?? 0) + cost;
      continue;
    }
    allowed[bin] = (allowed[bin] ?? 0) + cost;
    if (kind !== outcome.delayed) continue;
    delayed[bin] = (delayed[bin] ?? 0) + cost;
    waitMs[bin] = Math.max(waitMs[bin] ?? 0, run.waitMs[row] ?? 0);
  }
  return {
    allowed,
    denied,
    delayed,
    waitMs,
    mostAllowed: most(allowed),
    mostDenied: most(denied),
    mostWaitMs: most(waitMs),
  };
}

const most = (values: Float64Array): number => values.reduce((a, b) => Math.max(a, b), 0);

/** The first row at or after this instant; the number of rows if there is none. */
export function firstRowAt({ atMs }: Pick<LaneRun, "atMs">, ms: number): number {
  let [low, high] = [0, atMs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((atMs[middle] ?? 0) < ms) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The denial nearest to an instant, at most `reachMs` away; -1 if there is none. */
export function nearestDenial(run: LaneRun, ms: number, reachMs: number): number {
  let nearest = -1;
  let distance = Infinity;
  const end = firstRowAt(run, ms + reachMs);
  for (let row = firstRowAt(run, ms - reachMs); row < end; row++) {
    if (run.outcome[row] !== outcome.denied) continue;
    const own = Math.abs((run.atMs[row] ?? 0) - ms);
    if (own >= distance) continue;
    [nearest, distance] = [row, own];
  }
  return nearest;
}

/** The next denial from a row in a direction; -1 if there is none. */
export function nextDenial(run: LaneRun, row: number, step: 1 | -1): number {
  for (let next = row + step; next >= 0 && next < run.outcome.length; next += step) {
    if (run.outcome[next] === outcome.denied) return next;
  }
  return -1;
}
