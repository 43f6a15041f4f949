/**
 * The requests of keys that send more than any recorded key.
 *
 * A bootstrap repeats the recorded keys, so it cannot draw a larger one. If few keys send much of the traffic, most of the mean
 * can come from keys that are too rare to be among the recorded ones. So the largest keys are taken as a sample of a generalized
 * Pareto distribution: about 3 √n of n keys, as for Pareto-smoothed importance sampling (Vehtari, Simpson, Gelman, Yao and Gabry,
 * JMLR 25, 2024). Its shape has the posterior of Zhang and Stephens (Technometrics 51, 2009): a grid of profile likelihoods for
 * shape / scale, and for each of them an inverse gamma distribution of the shape, because log(1 + x shape / scale) is
 * exponential. From a shape of 1 on, the mean does not exist.
 */
import { seededRandom } from "../replay/clients.ts";

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
const gammaDraw = (shape: number, random: () => number): number =>
  shape * Math.max(1e-3, 1 - 1 / (9 * shape) + normal(random) / (3 * Math.sqrt(shape))) ** 3;

/** The value below which the given part of the sorted values lies. */
export const quantile = (sorted: Float64Array, part: number): number =>
  sorted[Math.min(sorted.length - 1, Math.max(0, Math.round(part * (sorted.length - 1))))] ?? 0;

const mostPart = 0.2;
/** The grid has this many points, plus the square root of the number of keys in the tail. */
const leastGrid = 30;
/** Fewer large keys say nothing about the shape. */
const leastLarge = 5;
/**
 * Fewer keys do not show how many requests keys send. A kind of keys, such as scrapers, that is 1 in n keys is absent from a
 * recording of 3 n keys with a probability of 5 %: of 500 keys, if it is 1 in 170 keys.
 */
export const leastKeysOfSizes = 500;
const heavyShape = 0.5;
const heavyPart = 0.975;
const seed = 31;

/** An estimate, from the recorded keys, of keys that are larger than these. */
export interface SizeTail {
  /**
   * The expected requests beyond those of the largest recorded key, for as many keys as were recorded: one number for
   * each drawing of the shape.
   */
  readonly beyond: Float64Array;
  /** Whether a few keys may send so much that the variance of the requests of a key does not exist: a shape of 1/2 or more. */
  readonly isHeavy: boolean;
  /** Whether there are too few keys to show which kinds of keys there are. */
  readonly isOfFew: boolean;
}

interface Shape {
  /** Shape / scale. */
  readonly ratio: number;
  readonly shape: number;
}

export function tailOf(requests: ArrayLike<number>, draws: number): SizeTail {
  const isOfFew = requests.length < leastKeysOfSizes;
  const excesses = excessesOf(Float64Array.from(requests).toSorted());
  const { length } = excesses;
  const largest = excesses[length - 1];
  const beyond = new Float64Array(draws).fill(Infinity);
  if (largest === undefined || length < leastLarge) return { beyond, isHeavy: true, isOfFew };
  if (excesses[0] === largest) return { beyond: beyond.fill(0), isHeavy: false, isOfFew };
  const { shapes, cumulative } = posterior(excesses);
  const random = seededRandom(seed);
  const drawn = new Float64Array(draws);
  for (let index = 0; index < draws; index++) {
    const part = random();
    const place = cumulative.findIndex((each) => part < each);
    const { ratio, shape: usual } = shapes.at(place) ?? { ratio: 1, shape: 1 };
    const shape = (usual * length) / gammaDraw(length, random);
    drawn[index] = shape;
    if (shape >= 1) continue;
    const keys = length * Math.exp(-Math.log1p(ratio * largest) / shape);
    beyond[index] = (keys * shape * (1 / ratio + largest)) / (1 - shape);
  }
  return { beyond, isHeavy: quantile(drawn.toSorted(), heavyPart) >= heavyShape, isOfFew };
}

/**
 * The requests of the largest keys beyond a threshold. Counts are integers, so the threshold is halfway between two of them.
 * Many keys may have the count that divides the largest keys from the others. Ties say nothing about larger keys, so the
 * tail is then that of the keys above them, however few these are.
 */
function excessesOf(sorted: Float64Array): Float64Array {
  const { length } = sorted;
  const wanted = Math.ceil(Math.min(mostPart * length, 3 * Math.sqrt(length)));
  const edge = sorted[length - wanted] ?? 0;
  const above = sorted.findIndex((each) => each > edge);
  const isLargest = above === -1;
  const largest = sorted.subarray(isLargest ? sorted.indexOf(edge) : above);
  const threshold = (largest[0] ?? 0) - 0.5;
  return largest.map((each) => each - threshold);
}

function posterior(excesses: Float64Array): { shapes: Shape[]; cumulative: Float64Array } {
  const { length } = excesses;
  const grid = leastGrid + Math.floor(Math.sqrt(length));
  const quartile = excesses[Math.floor(length / 4 + 0.5) - 1] ?? 1;
  const largest = excesses[length - 1] ?? 1;
  const shapes = Array.from({ length: grid }, (_, index) => {
    const ratio = (Math.sqrt(grid / (index + 0.5)) - 1) / (3 * quartile) - 1 / largest;
    const shape = excesses.reduce((sum, each) => sum + Math.log1p(ratio * each), 0) / length;
    return { ratio, shape };
  }).filter(({ shape }) => shape !== 0);
  const logs = shapes.map(({ ratio, shape }) => length * (Math.log(ratio / shape) - shape - 1));
  const most = Math.max(...logs);
  const cumulative = new Float64Array(logs.length);
  let sum = 0;
  for (const [index, log] of logs.entries()) cumulative[index] = sum += Math.exp(log - most);
  return { shapes, cumulative: cumulative.map((each) => each / sum) };
}
