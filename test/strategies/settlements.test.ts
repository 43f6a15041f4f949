/** Law 10: reservations leave no effect except their outcome. */
import * as fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import type { Limit } from "../../src/strategies/index.ts";
import { forAll } from "../for-all.ts";
import { actions, isInTime, replayed, type Spend, Trace } from "./reservation-traces.ts";
import { type Cast, casts, expectSame } from "./story.ts";
import { limitOf, type Variant } from "./variants.ts";

const isQueue = ({ strategy, options }: Variant): boolean =>
  strategy === "leaky-bucket" && options["mode"] === "queue";

/** All but the declared exceptions. */
const exact: readonly Cast[] = casts
  .map((cast) => ({
    ...cast,
    forms: cast.forms.filter((form) => !form.isElastic && !isQueue(form)),
  }))
  .filter(({ forms }) => forms.length > 0);

const startMs = Date.UTC(2026, 2, 1);

interface Setting {
  readonly limits: readonly Limit[];
  readonly tickMs: number;
}

/** One limit of a form, or several of any; windows are few ticks long. */
function settings(cast: Cast, units: fc.Arbitrary<number>): fc.Arbitrary<Setting> {
  return fc
    .record({
      picks: fc.array(
        fc.record({ form: fc.nat(1_000), units, ticks: fc.integer({ min: 3, max: 12 }) }),
        {
          minLength: cast.fewest,
          maxLength: cast.most,
        },
      ),
      tickMs: fc.constantFrom(1, 1, 7, 1_000),
    })
    .map(({ picks, tickMs }) => {
      const chosen = picks.flatMap(({ form }) => cast.forms[form % cast.forms.length] ?? []);
      // Two of a kind would share their state.
      const forms = chosen.filter(
        (form, index) => form.tickMs === null || chosen.indexOf(form) === index,
      );
      const longestMs = Math.max(...forms.map((form) => form.tickMs ?? tickMs));
      const limits = forms.map((form, index) => {
        const { units: limit = 1, ticks = 1 } = picks[index] ?? {};
        return limitOf(form, limit, (ticks * 4 + index) * longestMs, `limit-${index}`);
      });
      return { limits, tickMs: Math.min(longestMs, 3 * 3_600_000) };
    });
}

/** Every limit decides as it would had each reservation's cost been spent for good. */
function expectReplayed(trace: Trace, tickMs: number): void {
  trace.limits.forEach((limit, index) => {
    const other = replayed(limit, trace);
    for (const ticks of [0, 1, 4, 9, 30, 70, 900]) {
      const atMs = trace.nowMs + ticks * tickMs;
      expectSame(trace.meter.look(2, atMs).limits[index], other.look(2, atMs).limits[0]);
    }
  });
}

describe.each(exact)("law 10, settlements: $title", (cast) => {
  let checks = 0;
  const settled = { nothing: 0, less: 0, same: 0, more: 0 };

  test(
    "at every instant, open reservations count in full and settled ones by their cost",
    forAll(
      [
        settings(cast, fc.integer({ min: 3, max: 40 })),
        actions(
          [
            "reserve",
            "reserve",
            "reserve",
            "settle",
            "settle",
            "consume",
            "fill",
            "book",
            "look",
            "deny",
            "restart",
            "copy",
          ],
          { minLength: 5, maxLength: 40 },
        ),
      ],
      ({ limits, tickMs }, steps) => {
        const trace = new Trace(limits, startMs);
        const isTimely = (spend: Spend): boolean =>
          limits.every((limit) => isInTime(limit, trace, spend));
        for (const step of steps) {
          trace.play(step, tickMs, isTimely);
          if (step.kind !== "settle") continue;
          expectReplayed(trace, tickMs);
          checks++;
        }
        expectReplayed(trace, tickMs);
        for (const kind of ["nothing", "less", "same", "more"] as const) {
          settled[kind] += trace.settled[kind];
        }
      },
      600,
    ),
  );

  afterAll(() => {
    expect(checks).toBeGreaterThan(400);
    expect(Math.min(...Object.values(settled))).toBeGreaterThan(5);
  });
});
