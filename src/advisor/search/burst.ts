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
 */
import type { SecondCounts } from "../replay/result.ts";
import type { Timelines } from "../replay/timelines.ts";
import type { Estimate } from "./advice.ts";

const secondMs = 1_000;
/** The normal quantile of 98.75 %. */
const deviations = 2.241;

/** The ends of the interval of a Poisson count (Wilson and Hilferty's approximation). */
const lowOf = (count: number, z: number): number =>
  count <= 0 ? 0 : count * Math.max(0, 1 - 1 / (9 * count) - z / (3 * Math.sqrt(count))) ** 3;
const highOf = (count: number, z: number): number =>
  (count + 1) * (1 - 1 / (9 * (count + 1)) + z / (3 * Math.sqrt(count + 1))) ** 3;

/**
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

/** The greatest sum of the counts of a span; spans begin at multiples of their length. */
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

/** How many requests the key of a request in the second sends within it, on average. */
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
