/**
 * The traffic of the last five minutes per second. The statistics have counts of whole minutes, but isolates report every second
 * while somebody reads them, so the difference of two reads is the traffic between them.
 */
import type { Statistics, StatisticsPoint } from "../api/answers.ts";
import { addPoint, addTally, newTally, numbersOf, type Tally } from "./tally.ts";
import { lines, newPolicyTraffic, type PolicyTraffic, type CountedTraffic } from "./traffic.ts";

const minuteMs = 60_000;
const spanMs = 5 * minuteMs;
/** After a longer pause between reads, such as of a hidden page, the traffic meanwhile is not shown as a rate. */
const longestPauseMs = 8_000;
/** Counts arrive about every second, and not evenly. Each rate is the mean of this many reads. */
const readsOfRate = 3;
/** Counts of a minute change until two minutes after its start. */
const openMs = 3 * minuteMs;

interface Sample {
  /** By the clock of the control plane. */
  readonly atMs: number;
  /** The time since the previous read; null after a pause. */
  readonly seconds: number | null;
  /** The decisions since the previous read, by policy. */
  readonly added: ReadonlyMap<string, Tally>;
  readonly originFailures: number;
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
  #readAtMs: number | null = null;
  /** By how much the clock of the control plane is ahead of the browser's, as far as the reads show it. */
  #aheadMs = 0;
  #toMs: number | null = null;

  /** The start of the minutes that the next read needs; null before the first read. */
  get fromMs(): number | null {
    return this.#toMs === null ? null : this.#toMs - openMs - minuteMs;
  }

  /** @param nowMs when the answer arrived, by the clock of the browser */
  add(statistics: Statistics, nowMs: number): void {
    const toMs = Date.parse(statistics.to);
    // The answer ends with the current minute of the control plane.
    const atMs = Math.min(toMs, Math.max(toMs - minuteMs, nowMs + this.#aheadMs));
    this.#aheadMs = atMs - nowMs;
    this.#boundsMs = statistics.latencyBoundsMs;
    const added = this.#newDecisions(statistics);
    const originFailures = this.#newFailures(statistics);
    const pauseMs = this.#readAtMs === null ? null : nowMs - this.#readAtMs;
    this.#readAtMs = nowMs;
    this.#toMs = toMs;
    const last = this.#samples.at(-1)?.atMs ?? Number.NEGATIVE_INFINITY;
    // A clock was set back.
    if (atMs <= last) this.#samples = this.#samples.filter((sample) => sample.atMs < atMs);
    const isRate = pauseMs !== null && pauseMs > 0 && pauseMs <= longestPauseMs;
    this.#samples = this.#samples.filter((sample) => sample.atMs > atMs - spanMs);
    this.#samples.push(
      isRate
        ? { atMs, seconds: pauseMs / 1_000, added, originFailures }
        : { atMs, seconds: null, added: new Map(), originFailures: 0 },
    );
  }

  traffic(): CountedTraffic {
    const samples = this.#samples;
    const bounds = this.#boundsMs.length;
    const policies = new Map<string, PolicyTraffic>();
    for (const policy of new Set(samples.flatMap(({ added }) => [...added.keys()]))) {
      policies.set(policy, this.#trafficOf(policy, bounds));
    }
    const toMs = samples.at(-1)?.atMs ?? 0;
    return {
      // The axis grows up to the whole span.
      fromMs: Math.min(toMs - minuteMs, samples[0]?.atMs ?? 0),
      toMs,
      stepMs: null,
      times: samples.map(({ atMs }) => atMs),
      boundsMs: this.#boundsMs,
      policies,
      originFailures: samples.reduce((sum, each) => sum + each.originFailures, 0),
    };
  }

  #trafficOf(policy: string, bounds: number): PolicyTraffic {
    const samples = this.#samples;
    const traffic = newPolicyTraffic(bounds, samples.length);
    const numbers = samples.map(({ added }) => {
      const tally = added.get(policy);
      if (tally !== undefined) addTally(traffic.total, tally);
      return tally === undefined ? null : numbersOf(tally);
    });
    for (const line of lines) {
      const counts = numbers.map((each) => each?.[line] ?? 0);
      for (const index of samples.keys()) {
        traffic.lines[line][index] = rateAt(index, samples, counts);
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

/** The mean rate of the last reads, without those before a pause. */
function rateAt(
  index: number,
  samples: readonly Sample[],
  counts: readonly number[],
): number | null {
  if (samples[index]?.seconds === null) return null;
  let seconds = 0;
  let count = 0;
  for (let each = index; each > index - readsOfRate; each--) {
    const own = samples[each]?.seconds ?? null;
    if (own === null) break;
    seconds += own;
    count += counts[each] ?? 0;
  }
  return count / seconds;
}
