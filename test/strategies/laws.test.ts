/** The laws that every strategy keeps, alone and together with others on one key. */
import fc from "fast-check";
import { describe, expect } from "vitest";
import { createMeter, type Decision, type Meter } from "../../src/strategies/index.ts";
import {
  casts,
  expectSame,
  remainingOf,
  type Spend,
  stories,
  type Story,
  Teller,
} from "./story.ts";
import { law } from "./law.ts";
import { boundOf } from "./variants.ts";

function tellerOf(story: Story, mostLagMs = story.longestWindowMs): Teller {
  return new Teller(createMeter(story.limits), story.startMs, mostLagMs);
}

/** A teller whose meter has been through the steps of the story. */
function told(story: Story, mostLagMs?: number): Teller {
  const teller = tellerOf(story, mostLagMs);
  teller.tell(story.steps);
  return teller;
}

const revived = (meter: Meter, story: Story): Meter =>
  createMeter(story.limits, structuredClone(meter.snapshot()));

const remainders = (decision: Decision): number[] =>
  decision.limits.map((limit) => limit.remaining);

const deniesOutright = (cost: number) => (limit: { capacity: number }) => cost > limit.capacity;

/** The most units spent in any span of one window. */
function mostWithin(spends: readonly Spend[], windowMs: number): number {
  const sums = spends.map(({ atMs }) =>
    spends
      .filter((spend) => spend.atMs >= atMs && spend.atMs < atMs + windowMs)
      .reduce((sum, spend) => sum + spend.units, 0),
  );
  return Math.max(0, ...sums);
}

function expectWithinBounds({ meter, nowMs, spends }: Teller): void {
  for (const limit of meter.look(0, nowMs).limits) {
    expect(mostWithin(spends, limit.windowMs)).toBeLessThanOrEqual(boundOf(limit));
  }
}

describe.each(casts)("law 1, the bound: $title", (cast) => {
  law(
    "never admits more in any span of a window than the strategy's bound",
    [stories(cast, ["consume", "fill", "fill", "look"])],
    (story) => {
      const teller = tellerOf(story);
      teller.tell([...story.steps, ...story.later]);
      expectWithinBounds(teller);
    },
  );

  law(
    "never admits more than the bound when what was given back is not counted (law 10)",
    [stories(cast, ["consume", "fill", "fill", "refund"])],
    (story) => {
      const teller = tellerOf(story);
      teller.tell([...story.steps, ...story.later]);
      expectWithinBounds(teller);
    },
  );
});

describe.each(casts)("law 2, the wait: $title", (cast) => {
  law(
    "is enough, and nothing shorter is",
    [stories(cast), fc.integer({ min: 1, max: 8 }), fc.double({ min: 0, max: 1, noNaN: true })],
    (story, cost, part) => {
      const { meter, nowMs } = told(story);
      const decision = meter.look(cost, nowMs);
      const waitMs = decision.retryAfterMs;
      expect(waitMs === 0).toBe(decision.allowed);
      if (waitMs === null || waitMs === 0) return;
      expect(meter.look(cost, nowMs + waitMs - 1).allowed).toBe(false);
      expect(meter.look(cost, nowMs + Math.floor(part * (waitMs - 1))).allowed).toBe(false);
      expect(meter.look(cost, nowMs + waitMs).allowed).toBe(true);
      expect(meter.consume(cost, nowMs + waitMs).allowed).toBe(true);
    },
  );

  law(
    "is exact for each limit, and the request's is the longest of them",
    [stories(cast), fc.integer({ min: 1, max: 8 })],
    (story, cost) => {
      const { meter, nowMs } = told(story);
      const decision = meter.look(cost, nowMs);
      const waits = decision.limits.map((limit) => limit.retryAfterMs);
      expect(decision.retryAfterMs).toBe(
        waits.includes(null) ? null : Math.max(...waits.map((waitMs) => waitMs ?? 0)),
      );
      waits.forEach((waitMs, index) => {
        expect(waitMs === 0).toBe(decision.limits[index]?.allowed);
        if (waitMs === null || waitMs === 0) return;
        expect(meter.look(cost, nowMs + waitMs - 1).limits[index]?.allowed).toBe(false);
        expect(meter.look(cost, nowMs + waitMs).limits[index]?.allowed).toBe(true);
      });
    },
  );
});

