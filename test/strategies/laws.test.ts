/** The laws that every strategy keeps, alone and together with others on one key. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  createMeter,
  type Decision,
  type LimitDecision,
  type Meter,
} from "../../src/strategies/index.ts";
import { forAll } from "../for-all.ts";
import {
  casts,
  expectSame,
  inelasticCasts,
  mostWithin,
  remainingOf,
  type Step,
  stories,
  type Story,
  Teller,
} from "./story.ts";
import { boundOf, spanOf, type Variant } from "./variants.ts";

function tellerOf(story: Story): Teller {
  return new Teller(createMeter(story.limits), story.startMs, story.longestWindowMs);
}

/** A teller whose meter has been through the steps of the story. */
function told(story: Story): Teller {
  const teller = tellerOf(story);
  teller.tell(story.steps);
  return teller;
}

const revived = (meter: Meter, story: Story): Meter =>
  createMeter(story.limits, structuredClone(meter.snapshot()));

const remainders = (decision: Decision): number[] =>
  decision.limits.map((limit) => limit.remaining);

const isFull = ({ limit }: { limit: LimitDecision }): boolean => limit.remaining === limit.capacity;

const isDuration = (waitMs: number): boolean => Number.isSafeInteger(waitMs) && waitMs >= 0;

function isSound(limit: LimitDecision): boolean {
  const { remaining, capacity, replenishAfterMs, resetAfterMs, retryAfterMs } = limit;
  return (
    Number.isSafeInteger(remaining) &&
    remaining >= 0 &&
    remaining <= capacity &&
    [replenishAfterMs, resetAfterMs, retryAfterMs ?? 0].every(isDuration)
  );
}

function areInOrder(limit: LimitDecision): boolean {
  const { replenishAfterMs, resetAfterMs, retryAfterMs } = limit;
  // What is allowed waits for nothing; of what is denied one unit, that one must fit in between.
  const oneFitsAfterMs = limit.allowed ? replenishAfterMs : (retryAfterMs ?? Number.NaN);
  return replenishAfterMs <= oneFitsAfterMs && oneFitsAfterMs <= resetAfterMs;
}

const isDraining = ({ strategy }: Variant): boolean => /^(?:token|leaky)-bucket$/.test(strategy);

const isNoRefund = ({ kind }: Step): boolean => kind !== "refund";

const deniesOutright = (cost: number) => (limit: { capacity: number }) => cost > limit.capacity;

function expectWithinBounds({ limits }: Story, { spends }: Teller): void {
  for (const limit of limits) {
    expect(mostWithin(spends, spanOf(limit))).toBeLessThanOrEqual(boundOf(limit));
  }
}

describe.each(casts)("law 1, the bound: $title", (cast) => {
  test(
    "never admits more in any span of a window than the strategy's bound",
    forAll([stories(cast, ["consume", "fill", "fill", "look"])], (story) => {
      const teller = tellerOf(story);
      teller.tell([...story.steps, ...story.later]);
      expectWithinBounds(story, teller);
    }),
  );

  test(
    "never admits more than the bound when what was given back is not counted (law 10)",
    forAll([stories(cast, ["consume", "fill", "fill", "refund"])], (story) => {
      const teller = tellerOf(story);
      teller.tell([...story.steps, ...story.later]);
      expectWithinBounds(story, teller);
    }),
  );
});

