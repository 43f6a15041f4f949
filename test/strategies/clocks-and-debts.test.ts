/** What every strategy owes beyond the laws: clocks that step back, units that are lent out, and debts. */
import fc from "fast-check";
import { describe, expect } from "vitest";
import { createMeter, type Decision } from "../../src/strategies/index.ts";
import { casts, expectSame, remainingOf, stories, type Story, Teller } from "./story.ts";
import { law } from "./law.ts";

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
    retryAfterMs: orNever(decision.retryAfterMs),
    limits: decision.limits.map((limit) => ({
      ...limit,
      retryAfterMs: orNever(limit.retryAfterMs),
      replenishAfterMs: later(limit.replenishAfterMs),
      resetAfterMs: later(limit.resetAfterMs),
    })),
  };
}

describe.each(casts)("a clock that steps back: $title", (cast) => {
  law(
    "decides as at the latest time that counted, and waits include the lag",
    [stories(cast, ["consume", "consume", "look"])],
    (story) => {
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
      }
      expectSame(lagging.meter.snapshot(), steady.snapshot());
    },
  );
});

describe.each(casts)("a clock further back than the longest window: $title", (cast) => {
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

  law("forgives nothing that is spent", [stories(cast), fc.nat(50)], (story, ticks) => {
    const { teller, nowMs } = misset(story, ticks);
    const { meter } = teller;
    const remainders = (atMs: number): number[] =>
      meter.look(1, atMs).limits.map((limit) => limit.remaining);
    const before = remainders(teller.latestMs);
    expect(remainders(nowMs)).toEqual(before);
    expect(meter.consume(1, nowMs).allowed).toBe(false);
    expect(remainders(nowMs)).toEqual(before);
  });

  law(
    "never freezes a key: the wait told at the first denial is enough, and nothing shorter is",
    [stories(cast), fc.nat(50), fc.double({ min: 0, max: 1, noNaN: true })],
    (story, ticks, part) => {
      const { teller, nowMs } = misset(story, ticks);
      const { meter } = teller;
      const decision = meter.consume(1, nowMs);
      expect(decision.allowed).toBe(false);
      const waitMs = decision.retryAfterMs ?? Number.NaN;
      expect(meter.consume(1, nowMs + Math.floor(part * (waitMs - 1))).allowed).toBe(false);
      expect(meter.consume(1, nowMs + waitMs - 1).allowed).toBe(false);
      expect(meter.consume(1, nowMs + waitMs).allowed).toBe(true);
    },
  );

  law("is not set right by a look", [stories(cast), fc.nat(50)], (story, ticks) => {
    const { teller, nowMs } = misset(story, ticks);
    const before = teller.meter.snapshot();
    expectSame(teller.meter.look(1, nowMs), teller.meter.look(1, nowMs));
    expectSame(teller.meter.snapshot(), before);
  });
});

describe.each(casts)("held units: $title", (cast) => {
  law(
    "count as spent at this instant",
    [stories(cast), fc.nat(8), fc.integer({ min: 1, max: 8 })],
    (story, cost, heldUnits) => {
      const { meter, nowMs } = told(story);
      const booked = createMeter(story.limits, meter.snapshot());
      // Booked at the latest time that both know of, whatever the clock says.
      booked.book(heldUnits, Number.MAX_SAFE_INTEGER, nowMs);
      expectSame(meter.look(cost, nowMs, heldUnits), booked.look(cost, nowMs));
      expectSame(meter.consume(cost, nowMs, heldUnits), booked.consume(cost, nowMs));
    },
  );

  law(
    "are no part of what is kept",
    [stories(cast), fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 8 })],
    (story, cost, heldUnits) => {
      const { meter, nowMs } = told(story);
      const unaware = createMeter(story.limits, meter.snapshot());
      const decision = meter.consume(cost, nowMs, heldUnits);
      if (decision.allowed) unaware.consume(cost, nowMs);
      expectSame(meter.snapshot(), unaware.snapshot());
    },
  );
});

describe.each(casts)("booking: $title", (cast) => {
  law("what fits is consuming it", [stories(cast), fc.nat(8)], (story, cost) => {
    const { meter, latestMs: nowMs } = told(story);
    const booked = createMeter(story.limits, meter.snapshot());
    if (!meter.consume(cost, nowMs).allowed) return;
    booked.book(cost, nowMs, nowMs);
    expectSame(booked.snapshot(), meter.snapshot());
  });

  law(
    "what does not fit leaves a debt: nothing remains, and waits are no shorter for it",
    [stories(cast), fc.integer({ min: 1, max: 8 })],
    (story, excess) => {
      const { meter, latestMs: nowMs } = told(story);
      const capacities = meter.look(1, nowMs).limits.map((limit) => limit.capacity);
      meter.book(Math.max(...capacities), nowMs, nowMs);
      const full = meter.look(1, nowMs);
      meter.book(excess, nowMs, nowMs);
      const indebted = meter.look(1, nowMs);
      expect(full.limits.map((limit) => limit.remaining)).toEqual(capacities.map(() => 0));
      expect(indebted.limits.map((limit) => limit.remaining)).toEqual(capacities.map(() => 0));
      expect(indebted.allowed).toBe(false);
      expect(indebted.retryAfterMs).toBeGreaterThanOrEqual(full.retryAfterMs ?? Number.NaN);
    },
  );

  law(
    "in the past adds no quota",
    [stories(cast), fc.integer({ min: 1, max: 8 }), fc.nat(20)],
    (story, cost, ticks) => {
      const { meter, nowMs } = told(story);
      const before = meter.look(1, nowMs).limits;
      meter.book(cost, nowMs - ticks * story.tickMs, nowMs);
      meter.look(1, nowMs).limits.forEach(({ remaining }, index) => {
        expect(remaining).toBeLessThanOrEqual(before[index]?.remaining ?? Number.NaN);
      });
    },
  );
});
