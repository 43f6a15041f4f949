/** Laws that every strategy obeys, alone and together with other limits on one key. */
import * as fc from "fast-check";
import { expect } from "vitest";
import { createMeter, type LimitDecision, type Meter } from "../../src/strategies/index.ts";
import { expectSame, remainders, remainingAt } from "./meters.ts";
import {
  forAllScenarios,
  deniedCost,
  inelasticLimitSets,
  limitSets,
  mostWithin,
  run,
  type Scenario,
  ScenarioRun,
  scenarios,
  startRun,
  type Step,
  type StepKind,
  testEach,
} from "./scenario.ts";
import { boundOf, spanOf, type Variant } from "./variants.ts";

const revived = (meter: Meter, scenario: Scenario): Meter =>
  createMeter(scenario.limits, structuredClone(meter.snapshot()));

const isFull = ({ remaining, capacity }: LimitDecision): boolean => remaining === capacity;

const isDuration = (waitMs: number): boolean => Number.isSafeInteger(waitMs) && waitMs >= 0;

function isSound(limit: LimitDecision): boolean {
  const { remaining, capacity, replenishAfterMs, resetAfterMs, retryAfterMs } = limit;
  return (
    Number.isSafeInteger(remaining) &&
    remaining >= 0 &&
    remaining <= capacity &&
    [replenishAfterMs, resetAfterMs, retryAfterMs ?? 0].every(isDuration)
  );
}

/**
 * Whether the waits in a decision with cost 1 are in this order: until more units are available, until 1 unit fits,
 * until the reset.
 */
function isInOrder(limit: LimitDecision): boolean {
  const { replenishAfterMs, resetAfterMs, retryAfterMs } = limit;
  if (isFull(limit)) return replenishAfterMs === 0 && resetAfterMs === 0;
  const oneFitsAfterMs = limit.allowed ? replenishAfterMs : (retryAfterMs ?? Number.NaN);
  return replenishAfterMs <= oneFitsAfterMs && oneFitsAfterMs <= resetAfterMs;
}

const boundCases: readonly (readonly [title: string, kinds: readonly StepKind[]])[] = [
  ["the strategy's bound", ["consume", "fill", "fill", "look"]],
  ["the bound, not counting refunded units", ["consume", "fill", "fill", "refund"]],
];

for (const [bound, kinds] of boundCases) {
  testEach(limitSets, `law 1: no span of one window admits more than ${bound}`, (limitSet) =>
    forAllScenarios([scenarios(limitSet, kinds)], (scenario) => {
      const { limits, steps, laterSteps } = scenario;
      const started = startRun(scenario);
      started.applyAll([...steps, ...laterSteps]);
      for (const limit of limits) {
        expect(mostWithin(started.spends, spanOf(limit))).toBeLessThanOrEqual(boundOf(limit));
      }
    }),
  );
}

testEach(limitSets, "law 2: waiting retryAfterMs suffices and one millisecond less does not", (limitSet) =>
  forAllScenarios(
    [scenarios(limitSet), fc.nat(50), fc.double({ min: 0, max: 1, noNaN: true })],
    (scenario, pick, part) => {
      const after = run(scenario);
      const cost = deniedCost(after, pick);
      const { meter, nowMs } = after;
      const { allowed, retryAfterMs } = meter.look(cost, nowMs);
      const waitMs = retryAfterMs ?? 0;
      expectSame([allowed, waitMs > 0], [false, true]);
      expectSame(meter.look(cost, nowMs + waitMs - 1).allowed, false);
      expectSame(meter.look(cost, nowMs + Math.floor(part * (waitMs - 1))).allowed, false);
      expectSame(meter.look(cost, nowMs + waitMs).allowed, true);
      expectSame(meter.consume(cost, nowMs + waitMs).allowed, true);
    },
  ),
);

testEach(limitSets, "law 2: the wait of each limit is exact, and the decision's is the longest of them", (limitSet) =>
  forAllScenarios([scenarios(limitSet), fc.nat(50), fc.constantFrom(0, 0, 0, 1, 5)], (scenario, pick, excess) => {
    const after = run(scenario);
    const cost = deniedCost(after, pick) + excess;
    const { meter, nowMs } = after;
    const decision = meter.look(cost, nowMs);
    const waits = decision.limits.map((limit) => limit.retryAfterMs);
    fc.pre(waits.some((waitMs) => waitMs !== null && waitMs > 0));
    const longestMs = Math.max(...waits.map((waitMs) => waitMs ?? 0));
    expectSame(decision.retryAfterMs, waits.includes(null) ? null : longestMs);
    waits.forEach((waitMs, index) => {
      expectSame(waitMs === 0, decision.limits[index]?.allowed);
      if (waitMs === null || waitMs === 0) return;
      expectSame(meter.look(cost, nowMs + waitMs - 1).limits[index]?.allowed, false);
      expectSame(meter.look(cost, nowMs + waitMs).limits[index]?.allowed, true);
    });
  }),
);

