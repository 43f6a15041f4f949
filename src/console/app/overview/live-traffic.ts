/**
 * The traffic of the last five minutes per second. The statistics have counts of whole minutes, but isolates report every second
 * while somebody reads them, so the difference of two reads is the traffic between them. The time before the first read has the
 * mean rate of each minute, and the time of failed reads has no rate.
 */
import type { Statistics, StatisticsPoint } from "../api/answers.ts";
import {
  addPoint,
  addTally,
  type CountedTraffic,
  lines,
  newPolicyTraffic,
  newTally,
  numbersOf,
  type PolicyTraffic,
  type Tally,
} from "./traffic.ts";

const minuteMs = 60_000;
const spanMs = 5 * minuteMs;
/** After a longer pause between reads, such as of a hidden page, isolates may report less often than every second. */
const longestPauseMs = 10_000;
/**
 * Before the first read and during a pause, isolates report only every few seconds, each time the counts of all of them. So the
 * reads of this time after the first read, or after a pause, extend the sample before them.
 */
const startUpSeconds = 10;
/** Shorter samples would show what isolates send at once as a peak. */
const shortestStartMs = 30_000;
/** The first rates of the span are means with the samples of this time before it. */
const keptMs = spanMs + 10_000;
/** Counts of a minute change until two minutes after its start. */
const openMs = 3 * minuteMs;

interface Sample {
  /** The end, by the clock of the control plane. */
  readonly atMs: number;
  readonly seconds: number;
  /** The decisions by policy. */
  readonly added: Map<string, Tally>;
  readonly originFailures: number;
  /** Reads failed meanwhile. */
  readonly isLost: boolean;
}

export class LiveTraffic {
  #samples: Sample[] = [];
  /**
   * The highest counts of each open minute and policy. Counts can decrease, when the control plane restarts and isolates send
   * their last batches again. These are not new decisions.
   */
  #highest = new Map<string, Tally>();
  #highestFailures = new Map<string, number>();
  #boundsMs: readonly number[] = [];
  #readAtMs = Number.NEGATIVE_INFINITY;
  /** By how much the clock of the control plane is ahead of the browser's, as far as the reads show it. */
  #aheadMs = 0;
  #toMs = 0;
  #startUpSeconds = 0;
  #hasFailed = false;

  /** When the last answer arrived, by the clock of the browser. */
  get readAtMs(): number {
    return this.#readAtMs;
  }

  /** The start of the minutes that a read at this time needs. */
  fromMs(nowMs: number): number {
    return this.#isContinuedAt(nowMs) ? this.#toMs - openMs - minuteMs : nowMs - spanMs - minuteMs;
  }

  /** Records that a read failed. */
  fail(): void {
    this.#hasFailed = true;
  }

