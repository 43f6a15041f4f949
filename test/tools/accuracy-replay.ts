/** Replays traffic through a strategy and through an independent exact log, and counts the decisions that differ. */
import { createMeter, type Decision, type Limit } from "../../src/strategies/index.ts";
import { type Form, forms, limitsOf } from "./forms.ts";
import { leastBytes } from "./snapshot-size.ts";
import { type KeyArrivals, kinds, type Shape } from "./traffic.ts";

export const shape: Shape = { limit: 100, windowMs: 60_000, requests: 50_000 };

export interface Tally {
  readonly requests: number;
  /**
   * Requests that the strategy admitted and the log denied. The log counts only requests that it has admitted itself.
   */
  readonly over: number;
  /** Requests that the strategy denied and the log admitted. */
  readonly under: number;
  /** The most requests of one key that are admitted in any span of one window. */
  readonly most: number;
  /** The most requests that are released to the origin in any span of one window, after the delays of a queue. */
  readonly mostLeaving: number;
  /** The size of each key's snapshot at the end. */
  readonly stateBytes: readonly number[];
}

export interface Accuracy {
  readonly form: Form;
  /** Tallies by the kind of traffic. */
  readonly tallies: ReadonlyMap<string, Tally>;
}

export function measureAccuracy(requests = shape.requests): Accuracy[] {
  const traffic = Object.entries(kinds).map(
    ([kind, arrivalsOf]) => [kind, arrivalsOf({ ...shape, requests })] as const,
  );
  return forms.map((form) => ({
    form,
    tallies: new Map(traffic.map(([kind, arrivals]) => [kind, replay(form, arrivals)])),
  }));
}

function replay(form: Form, arrivals: KeyArrivals): Tally {
  const limits = limitsOf(form, shape.limit, shape.windowMs);
  const activeKeys = arrivals.filter((instants) => instants.length > 0);
  return sumOf(activeKeys.map((instants) => replayKey(limits, instants)));
}

/** The combined tally of several keys. */
export function sumOf(keys: readonly Tally[]): Tally {
  const sum = (count: (key: Tally) => number): number => keys.reduce((total, key) => total + count(key), 0);
  return {
    requests: sum((key) => key.requests),
    over: sum((key) => key.over),
    under: sum((key) => key.under),
    most: Math.max(...keys.map((key) => key.most)),
    mostLeaving: Math.max(...keys.map((key) => key.mostLeaving)),
    stateBytes: keys.flatMap((key) => key.stateBytes),
  };
}

function replayKey(limits: readonly Limit[], instants: readonly number[]): Tally {
  const meter = createMeter(limits);
  const tally = tallyOf(instants, (atMs) => meter.consume(1, atMs));
  return { ...tally, stateBytes: [leastBytes(meter)] };
}

/** Compares the decisions on the requests of one key with those of an exact log. */
export function tallyOf(
  instants: readonly number[],
  decide: (atMs: number) => Pick<Decision, "allowed" | "delayMs">,
): Tally {
  const log = exactLog(shape.limit, shape.windowMs);
  const admitted: number[] = [];
  const leaving: number[] = [];
  let over = 0;
  let under = 0;
  for (const atMs of instants) {
    const { allowed, delayMs } = decide(atMs);
    const isWithin = log(atMs);
    if (allowed && !isWithin) over++;
    if (!allowed && isWithin) under++;
    if (!allowed) continue;
    admitted.push(atMs);
    leaving.push(atMs + delayMs);
  }
  return {
    requests: instants.length,
    over,
    under,
    most: mostInAWindow(admitted),
    mostLeaving: mostInAWindow(leaving),
    stateBytes: [],
  };
}

/**
 * The rule of an exact log, independent of the engine: the oldest of the last `limit` admissions must be at least one
 * window old.
 */
function exactLog(limit: number, windowMs: number): (nowMs: number) => boolean {
  const admitted: number[] = [];
  return (nowMs) => {
    const isWithin = nowMs - (admitted.at(-limit) ?? Number.NEGATIVE_INFINITY) >= windowMs;
    if (isWithin) admitted.push(nowMs);
    return isWithin;
  };
}

function mostInAWindow(instants: readonly number[]): number {
  let oldest = 0;
  let most = 0;
  for (const [index, atMs] of instants.entries()) {
    while (atMs - (instants[oldest] ?? atMs) >= shape.windowMs) oldest++;
    most = Math.max(most, index - oldest + 1);
  }
  return most;
}
