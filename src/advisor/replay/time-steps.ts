/** The seconds and the plot steps in which the requests of timelines are counted. */
import type { StepCounts } from "./result.ts";
import type { Timelines } from "./timelines.ts";

/** Counts of the arrivals in each second that has one. */
export interface ArrivalSeconds {
  /** The beginning of each second, in order of time. */
  readonly startsMs: Float64Array;
  readonly counts: Float64Array;
  /** By row: the index in `startsMs`. */
  readonly ofRow: Uint32Array;
}

export const secondMs = 1_000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
/** More would not be visible in a plot. */
const mostDefaultSteps = 300;
const mostSteps = 100_000;
const defaultStepsMs: readonly number[] = [
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * secondMs),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * minuteMs),
  ...[1, 2, 3, 6, 12].map((hours) => hours * hourMs),
];

const known = new WeakMap<Timelines, ArrivalSeconds>();

/** The result is kept as long as the timelines are. */
export function arrivalSeconds(timelines: Timelines): ArrivalSeconds {
  const kept = known.get(timelines) ?? countSeconds(timelines.atMs);
  known.set(timelines, kept);
  return kept;
}

function countSeconds(atMs: Float64Array): ArrivalSeconds {
  const seconds = atMs.map((instantMs) => Math.floor(instantMs / secondMs));
  const startsMs = distinct(seconds);
  const ofRow = new Uint32Array(atMs.length);
  const counts = new Float64Array(startsMs.length);
  const indexes = new Map<number, number>();
  for (let index = 0; index < startsMs.length; index++) indexes.set(startsMs[index] ?? 0, index);
  for (let row = 0; row < seconds.length; row++) {
    const isSame = row > 0 && seconds[row] === seconds[row - 1];
    const index = isSame ? (ofRow[row - 1] ?? 0) : (indexes.get(seconds[row] ?? 0) ?? 0);
    ofRow[row] = index;
    counts[index] = (counts[index] ?? 0) + 1;
  }
  return { startsMs: startsMs.map((start) => start * secondMs), counts, ofRow };
}

/** The distinct values, in order. A log can span years: an array of all its seconds could be larger than memory. */
const distinct = (seconds: Float64Array): Float64Array => Float64Array.from(new Set(seconds)).toSorted();

/**
 * The arrivals of each plot step. The steps cover the period of the source, and arrivals outside of it.
 * @param writtenStepMs by default a step of which the period has at most 300
 * @throws RangeError if the step is invalid
 */
export function arrivalSteps(timelines: Timelines, writtenStepMs: number | undefined): StepCounts {
  const { source, atMs } = timelines;
  const { startsMs } = arrivalSeconds(timelines);
  const fromMs = Math.min(source.fromMs, startsMs[0] ?? Infinity);
  const toMs = Math.max(source.toMs, (startsMs.at(-1) ?? -Infinity) + secondMs - 1);
  const stepMs = writtenStepMs ?? defaultStepMs(toMs - fromMs);
  const startMs = Math.floor(fromMs / stepMs) * stepMs;
  const length = Math.floor((toMs - startMs) / stepMs) + 1;
  if (!Number.isSafeInteger(stepMs) || stepMs <= 0 || length > mostSteps) {
    const accepted = `an integer of at least 1 of which the period has at most ${mostSteps}`;
    throw new RangeError(`stepMs must be ${accepted}, not ${String(stepMs)}`);
  }
  const steps = { startMs, stepMs, counts: new Float64Array(length) };
  for (let row = 0; row < atMs.length; row++) addToStep(steps, atMs[row] ?? 0, 1);
  return steps;
}

function defaultStepMs(periodMs: number): number {
  const least = periodMs / mostDefaultSteps;
  return defaultStepsMs.find((stepMs) => stepMs >= least) ?? Math.max(1, Math.ceil(least / dayMs)) * dayMs;
}

/** An instant outside of the steps is left out. */
export function addToStep(steps: StepCounts, atMs: number, count: number): void {
  const { startMs, stepMs, counts } = steps;
  const step = Math.floor((atMs - startMs) / stepMs);
  if (step >= 0 && step < counts.length) counts[step] = (counts[step] ?? 0) + count;
}
