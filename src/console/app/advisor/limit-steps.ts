/** The limits that the slider offers around a candidate. */
import type { FullLimit } from "../api/answers.ts";

/** Numbers that people choose. */
const mantissas = [1, 1.2, 1.5, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9] as const;
/** The slider reaches from a tenth of the limit to ten times as much. */
const reach = 10;

/** In order, with the limit itself. */
export function stepsAround(limit: number): readonly number[] {
  const [least, most] = [Math.max(1, Math.ceil(limit / reach)), limit * reach];
  const steps = new Set([limit]);
  for (let unit = 1; unit <= most; unit *= 10) {
    for (const mantissa of mantissas) {
      const step = mantissa * unit;
      if (Number.isInteger(step) && step >= least && step <= most) steps.add(step);
    }
  }
  return [...steps].toSorted((one, other) => one - other);
}

/** The index of the step that is nearest to a number. */
export const nearestStep = (steps: readonly number[], value: number): number =>
  steps.reduce(
    (best, step, index) => (Math.abs(step - value) < Math.abs((steps[best] ?? 0) - value) ? index : best),
    0,
  );

/** Other limits of a candidate stay as they are. A burst keeps its ratio to the limit. */
export const withLimit = ([first, ...others]: readonly FullLimit[], units: number): readonly FullLimit[] => {
  if (first === undefined) return others;
  const { limit, burst } = first;
  const scaled = {
    ...first,
    limit: units,
    ...(burst !== undefined && { burst: Math.max(1, Math.round((burst * units) / limit)) }),
  };
  return [scaled, ...others];
};