  /** @param nowMs when the answer arrived, by the clock of the browser */
  add(statistics: Statistics, nowMs: number): void {
    const toMs = Date.parse(statistics.to);
    // The answer ends with the current minute of the control plane.
    const atMs = Math.min(toMs, Math.max(toMs - minuteMs, nowMs + this.#aheadMs));
    const isContinued = this.#isContinuedAt(nowMs);
    const seconds = Math.max(0, nowMs - this.#readAtMs) / 1_000;
    this.#aheadMs = atMs - nowMs;
    this.#boundsMs = statistics.latencyBoundsMs;
    this.#readAtMs = nowMs;
    this.#toMs = toMs;
    const added = this.#newDecisions(statistics);
    const originFailures = this.#newFailures(statistics);
    if (isContinued) {
      const isLost = this.#hasFailed && 1_000 * seconds > longestPauseMs;
      this.#continue({ atMs, seconds, added, originFailures, isLost });
    } else {
      this.#samples = samplesOf(statistics, atMs);
      this.#startUpSeconds = startUpSeconds;
    }
    this.#hasFailed = false;
    this.#samples = this.#samples.filter((sample) => sample.atMs > atMs - keptMs);
  }

  traffic(): CountedTraffic {
    const toMs = this.#samples.at(-1)?.atMs ?? 0;
    const fromMs = toMs - spanMs;
    const shown = this.#samples.filter(({ atMs }) => atMs > fromMs);
    const times = this.#samples.map(readTimeOf);
    const points = ratePoints(times).filter(({ atMs }) => atMs > fromMs);
    const policies = new Map<string, PolicyTraffic>();
    for (const policy of new Set(shown.flatMap(({ added }) => [...added.keys()]))) {
      const traffic = this.#ratesOf(policy, points);
      for (const { added } of shown) {
        const tally = added.get(policy);
        if (tally !== undefined) addTally(traffic.total, tally);
      }
      policies.set(policy, traffic);
    }
    return {
      fromMs,
      toMs,
      stepMs: null,
      times: points.map(({ atMs }) => atMs),
      longSteps: times.filter((time) => time.toMs > fromMs && isLong(time)),
      boundsMs: this.#boundsMs,
      policies,
      originFailures: shown.reduce((sum, each) => sum + each.originFailures, 0),
    };
  }

  /** After a pause of the whole span, no sample is left to continue. */
  #isContinuedAt(nowMs: number): boolean {
    return nowMs - this.#readAtMs < spanMs;
  }

  #continue(sample: Sample): void {
    let next = sample;
    const isStart = this.#startUpSeconds > 0;
    this.#startUpSeconds -= sample.seconds;
    if (1_000 * sample.seconds > longestPauseMs) this.#startUpSeconds = startUpSeconds;
    else if (isStart) next = this.#withLast(next);
    // A clock was set back.
    while (next.atMs <= (this.#samples.at(-1)?.atMs ?? 0)) next = this.#withLast(next);
    this.#samples.push(next);
  }

  /** Takes the last sample away, and returns it together with another. */
  #withLast(sample: Sample): Sample {
    const { atMs, seconds, added, originFailures, isLost } = sample;
    const last = this.#samples.pop();
    if (last === undefined) return sample;
    for (const [policy, tally] of last.added) {
      const sum = added.get(policy);
      if (sum === undefined) added.set(policy, tally);
      else addTally(sum, tally);
    }
    return {
      atMs,
      seconds: seconds + last.seconds,
      added,
      originFailures: originFailures + last.originFailures,
      isLost: isLost || last.isLost,
    };
  }

  #ratesOf(policy: string, points: readonly RatePoint[]): PolicyTraffic {
    const traffic = newPolicyTraffic(this.#boundsMs.length, points.length);
    const numbers = this.#samples.map(({ added }) => {
      const tally = added.get(policy);
      return tally === undefined ? null : numbersOf(tally);
    });
    for (const line of lines) {
      for (const [index, { weights }] of points.entries()) {
        let rate = weights === null ? null : 0;
        for (const [each, weight] of weights ?? []) {
          rate = (rate ?? 0) + weight * (numbers[each]?.[line] ?? 0);
        }
        traffic.lines[line][index] = rate;
      }
    }
    return traffic;
  }

  /** Only what exceeds the highest counts so far is new. */
  #newDecisions({ points, from, latencyBoundsMs }: Statistics): Map<string, Tally> {
    const bounds = latencyBoundsMs.length;
    const added = new Map<string, Tally>();
    for (const point of points) {
      const tally = newTally(bounds);
      addPoint(tally, point);
      const highest = this.#highest.get(nameOf(point)) ?? newTally(bounds);
      this.#highest.set(nameOf(point), highest);
      const sum = added.get(point.policy) ?? newTally(bounds);
      added.set(point.policy, sum);
      for (let at = 0; at < tally.length; at++) {
        const count = tally[at] ?? 0;
        const known = highest[at] ?? 0;
        sum[at] = (sum[at] ?? 0) + Math.max(0, count - known);
        highest[at] = Math.max(known, count);
      }
    }
    deleteBefore(this.#highest, from);
    return new Map([...added].filter(([, sum]) => sum.some((count) => count > 0)));
  }

  #newFailures({ originFailures, from }: Statistics): number {
    let added = 0;
    for (const { at, count } of originFailures) {
      const known = this.#highestFailures.get(at) ?? 0;
      added += Math.max(0, count - known);
      this.#highestFailures.set(at, Math.max(known, count));
    }
    deleteBefore(this.#highestFailures, from);
    return added;
  }
}

/** Instants as text have the order of time. */
const nameOf = ({ at, policy }: StatisticsPoint): string => `${at} ${policy}`;

