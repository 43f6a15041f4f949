/** Chooses the stored minutes or hours that answer a query of statistics, and sums them to points. */
import type { Statistics, StatisticsQuery } from "../statistics-calls.ts";
import { floorTo, hourMs, hoursKeptMs, minuteMs, minutesKeptMs, type StoredPeriod } from "./statistics-rows.ts";
import { Tally } from "./statistics-tally.ts";

interface Steps {
  readonly period: StoredPeriod;
  readonly fromMs: number;
  readonly toMs: number;
  readonly stepMs: number;
}

/**
 * Rounds the step up to whole minutes, or to whole hours if the span begins before the oldest minute that is kept.
 * Rounds the span to whole steps.
 */
export function stepsOf({ fromMs, toMs, stepMs }: StatisticsQuery, nowMs: number): Steps {
  const isLong = floorTo(minuteMs, fromMs) < nowMs - minutesKeptMs;
  const unitMs = isLong || stepMs >= hourMs ? hourMs : minuteMs;
  const step = Math.max(unitMs, Math.ceil(stepMs / unitMs) * unitMs);
  const first = Math.max(fromMs, nowMs - hoursKeptMs);
  return {
    period: unitMs === hourMs ? "hours" : "minutes",
    fromMs: floorTo(step, first),
    toMs: Math.max(floorTo(step, first), floorTo(step, toMs + step - 1)),
    stepMs: step,
  };
}

/** The points of each step, the earliest first, of one policy or of all. */
export function pointsOf(
  rows: readonly (readonly [atMs: number, tally: Tally])[],
  stepMs: number,
  only: string | undefined,
): Pick<Statistics, "points" | "originFailures"> {
  const steps = new Map<number, Tally>();
  for (const [rowMs, tally] of rows) {
    const atMs = floorTo(stepMs, rowMs);
    const step = steps.get(atMs) ?? new Tally();
    step.add(tally.toJSON());
    steps.set(atMs, step);
  }
  const sorted = [...steps].toSorted(([one], [other]) => one - other);
  return {
    points: sorted.flatMap(([atMs, tally]) =>
      tally.policies
        .filter((policy) => only === undefined || policy === only)
        .map((policy) => ({ atMs, policy, ...tally.of(policy) })),
    ),
    originFailures: sorted
      .filter(([, { originFailures }]) => originFailures > 0)
      .map(([atMs, { originFailures }]) => ({ atMs, count: originFailures })),
  };
}
