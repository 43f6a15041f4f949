/** Properties of every strategy in addition to the laws: clocks that step back, lent units and debts. */
import * as fc from "fast-check";
import { expect } from "vitest";
import { createMeter, type Decision } from "../../src/strategies/index.ts";
import { expectSame, remainders, remainingAt } from "./meters.ts";
import {
  forAllScenarios,
  inelasticLimitSets,
  limitSets,
  run,
  type Scenario,
  type ScenarioRun,
  scenarios,
  startRun,
  testEach,
} from "./scenario.ts";

/** The decision for a caller whose clock lags: every wait is longer by this lag. */
function delayedBy(lagMs: number, decision: Decision): Decision {
  const delayed = (waitMs: number): number => (waitMs === 0 ? 0 : waitMs + lagMs);
  const orNever = (waitMs: number | null): number | null => (waitMs === null ? null : delayed(waitMs));
  return {
    ...decision,
    delayMs: delayed(decision.delayMs),
    retryAfterMs: orNever(decision.retryAfterMs),
    limits: decision.limits.map((limit) => ({
      ...limit,
      retryAfterMs: orNever(limit.retryAfterMs),
      replenishAfterMs: delayed(limit.replenishAfterMs),
      resetAfterMs: delayed(limit.resetAfterMs),
    })),
  };
}

testEach(
  inelasticLimitSets,
  "after the clock steps back, a meter decides at the latest time it has seen and adds the lag to waits",
  (limitSet) => {
    let lags = 0;
    const check = forAllScenarios([scenarios(limitSet, ["consume", "consume", "look"])], (scenario) => {
      const lagging = startRun(scenario);
      const steady = createMeter(scenario.limits);
      for (const step of [...scenario.steps, ...scenario.laterSteps]) {
        const { seenMs } = lagging;
        const actual = lagging.apply(step);
        const atMs = Math.max(lagging.nowMs, seenMs);
        const { cost, heldUnits } = step;
        const decision =
          step.kind === "look" ? steady.look(cost, atMs, heldUnits) : steady.consume(cost, atMs, heldUnits);
        expectSame(actual, delayedBy(atMs - lagging.nowMs, decision));
        expectSame(lagging.meter.seenMs, lagging.seenMs);
        if (atMs > lagging.nowMs) lags++;
      }
      expectSame(lagging.meter.snapshot(), steady.snapshot());
    });
    return async () => {
      await check();
      expect(lags).toBeGreaterThan(10);
    };
  },
);

/** A run with an exhausted meter, after which its clock is set back by the longest window, 1 ms and `ticks` ticks. */
function misset(scenario: Scenario, ticks: number): ScenarioRun {
  const exhausted = run(scenario);
  const { meter, latestMs } = exhausted;
  meter.consume(Math.max(1, remainingAt(meter, latestMs)), latestMs);
  meter.book(1, latestMs, latestMs);
  exhausted.nowMs = latestMs - scenario.longestWindowMs - 1 - ticks * scenario.tickMs;
  return exhausted;
}

testEach(inelasticLimitSets, "a clock set back by more than the longest window adds no quota", (limitSet) =>
  forAllScenarios([scenarios(limitSet), fc.nat(50)], (scenario, ticks) => {
    const { meter, nowMs, latestMs } = misset(scenario, ticks);
    const before = remainders(meter, latestMs);
    expectSame(remainders(meter, nowMs), before);
    expectSame(meter.consume(1, nowMs).allowed, false);
    expectSame(remainders(meter, nowMs), before);
  }),
);

testEach(
  inelasticLimitSets,
  "a clock set back by more than the longest window never freezes a key: the first denial's wait is exact",
  (limitSet) =>
    forAllScenarios(
      [scenarios(limitSet), fc.nat(50), fc.double({ min: 0, max: 1, noNaN: true })],
      (scenario, ticks, part) => {
        const { meter, nowMs } = misset(scenario, ticks);
        const { allowed, retryAfterMs } = meter.consume(1, nowMs);
        expectSame(allowed, false);
        const waitMs = retryAfterMs ?? Number.NaN;
        expectSame(meter.consume(1, nowMs + Math.floor(part * (waitMs - 1))).allowed, false);
        expectSame(meter.consume(1, nowMs + waitMs - 1).allowed, false);
        expectSame(meter.consume(1, nowMs + waitMs).allowed, true);
      },
    ),
);

