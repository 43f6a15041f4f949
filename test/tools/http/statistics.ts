/** Medians, and how far what they stand for is spread. */

export interface Spread {
  readonly median: number;
  readonly least: number;
  readonly most: number;
}

/** Of an even number of values the mean of the two in the middle. */
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

/** Each of a round by the other of the same round: what slows the machine for a while slows both. */
export function ratioOf(values: readonly number[], others: readonly number[]): Spread {
  return spreadOf(values.map((value, round) => value / (others[round] ?? NaN)));
}

/** @param share 0.99 for the value that 99 % do not exceed */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? NaN;
}