function deleteBefore(counts: Map<string, unknown>, from: string): void {
  for (const name of counts.keys()) if (name < from) counts.delete(name);
}

/** The samples of the first answer: one for each minute. The last has the current minute, and the one before if that is short. */
function samplesOf(statistics: Statistics, atMs: number): Sample[] {
  const { from, to, points, originFailures, latencyBoundsMs } = statistics;
  const fromMs = Date.parse(from);
  const minutes = Math.round((Date.parse(to) - fromMs) / minuteMs);
  const currentMs = fromMs + (minutes - 1) * minuteMs;
  const whole = Math.max(0, atMs - currentMs < shortestStartMs ? minutes - 2 : minutes - 1);
  const samples = Array.from({ length: whole + 1 }, (_, index) => {
    const startMs = fromMs + index * minuteMs;
    const endMs = index === whole ? atMs : startMs + minuteMs;
    return {
      atMs: endMs,
      seconds: (endMs - startMs) / 1_000,
      added: new Map<string, Tally>(),
      originFailures: 0,
      isLost: false,
    };
  });
  const sampleAt = (at: string): (typeof samples)[number] | undefined =>
    samples[Math.min(whole, Math.floor((Date.parse(at) - fromMs) / minuteMs))];
  for (const point of points) {
    const added = sampleAt(point.at)?.added;
    const tally = added?.get(point.policy) ?? newTally(latencyBoundsMs.length);
    addPoint(tally, point);
    added?.set(point.policy, tally);
  }
  for (const { at, count } of originFailures) {
    const sample = sampleAt(at);
    if (sample !== undefined) sample.originFailures += count;
  }
  return samples;
}

const readTimeOf = ({ atMs, seconds, isLost }: Sample, index: number, samples: readonly Sample[]): ReadTime => ({
  fromMs: samples[index - 1]?.atMs ?? atMs - 1_000 * seconds,
  toMs: atMs,
  seconds,
  isLost,
});

/** The time between two reads, by the clock of the control plane. */
interface ReadTime {
  readonly fromMs: number;
  readonly toMs: number;
  /** How long it was by the clock of the browser, which is right when either clock was set meanwhile. */
  readonly seconds: number;
  /** Reads failed, so its rate is not known. */
  readonly isLost: boolean;
}

interface RatePoint {
  readonly atMs: number;
  /** The rate is the sum of the counts of these read times, by index, multiplied by these weights. Null: not known. */
  readonly weights: ReadonlyMap<number, number> | null;
}

const gridMs = 2_000;
/** Limits of 10 seconds are common. A mean of another time would rise and fall with their windows. */
const meanMs = 10_000;

/** A longer time has one rate, which does not show when a change took effect. */
const isLong = ({ fromMs, toMs }: ReadTime): boolean => toMs - fromMs > meanMs;

/** Rates at the times of a fixed grid. They depend neither on when the page was opened nor on how often it reads. */
function ratePoints(times: readonly ReadTime[]): readonly RatePoint[] {
  return times.flatMap((time, index) => {
    if (isLong(time)) {
      return { atMs: time.toMs, weights: time.isLost ? null : new Map([[index, perSecond(time)]]) };
    }
    const first = Math.floor(time.fromMs / gridMs) + 1;
    const last = Math.floor(time.toMs / gridMs);
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, step) => {
      const atMs = (first + step) * gridMs;
      return { atMs, weights: weightsAt(atMs, index, times) };
    });
  });
}

const perSecond = ({ seconds }: ReadTime): number => (seconds === 0 ? 0 : 1 / seconds);

/** The weights of the mean up to an instant, which is in the read time of the index. */
function weightsAt(atMs: number, index: number, times: readonly ReadTime[]): RatePoint["weights"] {
  const overlaps = new Map<number, number>();
  let sumMs = 0;
  for (let each = index; each >= 0; each--) {
    const time = times[each];
    if (time === undefined || time.toMs <= atMs - meanMs) break;
    if (time.isLost) return null;
    const ownMs = Math.min(atMs, time.toMs) - Math.max(atMs - meanMs, time.fromMs);
    overlaps.set(each, ownMs * perSecond(time));
    sumMs += ownMs;
  }
  return new Map([...overlaps].map(([each, overlap]) => [each, overlap / sumMs]));
}