describe.each(casts)("law 3, denials and looks: $title", (cast) => {
  law(
    "leave the snapshot as it was and change no later decision",
    [stories(cast), fc.nat(9), fc.integer({ min: -20, max: 20 })],
    (story, cost, ticks) => {
      const disturbed = tellerOf(story);
      const undisturbed = tellerOf(story);
      for (const step of story.steps) {
        const { meter, nowMs } = disturbed;
        const before = meter.snapshot();
        const { changes } = meter;
        meter.look(cost, nowMs, cost);
        meter.look(cost, Math.max(0, nowMs + ticks * story.tickMs));
        if (!meter.look(cost, nowMs).allowed) meter.consume(cost, nowMs);
        meter.consume(1_000, nowMs);
        meter.consume(0, nowMs);
        expectSame(meter.snapshot(), before);
        expect(meter.changes).toBe(changes);
        expectSame(disturbed.step(step), undisturbed.step(step));
      }
    },
  );
});

describe.each(casts)("law 4, replenishing: $title", (cast) => {
  law("is told to the millisecond", [stories(cast)], (story) => {
    const { meter, nowMs } = told(story);
    const { limits } = meter.look(1, nowMs);
    const remainingAfter = (waitMs: number, index: number): number =>
      meter.look(1, nowMs + waitMs).limits[index]?.remaining ?? Number.NaN;
    limits.forEach(({ capacity, remaining, replenishAfterMs, resetAfterMs }, index) => {
      if (remaining === capacity) {
        expect([replenishAfterMs, resetAfterMs]).toEqual([0, 0]);
        return;
      }
      expect(remainingAfter(replenishAfterMs - 1, index)).toBe(remaining);
      expect(remainingAfter(replenishAfterMs, index)).toBeGreaterThan(remaining);
      expect(remainingAfter(resetAfterMs - 1, index)).toBeLessThan(capacity);
      expect(remainingAfter(resetAfterMs, index)).toBe(capacity);
    });
  });

  law(
    "comes before one unit fits, and that before nothing is missing",
    [stories(cast, ["fill", "fill", "consume", "book", "refund"])],
    (story) => {
      const teller = tellerOf(story);
      for (const step of [...story.steps, ...story.later]) {
        teller.step(step);
        for (const limit of teller.meter.look(1, teller.nowMs).limits) {
          expect(limit.replenishAfterMs).toBeLessThanOrEqual(limit.resetAfterMs);
          if (limit.allowed) continue;
          expect(limit.replenishAfterMs).toBeLessThanOrEqual(limit.retryAfterMs ?? 0);
          expect(limit.retryAfterMs).toBeLessThanOrEqual(limit.resetAfterMs);
        }
      }
    },
  );
});

describe.each(casts)("law 5, storing: $title", (cast) => {
  law("and reviving at every step changes no decision", [stories(cast)], (story) => {
    const stored = tellerOf(story);
    const kept = tellerOf(story);
    for (const step of [...story.steps, ...story.later]) {
      stored.meter = revived(stored.meter, story);
      expect(stored.meter.refused).toBeNull();
      expectSame(stored.step(step), kept.step(step));
      expectSame(stored.meter.snapshot(), kept.meter.snapshot());
      // What is idle is not stored: when it became so is no longer known, nor of any use.
      const idleAtMs = ({ meter, seenMs }: Teller): number => Math.max(meter.idleAtMs(), seenMs);
      expect(idleAtMs(stored)).toBe(idleAtMs(kept));
    }
  });
});

describe.each(casts)("law 6, remaining: $title", (cast) => {
  law("is whole, within the capacity, and can be spent", [stories(cast)], (story) => {
    const teller = tellerOf(story);
    for (const step of story.steps) {
      const decision = teller.step(step);
      for (const limit of decision.limits) {
        expect(limit.remaining).toSatisfy(Number.isSafeInteger);
        expect(limit.remaining).toBeGreaterThanOrEqual(0);
        expect(limit.remaining).toBeLessThanOrEqual(limit.capacity);
        const waits = [limit.replenishAfterMs, limit.resetAfterMs, limit.retryAfterMs ?? 0];
        expect(waits.every((waitMs) => Number.isSafeInteger(waitMs) && waitMs >= 0)).toBe(true);
      }
      const remaining = remainingOf(teller.meter.look(1, teller.nowMs));
      expect(teller.meter.look(remaining + 1, teller.nowMs).allowed).toBe(false);
      if (remaining > 0) expect(teller.meter.look(remaining, teller.nowMs).allowed).toBe(true);
    }
  });

  law("is told as it stands after the decision", [stories(cast), fc.nat(9)], (story, cost) => {
    const { meter, nowMs } = told(story);
    const decision = meter.consume(cost, nowMs);
    expectSame(remainders(decision), remainders(meter.look(1, nowMs)));
  });
});

