/**
 * 95 % confidence intervals of the shares of requests and of keys that limits deny.
 *
 * The timelines of a sample hold each key with probability 1/n. The interval is for the share over all keys of the
 * deployment in the recorded period. Complete timelines (n = 1) hold all keys. The interval then states how the share
 * would vary for another set of keys like these.
 *
 * Method: a bootstrap over keys, with a fitted tail.
 *
 * 1. Requests of one key depend on each other, so keys are resampled, not requests. A resample holds each key a
 *    Poisson(1) number of times, because the number of sampled keys is random too (Hanley and MacGibbon, "Creating
 *    non-parametric bootstrap samples using Poisson frequencies", 2006). It yields scaled-up requests T and denials D.
 * 2. A sample of one key in n leaves out (n - 1)/n of the keys, so deviations are multiplied by sqrt(1 - 1/n), the
 *    finite population correction.
 * 3. Resamples have no key larger than the largest recorded one. For the upper end, each resample therefore adds denied
 *    requests: those that a fitted tail expects beyond the largest key (see tail.ts). The lower end assumes that larger
 *    keys are denied at least as much as recorded ones.
 * 4. The number R of all requests is known exactly, but not which keys sent those that T does not account for. Where T
 *    < R, the upper end assumes that the limits deny all of the rest (one flooding key outside the sample), and the
 *    lower end that they deny none of it. The share therefore lies from D / max(T, R) to (D + max(0, R - T)) / max(T,
 *    R). Requests of the keys that were lost on the way to the control plane are treated in the same way.
 * 5. Each resample adds a Poisson(1) number of unseen keys. For the upper end, they are like the keys that are denied.
 *    For the lower end, they are like the average key, and not denied. This is the bootstrap form of the exact interval
 *    of a Poisson count, whose upper end is that of one more event (Garwood 1936; for weighted events Fay and Feuer
 *    1997). Without any denial it gives the rule of three (Hanley and Lippman-Hand 1983). The unseen key then is like
 *    those that a stricter limit denies, or, if unknown, like the average key and denied entirely.
 * 6. The interval reaches from the 0.5 % to the 99.5 % quantile of 1,000 resamples. Percentile intervals of few and
 *    skewed counts are too short at their upper end (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993,
 *    chapter 14): with quantiles of 2.5 % and 97.5 % the interval would cover 92 % where 9 of 200 keys are denied. The
 *    tests in test/advisor/search/coverage.test.ts measure the coverage.
 *
 * Keys of nearly the same requests and denials (within 9 %) are drawn together, as a Poisson number with the mean of
 * their count. The time therefore depends on the variety of keys, not on their number.
 */
import { seededRandom } from "../replay/clients.ts";
import type { SecondCounts } from "../replay/result.ts";
import type { Timelines } from "../replay/timelines.ts";
import type { Estimate } from "./goal.ts";
import { poissonDraws, quantile, type SizeTail, tailOf } from "./tail.ts";

export const resamples = 1_000;
const lowPart = 0.005;
const highPart = 0.995;
const defaultSeed = 22;

/** The requests and denials of each key. */
export interface KeyCounts {
  readonly requests: ArrayLike<number>;
  readonly denied: ArrayLike<number>;
}

/** A key's requests, and how many of them are denied. */
export interface KeyOutcome {
  readonly requests: number;
  readonly denied: number;
}

interface SamplingTerms {
  /** One key in this many was sampled; 1: all. */
  readonly oneKeyIn: number;
  /** All requests, of sampled keys or not; null if unknown. Complete timelines need no such number. */
  readonly allRequests: number | null;
  /** Requests of the keys that were not recorded. Default: 0. */
  readonly lostArrivals?: number;
  /** A typical key with denials, in case that no key has any here. Default: an average key, denied entirely. */
  readonly unseen?: KeyOutcome | undefined;
  /**
   * The requests that keys send beyond those of the largest recorded key. Default: computed from the requests of the
   * keys.
   */
  readonly tail?: SizeTail;
  readonly seed?: number;
}

export interface ShareEstimate extends Estimate {
  /** The upper end if keys outside the sample are like those in it. */
  readonly highOfSuchKeys: number;
}

/** Keys of nearly the same counts, which are drawn together. */
interface Cell {
  keys: number;
  requests: number;
  denied: number;
}

/** The share of requests that is denied. */
export function deniedShare(counts: KeyCounts, terms: SamplingTerms): ShareEstimate {
  const tail = terms.tail ?? tailOf(counts.requests, resamples);
  return estimateShare(cellsOf(counts), { ...terms, tail });
}

/** The share of keys with a denial. */
export function deniedKeyShare(
  keys: number,
  deniedKeys: number,
  { oneKeyIn, seed = defaultSeed }: Pick<SamplingTerms, "oneKeyIn" | "seed">,
): Estimate {
  const cells = [
    { keys: deniedKeys, requests: deniedKeys, denied: deniedKeys },
    { keys: keys - deniedKeys, requests: keys - deniedKeys, denied: 0 },
  ];
  const { value, low, high } = estimateShare(cells, { oneKeyIn, allRequests: null, seed });
  return { value, low, high };
}

