/** Functions that create and read meters, for the tests of limits and meters. */
import { expect } from "vitest";
import {
  createMeter,
  type Decision,
  type Limit,
  type LimitDefaults,
  type LimitInput,
  type Meter,
  parseLimits,
  readLimits,
} from "../../src/strategies/index.ts";
import type { ConfigProblem } from "../../src/validation/problems.ts";

export const minuteMs = 60_000;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

/** A midnight in UTC, so that every clock-aligned window of the tests begins here. */
export const startMs = Date.UTC(2026, 2, 14);

type Limits = string | LimitInput | readonly (string | LimitInput)[];

export const meterOf = (limits: Limits, strategy?: string): Meter =>
  createMeter(parseLimits(limits, strategy === undefined ? {} : { strategy }));

/** The only limit of the input. */
export function limitFrom(input: string | LimitInput, strategy?: string): Limit {
  const [limit] = parseLimits(input, strategy === undefined ? {} : { strategy });
  if (limit === undefined) throw new Error("expected one limit");
  return limit;
}

/** The configuration problems of limits in any shape. */
export function problemsOf(input: unknown, defaults: LimitDefaults = {}): ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  readLimits(input, defaults, (problem) => problems.push(problem));
  return problems;
}

/** The snapshot after conversion to JSON and back, as storage returns it. */
export const stored = (meter: { snapshot(): unknown }): unknown[] =>
  JSON.parse(JSON.stringify(meter.snapshot())) as unknown[];

/** A meter of these limits with the snapshot of another meter. */
export const restored = (meter: Meter, limits: readonly Limit[]): Meter =>
  createMeter(limits, structuredClone(meter.snapshot()));

/** The greatest cost that every limit allows. */
export const remainingOf = (decision: Decision): number =>
  Math.min(...decision.limits.map(({ remaining }) => remaining));

export const remainingAt = (meter: Meter, nowMs: number): number => remainingOf(meter.look(1, nowMs));

/** `remaining` of each limit. */
export const remainders = (meter: Meter, nowMs: number): number[] =>
  meter.look(1, nowMs).limits.map(({ remaining }) => remaining);

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/**
 * Integers in the encoding of snapshots: five bits per character, the lowest first. The sixth bit marks that further
 * characters follow.
 */
export function packed(...integers: readonly number[]): string {
  return integers
    .map((integer) => {
      let [text, rest] = ["", integer];
      for (; rest >= 32; rest = Math.floor(rest / 32)) text += digits.charAt(32 + (rest % 32));
      return text + digits.charAt(rest);
    })
    .join("");
}

/**
 * Expects equal plain data. The laws compare a million times, and vitest's matcher is slower than a decision, so it is
 * called only to show a difference.
 */
export function expectSame(actual: unknown, expected: unknown): void {
  if (actual === expected || JSON.stringify(actual) === JSON.stringify(expected)) return;
  expect(actual).toStrictEqual(expected);
}
