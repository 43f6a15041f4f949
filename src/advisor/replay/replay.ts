/** Replays timelines under sets of limits: the enforcing engine decides every arrival, each key with a meter of its own. */
import { createMeter, holdsSlots, type Limit } from "../../strategies/index.ts";
import { changesByDenial, compiledLimit } from "../../strategies/compiled-limit.ts";
import { isQueue } from "../../strategies/bucket-strategies.ts";
import { AssumedReservations, KeyEvents, type StepBudget } from "./key-events.ts";
import { peaks, type Timelines } from "./timelines.ts";
import { arrivalSteps, type ReplayOptions, type ReplayResult } from "./result.ts";
import { DecisionTally } from "./decision-tally.ts";

/** Decisions between two yields, which take some 10 ms. */
const decisionsPerStep = 50_000;

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
  const steps = arrivalSteps(timelines, options.stepMs);
  const assumed = new AssumedReservations(timelines);
  const results: ReplayResult[] = [];
  const budget = { left: decisionsPerStep };
  for (const [index, limits] of limitSets.entries()) {
    const tally = new DecisionTally(timelines, limits, steps, options);
    for (const rows of decideKeys(tally, assumed, budget, options.decidesEveryKey === true)) {
      yield (index + rows / Math.max(1, timelines.atMs.length)) / limitSets.length;
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

/** Runs steps, and maps their progress to the range between two shares of the whole. */
export function* scaled<Result>(
  steps: Generator<number, Result>,
  [from, to]: readonly [from: number, to: number],
): Generator<number, Result> {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    yield from + (to - from) * step.value;
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

/** Decides one key after the other. Yields the number of rows that are decided, each time the budget is spent. */
function* decideKeys(
  tally: DecisionTally,
  assumed: AssumedReservations,
  budget: StepBudget,
  decidesEveryKey: boolean,
): Generator<number, void> {
  const { timelines, limits, obeys } = tally;
  // A queue delays requests of keys that it never denies.
  const decidesAll = decidesEveryKey || limits.some(isQueue);
  const spent = decidesAll ? [] : spendsOf(timelines, limits);
  const hasSlots = limits.some(holdsSlots);
  const reserved = reservedKeys(timelines, hasSlots);
  for (const key of timelines.keys.keys()) {
    const isReserved = reserved[key] === 1;
    const isSkipped = !decidesAll && !isReserved && spent.every(({ capacity, most }) => (most[key] ?? 0) <= capacity);
    tally.beginKey(key);
    if (isSkipped) tally.measureArrivals();
    else if (obeys || hasSlots || isReserved) yield* new KeyEvents(tally, assumed, key).decide(budget);
    else yield* decideArrivals(tally, key, budget);
    tally.endKey();
    // Skipping a key takes about as long as one decision.
    budget.left--;
    if (budget.left <= 0) yield timelines.firstRow[key + 1] ?? 0;
  }
}

/** Decides the arrivals of a key without reservations and retries. */
function* decideArrivals(tally: DecisionTally, key: number, budget: StepBudget): Generator<number, void> {
  const { atMs, cost, firstRow } = tally.timelines;
  const meter = createMeter(tally.limits);
  const end = firstRow[key + 1] ?? 0;
  for (let row = firstRow[key] ?? 0; row < end; row++) {
    const nowMs = atMs[row] ?? 0;
    const { allowed, retryAfterMs, delayMs } = meter.consume(cost[row] ?? 0, nowMs);
    if (!allowed) tally.denyArrival(row, retryAfterMs);
    else if (delayMs > 0) tally.delay(row, delayMs);
    if (allowed && tally.isDenying) tally.admit(nowMs);
    budget.left--;
    if (budget.left <= 0) yield row + 1;
  }
  tally.measureArrivals();
}

/**
 * 1 for each key whose reservations affect decisions. A settlement at the reserved cost has no effect, unless it
 * returns slots.
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
