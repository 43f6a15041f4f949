/** Counts what one set of limits decides. */
import type { Limit } from "../../strategies/index.ts";
import { mostWithin, peaks, type Timelines } from "./timelines.ts";
import {
  addToStep,
  arrivalSeconds,
  type MostAdmitted,
  type ReplayOptions,
  type ReplayResult,
  type SecondCounts,
  secondMs,
  type StepCounts,
} from "./result.ts";

/** Stands for an instant while the key is not denied. */
const notDenied = -1;

/**
 * Counts the decisions of a replay, one key after the other. It starts with all arrivals admitted and subtracts the
 * denied ones, because an admission is the frequent case and then costs no time.
 */
export class DecisionTally {
  readonly timelines: Timelines;
  readonly limits: readonly Limit[];
  readonly obeys: boolean;
  /** 1 for each row that was allowed when it first came. */
  readonly #allowed: Uint8Array;
  readonly #seconds;
  readonly #perSecond: Float64Array;
  readonly #admitted: StepCounts;
  readonly #denials: StepCounts;
  readonly #deniedOfKey: Uint32Array;
  readonly #longestDeniedMsOfKey: Float64Array;
  readonly #most: MostAdmitted[];
  /** Admitted retries and requests that a queue delayed, by the second in which they reach the origin. */
  readonly #laterSeconds = new Map<number, number>();
  readonly #retries = { sent: 0, denied: 0, abandoned: 0, longestWaitMs: 0 };
  #key = 0;
  /** When the key was first denied since its last admission. */
  #deniedSinceMs = notDenied;
  /** When the wait of its last denial ends. */
  #deniedUntilMs = 0;
  #isKeyDenied = false;
  #denied = 0;
  readonly #countedFromMs: number;

  /** @param steps the arrivals of each plot step */
  constructor(
    timelines: Timelines,
    limits: readonly Limit[],
    steps: StepCounts,
    { retry, countedFromMs = 0 }: Pick<ReplayOptions, "retry" | "countedFromMs">,
  ) {
    const keys = timelines.keys.length;
    this.timelines = timelines;
    this.limits = limits;
    this.obeys = retry === "obey";
    this.#countedFromMs = countedFromMs;
    this.#seconds = arrivalSeconds(timelines);
    this.#allowed = new Uint8Array(timelines.atMs.length).fill(1);
    this.#perSecond = this.#seconds.counts.slice();
    this.#admitted = { ...steps, counts: steps.counts.slice() };
    this.#denials = { ...steps, counts: new Float64Array(steps.counts.length) };
    this.#deniedOfKey = new Uint32Array(keys);
    this.#longestDeniedMsOfKey = new Float64Array(keys);
    this.#most = limits.map(({ name, windowMs }) => ({ limit: name, windowMs, units: 0, key: null }));
  }

  beginKey(key: number): void {
    this.#key = key;
    this.#deniedSinceMs = notDenied;
    this.#isKeyDenied = false;
  }

  /** Whether the last decision on the key was a denial. */
  get isDenying(): boolean {
    return this.#deniedSinceMs !== notDenied;
  }

  /** Ends the time for which the key is denied. Only needed while `isDenying`. */
  admit(atMs: number): void {
    if (!this.isDenying) return;
    this.#endDenial(Math.min(atMs, this.#deniedUntilMs));
    this.#deniedSinceMs = notDenied;
  }

  denyArrival(row: number, waitMs: number | null): void {
    const atMs = this.timelines.atMs[row] ?? 0;
    this.#allowed[row] = 0;
    this.#isKeyDenied = true;
    if (atMs >= this.#countedFromMs) {
      this.#denied++;
      this.#deniedOfKey[this.#key] = (this.#deniedOfKey[this.#key] ?? 0) + 1;
    }
    this.#takeOff(row);
    addToStep(this.#admitted, atMs, -1);
    this.#deny(atMs, waitMs);
  }

  /** Records that a queue delays an admitted arrival. */
  delay(row: number, delayMs: number): void {
    this.#takeOff(row);
    this.#addLater((this.timelines.atMs[row] ?? 0) + delayMs);
  }

  /** Removes the arrival from the second in which it came. */
  #takeOff(row: number): void {
    const second = this.#seconds.ofRow[row] ?? 0;
    this.#perSecond[second] = (this.#perSecond[second] ?? 0) - 1;
  }

