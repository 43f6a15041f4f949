/** What every strategy owes beyond the laws: clocks that step back, units that are lent out, and debts. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createMeter, type Decision } from "../../src/strategies/index.ts";
import { forAll } from "../for-all.ts";
import {
  casts,
  expectSame,
  inelasticCasts,
  remainingOf,
  stories,
  type Story,
  Teller,
} from "./story.ts";

function told(story: Story): Teller {
  const teller = new Teller(createMeter(story.limits), story.startMs, story.longestWindowMs);
  teller.tell(story.steps);
  return teller;
}

/** The decision as a caller hears it whose clock lags behind: whatever is to be waited for takes that much longer. */
function heardLate(decision: Decision, lagMs: number): Decision {
  const later = (waitMs: number): number => (waitMs === 0 ? 0 : waitMs + lagMs);
  const orNever = (waitMs: number | null): number | null =>
    waitMs === null ? null : later(waitMs);
  return {
    ...decision,
    delayMs: later(decision.delayMs),
    retryAfterMs: orNever(decision.retryAfterMs),
    limits: decision.limits.map((limit) => ({
      ...limit,
      retryAfterMs: orNever(limit.retryAfterMs),
      replenishAfterMs: later(limit.replenishAfterMs),
      resetAfterMs: later(limit.resetAfterMs),
    })),
  };
}

describe.each(inelasticCasts)("a clock that steps back: $title", (cast) => {
  test(
    "decides as at the latest time that counted, and waits include the lag",
    forAll([stories(cast, ["consume", "consume", "look"])], (story) => {
      const lagging = new Teller(createMeter(story.limits), story.startMs, story.longestWindowMs);
      const steady = createMeter(story.limits);
      for (const step of [...story.steps, ...story.later]) {
        const { seenMs } = lagging;
        const heard = lagging.step(step);
        const atMs = Math.max(lagging.nowMs, seenMs);
        const { cost, heldUnits } = step;
        const decision =
          step.kind === "look"
            ? steady.look(cost, atMs, heldUnits)
            : steady.consume(cost, atMs, heldUnits);
        expectSame(heard, heardLate(decision, atMs - lagging.nowMs));
        expectSame(lagging.meter.seenMs, lagging.seenMs);
      }
      expectSame(lagging.meter.snapshot(), steady.snapshot());
    }),
  );
});

describe.each(inelasticCasts)("a clock further back than the longest window: $title", (cast) => {
  /** A full meter, and a time so much earlier that one of the two clocks must have been wrong. */
  function misset(story: Story, ticks: number): { teller: Teller; nowMs: number } {
    const teller = told(story);
    teller.nowMs = teller.latestMs;
    teller.meter.consume(
      Math.max(1, remainingOf(teller.meter.look(1, teller.nowMs))),
      teller.nowMs,
    );
    teller.meter.book(1, teller.nowMs, teller.nowMs);
    const nowMs = teller.latestMs - story.longestWindowMs - 1 - ticks * story.tickMs;
    return { teller, nowMs };
  }

  test(
    "forgives nothing that is spent",
    forAll([stories(cast), fc.nat(50)], (story, ticks) => {
      const { teller, nowMs } = misset(story, ticks);
      const { meter } = teller;
      const remainders = (atMs: number): number[] =>
        meter.look(1, atMs).limits.map((limit) => limit.remaining);
      const before = remainders(teller.latestMs);
      expectSame(remainders(nowMs), before);
      expectSame(meter.consume(1, nowMs).allowed, false);
      expectSame(remainders(nowMs), before);
    }),
  );

  test(
    "never freezes a key: the wait told at the first denial is enough, and nothing shorter is",
    forAll(
      [stories(cast), fc.nat(50), fc.double({ min: 0, max: 1, noNaN: true })],
      (story, ticks, part) => {
        const { teller, nowMs } = misset(story, ticks);
        const { meter } = teller;
        const decision = meter.consume(1, nowMs);
        expectSame(decision.allowed, false);
        const waitMs = decision.retryAfterMs ?? Number.NaN;
        expectSame(meter.consume(1, nowMs + Math.floor(part * (waitMs - 1))).allowed, false);
        expectSame(meter.consume(1, nowMs + waitMs - 1).allowed, false);
        expectSame(meter.consume(1, nowMs + waitMs).allowed, true);
      },
    ),
  );

  test(
    "is not set right by a look",
    forAll([stories(cast), fc.nat(50)], (story, ticks) => {
      const { teller, nowMs } = misset(story, ticks);
      const before = teller.meter.snapshot();
      expectSame(teller.meter.look(1, nowMs), teller.meter.look(1, nowMs));
      expectSame(teller.meter.snapshot(), before);
    }),
  );
});

