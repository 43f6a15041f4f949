/** Refunds with others in between: never more than had the spend not been made, and no less than need be. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createMeter, type Meter, parseLimits } from "../../src/strategies/index.ts";
import { forAll } from "../for-all.ts";
import { expectSame, remainingOf, stories, type Story, Teller } from "./story.ts";
import { variants } from "./variants.ts";

/**
 * Not told of: tokens by interval, whose beat the refunded spend may have set, and elastic windows, which every request
 * restarts.
 */
const casts = variants
  .filter(({ options, isElastic }) => options["refill"] !== "interval" && !isElastic)
  .map((form) => ({ title: form.title, forms: [form], fewest: 1, most: 1 }));

const remainders = (meter: Meter, nowMs: number): number[] =>
  meter.look(1, nowMs).limits.map((limit) => limit.remaining);

/** Tells steps to one meter, and to another, whose every spend is the first one's. */
function tellBoth(steps: Story["steps"], teller: Teller, other: Meter): void {
  for (const step of steps) {
    const before = teller.spends.length;
    teller.step({ ...step, idleMs: Math.max(0, step.idleMs) });
    for (const { units } of teller.spends.slice(before))
      other.book(units, teller.nowMs, teller.nowMs);
  }
}

describe.each(casts)("law 10, path by path: $title", (cast) => {
  test(
    "a refund leaves no more than had the spend not been made, then and later",
    forAll(
      [
        stories(cast, ["consume", "consume", "fill"]),
        fc.integer({ min: 1, max: 5 }),
        fc.boolean(),
        fc.array(fc.nat(9), { maxLength: 4 }),
      ],
      (story, cost, isWhole, ticks) => {
        const teller = new Teller(createMeter(story.limits), story.startMs, 0);
        const other = createMeter(story.limits);
        tellBoth(story.steps.slice(0, 5), teller, other);
        const spentAtMs = teller.nowMs;
        if (!teller.meter.consume(cost, spentAtMs).allowed) return;
        const given = isWhole ? cost : Math.ceil(cost / 2);
        other.book(cost - given, spentAtMs, spentAtMs);
        tellBoth(story.steps.slice(5), teller, other);
        const told = (): string => JSON.stringify(teller.meter.look(1, teller.nowMs));
        const before = told();
        teller.meter.refund(given, spentAtMs, teller.nowMs);
        // What time has given back all of is not given again: nothing is changed, and the spend stands.
        if (told() === before) return;
        // Buckets that a request opens may be opened later than need be: what is spent then opens others elsewhere.
        if (!/counter first-request/.test(cast.title)) tellBoth(story.later, teller, other);
        let nowMs = teller.nowMs;
        for (const idle of [0, ...ticks]) {
          nowMs += idle * story.tickMs;
          const [left = 0] = remainders(teller.meter, nowMs);
          const [leftOfOther = 0] = remainders(other, nowMs);
          expectSame([left, left <= leftOfOther || leftOfOther], [left, true]);
        }
      },
      1_500,
    ),
  );
});

describe("a bucket from which much is reserved and less is used", () => {
  /** Each second a thousand are reserved, and ten seconds later all but three hundred given back. */
  test.each(["token-bucket", "leaky-bucket"])(
    "gets back what it would still hold: %s",
    (strategy) => {
      const mode = strategy === "leaky-bucket" ? { mode: "police" } : {};
      const limits = parseLimits({ limit: 20_000, window: "1m", burst: 40_000, strategy, ...mode });
      const [real, exact] = [createMeter(limits), createMeter(limits)];
      const startMs = Date.UTC(2026, 2, 14);
      for (let second = 0; second < 600; second++) {
        const nowMs = startMs + second * 1_000;
        expect(real.consume(1_000, nowMs).allowed).toBe(true);
        if (second >= 10) real.refund(700, nowMs - 10_000, nowMs);
        // Nothing is lost where a refund comes at once.
        exact.consume(second < 590 ? 300 : 1_000, nowMs);
      }
      const [left = 0, most = 0] = [real, exact].map((meter) =>
        remainingOf(meter.look(1, startMs + 600_000)),
      );
      expect(left).toBeLessThanOrEqual(most);
      expect(left).toBeGreaterThan(12_000);
      expect(most).toBeLessThan(34_000);
    },
  );
});