  #addLater(atMs: number): void {
    const second = Math.floor(atMs / secondMs) * secondMs;
    this.#laterSeconds.set(second, (this.#laterSeconds.get(second) ?? 0) + 1);
  }

  denyRetry(atMs: number, waitMs: number | null): void {
    if (atMs >= this.#countedFromMs) this.#retries.denied++;
    this.#deny(atMs, waitMs);
  }

  sendRetry(atMs: number): void {
    if (atMs >= this.#countedFromMs) this.#retries.sent++;
  }

  /** @param delayMs how long a queue delays the retry */
  admitRetry(atMs: number, waitedMs: number, delayMs: number): void {
    this.#addLater(atMs + delayMs);
    addToStep(this.#admitted, atMs, 1);
    if (atMs - waitedMs >= this.#countedFromMs) {
      this.#retries.longestWaitMs = Math.max(this.#retries.longestWaitMs, waitedMs);
    }
    this.admit(atMs);
  }

  /** Records that the client of an arrival gives up. */
  abandon(row: number): void {
    if ((this.timelines.atMs[row] ?? 0) >= this.#countedFromMs) this.#retries.abandoned++;
  }

  #deny(atMs: number, waitMs: number | null): void {
    addToStep(this.#denials, atMs, 1);
    if (!this.isDenying) this.#deniedSinceMs = atMs;
    this.#deniedUntilMs = atMs + (waitMs ?? 0);
  }

  #endDenial(untilMs: number): void {
    const lastedMs = untilMs - Math.max(this.#deniedSinceMs, this.#countedFromMs);
    const longestMs = this.#longestDeniedMsOfKey[this.#key] ?? 0;
    this.#longestDeniedMsOfKey[this.#key] = Math.max(longestMs, lastedMs);
  }

  endKey(): void {
    if (this.isDenying) this.#endDenial(this.#deniedUntilMs);
  }

  /**
   * Measures the most units that each limit admitted to the key, if all its arrivals were decided at once and at their
   * cost.
   */
  measureArrivals(): void {
    const { firstRow, atMs, cost } = this.timelines;
    const [from = 0, to = 0] = [firstRow[this.#key], firstRow[this.#key + 1]];
    for (const [index, { windowMs }] of this.limits.entries()) {
      const peak = peaks(this.timelines, windowMs)[this.#key] ?? 0;
      // Admitted requests have no higher peak than all requests.
      if (peak <= (this.#most[index]?.units ?? 0)) continue;
      const rows = { from, to, windowMs, isIncluded: this.#allowed };
      this.offerMost(index, this.#isKeyDenied ? mostWithin(atMs, cost, rows) : peak);
    }
  }

  /** Records the units if they are the most that this limit admitted to any key so far. */
  offerMost(index: number, units: number): void {
    const most = this.#most[index];
    if (most !== undefined && units > most.units) this.#most[index] = { ...most, units, key: this.#key };
  }

  finish(keepsDecisions: boolean): ReplayResult {
    return {
      limits: this.limits,
      requests: this.timelines.atMs.length,
      denied: this.#denied,
      keys: this.timelines.keys.length,
      deniedKeys: this.#deniedOfKey.reduce((sum, denied) => sum + Math.sign(denied), 0),
      longestDeniedMs: this.#longestDeniedMsOfKey.reduce((most, ms) => Math.max(most, ms), 0),
      mostAdmitted: this.#most,
      admittedPerSecond: this.#admittedPerSecond(),
      admitted: this.#admitted,
      denials: this.#denials,
      deniedOfKey: this.#deniedOfKey,
      longestDeniedMsOfKey: this.#longestDeniedMsOfKey,
      allowed: keepsDecisions ? this.#allowed : null,
      retries: this.obeys ? this.#retries : null,
    };
  }

  #admittedPerSecond(): SecondCounts {
    const { startsMs: secondsMs } = this.#seconds;
    const later = this.#laterSeconds;
    if (later.size === 0) return { startsMs: secondsMs, counts: this.#perSecond };
    const counts = new Map(Array.from(secondsMs, (ms, index) => [ms, this.#perSecond[index] ?? 0]));
    for (const [ms, count] of later) counts.set(ms, (counts.get(ms) ?? 0) + count);
    const startsMs = Float64Array.from(counts.keys()).toSorted();
    return { startsMs, counts: startsMs.map((ms) => counts.get(ms) ?? 0) };
  }
}