testEach(
  inelasticLimitSets,
  "law 3: a denial or a look leaves the snapshot and all later decisions unchanged",
  (limitSet) =>
    forAllScenarios([scenarios(limitSet), fc.nat(9), fc.integer({ min: -20, max: 20 })], (scenario, cost, ticks) => {
      const disturbed = startRun(scenario);
      const undisturbed = startRun(scenario);
      for (const step of scenario.steps) {
        const { meter, nowMs } = disturbed;
        const before = meter.snapshot();
        const { changes } = meter;
        meter.look(cost, nowMs, cost);
        meter.look(cost, Math.max(0, nowMs + ticks * scenario.tickMs));
        if (!meter.look(cost, nowMs).allowed) meter.consume(cost, nowMs);
        expectSame(meter.consume(1_000, nowMs).allowed, false);
        meter.consume(0, nowMs);
        expectSame(meter.snapshot(), before);
        expectSame(meter.changes, changes);
        expectSame(disturbed.apply(step), undisturbed.apply(step));
      }
    }),
);

testEach(limitSets, "law 4: replenishAfterMs and resetAfterMs are exact", (limitSet) =>
  forAllScenarios([scenarios(limitSet)], (scenario) => {
    const { meter, nowMs } = run(scenario);
    const { limits } = meter.look(1, nowMs);
    fc.pre(!limits.every(isFull));
    const remainingAfter = (waitMs: number, index: number): number =>
      meter.look(1, nowMs + waitMs).limits[index]?.remaining ?? Number.NaN;
    limits.forEach((limit, index) => {
      if (isFull(limit)) return;
      const { capacity, remaining, replenishAfterMs, resetAfterMs } = limit;
      expectSame(remainingAfter(replenishAfterMs - 1, index), remaining);
      expect(remainingAfter(replenishAfterMs, index)).toBeGreaterThan(remaining);
      expect(remainingAfter(resetAfterMs - 1, index)).toBeLessThan(capacity);
      expectSame(remainingAfter(resetAfterMs, index), capacity);
    });
  }),
);

testEach(
  limitSets,
  "law 4: replenishAfterMs <= retryAfterMs <= resetAfterMs for a cost of 1, and all are 0 at capacity",
  (limitSet) =>
    forAllScenarios([scenarios(limitSet, ["fill", "fill", "consume", "book", "refund"])], (scenario) => {
      const started = startRun(scenario);
      for (const step of [...scenario.steps, ...scenario.laterSteps]) {
        started.apply(step);
        const { limits } = started.meter.look(1, started.nowMs);
        expectSame(
          limits.filter((limit) => !isInOrder(limit)),
          [],
        );
      }
    }),
);

testEach(limitSets, "law 5: storing and restoring a meter at every step changes no decision", (limitSet) =>
  forAllScenarios([scenarios(limitSet)], (scenario) => {
    const restoring = startRun(scenario);
    const live = startRun(scenario);
    for (const step of [...scenario.steps, ...scenario.laterSteps]) {
      restoring.meter = revived(restoring.meter, scenario);
      expectSame(restoring.meter.refused, null);
      expectSame(restoring.apply(step), live.apply(step));
      expectSame(restoring.meter.snapshot(), live.meter.snapshot());
      // Idle states are not stored, so a restored meter only knows that they are idle by now.
      const idleAtMs = ({ meter }: ScenarioRun): number => Math.max(meter.idleAtMs(), meter.seenMs);
      expectSame(idleAtMs(restoring), idleAtMs(live));
    }
  }),
);

testEach(
  limitSets,
  "law 6: remaining is an integer within 0..capacity, and a cost of exactly remaining is allowed",
  (limitSet) =>
    forAllScenarios([scenarios(limitSet)], (scenario) => {
      const started = startRun(scenario);
      for (const step of scenario.steps) {
        const { limits } = started.apply(step);
        expectSame(
          limits.filter((limit) => !isSound(limit)),
          [],
        );
        const { meter, nowMs } = started;
        const remaining = remainingAt(meter, nowMs);
        expectSame(meter.look(remaining + 1, nowMs).allowed, false);
        expectSame(meter.look(remaining, nowMs).allowed, true);
      }
    }),
);

testEach(limitSets, "law 6: remaining is stated as after the decision", (limitSet) =>
  forAllScenarios([scenarios(limitSet), fc.nat(9)], (scenario, cost) => {
    const { meter, nowMs } = run(scenario);
    const { limits } = meter.consume(cost, nowMs);
    expectSame(
      limits.map(({ remaining }) => remaining),
      remainders(meter, nowMs),
    );
  }),
);