testEach(
  inelasticLimitSets,
  "a look at a clock set back by more than the longest window leaves the snapshot unchanged",
  (limitSet) =>
    forAllScenarios([scenarios(limitSet), fc.nat(50)], (scenario, ticks) => {
      const { meter, nowMs } = misset(scenario, ticks);
      const before = meter.snapshot();
      expectSame(meter.look(1, nowMs), meter.look(1, nowMs));
      expectSame(meter.snapshot(), before);
    }),
);

testEach(inelasticLimitSets, "lent units count as spent at the instant of the decision", (limitSet) =>
  forAllScenarios([scenarios(limitSet), fc.nat(8), fc.integer({ min: 1, max: 8 })], (scenario, cost, heldUnits) => {
    const { meter, nowMs } = run(scenario);
    const booked = createMeter(scenario.limits, meter.snapshot());
    // Books units at the latest time that the meter has seen, even if the clock shows an earlier time.
    booked.book(heldUnits, Number.MAX_SAFE_INTEGER, nowMs);
    expectSame(meter.look(cost, nowMs, heldUnits), booked.look(cost, nowMs));
    expectSame(meter.consume(cost, nowMs, heldUnits), booked.consume(cost, nowMs));
  }),
);

testEach(
  inelasticLimitSets,
  "lent units are not part of the state, whether the request is allowed or denied",
  (limitSet) =>
    forAllScenarios([scenarios(limitSet), fc.nat(8), fc.constantFrom(0, 0, 1)], (scenario, pick, excess) => {
      const { meter, nowMs } = run(scenario);
      const remaining = remainingAt(meter, nowMs);
      fc.pre(remaining > 1);
      const heldUnits = 1 + (pick % (remaining - 1));
      const cost = remaining - heldUnits + excess;
      const unaware = createMeter(scenario.limits, meter.snapshot());
      expectSame(meter.consume(cost, nowMs, heldUnits).allowed, excess === 0);
      if (excess === 0) unaware.consume(cost, nowMs);
      expectSame(meter.snapshot(), unaware.snapshot());
    }),
);

testEach(limitSets, "booking a cost that fits has the same effect as consuming it", (limitSet) =>
  forAllScenarios([scenarios(limitSet), fc.nat(8)], (scenario, pick) => {
    const { meter, latestMs: nowMs } = run(scenario);
    const remaining = remainingAt(meter, nowMs);
    fc.pre(remaining > 0);
    const cost = 1 + (pick % remaining);
    const booked = createMeter(scenario.limits, meter.snapshot());
    expectSame(meter.consume(cost, nowMs).allowed, true);
    booked.book(cost, nowMs, nowMs);
    expectSame(booked.snapshot(), meter.snapshot());
  }),
);

testEach(
  limitSets,
  "booking a cost that does not fit leaves a debt: remaining is 0 and waits do not shorten",
  (limitSet) =>
    forAllScenarios([scenarios(limitSet), fc.integer({ min: 1, max: 8 })], (scenario, excess) => {
      const { meter, latestMs: nowMs } = run(scenario);
      const capacities = meter.look(1, nowMs).limits.map((limit) => limit.capacity);
      const nothing = capacities.map(() => 0);
      meter.book(Math.max(...capacities), nowMs, nowMs);
      const full = meter.look(1, nowMs);
      expectSame(remainders(meter, nowMs), nothing);
      meter.book(excess, nowMs, nowMs);
      const indebted = meter.look(1, nowMs);
      expectSame(remainders(meter, nowMs), nothing);
      expectSame(indebted.allowed, false);
      expect(indebted.retryAfterMs).toBeGreaterThanOrEqual(full.retryAfterMs ?? Number.NaN);
    }),
);

testEach(limitSets, "booking units of the past adds no quota", (limitSet) =>
  forAllScenarios([scenarios(limitSet), fc.integer({ min: 1, max: 8 }), fc.nat(20)], (scenario, cost, ticks) => {
    const { meter, nowMs } = run(scenario);
    const before = remainders(meter, nowMs);
    meter.book(cost, nowMs - ticks * scenario.tickMs, nowMs);
    remainders(meter, nowMs).forEach((remaining, index) => {
      expect(remaining).toBeLessThanOrEqual(before[index] ?? Number.NaN);
    });
  }),
);
