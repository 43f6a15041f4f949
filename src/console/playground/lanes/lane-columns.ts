/** Sums the rows of a lane by columns of its chart, because a run has more rows than a screen has pixels. */
import type { Limit } from "../../../strategies/index.ts";
import { ClientReplay } from "../model/run.ts";
import { type LaneRun, outcome } from "../model/scenario.ts";
import type { Span } from "../page-state.ts";

/** One value for each column of the chart. */
export interface LaneColumns {
  /** When each column begins. */
  readonly atMs: Float64Array;
  /** Units that were allowed, also those that waited. */
  readonly allowed: Float64Array;
  readonly denied: Float64Array;
  /** Units of the allowed ones that waited in a queue. */
  readonly delayed: Float64Array;
  /** The longest wait in a queue, in milliseconds. */
  readonly waitMs: Float64Array;
  /** The units that one client had left: two values for each column, at its beginning and the least in it. */
  readonly remaining: Float64Array;
}

interface ColumnsInput {
  readonly run: LaneRun;
  readonly limits: readonly Limit[];
  /** The index of the client whose remaining units are shown. */
  readonly key: number;
  readonly span: Span;
  /** The last one may be a part of a column, so that columns and the time axis agree exactly. */
  readonly columns: number;
}

const rowsPerStep = 1_000;

/** Yields after each step of about a millisecond. The engine decides the requests of the client once more. */
export function* laneColumns({ run, limits, key, span, columns }: ColumnsInput): Generator<void, LaneColumns> {
  const { fromMs, toMs } = span;
  const column = () => new Float64Array(Math.ceil(columns));
  const [allowed, denied, delayed, waitMs] = [column(), column(), column(), column()];
  const perMs = columns / (toMs - fromMs);
  const atMs = column().map((_, index) => fromMs + index / perMs);
  const client = new ClientReplay(run, limits, key);
  const remaining = new Float64Array(2 * atMs.length);
  let looked = 0;
  const lookUntil = (untilMs: number): void => {
    for (; looked < atMs.length && (atMs[looked] ?? 0) <= untilMs; looked++) {
      const decision = client.look(0, Math.floor(atMs[looked] ?? 0));
      const least = Math.min(...decision.limits.map((limit) => limit.remaining));
      remaining.fill(least, 2 * looked, 2 * looked + 2);
    }
  };
  const end = firstRowAt(run, toMs);
  for (let row = 0; row < end; row++) {
    if (row % rowsPerStep === rowsPerStep - 1) yield;
    const rowMs = run.atMs[row] ?? 0;
    const bin = Math.floor((rowMs - fromMs) * perMs);
    if (client.changesBy(row)) {
      lookUntil(rowMs);
      client.decide(row);
      if (bin >= 0) remaining[2 * bin + 1] = Math.min(remaining[2 * bin + 1] ?? 0, run.remaining[row] ?? 0);
    }
    if (bin < 0) continue;
    const cost = run.cost[row] ?? 0;
    const kind = run.outcome[row];
    const units = kind === outcome.denied ? denied : allowed;
    units[bin] = (units[bin] ?? 0) + cost;
    if (kind !== outcome.delayed) continue;
    delayed[bin] = (delayed[bin] ?? 0) + cost;
    waitMs[bin] = Math.max(waitMs[bin] ?? 0, run.waitMs[row] ?? 0);
  }
  lookUntil(toMs);
  return { atMs, allowed, denied, delayed, waitMs, remaining };
}

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
