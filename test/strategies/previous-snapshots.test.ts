/** During a rolling deployment, each of two versions reads the snapshots that the other one has written. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createMeter, type Meter } from "../../src/strategies/index.ts";
import { forAll, forAllCounted } from "../for-all.ts";
import * as previous from "../previous-version/app.js";
import { expectSame, minuteMs, remainingAt, startMs, stored } from "./meters.ts";
import { limitSets, mostWithin, ScenarioRun, scenarios, singleLimits, startRun, testEach } from "./scenario.ts";
import { boundOf, limitOf, spanOf, variants } from "./variants.ts";

const ttlMs = 600_000;

testEach(
  limitSets,
  "both versions decide alike on a snapshot without open reservations, whichever wrote it",
  (limitSet) =>
    forAll(
      [scenarios(limitSet, ["consume", "consume", "fill", "look", "book"])],
      (scenario) => {
        const { limits, steps, laterSteps, startMs: firstMs, longestWindowMs } = scenario;
        const previousMeter = (snapshot?: unknown): Meter => previous.createMeter(limits, snapshot);
        const current = startRun(scenario);
        const old = new ScenarioRun(previousMeter(), firstMs, longestWindowMs);
        expectSame(current.applyAll(steps), old.applyAll(steps));
        const [currentSnapshot, oldSnapshot] = [stored(current.meter), stored(old.meter)];
        current.meter = createMeter(limits, oldSnapshot);
        old.meter = previousMeter(currentSnapshot);
        expectSame([current.meter.refused, old.meter.refused], [null, null]);
        expectSame(current.applyAll(laterSteps), old.applyAll(laterSteps));
      },
      40,
    ),
);

describe.each(variants)("a snapshot with open reservations: $title", (variant) => {
  const limit = limitOf(variant, 20, minuteMs);

  test("the previous version reads a snapshot of this one and settles its reservations without adding quota", () => {
    const meter = createMeter([limit]);
    for (let each = 0; each < 5; each++) {
      meter.reserve({ cost: 2, ttlMs }, startMs + each);
    }
    const old = previous.createMeter([limit], stored(meter));
    expect(old.refused).toBeNull();
    expect(old.look(1, startMs + 5)).toEqual(meter.look(1, startMs + 5));
    for (let each = 0; each < 5; each++) {
      old.settle({ cost: 2, actualCost: 1, spentAtMs: startMs + each, ttlMs }, startMs + 10);
      meter.settle({ cost: 2, actualCost: 1, spentAtMs: startMs + each, ttlMs }, startMs + 10);
    }
    const remaining = old.look(1, startMs + 10).limits[0]?.remaining;
    expect(remaining).toBeLessThanOrEqual(remainingAt(meter, startMs + 10));
    const again = createMeter([limit], stored(old));
    expect(again.refused).toBeNull();
    expect(again.look(1, startMs + 10)).toEqual(old.look(1, startMs + 10));
  });

  test("this version reads a snapshot of the previous one and settles its reservations without adding quota", () => {
    const old = previous.createMeter([limit]);
    for (let each = 0; each < 5; each++) old.reserve({ cost: 2, ttlMs }, startMs + each);
    const meter = createMeter([limit], stored(old));
    expect(meter.refused).toBeNull();
    expect(meter.look(1, startMs + 5)).toEqual(old.look(1, startMs + 5));
    // Settles a reservation of this version together with those of the previous version.
    meter.reserve({ cost: 1, ttlMs }, startMs + 6);
    for (let each = 0; each < 5; each++) {
      meter.settle({ cost: 2, actualCost: 0, spentAtMs: startMs + each, ttlMs }, startMs + 10);
    }
    meter.settle({ cost: 1, actualCost: 0, spentAtMs: startMs + 6, ttlMs }, startMs + 10);
    const { remaining, capacity } = meter.look(1, startMs + 10).limits[0] ?? {
      remaining: Number.NaN,
      capacity: Number.NaN,
    };
    expect(remaining).toBeGreaterThanOrEqual(0);
    expect(remaining).toBeLessThanOrEqual(capacity);
  });
});

testEach(
  singleLimits(variants),
  "two versions that take turns on one snapshot never admit more than the bound",
  ({ variants: [variant] }) => {
    if (variant === undefined) throw new Error("expected one variant");
    const counts = { admitted: 0, settled: 0 };
    const action = fc.record({
      isOld: fc.boolean(),
      kind: fc.constantFrom("reserve", "reserve", "consume", "settle"),
      idleMs: fc.constantFrom(0, 1, 1, 3, 9),
      cost: fc.integer({ min: 1, max: 3 }),
      pick: fc.nat(50),
    });
    const check = forAllCounted(
      [fc.integer({ min: 2, max: 9 }), fc.array(action, { minLength: 10, maxLength: 60 })],
      (units, actions) => {
        const limit = limitOf(variant, units, 24);
        let snapshot: unknown;
        let nowMs = startMs;
        const spends: { atMs: number; units: number }[] = [];
        const open: { atMs: number; units: number }[] = [];
        for (const { isOld, kind, idleMs, cost, pick } of actions) {
          nowMs += idleMs;
          const old = previous.createMeter([limit], snapshot);
          const meter = createMeter([limit], snapshot);
          expectSame([old.refused, meter.refused], [null, null]);
          if (kind === "settle") {
            const [spend] = open.splice(pick % Math.max(1, open.length), 1);
            if (spend === undefined) continue;
            const { atMs: spentAtMs, units: reserved } = spend;
            (isOld ? old : meter).settle({ cost: reserved, actualCost: 0, spentAtMs, ttlMs }, nowMs);
            spend.units = 0;
            counts.settled++;
          } else {
            const deciding = isOld ? old : meter;
            const { allowed } =
              kind === "reserve" ? deciding.reserve({ cost, ttlMs }, nowMs) : deciding.consume(cost, nowMs);
            if (allowed) {
              const spend = { atMs: nowMs, units: cost };
              spends.push(spend);
              if (kind === "reserve") open.push(spend);
              counts.admitted++;
            }
          }
          snapshot = stored(isOld ? old : meter);
          if (variant.strategy === "concurrency") continue;
          expect(mostWithin(spends, spanOf(limit))).toBeLessThanOrEqual(boundOf(limit));
        }
      },
      40,
    );
    return async () => {
      await check();
      expect(counts.admitted).toBeGreaterThan(100);
      expect(counts.settled).toBeGreaterThan(30);
    };
  },
);