describe.each(casts)("law 2, the wait: $title", (cast) => {
  test(
    "is enough, and nothing shorter is",
    forAll(
      [stories(cast), fc.integer({ min: 1, max: 8 }), fc.double({ min: 0, max: 1, noNaN: true })],
      (story, cost, part) => {
        const { meter, nowMs } = told(story);
        const decision = meter.look(cost, nowMs);
        const waitMs = decision.retryAfterMs;
        expectSame(waitMs === 0, decision.allowed);
        if (waitMs === null || waitMs === 0) return;
        expectSame(meter.look(cost, nowMs + waitMs - 1).allowed, false);
        expectSame(meter.look(cost, nowMs + Math.floor(part * (waitMs - 1))).allowed, false);
        expectSame(meter.look(cost, nowMs + waitMs).allowed, true);
        expectSame(meter.consume(cost, nowMs + waitMs).allowed, true);
      },
    ),
  );

  test(
    "is exact for each limit, and the request's is the longest of them",
    forAll([stories(cast), fc.integer({ min: 1, max: 8 })], (story, cost) => {
      const { meter, nowMs } = told(story);
      const decision = meter.look(cost, nowMs);
      const waits = decision.limits.map((limit) => limit.retryAfterMs);
      expectSame(
        decision.retryAfterMs,
        waits.includes(null) ? null : Math.max(...waits.map((waitMs) => waitMs ?? 0)),
      );
      waits.forEach((waitMs, index) => {
        expectSame(waitMs === 0, decision.limits[index]?.allowed);
        if (waitMs === null || waitMs === 0) return;
        expectSame(meter.look(cost, nowMs + waitMs - 1).limits[index]?.allowed, false);
        expectSame(meter.look(cost, nowMs + waitMs).limits[index]?.allowed, true);
      });
    }),
  );
});

describe.each(inelasticCasts)("law 3, denials and looks: $title", (cast) => {
  test(
    "leave the snapshot as it was and change no later decision",
    forAll([stories(cast), fc.nat(9), fc.integer({ min: -20, max: 20 })], (story, cost, ticks) => {
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
        expectSame(meter.changes, changes);
        expectSame(disturbed.step(step), undisturbed.step(step));
      }
    }),
  );
});

describe.each(casts)("law 4, replenishing: $title", (cast) => {
  test(
    "is told to the millisecond",
    forAll([stories(cast)], (story) => {
      const { meter, nowMs } = told(story);
      const { limits } = meter.look(1, nowMs);
      const remainingAfter = (waitMs: number, index: number): number =>
        meter.look(1, nowMs + waitMs).limits[index]?.remaining ?? Number.NaN;
      const indexed = limits.map((limit, index) => ({ limit, index }));
      for (const { limit } of indexed.filter(isFull)) {
        expectSame([limit.replenishAfterMs, limit.resetAfterMs], [0, 0]);
      }
      for (const { limit, index } of indexed.filter((each) => !isFull(each))) {
        const { capacity, remaining, replenishAfterMs, resetAfterMs } = limit;
        expectSame(remainingAfter(replenishAfterMs - 1, index), remaining);
        expect(remainingAfter(replenishAfterMs, index)).toBeGreaterThan(remaining);
        expect(remainingAfter(resetAfterMs - 1, index)).toBeLessThan(capacity);
        expectSame(remainingAfter(resetAfterMs, index), capacity);
      }
    }),
  );

  test(
    "comes before one unit fits, and that before nothing is missing",
    forAll([stories(cast, ["fill", "fill", "consume", "book", "refund"])], (story) => {
      const teller = tellerOf(story);
      for (const step of [...story.steps, ...story.later]) {
        teller.step(step);
        const { limits } = teller.meter.look(1, teller.nowMs);
        expectSame(
          limits.filter((limit) => !areInOrder(limit)),
          [],
        );
      }
    }),
  );
});

describe.each(casts)("law 5, storing: $title", (cast) => {
  test(
    "and reviving at every step changes no decision",
    forAll([stories(cast)], (story) => {
      const stored = tellerOf(story);
      const kept = tellerOf(story);
      for (const step of [...story.steps, ...story.later]) {
        stored.meter = revived(stored.meter, story);
        expect(stored.meter.refused).toBeNull();
        expectSame(stored.step(step), kept.step(step));
        expectSame(stored.meter.snapshot(), kept.meter.snapshot());
        // What is idle is not stored: when it became so is no longer known, nor of any use.
        const idleAtMs = ({ meter }: Teller): number => Math.max(meter.idleAtMs(), meter.seenMs);
        expectSame(idleAtMs(stored), idleAtMs(kept));
      }
    }),
  );
});

