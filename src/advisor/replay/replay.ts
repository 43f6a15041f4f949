/**
 * Replays timelines under sets of limits: the enforcing engine decides every arrival, each key with a meter of its own.
 */
import { createMeter, holdsSlots, type Limit, type Meter } from "../../strategies/index.ts";
import { changesByDenial, compiledLimit } from "../../strategies/compiled-limit.ts";
import { isQueue } from "../../strategies/bucket-strategies.ts";
import { AssumedReservations, keyEvents, type KeyRun, type KeysSetting } from "./key-events.ts";
import { peaks, type Timelines } from "./timelines.ts";
import { arrivalSeconds, arrivalSteps, type ReplayOptions, type ReplayResult } from "./result.ts";
import { DecisionTally } from "./decision-tally.ts";

/** Decisions between two yields, which take some 10 ms. */
const decisionsPerStep = 50_000;

/** The decisions until the next yield. */
interface StepBudget {
  left: number;
}

/**
 * Replays the timelines under each set of limits. Yields the share that is done, from 0 to 1; a caller cancels by not
 * continuing. Returns the results in the order of the sets.
 * @throws RangeError if the timelines cannot answer for a set (see `replayProblem`), or if `stepMs` is invalid
 */
export function* replay(
  timelines: Timelines,
  limitSets: readonly (readonly Limit[])[],
  options: ReplayOptions = {},
): Generator<number, readonly ReplayResult[]> {
  for (const limits of limitSets) {
    const problem = replayProblem(timelines, limits);
    if (problem !== null) throw new RangeError(problem);
  }
  const seconds = arrivalSeconds(timelines);
  const steps = arrivalSteps(timelines, options.stepMs);
  const obeys = options.retry === "obey";
  const assumed = new AssumedReservations(timelines);
  const results: ReplayResult[] = [];
  const budget: StepBudget = { left: decisionsPerStep };
  for (const [index, limits] of limitSets.entries()) {
    const tally = new DecisionTally({ timelines, limits, seconds, steps, obeys });
    const setting: KeysSetting = { timelines, limits, tally, obeys, assumed };
    const keys = new Keys(setting, options.decidesEveryKey === true);
    while (keys.decide(budget)) {
      yield (index + keys.share()) / limitSets.length;
      budget.left = decisionsPerStep;
    }
    results.push(tally.finish(options.keepsDecisions === true));
  }
  yield 1;
  return results;
}

