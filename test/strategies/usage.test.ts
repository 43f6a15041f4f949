/** The account of each limit: its terms add up to the used units, for any traffic. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import type { UsageTerms, LeavingUnits } from "../../src/strategies/usage.ts";
import { createMeter, type Meter } from "../../src/strategies/index.ts";
import { expectSame, meterOf, startMs } from "./meters.ts";
import {
  forAllScenarios,
  limitSets,
  type Scenario,
  type ScenarioRun,
  scenarios,
  startRun,
  testEach,
} from "./scenario.ts";

/** The used units according to the terms, calculated as the documentation of each strategy says. */
function sumOf(terms: UsageTerms): number {
  switch (terms.kind) {
    case "window":
    case "log":
      return terms.units;
    case "slots":
      return terms.slots;
    case "buckets":
      return terms.buckets.reduce((sum, { units }) => sum + units, 0);
    case "two-windows":
      return terms.currentUnits + Math.floor((terms.previousUnits * terms.overlapMs) / terms.windowMs);
    case "level":
      return Math.ceil(terms.owedCredits / terms.creditsPerUnit);
    case "queue":
      return Math.ceil(Math.max(0, terms.owedCredits - terms.slackCredits) / terms.creditsPerUnit);
    default:
      return terms satisfies never;
  }
}

/** All numbers in plain data. */
const numbersIn = (value: unknown): number[] =>
  typeof value === "number"
    ? [value]
    : typeof value === "object" && value !== null
      ? Object.values(value).flatMap(numbersIn)
      : [];

/** Runs the steps of the scenario. Turns some of its spends into reservations, and settles every other one of these. */
function runWithReservations(scenario: Scenario): ScenarioRun {
  const running = startRun(scenario);
  for (const step of scenario.steps) {
    running.apply(step);
    const { meter, nowMs } = running;
    if (step.pick % 3 !== 0) continue;
    const reservation = { cost: step.cost, ttlMs: 2 * scenario.tickMs };
    const { allowed } = meter.reserve(reservation, nowMs, step.heldUnits);
    if (!allowed || !step.isWhole) continue;
    const actualCost = step.pick % 4;
    meter.settle({ ...reservation, actualCost, spentAtMs: meter.seenMs }, nowMs);
  }
  return running;
}

testEach(
  limitSets,
  "the terms of an account add up to the used units, and what is left of the capacity remains",
  (limitSet) =>
    forAllScenarios(
      [scenarios(limitSet), fc.nat(5), fc.integer({ min: -30, max: 30 })],
      (scenario, heldUnits, ticks) => {
        const { meter, nowMs } = runWithReservations(scenario);
        for (const atMs of [nowMs, Math.max(0, nowMs + ticks * scenario.tickMs)]) {
          const { limits } = meter.look(1, atMs, heldUnits);
          const accounts = meter.account(atMs, heldUnits);
          expectSame(accounts.length, limits.length);
          for (const [index, { used, heldUnits: held, terms }] of accounts.entries()) {
            const { remaining = 0, capacity = 0 } = limits[index] ?? {};
            expectSame(used, sumOf(terms) + held);
            expectSame(held, heldUnits);
            expectSame(remaining, Math.max(0, capacity - used));
            const isInteger = (each: number) => Number.isSafeInteger(each) && each >= 0;
            expectSame(
              numbersIn(terms).filter((each) => !isInteger(each)),
              [],
            );
          }
        }
      },
    ),
);

testEach(limitSets, "an account changes neither the state nor a later decision", (limitSet) =>
  forAllScenarios([scenarios(limitSet), fc.integer({ min: -30, max: 30 })], (scenario, ticks) => {
    const disturbed = startRun(scenario);
    const undisturbed = startRun(scenario);
    for (const step of [...scenario.steps, ...scenario.laterSteps]) {
      const { meter, nowMs } = disturbed;
      const before = [meter.snapshot(), meter.changes, meter.seenMs];
      meter.account(nowMs, step.heldUnits);
      meter.account(Math.max(0, nowMs + ticks * scenario.tickMs));
      expectSame([meter.snapshot(), meter.changes, meter.seenMs], before);
      expectSame(disturbed.apply(step), undisturbed.apply(step));
    }
  }),
);

/** The units that stop counting next, according to the terms; null when the terms name no time for this. */
function nextLeaving(terms: UsageTerms): LeavingUnits | null {
  switch (terms.kind) {
    case "window":
      return terms.units === 0 ? null : { units: terms.units, leavesInMs: terms.endsInMs };
    case "log":
    case "slots":
      return terms.oldest;
    case "buckets":
      return terms.buckets[0] ?? null;
    case "two-windows":
    case "level":
    case "queue":
      return null;
    default:
      return terms satisfies never;
  }
}

const usedAt = (meter: Meter, atMs: number, index: number): number => meter.account(atMs)[index]?.used ?? Number.NaN;

testEach(limitSets, "the oldest units of an account stop counting at the millisecond that it states", (limitSet) =>
  forAllScenarios([scenarios(limitSet)], (scenario) => {
    const { meter, nowMs } = runWithReservations(scenario);
    const atMs = Math.max(nowMs, meter.seenMs);
    for (const [index, { used, terms }] of meter.account(atMs).entries()) {
      const leaving = nextLeaving(terms);
      if (leaving === null) continue;
      const { units, leavesInMs } = leaving;
      expectSame(usedAt(meter, atMs + leavesInMs - 1, index), used);
      expectSame(usedAt(meter, atMs + leavesInMs, index), used - units);
    }
  }),
);

test("an account includes units beyond the capacity, such as a debt", () => {
  const meter = meterOf("60/minute");
  meter.book(43, startMs, startMs);
  meter.book(41, startMs + 70_000, startMs + 70_000);
  const [account] = meter.account(startMs + 90_600);
  expect(account).toEqual({
    used: 62,
    heldUnits: 0,
    terms: {
      kind: "two-windows",
      currentUnits: 41,
      previousUnits: 43,
      overlapMs: 29_400,
      windowMs: 60_000,
    },
  });
});

test("after the clock was wrong, an account counts the units as booked now, as a decision does", () => {
  const meter = meterOf("5/minute", "sliding-log");
  meter.consume(3, startMs + 3_600_000);
  const [account] = meter.account(startMs);
  expect(account?.terms).toEqual({
    kind: "log",
    units: 3,
    oldest: { units: 3, leavesInMs: 60_000 },
  });
  expect(meter.look(1, startMs).limits[0]?.remaining).toBe(2);
});

test("the account of a queue separates units that wait from the unit that has departed", () => {
  const meter = meterOf({ limit: 2, window: "1s", burst: 5, strategy: "leaky-bucket" });
  const waitingAt = (afterMs: number) => {
    const terms = meter.account(startMs + afterMs)[0]?.terms;
    return terms?.kind === "queue" ? [terms.waitingUnits, terms.delayMs] : null;
  };
  expect(waitingAt(0)).toEqual([0, 0]);
  meter.consume(3, startMs);
  expect(waitingAt(0)).toEqual([2, 1_500]);
  expect(waitingAt(499)).toEqual([2, 1_001]);
  expect(waitingAt(500)).toEqual([1, 1_000]);
  expect(waitingAt(1_000)).toEqual([0, 500]);
  expect(waitingAt(1_500)).toEqual([0, 0]);
});

test("an account rejects a time that is not an integer", () => {
  expect(() => createMeter([]).account(0.5)).toThrow(RangeError);
  expect(() => createMeter([]).account(1, -1)).toThrow(RangeError);
});