describe.each(casts)("law 7, a cost of n: $title", (cast) => {
  law(
    "leaves the meter as n costs of 1 at the same instant do",
    [stories(cast), fc.nat(50)],
    (story, pick) => {
      const atOnce = told(story);
      const nowMs = atOnce.nowMs;
      const remaining = remainingOf(atOnce.meter.look(1, nowMs));
      if (remaining === 0) return;
      const cost = 1 + (pick % remaining);
      const oneByOne = revived(atOnce.meter, story);
      expect(atOnce.meter.consume(cost, nowMs).allowed).toBe(true);
      for (let unit = 0; unit < cost; unit++) {
        expect(oneByOne.consume(1, nowMs).allowed).toBe(true);
      }
      expectSame(oneByOne.snapshot(), atOnce.meter.snapshot());
      expectSame(oneByOne.look(1, nowMs), atOnce.meter.look(1, nowMs));
    },
  );
});

describe.each(casts)("law 8, a cost above the capacity: $title", (cast) => {
  law(
    "can never fit and spends nothing",
    [stories(cast), fc.nat(9), fc.nat(2)],
    (story, excess, pick) => {
      const { meter, nowMs } = told(story);
      const capacities = meter.look(0, nowMs).limits.map((limit) => limit.capacity);
      const cost = (capacities[pick % capacities.length] ?? 0) + 1 + excess;
      const before = meter.snapshot();
      const decision = meter.consume(cost, nowMs);
      expect(decision.allowed).toBe(false);
      expect(decision.retryAfterMs).toBeNull();
      for (const limit of decision.limits.filter(deniesOutright(cost))) {
        expect([limit.allowed, limit.retryAfterMs]).toEqual([false, null]);
      }
      expectSame(meter.snapshot(), before);
    },
  );
});

describe.each(casts)("law 9, forgetting: $title", (cast) => {
  law(
    "a state once it is idle changes no decision",
    [stories(cast), fc.constantFrom(0, 0, 1, 7)],
    (story, ticks) => {
      const remembering = told(story);
      const idleAtMs = remembering.meter.idleAtMs();
      const fromMs = Math.max(idleAtMs, remembering.latestMs) + ticks * story.tickMs;
      const forgetful = new Teller(createMeter(story.limits), fromMs, 0);
      const later = new Teller(remembering.meter, fromMs, 0);
      // Refunds of what was spent before must come to nothing on both sides.
      forgetful.spends = [...remembering.spends];
      later.spends = [...remembering.spends];
      expectSame(later.meter.look(1, fromMs), forgetful.meter.look(1, fromMs));
      expectSame(later.tell(story.later), forgetful.tell(story.later));
    },
  );

  law("is not offered while anything is missing", [stories(cast)], (story) => {
    const { meter, nowMs } = told(story);
    for (const { resetAfterMs } of meter.look(1, nowMs).limits) {
      if (resetAfterMs > 0) expect(meter.idleAtMs()).toBeGreaterThanOrEqual(nowMs + resetAfterMs);
    }
  });
});

describe.each(casts)("law 10, a refund: $title", (cast) => {
  law(
    "with nothing between leaves the meter deciding as had the spend not been made",

    [stories(cast), fc.integer({ min: 1, max: 5 }), fc.constantFrom(0, 0, 1, 2, 5, 9)],
    (story, cost, ticks) => {
      const refunding = told(story);
      const spentAtMs = refunding.latestMs;
      const atMs = spentAtMs + ticks * story.tickMs;
      const abstaining = new Teller(revived(refunding.meter, story), atMs, 0);
      if (!refunding.meter.consume(cost, spentAtMs).allowed) return;
      refunding.meter.refund(cost, spentAtMs, atMs);
      const later = new Teller(refunding.meter, atMs, 0);
      later.spends = [...refunding.spends];
      abstaining.spends = [...refunding.spends];
      expectSame(later.meter.look(1, atMs), abstaining.meter.look(1, atMs));
      expectSame(later.tell(story.later), abstaining.tell(story.later));
    },
  );
});