describe.each(inelasticCasts)("held units: $title", (cast) => {
  test(
    "count as spent at this instant",
    forAll([stories(cast), fc.nat(8), fc.integer({ min: 1, max: 8 })], (story, cost, heldUnits) => {
      const { meter, nowMs } = told(story);
      const booked = createMeter(story.limits, meter.snapshot());
      // Booked at the latest time that both know of, whatever the clock says.
      booked.book(heldUnits, Number.MAX_SAFE_INTEGER, nowMs);
      expectSame(meter.look(cost, nowMs, heldUnits), booked.look(cost, nowMs));
      expectSame(meter.consume(cost, nowMs, heldUnits), booked.consume(cost, nowMs));
    }),
  );

  test(
    "are no part of what is kept",
    forAll(
      [stories(cast), fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 8 })],
      (story, cost, heldUnits) => {
        const { meter, nowMs } = told(story);
        const unaware = createMeter(story.limits, meter.snapshot());
        const decision = meter.consume(cost, nowMs, heldUnits);
        if (decision.allowed) unaware.consume(cost, nowMs);
        expectSame(meter.snapshot(), unaware.snapshot());
      },
    ),
  );
});

describe.each(casts)("booking: $title", (cast) => {
  test(
    "what fits is consuming it",
    forAll([stories(cast), fc.nat(8)], (story, cost) => {
      const { meter, latestMs: nowMs } = told(story);
      const booked = createMeter(story.limits, meter.snapshot());
      if (!meter.consume(cost, nowMs).allowed) return;
      booked.book(cost, nowMs, nowMs);
      expectSame(booked.snapshot(), meter.snapshot());
    }),
  );

  test(
    "what does not fit leaves a debt: nothing remains, and waits are no shorter for it",
    forAll([stories(cast), fc.integer({ min: 1, max: 8 })], (story, excess) => {
      const { meter, latestMs: nowMs } = told(story);
      const capacities = meter.look(1, nowMs).limits.map((limit) => limit.capacity);
      meter.book(Math.max(...capacities), nowMs, nowMs);
      const full = meter.look(1, nowMs);
      meter.book(excess, nowMs, nowMs);
      const indebted = meter.look(1, nowMs);
      expectSame(
        full.limits.map((limit) => limit.remaining),
        capacities.map(() => 0),
      );
      expectSame(
        indebted.limits.map((limit) => limit.remaining),
        capacities.map(() => 0),
      );
      expectSame(indebted.allowed, false);
      expect(indebted.retryAfterMs).toBeGreaterThanOrEqual(full.retryAfterMs ?? Number.NaN);
    }),
  );

  test(
    "in the past adds no quota",
    forAll([stories(cast), fc.integer({ min: 1, max: 8 }), fc.nat(20)], (story, cost, ticks) => {
      const { meter, nowMs } = told(story);
      const before = meter.look(1, nowMs).limits;
      meter.book(cost, nowMs - ticks * story.tickMs, nowMs);
      meter.look(1, nowMs).limits.forEach(({ remaining }, index) => {
        expect(remaining).toBeLessThanOrEqual(before[index]?.remaining ?? Number.NaN);
      });
    }),
  );
});
