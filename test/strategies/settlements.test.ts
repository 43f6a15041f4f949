/** Law 10: apart from their outcome, reservations leave no effect. */
import * as fc from "fast-check";
import { expect } from "vitest";
import type { Limit } from "../../src/strategies/index.ts";
import { forAllCounted } from "../for-all.ts";
import { expectSame, hourMs } from "./meters.ts";
import { type Action, actions, isInTime, Trace, withoutReservations } from "./reservation-traces.ts";
import { type LimitSet, limitSetsOf, testEach } from "./scenario.ts";
import { limitOf, type Variant } from "./variants.ts";

const isQueue = ({ strategy, options }: Variant): boolean => strategy === "leaky-bucket" && options["mode"] === "queue";

/** The limit sets without the exceptions of law 10. */
const exactLimitSets = limitSetsOf((variant) => !variant.isElastic && !isQueue(variant));

const startMs = Date.UTC(2026, 2, 1);

interface Setting {
  readonly limits: readonly Limit[];
  readonly tickMs: number;
}

/** Limits of a limit set whose windows are a few ticks long. */
function settings(limitSet: LimitSet, units: fc.Arbitrary<number>): fc.Arbitrary<Setting> {
  const { variants, fewest, most } = limitSet;
  const draft = fc.record({
    variant: fc.constantFrom(...variants),
    units,
    ticks: fc.integer({ min: 3, max: 12 }),
  });
  return fc
    .record({
      drafts: fc.array(draft, { minLength: fewest, maxLength: most }),
      tickMs: fc.constantFrom(1, 1, 7, 1_000),
    })
    .map(({ drafts, tickMs }) => {
      // Two calendar limits of one variant would share a state.
      const distinct = drafts.filter(
        ({ variant }, index) =>
          variant.tickMs === null || drafts.findIndex((other) => other.variant === variant) === index,
      );
      const longestMs = Math.max(...distinct.map(({ variant }) => variant.tickMs ?? tickMs));
      const limits = distinct.map(({ variant, units: limit, ticks }, index) =>
        limitOf(variant, limit, (ticks * 4 + index) * longestMs, `limit-${index}`),
      );
      return { limits, tickMs: Math.min(longestMs, 3 * hourMs) };
    });
}

/** Expects every limit to decide as if each reservation had been a plain spend of its settled cost. */
function expectNoOtherEffect(trace: Trace, tickMs: number): void {
  trace.limits.forEach((limit, index) => {
    const other = withoutReservations(limit, trace);
    for (const ticks of [0, 1, 4, 9, 30, 70, 900]) {
      const atMs = trace.nowMs + ticks * tickMs;
      expectSame(trace.meter.look(2, atMs).limits[index], other.look(2, atMs).limits[0]);
    }
  });
}

const kinds: readonly Action["kind"][] = [
  ...(["reserve", "reserve", "reserve", "reserve", "settle", "settle", "settle"] as const),
  ...(["consume", "fill", "book", "look", "deny", "restart", "copy"] as const),
];

testEach(
  exactLimitSets,
  "law 10: open reservations count in full, and settled ones count as if their cost had been spent",
  (limitSet) => {
    let settlements = 0;
    const settled = { nothing: 0, less: 0, same: 0, more: 0 };
    const check = forAllCounted(
      [settings(limitSet, fc.integer({ min: 3, max: 40 })), actions(kinds, { minLength: 5, maxLength: 40 })],
      ({ limits, tickMs }, steps) => {
        const trace = new Trace(limits, startMs);
        for (const step of steps) {
          const isSettled = trace.apply(step, tickMs, (spend) =>
            limits.every((limit) => isInTime(limit, trace, spend)),
          );
          if (!isSettled) continue;
          expectNoOtherEffect(trace, tickMs);
          settlements++;
        }
        expectNoOtherEffect(trace, tickMs);
        for (const kind of ["nothing", "less", "same", "more"] as const) {
          settled[kind] += trace.settled[kind];
        }
      },
    );
    return async () => {
      await check();
      expect(settlements).toBeGreaterThan(60);
      expect(Math.min(...Object.values(settled))).toBeGreaterThan(0);
    };
  },
);
