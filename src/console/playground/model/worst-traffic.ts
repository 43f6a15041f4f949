/** Constructs the traffic that makes a limit allow as much as it can within one window. */
import { createMeter, type Limit, type Meter } from "../../../strategies/index.ts";
import type { Lane, LaneLimit } from "./lanes.ts";
import { leastRemaining, runLane } from "./run.ts";
import { defaultPattern, mostRequests, type Scenario, type TimedRequests } from "./scenario.ts";
import type { WorstBurst } from "./summary.ts";
import { arrivalsOf } from "./traffic.ts";

/**
 * Searches for the traffic that makes a limit allow the most. It tries several starts of a window. In each, it spends
 * all that fits whenever the limit is replenished, and once more at the end. The engine decides each attempt, so the
 * limit really allows the result.
 * @param index of the limit in the lane
 */
export function worstTraffic(scenario: Scenario, lane: Lane, index: number) {
  const target = lane.limits[index];
  if (target === undefined) return null;
  const search = { limits: lane.limits.map(({ rule }) => rule), index, target, startMs: scenario.startMs };
  const greedy = plansOf(search).map((plan) => ({ traffic: "times", times: greedyTimes(search, plan) }) as const);
  let best: { readonly scenario: Scenario; readonly burst: WorstBurst } | null = null;
  for (const traffic of [...greedy, ...repeatedBursts(search)]) {
    const worst: Scenario = {
      ...scenario,
      ...defaultPattern,
      ...traffic,
      keys: 1,
      cost: 1,
      runsMs: target.holdsSlots ? Math.max(scenario.runsMs, defaultRunsMs) : scenario.runsMs,
      retry: "none",
    };
    const burst = burstOf(worst, lane, index);
    if (burst !== null && burst.units > (best?.burst.units ?? 0)) best = { scenario: worst, burst };
  }
  return best;
}

/**
 * Bursts of the whole capacity, each as soon as the previous one is replenished. They are a pattern, because a list of
 * their times would be too long.
 */
function repeatedBursts({ limits, target: { windowMs }, startMs }: Search) {
  const meter = createMeter(limits);
  const size = takeAll(meter, startMs);
  const everyMs = waitForMore(meter, startMs, Infinity);
  const bursts = windowMs / everyMs;
  if (size * Math.ceil(bursts) > mostRequests || bursts < mostSteps) return [];
  return [{ traffic: "bursts", size, withinMs: 0, firstMs: 0, everyMs, lengthMs: windowMs } as const];
}

const defaultRunsMs = 1_000;

function burstOf(scenario: Scenario, lane: Lane, index: number): WorstBurst | null {
  const steps = runLane(lane, arrivalsOf(scenario), scenario);
  let step = steps.next();
  while (!step.done) step = steps.next();
  return step.value.summary.worstBursts[index] ?? null;
}

interface Search {
  readonly limits: readonly Limit[];
  readonly index: number;
  readonly target: LaneLimit;
  readonly startMs: number;
}

interface Plan {
  /** Whether one unit is spent at the start, so that a window begins there. */
  readonly opens: boolean;
  /** The beginning of the span in which the units are spent, counted from the start. */
  readonly fromMs: number;
}

/**
 * The spans to try: those that begin at the start, and those in which a window or a bucket of the limit ends soon after
 * the beginning.
 */
function plansOf(search: Search): Plan[] {
  const { limits, index, target, startMs } = search;
  const meter = createMeter(limits);
  const resetMs = meter.consume(1, startMs).limits[index]?.resetAfterMs ?? 0;
  const terms = meter.account(startMs)[index]?.terms;
  const leadMs = timeToSpend(search);
  const edges = [resetMs, target.windowMs, target.windowMs - (startMs % target.windowMs)];
  if (terms?.kind === "buckets") edges.push(terms.bucketMs - (startMs % terms.bucketMs));
  const beginnings = edges.flatMap((edgeMs) => [edgeMs - 1, edgeMs - 1 - leadMs]);
  const distinct = new Set([0, ...beginnings.filter((fromMs) => fromMs > 0)]);
  return [...distinct].flatMap((fromMs) => [
    { opens: false, fromMs },
    { opens: true, fromMs },
  ]);
}

/** How long it takes until the other limits of the lane have let the whole capacity of this limit through. */
function timeToSpend(search: Search): number {
  const { index, startMs, target } = search;
  const meter = createMeter(search.limits);
  let atMs = startMs;
  for (let step = 0; step < mostSteps && atMs < startMs + target.windowMs; step++) {
    takeAll(meter, atMs);
    if (meter.look(0, atMs).limits[index]?.remaining === 0) return atMs - startMs;
    atMs += waitForMore(meter, atMs, Infinity);
  }
  return 0;
}

/** The maximum number of steps of a search. The requests of more steps would not fit into a URL. */
const mostSteps = 300;

/** The most single requests. More of them become one request with a higher cost. */
const mostSingleRequests = 2_000;

function greedyTimes(search: Search, { opens, fromMs }: Plan): TimedRequests[] {
  const { limits, target, startMs } = search;
  const meter = createMeter(limits);
  const times: TimedRequests[] = [];
  const take = (atMs: number): void => {
    const units = takeAll(meter, startMs + atMs);
    const isMany = units > mostSingleRequests;
    if (units > 0) times.push({ atMs, count: isMany ? 1 : units, cost: isMany ? units : null });
  };
  if (opens && fromMs > 0 && meter.consume(1, startMs).allowed) {
    times.push({ atMs: 0, count: 1, cost: null });
  }
  const lastMs = fromMs + target.windowMs - 1;
  let atMs = fromMs;
  while (atMs < lastMs && times.length < mostSteps) {
    take(atMs);
    atMs += waitForMore(meter, startMs + atMs, startMs + lastMs);
  }
  take(lastMs);
  return times;
}

function takeAll(meter: Meter, atMs: number): number {
  const units = leastRemaining(meter.look(0, atMs));
  if (units > 0) meter.consume(units, atMs);
  return units;
}

/**
 * The wait until the spent limits are replenished in full. If that is after `lastMs`: the wait until `lastMs`, or with
 * several limits the wait until one unit is replenished.
 */
function waitForMore(meter: Meter, atMs: number, lastMs: number): number {
  const { limits } = meter.look(0, atMs);
  const spent = limits.filter(({ remaining }) => remaining === 0);
  const wholeMs = Math.max(1, ...spent.map(({ resetAfterMs }) => resetAfterMs));
  if (atMs + wholeMs <= lastMs) return wholeMs;
  if (limits.length === 1) return lastMs - atMs;
  return Math.max(1, ...spent.map(({ replenishAfterMs }) => replenishAfterMs));
}