testEach(limitSets, "law 7: a cost of n has the same effect as n costs of 1 at the same instant", (limitSet) =>
  forAllScenarios([scenarios(limitSet), fc.nat(50)], (scenario, pick) => {
    const { meter, nowMs } = run(scenario);
    const remaining = remainingAt(meter, nowMs);
    fc.pre(remaining > 0);
    const cost = 1 + (pick % remaining);
    const oneByOne = revived(meter, scenario);
    expectSame(meter.consume(cost, nowMs).allowed, true);
    for (let unit = 0; unit < cost; unit++) {
      expectSame(oneByOne.consume(1, nowMs).allowed, true);
    }
    // After a refund without a matching spend, the recorded first spends may have more units than the window. A further
    // refund of this kind could then move the two windows differently, so the snapshots are not compared.
    if (!scenario.steps.some(({ kind }) => kind === "refund")) {
      expectSame(oneByOne.snapshot(), meter.snapshot());
    }
    expectSame(oneByOne.look(1, nowMs), meter.look(1, nowMs));
  }),
);

testEach(
  inelasticLimitSets,
  "law 8: a cost above capacity is denied with retryAfterMs null and spends nothing",
  (limitSet) =>
    forAllScenarios([scenarios(limitSet), fc.nat(9), fc.nat(2)], (scenario, excess, pick) => {
      const { meter, nowMs } = run(scenario);
      const capacities = meter.look(0, nowMs).limits.map((limit) => limit.capacity);
      const cost = (capacities[pick % capacities.length] ?? 0) + 1 + excess;
      const before = meter.snapshot();
      const { allowed, retryAfterMs, limits } = meter.consume(cost, nowMs);
      expectSame([allowed, retryAfterMs], [false, null]);
      for (const limit of limits.filter(({ capacity }) => cost > capacity)) {
        expectSame([limit.allowed, limit.retryAfterMs], [false, null]);
      }
      expectSame(meter.snapshot(), before);
    }),
);

testEach(limitSets, "law 9: discarding a state at its idleAtMs changes no decision", (limitSet) =>
  forAllScenarios([scenarios(limitSet), fc.constantFrom(0, 0, 1, 7)], (scenario, ticks) => {
    const { meter, latestMs, spends } = run(scenario);
    const fromMs = Math.max(meter.idleAtMs(), latestMs) + ticks * scenario.tickMs;
    const discarding = new ScenarioRun(createMeter(scenario.limits), fromMs, 0);
    const keeping = new ScenarioRun(meter, fromMs, 0);
    // Both runs can refund the same earlier spends.
    discarding.spends = [...spends];
    keeping.spends = [...spends];
    expectSame(keeping.meter.look(1, fromMs), discarding.meter.look(1, fromMs));
    expectSame(keeping.applyAll(scenario.laterSteps), discarding.applyAll(scenario.laterSteps));
  }),
);

testEach(limitSets, "law 9: idleAtMs is not before the last limit is at capacity", (limitSet) =>
  forAllScenarios([scenarios(limitSet)], (scenario) => {
    const { meter, nowMs } = run(scenario);
    const resets = meter.look(1, nowMs).limits.map((limit) => limit.resetAfterMs);
    const longestMs = Math.max(...resets);
    fc.pre(longestMs > 0);
    expect(meter.idleAtMs()).toBeGreaterThanOrEqual(nowMs + longestMs);
  }),
);

const isBucket = ({ strategy }: Variant): boolean => /^(?:token|leaky)-bucket$/.test(strategy);

const isNoRefund = ({ kind }: Step): boolean => kind !== "refund";

testEach(
  inelasticLimitSets,
  "law 10: a refund with no spend in between leaves the meter as if its spend had not been made",
  (limitSet) => {
    let refunds = 0;
    const check = forAllScenarios(
      [scenarios(limitSet), fc.nat(4), fc.constantFrom(0, 0, 1, 2, 5, 9)],
      (scenario, pick, ticks) => {
        const refunding = run(scenario);
        const { meter, spends, nowMs } = refunding;
        const atMs = nowMs + ticks * scenario.tickMs;
        const abstaining = new ScenarioRun(revived(meter, scenario), atMs, 0);
        const remaining = remainingAt(meter, nowMs);
        fc.pre(remaining > 0);
        const cost = 1 + (pick % remaining);
        meter.consume(cost, nowMs);
        const before = remainingAt(meter, atMs);
        // The time is not `nowMs`: a spend with a lagging clock counts at the latest time seen.
        meter.refund(cost, meter.seenMs, atMs);
        if (remainingAt(meter, atMs) > before) refunds++;
        const later = new ScenarioRun(meter, atMs, 0);
        later.spends = [...spends];
        abstaining.spends = [...spends];
        expectSame(meter.look(1, atMs), abstaining.meter.look(1, atMs));
        // A refund to a bucket depends on all later spends, and the bucket stores only a bound on their effect.
        const isAny = !scenario.variants.some(isBucket);
        const steps = scenario.laterSteps.filter((step) => isAny || isNoRefund(step));
        expectSame(later.applyAll(steps), abstaining.applyAll(steps));
      },
    );
    return async () => {
      await check();
      expect(refunds).toBeGreaterThan(10);
    };
  },
);
