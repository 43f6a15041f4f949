/** The remaining units of one client over time. The engine decides its requests once more; looks between them add points. */
import { changesByDenial, type Limit } from "../../../strategies/index.ts";
import type { Span } from "../page-state.ts";
import { clientMeter } from "../model/run.ts";
import { type LaneRun, outcome } from "../model/scenario.ts";
import { firstRowAt } from "./bins.ts";

/** The units that remain from each instant on, until the next. */
export interface Curve {
  readonly atMs: readonly number[];
  readonly remaining: readonly number[];
}

interface CurveInput {
  readonly run: LaneRun;
  readonly limits: readonly Limit[];
  /** The index of the client. */
  readonly key: number;
  readonly span: Span;
  /** How many instants of the span are looked at, besides those of requests. */
  readonly points: number;
}

const rowsPerStep = 1_000;

/** Yields after each step of about a millisecond. */
export function* curveOf({ run, limits, key, span, points }: CurveInput): Generator<void, Curve> {
  const client = clientMeter(limits, run.runsMs);
  const changesIfDenied = limits.some(changesByDenial);
  const pointMs = (span.toMs - span.fromMs) / points;
  const line = curveWriter(pointMs);
  const look = (atMs: number): void => {
    const nowMs = run.startMs + Math.floor(atMs);
    client.release(nowMs);
    const least = client.meter.look(0, nowMs).limits.map(({ remaining }) => remaining);
    line.add(atMs, Math.min(...least));
  };
  let nextMs = span.fromMs;
  const end = firstRowAt(run, span.toMs);
  for (let row = 0; row < end; row++) {
    if (row % rowsPerStep === rowsPerStep - 1) yield;
    const isSpent = run.outcome[row] !== outcome.denied;
    if (run.key[row] !== key || !(isSpent || changesIfDenied)) continue;
    const atMs = run.atMs[row] ?? 0;
    for (; nextMs < atMs; nextMs += pointMs) look(nextMs);
    client.release(run.startMs + atMs);
    client.decide(run.cost[row] ?? 0, run.startMs + atMs);
    if (atMs >= span.fromMs) line.add(atMs, run.remaining[row] ?? 0);
  }
  for (; nextMs <= span.toMs; nextMs += pointMs) look(nextMs);
  return line.curve;
}

/** Keeps the least and the last value of each column of the plot, because more are not visible. */
function curveWriter(columnMs: number): {
  readonly curve: Curve;
  add(atMs: number, value: number): void;
} {
  const atMs: number[] = [];
  const remaining: number[] = [];
  let column = -1;
  return {
    curve: { atMs, remaining },
    add(at, value) {
      const own = Math.floor(at / columnMs);
      const last = atMs.length - 1;
      if (own === column && last > 0) {
        remaining[last - 1] = Math.min(remaining[last - 1] ?? value, value);
        remaining[last] = value;
        return;
      }
      column = own;
      atMs.push(at, at);
      remaining.push(value, value);
    },
  };
}