/** The average key of the denials: the key of a request that is drawn from all denied ones. Undefined without denials. */
export const typicalDeniedKey = (counts: KeyCounts): KeyOutcome | undefined => typicalOfCells(cellsOf(counts));

const cellsPerOctave = 8;
const sizeClass = (count: number): number =>
  count < cellsPerOctave ? count : Math.round(cellsPerOctave * Math.log2(count));

function cellsOf({ requests, denied }: KeyCounts): Cell[] {
  const cells = new Map<number, Cell>();
  for (let key = 0; key < requests.length; key++) {
    const [own, ownDenied] = [requests[key] ?? 0, denied[key] ?? 0];
    const place = sizeClass(own) * 1_024 + sizeClass(ownDenied);
    const cell = cells.get(place);
    if (cell === undefined) cells.set(place, { keys: 1, requests: own, denied: ownDenied });
    else {
      cell.keys++;
      cell.requests += own;
      cell.denied += ownDenied;
    }
  }
  return [...cells.values()];
}

const sumOf = (cells: readonly Cell[], field: keyof Cell): number =>
  cells.reduce((total, cell) => total + cell[field], 0);

function estimateShare(cells: readonly Cell[], terms: SamplingTerms): ShareEstimate {
  const requests = sumOf(cells, "requests");
  if (requests === 0) {
    return { value: 0, low: 0, high: 1, highOfSuchKeys: 1 };
  }
  const { oneKeyIn, allRequests, lostArrivals = 0, seed = defaultSeed } = terms;
  const mean = requests / sumOf(cells, "keys");
  const unseen = typicalOfCells(cells) ?? terms.unseen ?? { requests: mean, denied: mean };
  // All counts are at the scale of the sample.
  const all = oneKeyIn === 1 ? 0 : (allRequests ?? 0) / oneKeyIn;
  const random = seededRandom(seed);
  const draw = resampler(cells, oneKeyIn, random);
  const drawUnseen = poissonDraws(1, random);
  const lows = new Float64Array(resamples);
  const highs = new Float64Array(resamples);
  const highsOfSuch = new Float64Array(resamples);
  for (let index = 0; index < resamples; index++) {
    const { requests: t, denied: d } = draw();
    const [deniedKeys, allowedKeys] = [drawUnseen(), drawUnseen()];
    const least = Math.max(all, t + lostArrivals);
    const beyond = terms.tail?.beyond[index] ?? 0;
    const accounted = t + deniedKeys * unseen.requests + beyond;
    const denied = d + deniedKeys * unseen.denied + beyond;
    lows[index] = d / Math.max(1, t + allowedKeys * mean, least);
    const ofSuch = beyond === Infinity ? 1 : (denied + lostArrivals) / Math.max(1, accounted + lostArrivals);
    highs[index] = Math.max(ofSuch, (d + Math.max(0, least - t)) / Math.max(1, t, least));
    highsOfSuch[index] = ofSuch;
  }
  for (const each of [lows, highs, highsOfSuch]) each.sort();
  const value = sumOf(cells, "denied") / requests;
  // The number of all requests bounds the keys outside a sample. Nothing bounds the keys that a log does not show.
  const isUnbounded = oneKeyIn === 1 && terms.tail?.isOfFew === true;
  const highEnd = (values: Float64Array): number => Math.min(1, Math.max(value, quantile(values, highPart)));
  return {
    value,
    low: Math.min(value, quantile(lows, lowPart)),
    high: isUnbounded ? 1 : highEnd(highs),
    highOfSuchKeys: highEnd(highsOfSuch),
  };
}

/** Draws the requests and denials of a resample. */
function resampler(cells: readonly Cell[], oneKeyIn: number, random: () => number): () => KeyOutcome {
  const spread = oneKeyIn === 1 ? 1 : Math.sqrt(1 - 1 / oneKeyIn);
  const [requests, denied] = [sumOf(cells, "requests"), sumOf(cells, "denied")];
  const parts = cells
    .filter(({ keys }) => keys > 0)
    .map((cell) => ({
      draw: poissonDraws(cell.keys, random),
      requests: cell.requests / cell.keys,
      denied: cell.denied / cell.keys,
    }));
  return () => {
    let [t, d] = [0, 0];
    for (const part of parts) {
      const times = part.draw();
      t += times * part.requests;
      d += times * part.denied;
    }
    return {
      requests: requests + spread * (t - requests),
      denied: denied + spread * (d - denied),
    };
  };
}

function typicalOfCells(cells: readonly Cell[]): KeyOutcome | undefined {
  const denied = sumOf(cells, "denied");
  if (denied === 0) return undefined;
  const average = (field: "requests" | "denied"): number =>
    cells.reduce((total, cell) => total + (cell.denied * cell[field]) / Math.max(1, cell.keys), 0) / denied;
  return { requests: average("requests"), denied: average("denied") };
}

const secondMs = 1_000;
/** The normal quantile of 98.75 %. */
const deviations = 2.241;

