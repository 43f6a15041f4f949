/** Medians and their spread. */

export interface Spread {
  readonly median: number;
  /** The first and the third quartile. */
  readonly lower: number;
  readonly upper: number;
}

/** A quartile between two values is interpolated, so that a few rounds do not make it jump. */
export function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number => {
    const place = share * (sorted.length - 1);
    const [below = NaN, above = NaN] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]];
    return below + (above - below) * (place - Math.floor(place));
  };
  return { median: at(0.5), lower: at(0.25), upper: at(0.75) };
}

/** The ratio of two turns that follow each other: a machine that is slow at that time slows both. */
export const pairedRatio = (pairs: readonly (readonly [number, number])[]): Spread =>
  spreadOf(pairs.map(([value, other]) => value / other));

/** @param share 0.99 for the value that 99 % of the values do not exceed */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? NaN;
}
