/** Medians and their spread. */

export interface Spread {
  readonly median: number;
  readonly least: number;
  readonly most: number;
}

/** The median of an even number of values is the mean of the two in the middle. */
export function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  const [lower, upper] = [Math.floor(middle), Math.ceil(middle)].map((at) => sorted[at] ?? NaN);
  return {
    median: ((lower ?? NaN) + (upper ?? NaN)) / 2,
    least: sorted[0] ?? NaN,
    most: sorted.at(-1) ?? NaN,
  };
}

/** The ratios within each round, in which a slow machine slows both sides. */
export function ratioOf(values: readonly number[], others: readonly number[]): Spread {
  return spreadOf(values.map((value, round) => value / (others[round] ?? NaN)));
}

/** @param share 0.99 for the value that 99 % of the values do not exceed */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? NaN;
}
