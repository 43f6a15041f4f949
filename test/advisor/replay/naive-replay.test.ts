import * as fc from "fast-check";
import { expect, it } from "vitest";
import { peaks } from "../../../src/advisor/replay/timelines.ts";
import { replay, replayAll } from "../../../src/advisor/replay/replay.ts";
import { forAll, forAllCounted } from "../../for-all.ts";
import { limitOf, type Variant, variants } from "../../strategies/variants.ts";
import { startMs } from "../../strategies/meters.ts";
import { naiveReplay } from "./naive-replay.ts";
import { type TestArrival, timelinesOf } from "./timelines-of.ts";

/** Concurrency slots need reservations, which the naive replay does not support. */
const counting = variants.filter(({ strategy }) => strategy !== "concurrency");
const windowMs = 1_200;
const stepMs = 5_000;

/** Intervals from a fraction of a millisecond to several windows. A calendar window has its own tick. */
const arrivals = (tickMs: number): fc.Arbitrary<readonly TestArrival[]> =>
  fc
    .array(
      fc.record({
        key: fc.constantFrom("a", "a", "a", "b", "b", "c"),
        gapMs: fc.oneof(
          { weight: 4, arbitrary: fc.constantFrom(0, 0, 1, 7) },
          { weight: 4, arbitrary: fc.integer({ min: 0, max: tickMs }) },
          { weight: 1, arbitrary: fc.integer({ min: tickMs, max: 6 * tickMs }) },
        ),
        cost: fc.constantFrom(1, 1, 1, 1, 2, 3, 9, 0),
      }),
      { minLength: 1, maxLength: 40, size: "max" },
    )
    .map((drawn) => {
      let atMs = startMs + 333;
      return drawn.map(({ key, gapMs, cost }) => ({ key, cost, atMs: (atMs += gapMs) }));
    });

const limitSets = (variant: Variant) =>
  fc
    .record({
      units: fc.integer({ min: 1, max: 8 }),
      other: fc.option(fc.integer({ min: 1, max: 30 }), { freq: 2 }),
      otherVariant: fc.constantFrom(...counting),
    })
    .map(({ units, other, otherVariant }) => [
      limitOf(variant, units, windowMs),
      ...(other === null ? [] : [limitOf(otherVariant, other, 5 * windowMs, "other")]),
    ]);

it.each(counting)(
  "$title: a replay equals the naive replay of all keys together, whether keys are skipped or not",
  async (variant) => {
    const seen = { denied: 0, allAllowed: 0, partlyDenied: 0, retried: 0 };
    await forAllCounted(
      [arrivals(variant.tickMs ?? windowMs / 3), limitSets(variant)],
      (list, limits) => {
        const timelines = timelinesOf(list);
        const step = variant.tickMs ?? stepMs;
        for (const retry of ["none", "obey"] as const) {
          const options = { retry, stepMs: step, keepsDecisions: true };
          const expected = naiveReplay(timelines, limits, options);
          expect(replayAll(timelines, [limits], options)).toEqual([expected]);
          const everyKey = { ...options, decidesEveryKey: true };
          expect(replayAll(timelines, [limits], everyKey)).toEqual([expected]);
          seen.denied += expected.denied;
          seen.retried += expected.retries?.sent ?? 0;
          if (expected.denied === 0) seen.allAllowed++;
          else if (expected.deniedKeys < expected.keys) seen.partlyDenied++;
        }
      },
      60,
    )();
    // The replays included keys that are skipped and keys that are denied.
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(0);
  },
);

it(
  "the peak of a key is the most units that it spends within any span of a window",
  forAll([arrivals(400), fc.constantFrom(1, 8, 400, 1_000, Infinity)], (list, spanMs) => {
    const timelines = timelinesOf(list);
    const naive = timelines.keys.map((key) => {
      const own = list.filter((arrival) => arrival.key === key);
      const spans = own.map(({ atMs: fromMs }) =>
        own.filter(({ atMs }) => atMs >= fromMs && atMs - fromMs < spanMs).reduce((sum, { cost = 1 }) => sum + cost, 0),
      );
      return Math.max(...spans);
    });
    expect([...peaks(timelines, spanMs)]).toEqual(naive);
    expect(peaks(timelines, spanMs)).toBe(peaks(timelines, spanMs));
  }),
);

it("replaying several sets of limits together equals replaying each set alone, and the progress grows to 1", () => {
  const list = Array.from({ length: 60_000 }, (_, index) => ({
    key: `key ${index % 7}`,
    atMs: startMs + index * (index % 5),
  }));
  const timelines = timelinesOf(list);
  const sets = counting.slice(0, 4).map((variant) => [limitOf(variant, 5, windowMs)]);
  const steps = replay(timelines, sets);
  const shares: number[] = [];
  let step = steps.next();
  for (; step.done !== true; step = steps.next()) shares.push(step.value);
  expect(step.value).toEqual(sets.flatMap((limits) => replayAll(timelines, [limits])));
  expect(shares.length).toBeGreaterThan(4);
  expect(shares).toEqual(shares.toSorted((a, b) => a - b));
  expect(new Set(shares).size).toBe(shares.length);
  expect(shares.at(-1)).toBe(1);
});