/** Replays without interruption. */
export function replayAll(
  timelines: Timelines,
  limitSets: readonly (readonly Limit[])[],
  options: ReplayOptions = {},
): readonly ReplayResult[] {
  const steps = replay(timelines, limitSets, options);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** Why the timelines cannot answer what a set of limits would decide; null if they can. */
export function replayProblem(timelines: Timelines, limits: readonly Limit[]): string | null {
  const slots = limits.find(holdsSlots);
  if (slots === undefined || timelines.reservations.size > 0 || timelines.atMs.length === 0) {
    return null;
  }
  return `the limit "${slots.name}" has the strategy "${slots.strategy}", which needs to know how long each request runs; these arrivals have no durations, as those of an access log`;
}

/** The keys of the timelines under one set of limits, one after the other. */
class Keys {
  readonly #setting: KeysSetting;
  readonly #hasEvents: (key: number) => boolean;
  readonly #isSkipped: (key: number) => boolean;
  #key = 0;
  #run: KeyRun | null = null;

  constructor(setting: KeysSetting, decidesEveryKey: boolean) {
    const { timelines, limits, obeys } = setting;
    // A queue delays requests of keys that it never denies.
    const decidesAll = decidesEveryKey || limits.some(isQueue);
    const spent = decidesAll ? [] : spendsOf(timelines, limits);
    this.#setting = setting;
    const hasSlots = limits.some(holdsSlots);
    const reserved = reservedKeys(timelines, hasSlots);
    this.#hasEvents = (key) => obeys || hasSlots || reserved[key] === 1;
    this.#isSkipped = (key) =>
      !decidesAll && reserved[key] === 0 && spent.every(({ capacity, most }) => (most[key] ?? 0) <= capacity);
  }

  /** Makes decisions until the budget is spent. Returns whether any are left. */
  decide(budget: StepBudget): boolean {
    const { timelines, tally } = this.#setting;
    // A key that is skipped takes about as long as a decision.
    for (; this.#key < timelines.keys.length; this.#key++, budget.left--) {
      if (budget.left <= 0) return true;
      this.#run ??= this.#begin(this.#key);
      budget.left -= this.#run.decide(budget.left);
      if (budget.left <= 0) return true;
      tally.endKey();
      this.#run = null;
    }
    return false;
  }

  #begin(key: number): KeyRun {
    this.#setting.tally.beginKey(key);
    if (this.#isSkipped(key)) return new KeyArrivals(this.#setting, key, true);
    return this.#hasEvents(key) ? keyEvents(this.#setting, key) : new KeyArrivals(this.#setting, key, false);
  }

  share(): number {
    const rows = this.#setting.timelines.atMs.length;
    return rows === 0 ? 1 : (this.#run?.row ?? this.#setting.timelines.firstRow[this.#key] ?? 0) / rows;
  }
}

/** The arrivals of a key without reservations and retries. */
class KeyArrivals implements KeyRun {
  readonly #setting: KeysSetting;
  readonly #meter: Meter;
  readonly #key: number;
  row: number;

  /** @param cannotBeDenied then nothing is left to decide */
  constructor(setting: KeysSetting, key: number, cannotBeDenied: boolean) {
    this.#setting = setting;
    this.#meter = createMeter(setting.limits);
    this.#key = key;
    this.row = setting.timelines.firstRow[cannotBeDenied ? key + 1 : key] ?? 0;
  }

  decide(budget: number): number {
    const { timelines, tally } = this.#setting;
    const { atMs, cost } = timelines;
    const from = this.row;
    const end = timelines.firstRow[this.#key + 1] ?? 0;
    const to = Math.min(end, from + budget);
    const meter = this.#meter;
    for (let row = from; row < to; row++) {
      const nowMs = atMs[row] ?? 0;
      const { allowed, retryAfterMs, delayMs } = meter.consume(cost[row] ?? 0, nowMs);
      if (!allowed) {
        tally.denyArrival(row, retryAfterMs);
        continue;
      }
      if (tally.isDenying) tally.admit(nowMs);
      if (delayMs > 0) tally.delay(row, delayMs);
    }
    this.row = to;
    if (to - from < budget) tally.measureArrivals(this.#key);
    return to - from;
  }
}

/**
 * 1 for each key whose reservations affect decisions. A settlement at the reserved cost leaves no effect, except that it
 * gives back slots.
 */
function reservedKeys(timelines: Timelines, hasSlots: boolean): Uint8Array {
  const { keys, firstRow, reservations } = timelines;
  const reserved = new Uint8Array(keys.length);
  if (!hasSlots && !hasCorrections(timelines)) return reserved;
  for (const key of keys.keys()) {
    const [from = 0, to = 0] = [firstRow[key], firstRow[key + 1]];
    for (let row = from; row < to && reserved[key] === 0; row++) {
      if (reservations.has(row)) reserved[key] = 1;
    }
  }
  return reserved;
}

function hasCorrections({ reservations, cost }: Timelines): boolean {
  for (const [row, { settledCost }] of reservations) {
    if (settledCost !== cost[row]) return true;
  }
  return false;
}

/**
 * For each limit, the most units of each key that can count at one instant. While they are within the capacity, no arrival
 * of the key can be denied: what a strategy counts comes from a span of the time for which a spend of the whole capacity
 * affects decisions, and a bucket drains its whole capacity in that time. An elastic window may last for ever.
 */
function spendsOf(timelines: Timelines, limits: readonly Limit[]) {
  return limits.map((limit) => {
    const { capacity, retentionMs } = compiledLimit(limit);
    return { capacity, most: peaks(timelines, changesByDenial(limit) ? Infinity : retentionMs) };
  });
}