describe.each(casts)("law 6, remaining: $title", (cast) => {
  test(
    "is whole, within the capacity, and can be spent",
    forAll([stories(cast)], (story) => {
      const teller = tellerOf(story);
      for (const step of story.steps) {
        const decision = teller.step(step);
        expectSame(
          decision.limits.filter((limit) => !isSound(limit)),
          [],
        );
        const { meter, nowMs } = teller;
        const remaining = remainingOf(meter.look(1, nowMs));
        expectSame(meter.look(remaining + 1, nowMs).allowed, false);
        expectSame(remaining === 0 || meter.look(remaining, nowMs).allowed, true);
      }
    }),
  );

  test(
    "is told as it stands after the decision",
    forAll([stories(cast), fc.nat(9)], (story, cost) => {
      const { meter, nowMs } = told(story);
      const decision = meter.consume(cost, nowMs);
      expectSame(remainders(decision), remainders(meter.look(1, nowMs)));
    }),
  );
});

describe.each(casts)("law 7, a cost of n: $title", (cast) => {
  test(
    "leaves the meter as n costs of 1 at the same instant do",
    forAll([stories(cast), fc.nat(50)], (story, pick) => {
      const atOnce = told(story);
      const nowMs = atOnce.nowMs;
      const remaining = remainingOf(atOnce.meter.look(1, nowMs));
      if (remaining === 0) return;
      const cost = 1 + (pick % remaining);
      const oneByOne = revived(atOnce.meter, story);
      expectSame(atOnce.meter.consume(cost, nowMs).allowed, true);
      for (let unit = 0; unit < cost; unit++) {
        expectSame(oneByOne.consume(1, nowMs).allowed, true);
      }
      expectSame(oneByOne.snapshot(), atOnce.meter.snapshot());
      expectSame(oneByOne.look(1, nowMs), atOnce.meter.look(1, nowMs));
    }),
  );
});

describe.each(inelasticCasts)("law 8, a cost above the capacity: $title", (cast) => {
  test(
    "can never fit and spends nothing",
    forAll([stories(cast), fc.nat(9), fc.nat(2)], (story, excess, pick) => {
      const { meter, nowMs } = told(story);
      const capacities = meter.look(0, nowMs).limits.map((limit) => limit.capacity);
      const cost = (capacities[pick % capacities.length] ?? 0) + 1 + excess;
      const before = meter.snapshot();
      const decision = meter.consume(cost, nowMs);
      expectSame(decision.allowed, false);
      expect(decision.retryAfterMs).toBeNull();
      for (const limit of decision.limits.filter(deniesOutright(cost))) {
        expectSame([limit.allowed, limit.retryAfterMs], [false, null]);
      }
      expectSame(meter.snapshot(), before);
    }),
  );
});

describe.each(casts)("law 9, forgetting: $title", (cast) => {
  test(
    "a state once it is idle changes no decision",
    forAll([stories(cast), fc.constantFrom(0, 0, 1, 7)], (story, ticks) => {
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
    }),
  );

  test(
    "is not offered while anything is missing",
    forAll([stories(cast)], (story) => {
      const { meter, nowMs } = told(story);
      const resets = meter.look(1, nowMs).limits.map((limit) => limit.resetAfterMs);
      const longestMs = Math.max(...resets);
      expectSame(longestMs === 0 || meter.idleAtMs() >= nowMs + longestMs, true);
    }),
  );
});

describe.each(inelasticCasts)("law 10, a refund: $title", (cast) => {
  test(
    "with nothing between leaves the meter deciding as had the spend not been made",
    forAll(
      [stories(cast), fc.integer({ min: 1, max: 5 }), fc.constantFrom(0, 0, 1, 2, 5, 9)],
      (story, cost, ticks) => {
        const refunding = told(story);
        const atMs = refunding.nowMs + ticks * story.tickMs;
        const abstaining = new Teller(revived(refunding.meter, story), atMs, 0);
        if (!refunding.meter.consume(cost, refunding.nowMs).allowed) return;
        // Not the caller's time: a clock that lags has the spend counted at the latest time seen.
        refunding.meter.refund(cost, refunding.meter.seenMs, atMs);
        const later = new Teller(refunding.meter, atMs, 0);
        later.spends = [...refunding.spends];
        abstaining.spends = [...refunding.spends];
        expectSame(later.meter.look(1, atMs), abstaining.meter.look(1, atMs));
        // What a bucket gives back depends on what came later: of that it keeps the outline, not all.
        const steps = story.forms.some(isDraining) ? story.later.filter(isNoRefund) : story.later;
        expectSame(later.tell(steps), abstaining.tell(steps));
      },
    ),
  );
});
