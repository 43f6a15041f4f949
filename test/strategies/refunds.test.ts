/**
 * Law 10 when other spends happen between a spend and its refund: after a refund, no more units are left than if the
 * refunded units had never been spent.
 */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createMeter, type Meter, parseLimits } from "../../src/strategies/index.ts";
import { forAll } from "../for-all.ts";
import { expectSame, remainingAt, startMs } from "./meters.ts";
import { applyToBoth, type LimitSet, ScenarioRun, scenarios, singleLimits, testEach } from "./scenario.ts";
import { variants } from "./variants.ts";

/** Ways to spend units and to return some of them later. */
interface Return {
  readonly title: string;
  /** @returns whether the spend was allowed */
  readonly spend: (meter: Meter, cost: number, ttlMs: number, nowMs: number) => boolean;
  readonly undo: (meter: Meter, spend: Parameters<Meter["settle"]>[0], nowMs: number) => void;
}

const returns: readonly Return[] = [
  {
    title: "a refund",
    spend: (meter, cost, _ttlMs, nowMs) => meter.consume(cost, nowMs).allowed,
    undo: (meter, { cost, actualCost, spentAtMs }, nowMs) => meter.refund(cost - actualCost, spentAtMs, nowMs),
  },
  {
    title: "a settlement",
    spend: (meter, cost, ttlMs, nowMs) => meter.reserve({ cost, ttlMs }, nowMs).allowed,
    undo: (meter, spend, nowMs) => meter.settle(spend, nowMs),
  },
];

const opensCounter = ({ title }: LimitSet): boolean => title === "sliding-window-counter first-request";

/** Excludes elastic windows, and interval refills, whose refill times the refunded spend may have set. */
const refundable = singleLimits(
  variants.filter(({ options, isElastic }) => options["refill"] !== "interval" && !isElastic),
);

for (const { title, spend, undo } of returns) {
  testEach(
    // Law 10 has this exception: a settlement after the end of a bucket does not move the buckets.
    title === "a refund" ? refundable : refundable.filter((each) => !opensCounter(each)),
    `law 10: ${title} leaves no more units than if the refunded units had never been spent, then and later`,
    (limitSet) =>
      forAll(
        [
          scenarios(limitSet, ["consume", "consume", "fill"]),
          fc.nat(4),
          fc.nat(5),
          fc.constantFrom(1, 2, 3, 5, 15),
          fc.array(fc.nat(9), { maxLength: 4 }),
        ],
        (scenario, pick, part, stepsBetween, ticks) => {
          const { limits, steps, laterSteps, tickMs, variants: used } = scenario;
          const other = createMeter(limits);
          const refunding = new ScenarioRun(createMeter(limits), scenario.startMs, 0);
          const { meter } = refunding;
          applyToBoth(steps.slice(0, 5), refunding, other);
          const remaining = remainingAt(meter, refunding.nowMs);
          fc.pre(remaining > 0);
          const cost = 1 + (pick % remaining);
          const ttlMs = 5 * tickMs;
          const spentAtMs = refunding.nowMs;
          expectSame(spend(meter, cost, ttlMs, spentAtMs), true);
          // A settlement frees every slot, at any actual cost.
          const actualCost = used.some(({ strategy }) => strategy === "concurrency") ? 0 : part % cost;
          other.book(actualCost, spentAtMs, spentAtMs);
          applyToBoth(steps.slice(5, 5 + stepsBetween), refunding, other);
          const before = JSON.stringify(meter.look(1, refunding.nowMs));
          undo(meter, { cost, actualCost, spentAtMs, ttlMs }, refunding.nowMs);
          // Skips cases in which the refund changes nothing, because the end of a window or a refill has already
          // returned all units.
          fc.pre(JSON.stringify(meter.look(1, refunding.nowMs)) !== before);
          // After a refund, a bucket that a request opens may open later than if the refunded units had never been
          // spent. Later spends can then open other buckets.
          if (!opensCounter(limitSet)) {
            applyToBoth(laterSteps, refunding, other);
          }
          let { nowMs } = refunding;
          for (const idle of [0, ...ticks]) {
            nowMs += idle * tickMs;
            expect(remainingAt(meter, nowMs)).toBeLessThanOrEqual(remainingAt(other, nowMs));
          }
        },
        60,
      ),
  );
}

describe("a bucket in which each request reserves 1,000 units and returns 700 of them after 10 s", () => {
  test.each(["token-bucket", "leaky-bucket"])(
    "after many refunds, a bucket keeps most of the returned quota (%s)",
    (strategy) => {
      const mode = strategy === "leaky-bucket" ? { mode: "police" } : {};
      const limits = parseLimits({ limit: 20_000, window: "1m", burst: 40_000, strategy, ...mode });
      const [refunding, exact] = [createMeter(limits), createMeter(limits)];
      for (let second = 0; second < 600; second++) {
        const nowMs = startMs + second * 1_000;
        expect(refunding.consume(1_000, nowMs).allowed).toBe(true);
        if (second >= 10) refunding.refund(700, nowMs - 10_000, nowMs);
        // Spends only as many units as the refunded requests have used.
        exact.consume(second < 590 ? 300 : 1_000, nowMs);
      }
      const [remaining = 0, most = 0] = [refunding, exact].map((meter) => remainingAt(meter, startMs + 600_000));
      expect(remaining).toBeLessThanOrEqual(most);
      expect(remaining).toBeGreaterThan(12_000);
      expect(most).toBeLessThan(34_000);
    },
  );
});
