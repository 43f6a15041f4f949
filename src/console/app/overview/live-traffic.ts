/**
 * The traffic of the last five minutes per second. The statistics have counts of whole minutes, but isolates report every second
 * while somebody reads them, so the difference of two reads is the traffic between them. The time before the first read has the
 * mean rate of each minute, and the time of failed reads has no rate. The totals are those of the last answer, which begins
 * with a whole minute, so that they agree with its list of keys.
 */
import type { StatisticsView, StatisticsPointView, TopKeyList } from "../../../admin/wire.ts";
import {
  addTally,
  type CountedTraffic,
  countedPoints,
  denialRunsOf,
  firstsOf,
  lines,
  newPolicyTraffic,
  newTally,
  numbersOf,
  type PolicyTraffic,
  type Tally,
  tallyOf,
  unknownUntil,
  withRequests,
} from "./traffic.ts";

const minuteMs = 60_000;
const spanMs = 5 * minuteMs;
/**
 * After a longer pause between reads, for example while the page is hidden, isolates may report less often than every
 * second.
 */
const longestPauseMs = 10_000;
/**
 * Before the first read and during a pause, isolates report only every few seconds, and each report contains all counts
 * since the previous one. So reads within this time after the first read, or after a pause, extend the previous sample.
 */
const startUpSeconds = 10;
/** In a shorter sample, the counts that isolates report at once would look like a peak. */
const shortestStartMs = 30_000;
/** Samples are kept slightly longer than the span, because the first rates of the span are means that include them. */
const keptMs = spanMs + 10_000;
/** Counts of a minute still change until two minutes after its start. */
const openMs = 3 * minuteMs;
const gridMs = 2_000;
/**
 * Limits of 10 seconds are common. With a mean over any other time, the line would rise and fall with their windows.
 */
const meanMs = 10_000;

/** The time between two reads, by the clock of the control plane. */
interface Sample {
  readonly fromMs: number;
  readonly toMs: number;
  /** The length by the clock of the browser. It stays correct when the clock of the control plane is set meanwhile. */
  readonly seconds: number;
  /** The decisions by policy. */
  readonly added: Map<string, Tally>;
  /** Whether reads failed during this time, so that its rate is unknown. */
  readonly isLost: boolean;
}

export class LiveTraffic {
  #samples: Sample[] = [];
  /**
   * The highest counts of each open minute and policy. Counts can decrease, when the control plane restarts and isolates send
   * their last batches again. These are not new decisions.
   */
  #highest = new Map<string, Tally>();
  #answer: StatisticsView | null = null;
  #unknownUntilMs = 0;
  #readAtMs = Number.NEGATIVE_INFINITY;
  /** By how much the clock of the control plane is ahead of the browser's, as far as the reads show it. */
  #aheadMs = 0;
  #startUpSeconds = 0;
  #hasFailed = false;

  /** When the last answer arrived, by the clock of the browser. */
  get readAtMs(): number {
    return this.#readAtMs;
  }

  /** The most denied keys of the last answer. */
  get top(): TopKeyList | null {
    return this.#answer?.top ?? null;
  }

  /** A read at this time begins with the whole minute of this instant. */
  fromMs(nowMs: number): number {
    return nowMs - spanMs;
  }

  fail(): void {
    this.#hasFailed = true;
  }