/** The ends of the interval of a Poisson count (Wilson and Hilferty's approximation). */
const lowOf = (count: number, z: number): number =>
  count <= 0 ? 0 : count * Math.max(0, 1 - 1 / (9 * count) - z / (3 * Math.sqrt(count))) ** 3;
const highOf = (count: number, z: number): number =>
  (count + 1) * (1 - 1 / (9 * (count + 1)) + z / (3 * Math.sqrt(count + 1))) ** 3;

/**
 * The most requests that all keys together send within one second, with a 95 % interval.
 *
 * Requests of a key come together, so a count of x requests is as certain as x / g independent ones, where g is the number of
 * requests that a key with a request sends in the busiest second, weighted by requests. x / g is taken as a Poisson count.
 *
 * - Complete timelines: the value is the count of the busiest second.
 * - A sample of one key in n: n times the count of its busiest second would overestimate, because chance made it the busiest.
 *   So the highest rate of the sample is estimated from spans of 1, 2, 4, … seconds, each without the excess that chance
 *   gives the busiest of so many spans. The value is n times this rate, plus the excess that chance gives the busiest second
 *   of all keys together.
 *   The lower end is the greatest lower end of all spans. The upper end is that of the sample's busiest second, plus what one
 *   key outside the sample can add.
 *
 * @param perSecond the admitted requests of the keys in the timelines
 * @param mostOfKey the most that the limits admit of one key within a second
 */
export function worstBurst(timelines: Timelines, perSecond: SecondCounts, mostOfKey: number): Estimate {
  const { counts, startsMs } = perSecond;
  let busiest = 0;
  for (let index = 1; index < counts.length; index++) {
    if ((counts[index] ?? 0) > (counts[busiest] ?? 0)) busiest = index;
  }
  const most = counts[busiest] ?? 0;
  const { oneKeyIn, requests, fromMs, toMs } = timelines.source;
  const ofKey = Math.min(mostOfKey, requestsOfTypicalKey(timelines, startsMs[busiest] ?? 0));
  if (oneKeyIn === 1) {
    const events = most / ofKey;
    return {
      value: most,
      low: Math.min(most, ofKey * lowOf(events, deviations)),
      high: most === 0 ? 0 : Math.max(most, ofKey * highOf(events, deviations)),
    };
  }
  const seconds = Math.max(2, Math.ceil((toMs - fromMs) / secondMs));
  const { rate, low } = rates(perSecond, seconds, ofKey);
  const others = Math.max(0, (requests ?? Infinity) - timelines.atMs.length);
  const scaled = oneKeyIn * rate;
  const value = scaled + Math.sqrt(2 * scaled * ofKey * Math.log(seconds));
  const high = oneKeyIn * ofKey * highOf(most / ofKey, deviations) + Math.min(mostOfKey, others);
  return { value: Math.min(value, high), low: Math.min(oneKeyIn * low, value), high };
}

/** The greatest rate of spans of 1, 2, 4, … seconds without the part that chance adds, and its lower end. */
function rates(
  { startsMs, counts }: SecondCounts,
  periodSeconds: number,
  ofKey: number,
): { rate: number; low: number } {
  let [rate, low] = [0, 0];
  for (let seconds = 1; ; seconds *= 2) {
    const events = greatestSum(startsMs, counts, seconds * secondMs) / ofKey;
    const spans = Math.max(2, periodSeconds / seconds);
    const chance = Math.sqrt(2 * Math.log(spans));
    const scale = ofKey / seconds;
    rate = Math.max(rate, scale * (events - chance * Math.sqrt(events)));
    low = Math.max(low, scale * lowOf(events, Math.max(chance, deviations) + 1));
    if (seconds >= periodSeconds) return { rate, low };
  }
}

/** The greatest total of any span of this length. Spans begin at multiples of the length. */
function greatestSum(startsMs: Float64Array, counts: Float64Array, spanMs: number): number {
  let [most, sum, span] = [0, 0, Number.NaN];
  for (let index = 0; index < counts.length; index++) {
    const own = Math.floor((startsMs[index] ?? 0) / spanMs);
    if (own !== span) [span, sum] = [own, 0];
    sum += counts[index] ?? 0;
    if (sum > most) most = sum;
  }
  return most;
}

/** For a request drawn from this second: how many requests its key sends within the second, on average. */
function requestsOfTypicalKey({ keys, firstRow, atMs }: Timelines, fromMs: number): number {
  let [requests, squares] = [0, 0];
  for (let key = 0; key < keys.length; key++) {
    const end = firstRow[key + 1] ?? 0;
    let own = 0;
    for (let row = firstOf(atMs, firstRow[key] ?? 0, end, fromMs); row < end; row++) {
      if ((atMs[row] ?? 0) >= fromMs + secondMs) break;
      own++;
    }
    requests += own;
    squares += own * own;
  }
  return requests === 0 ? 1 : squares / requests;
}

/** The first row from `low` on that is not before the instant, or `high`. */
function firstOf(atMs: Float64Array, low: number, high: number, instantMs: number): number {
  let [from, to] = [low, high];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if ((atMs[middle] ?? 0) < instantMs) from = middle + 1;
    else to = middle;
  }
  return from;
}
