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
import type { Estimate } from "./advice.ts";
import { seededRandom } from "../replay/random.ts";
import { poissonDraws, quantile } from "./resampling.ts";
import { type SizeTail, tailOf } from "./tail.ts";

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

export interface SamplingTerms {
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

const sum = (cells: readonly Cell[], field: keyof Cell): number =>
  cells.reduce((total, cell) => total + cell[field], 0);

function estimateShare(cells: readonly Cell[], terms: SamplingTerms): ShareEstimate {
  const requests = sum(cells, "requests");
  if (requests === 0) {
    return { value: 0, low: 0, high: 1, highOfSuchKeys: 1 };
  }
  const { oneKeyIn, allRequests, lostArrivals = 0, seed = defaultSeed } = terms;
  const mean = requests / sum(cells, "keys");
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
  const value = sum(cells, "denied") / requests;
  // Beside a sample there are other keys, which the requests of all keys bound. Beside a log there may be any.
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
  const [requests, denied] = [sum(cells, "requests"), sum(cells, "denied")];
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
  const denied = sum(cells, "denied");
  if (denied === 0) return undefined;
  const average = (field: "requests" | "denied"): number =>
    cells.reduce((total, cell) => total + (cell.denied * cell[field]) / Math.max(1, cell.keys), 0) / denied;
  return { requests: average("requests"), denied: average("denied") };
}
