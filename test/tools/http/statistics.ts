/** Medians and their spread. */

export interface Spread {
  readonly median: number;
  /** The first and the third quartile. */
  readonly lower: number;
  readonly upper: number;
}

/** A quartile between two values is interpolated, so that it does not jump when there are few rounds. */
export function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number => {
    const place = share * (sorted.length - 1);
    const [below = NaN, above = NaN] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]];
    return below + (above - below) * (place - Math.floor(place));
  };
  return { median: at(0.5), lower: at(0.25), upper: at(0.75) };
}

/** The ratio of two turns that follow each other. A machine that is slow at that time slows both turns. */
export const pairedRatio = (pairs: readonly (readonly [number, number])[]): Spread =>
  spreadOf(pairs.map(([value, other]) => value / other));

/** @param share the share of values that must not exceed the result, such as 0.99 */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? NaN;
}
