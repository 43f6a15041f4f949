/** A rolling deploy: snapshots written by this version and read by the previous one, and the other way round. */
import * as fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { createMeter, type Limit, type Meter } from "../../src/strategies/index.ts";
import { forAll } from "../for-all.ts";
import * as previousVersion from "../previous-version/strategies.js";
import { expectSame } from "./meters.ts";
import { limitSets, type LimitSet, scenarios, ScenarioRun } from "./scenario.ts";
import { boundOf, limitOf, spanOf, variants } from "./variants.ts";

/** The meter of the previous version; its reservations have positional arguments. */
interface PreviousMeter extends Omit<Meter, "reserve" | "settle" | "renew"> {
  reserve(cost: number, ttlMs: number, nowMs: number): ReturnType<Meter["reserve"]>;
  settle(cost: number, actual: number, spentAtMs: number, ttlMs: number, nowMs: number): void;
}

const previous: {
  createMeter(limits: readonly Limit[], stored?: unknown): PreviousMeter;
} = previousVersion as never;

const startMs = Date.UTC(2026, 2, 1);
const ttlMs = 600_000;

const stored = (meter: { snapshot(): unknown }): unknown =>
  JSON.parse(JSON.stringify(meter.snapshot())) as unknown;

const limitsOfForms = variants.map((form) => ({
  title: form.title,
  limit: limitOf(form, 20, 60_000),
}));

describe.each(limitSets)("a snapshot without open reservations: $title", (cast: LimitSet) => {
  test(
    "decides alike in both versions, whichever wrote it",
    forAll(
      [scenarios(cast, ["consume", "consume", "fill", "look", "book"])],
      (story) => {
        const now = new ScenarioRun(
          createMeter(story.limits),
          story.startMs,
          story.longestWindowMs,
        );
        const then = new ScenarioRun(
          previous.createMeter(story.limits) as unknown as Meter,
          story.startMs,
          story.longestWindowMs,
        );
        expectSame(now.applyAll(story.steps), then.applyAll(story.steps));
        const [nowStored, thenStored] = [stored(now.meter), stored(then.meter)];
        now.meter = createMeter(story.limits, thenStored);
        then.meter = previous.createMeter(story.limits, nowStored) as unknown as Meter;
        expect([now.meter.refused, then.meter.refused]).toEqual([null, null]);
        expectSame(now.applyAll(story.laterSteps), then.applyAll(story.laterSteps));
      },
      60,
    ),
  );
});

describe.each(limitsOfForms)("a snapshot with open reservations: $title", ({ limit }) => {
  test("of this version is read by the previous one, which settles without adding quota", () => {
    const meter = createMeter([limit]);
    for (let each = 0; each < 5; each++) {
      meter.reserve({ cost: 2, ttlMs }, startMs + each);
    }
    const old = previous.createMeter([limit], stored(meter));
    expect(old.refused).toBeNull();
    expect(old.look(1, startMs + 5)).toEqual(meter.look(1, startMs + 5));
    for (let each = 0; each < 5; each++) {
      old.settle(2, 1, startMs + each, ttlMs, startMs + 10);
      meter.settle({ cost: 2, actualCost: 1, spentAtMs: startMs + each, ttlMs }, startMs + 10);
    }
    const [left, most] = [old, meter].map(
      (each) => each.look(1, startMs + 10).limits[0]?.remaining ?? Number.NaN,
    );
    expect(left).toBeLessThanOrEqual(most ?? Number.NaN);
    // Once the previous version has written it, nothing of the reservations is trusted any more.
    const again = createMeter([limit], stored(old));
    expect(again.refused).toBeNull();
    expect(JSON.stringify(again.snapshot())).not.toContain('"+"');
    expect(again.look(1, startMs + 10)).toEqual(old.look(1, startMs + 10));
  });

  test("of the previous version is read by this one, which settles it without adding quota", () => {
    const old = previous.createMeter([limit]);
    for (let each = 0; each < 5; each++) old.reserve(2, ttlMs, startMs + each);
    const meter = createMeter([limit], stored(old));
    expect(meter.refused).toBeNull();
    expect(meter.look(1, startMs + 5)).toEqual(old.look(1, startMs + 5));
    // In a bucket, and in a window, the ones settled first; new reservations stand beside.
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

describe.each(variants)("versions that take turns at a snapshot: $title", (form) => {
  let admitted = 0;
  let settled = 0;

  test(
    "never admit more than the bound",
    forAll(
      [
        fc.integer({ min: 2, max: 9 }),
        fc.array(
          fc.record({
            isOld: fc.boolean(),
            kind: fc.constantFrom("reserve", "reserve", "consume", "settle"),
            idleMs: fc.constantFrom(0, 1, 1, 3, 9),
            cost: fc.integer({ min: 1, max: 3 }),
            pick: fc.nat(50),
          }),
          { minLength: 10, maxLength: 60 },
        ),
      ],
      (units, steps) => {
        const limit = limitOf(form, units, 24);
        let snapshot: unknown;
        let nowMs = startMs;
        const spends: { atMs: number; units: number }[] = [];
        const open: { atMs: number; units: number }[] = [];
        for (const { isOld, kind, idleMs, cost, pick } of steps) {
          nowMs += idleMs;
          const old = previous.createMeter([limit], snapshot);
          const meter = createMeter([limit], snapshot);
          expectSame([old.refused, meter.refused], [null, null]);
          if (kind === "settle") {
            const [spend] = open.splice(pick % Math.max(1, open.length), 1);
            if (spend === undefined) continue;
            const { atMs: spentAtMs, units: reserved } = spend;
            if (isOld) old.settle(reserved, 0, spentAtMs, ttlMs, nowMs);
            else meter.settle({ cost: reserved, actualCost: 0, spentAtMs, ttlMs }, nowMs);
            spend.units = 0;
            settled++;
          } else {
            const isReserved = kind === "reserve";
            const reserve = () =>
              isOld ? old.reserve(cost, ttlMs, nowMs) : meter.reserve({ cost, ttlMs }, nowMs);
            const consume = () => (isOld ? old : meter).consume(cost, nowMs);
            const { allowed } = isReserved ? reserve() : consume();
            if (allowed) {
              const spend = { atMs: nowMs, units: cost };
              spends.push(spend);
              if (isReserved) open.push(spend);
              admitted++;
            }
          }
          snapshot = stored(isOld ? old : meter);
          if (form.strategy === "concurrency") continue;
          for (const { atMs } of spends) {
            const within = spends.filter(
              (each) => each.atMs >= atMs && each.atMs < atMs + spanOf(limit),
            );
            const sum = within.reduce((total, each) => total + each.units, 0);
            expect(sum).toBeLessThanOrEqual(boundOf(limit));
          }
        }
      },
      60,
    ),
  );

  afterAll(() => {
    expect(admitted).toBeGreaterThan(150);
    expect(settled).toBeGreaterThan(50);
  });
});
