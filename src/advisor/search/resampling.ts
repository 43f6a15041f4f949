/** Random counts and quantiles for the bootstrap. */

/** From this mean on, a Poisson number is drawn as a rounded normal one. */
const normalFrom = 64;
/** The probability beyond the last entry of a table is below 1e-12. */
const tableLength = 4 * normalFrom;
const tables = new Map<number, Float64Array>();

/** The cumulative probabilities of 0, 1, 2, … for a mean below `normalFrom`. */
function cumulativePoisson(mean: number): Float64Array {
  const known = tables.get(mean);
  if (known !== undefined) return known;
  const table = new Float64Array(tableLength);
  let probability = Math.exp(-mean);
  let sum = 0;
  for (let count = 0; count < tableLength; count++) {
    sum += probability;
    table[count] = sum;
    probability *= mean / (count + 1);
  }
  tables.set(mean, table);
  return table;
}

/** Draws Poisson numbers with an integer mean. */
export function poissonDraws(mean: number, random: () => number): () => number {
  if (mean === 0) return () => 0;
  if (mean >= normalFrom) {
    const deviation = Math.sqrt(mean);
    return () => Math.max(0, Math.round(mean + deviation * normal(random)));
  }
  const table = cumulativePoisson(mean);
  return () => {
    const drawn = random();
    let count = 0;
    while (count < tableLength - 1 && (table[count] ?? 1) <= drawn) count++;
    return count;
  };
}

/** A standard normal number, by the method of Box and Muller. */
const normal = (random: () => number): number =>
  Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

/** A number of a gamma distribution with this shape and a scale of 1 (Wilson and Hilferty's approximation). */
export const gammaDraw = (shape: number, random: () => number): number =>
  shape * Math.max(1e-3, 1 - 1 / (9 * shape) + normal(random) / (3 * Math.sqrt(shape))) ** 3;

/** The value below which the given part of the sorted values lies. */
export const quantile = (sorted: Float64Array, part: number): number =>
  sorted[Math.min(sorted.length - 1, Math.max(0, Math.round(part * (sorted.length - 1))))] ?? 0;