  /** @param nowMs when the answer arrived, by the clock of the browser */
  add(statistics: StatisticsView, nowMs: number): void {
    const endMs = Date.parse(statistics.to);
    // The answer ends at the end of the current minute of the control plane.
    const toMs = Math.min(endMs, Math.max(endMs - minuteMs, nowMs + this.#aheadMs));
    const isContinued = this.#isContinuedAt(nowMs);
    const seconds = Math.max(0, nowMs - this.#readAtMs) / 1_000;
    this.#aheadMs = toMs - nowMs;
    this.#answer = statistics;
    this.#unknownUntilMs = Math.max(this.#unknownUntilMs, unknownUntil(statistics) ?? 0);
    this.#readAtMs = nowMs;
    const newDecisions = this.#newDecisions(statistics);
    if (isContinued) {
      const fromMs = this.#samples.at(-1)?.toMs ?? toMs - 1_000 * seconds;
      const added = new Map<string, Tally>();
      for (const [endedMs, tallies] of newDecisions) addAll(this.#sampleOf(endedMs, fromMs)?.added ?? added, tallies);
      const isLost = this.#hasFailed && 1_000 * seconds > longestPauseMs;
      this.#continue({ fromMs, toMs, seconds, added, isLost });
    } else {
      this.#samples = samplesOf(statistics, toMs);
      this.#startUpSeconds = startUpSeconds;
    }
    this.#hasFailed = false;
    this.#samples = this.#samples.filter((sample) => sample.toMs > toMs - keptMs);
  }

  traffic(): CountedTraffic {
    const toMs = this.#samples.at(-1)?.toMs ?? 0;
    const fromMs = toMs - spanMs;
    const shown = this.#samples.filter((sample) => sample.toMs > fromMs);
    const points = ratePoints(this.#samples).filter(({ atMs }) => atMs > fromMs);
    const answer = this.#answer;
    const boundsMs = answer?.latencyBoundsMs ?? [];
    const policies = new Map<string, PolicyTraffic>();
    const policyOf = (policy: string): PolicyTraffic => {
      const known = policies.get(policy) ?? { total: newTally(boundsMs.length), lines: ratesOf(policy, points) };
      policies.set(policy, known);
      return known;
    };
    for (const point of answer === null ? [] : countedPoints(answer)) {
      addTally(policyOf(point.policy).total, tallyOf(point, boundsMs.length));
    }
    for (const { added } of shown) for (const policy of added.keys()) policyOf(policy);
    const times = points.map(({ atMs }) => atMs);
    const isUnknown = this.#unknownUntilMs > fromMs;
    return {
      fromMs,
      toMs,
      stepMs: null,
      times,
      longSteps: shown.filter(isLong),
      boundsMs,
      ...withRequests(policies, times, isUnknown ? this.#unknownUntilMs : null),
      countedFromMs: answer === null ? fromMs : Date.parse(answer.from),
      firsts: answer === null ? new Map() : firstsOf(answer),
      denialRuns: answer === null ? new Map() : denialRunsOf(answer),
      originFailures: (answer?.originFailures ?? []).reduce((sum, { count }) => sum + count, 0),
    };
  }

  /** After a longer pause, an answer does not have every minute that was open at the last read. */
  #isContinuedAt(nowMs: number): boolean {
    return nowMs - this.#readAtMs <= spanMs - openMs;
  }

  #continue(sample: Sample): void {
    let next = sample;
    const isStart = this.#startUpSeconds > 0;
    this.#startUpSeconds -= sample.seconds;
    if (1_000 * sample.seconds > longestPauseMs) this.#startUpSeconds = startUpSeconds;
    else if (isStart) next = this.#withLast(next);
    // A clock was set back.
    while (next.toMs <= (this.#samples.at(-1)?.toMs ?? 0)) next = this.#withLast(next);
    this.#samples.push(next);
  }

  /** Removes the last sample, and returns its counts together with those of another sample. */
  #withLast(sample: Sample): Sample {
    const last = this.#samples.pop();
    if (last === undefined) return sample;
    const added = new Map(sample.added);
    addAll(added, last.added);
    return {
      fromMs: last.fromMs,
      toMs: sample.toMs,
      seconds: sample.seconds + last.seconds,
      added,
      isLost: sample.isLost || last.isLost,
    };
  }

  /**
   * The known sample of a minute that ended before the next sample begins: isolates report some counts late. Null for a
   * minute of the next sample.
   */
  #sampleOf(endedMs: number, nextFromMs: number): Sample | null {
    if (endedMs > nextFromMs) return null;
    return this.#samples.findLast(({ fromMs }) => fromMs < endedMs) ?? null;
  }

  /** By the end of their minute. Only what exceeds the highest counts so far is new. */
  #newDecisions(statistics: StatisticsView): Map<number, Map<string, Tally>> {
    const { from, latencyBoundsMs } = statistics;
    const bounds = latencyBoundsMs.length;
    const added = new Map<number, Map<string, Tally>>();
    for (const point of countedPoints(statistics)) {
      const highest = this.#highest.get(nameOf(point)) ?? newTally(bounds);
      this.#highest.set(nameOf(point), highest);
      const more = tallyOf(point, bounds).map((count, at) => Math.max(0, count - (highest[at] ?? 0)));
      if (more.every((count) => count === 0)) continue;
      addTally(highest, more);
      const endedMs = Date.parse(point.at) + minuteMs;
      const tallies = added.get(endedMs) ?? new Map<string, Tally>();
      added.set(endedMs, tallies.set(point.policy, more));
    }
    deleteBefore(this.#highest, from);
    return added;
  }
}

function addAll(sums: Map<string, Tally>, tallies: ReadonlyMap<string, Tally>): void {
  for (const [policy, tally] of tallies) {
    const sum = Float64Array.from(tally);
    addTally(sum, sums.get(policy) ?? []);
    sums.set(policy, sum);
  }
}

/** Instants as text have the order of time. */
const nameOf = ({ at, policy }: StatisticsPointView): string => `${at} ${policy}`;

function deleteBefore(counts: Map<string, unknown>, from: string): void {
  for (const name of counts.keys()) if (name < from) counts.delete(name);
}

/**
 * The samples of the first answer, one for each minute. The last sample covers the current minute, and also the
 * previous one if the current minute has just begun.
 */
function samplesOf(statistics: StatisticsView, endMs: number): Sample[] {
  const { from, to, latencyBoundsMs } = statistics;
  const points = countedPoints(statistics);
  const firstMs = Date.parse(from);
  const minutes = Math.round((Date.parse(to) - firstMs) / minuteMs);
  const currentMs = firstMs + (minutes - 1) * minuteMs;
  const whole = Math.max(0, endMs - currentMs < shortestStartMs ? minutes - 2 : minutes - 1);
  const indexOf = (at: string): number => Math.min(whole, Math.floor((Date.parse(at) - firstMs) / minuteMs));
  return Array.from({ length: whole + 1 }, (_, index) => {
    const fromMs = firstMs + index * minuteMs;
    const toMs = index === whole ? endMs : fromMs + minuteMs;
    const added = new Map<string, Tally>();
    for (const point of points.filter(({ at }) => indexOf(at) === index)) {
      const tally = added.get(point.policy) ?? newTally(latencyBoundsMs.length);
      addTally(tally, tallyOf(point, latencyBoundsMs.length));
      added.set(point.policy, tally);
    }
    return { fromMs, toMs, seconds: (toMs - fromMs) / 1_000, added, isLost: false };
  });
}

interface RatePoint {
  readonly atMs: number;
  /** The rate is the sum of the counts of these samples, multiplied by these weights. Null: not known. */
  readonly weights: readonly (readonly [Sample, number])[] | null;
}

/** A longer sample has only one rate, which does not show when a change took effect. */
const isLong = ({ fromMs, toMs }: Sample): boolean => toMs - fromMs > meanMs;

/** Rates at the times of a fixed grid. They depend neither on when the page was opened nor on how often it reads. */
const ratePoints = (samples: readonly Sample[]): readonly RatePoint[] =>
  samples.flatMap((sample) => {
    const { fromMs, toMs, isLost } = sample;
    if (isLong(sample)) return { atMs: toMs, weights: isLost ? null : [[sample, perSecond(sample)] as const] };
    const first = Math.floor(fromMs / gridMs) + 1;
    const last = Math.floor(toMs / gridMs);
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, step) => {
      const atMs = (first + step) * gridMs;
      return { atMs, weights: weightsAt(atMs, samples) };
    });
  });

const perSecond = ({ seconds }: Sample): number => (seconds === 0 ? 0 : 1 / seconds);

/** The weights of the mean up to an instant. */
function weightsAt(atMs: number, samples: readonly Sample[]): RatePoint["weights"] {
  const overlapping = samples.filter(({ fromMs, toMs }) => toMs > atMs - meanMs && fromMs < atMs);
  if (overlapping.some(({ isLost }) => isLost)) return null;
  const overlapMs = ({ fromMs, toMs }: Sample): number => Math.min(atMs, toMs) - Math.max(atMs - meanMs, fromMs);
  const sumMs = overlapping.reduce((sum, sample) => sum + overlapMs(sample), 0);
  return overlapping.map((sample) => [sample, (overlapMs(sample) * perSecond(sample)) / sumMs]);
}

function ratesOf(policy: string, points: readonly RatePoint[]): PolicyTraffic["lines"] {
  const rates = newPolicyTraffic(0, points.length).lines;
  for (const [index, { weights }] of points.entries()) {
    if (weights === null) for (const line of lines) rates[line][index] = null;
    for (const [{ added }, weight] of weights ?? []) {
      const tally = added.get(policy);
      const numbers = tally === undefined ? null : numbersOf(tally);
      for (const line of lines) rates[line][index] = (rates[line][index] ?? 0) + weight * (numbers?.[line] ?? 0);
    }
  }
  return rates;
}
