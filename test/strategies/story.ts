/** Random stories: limits on one key and what befalls them. Windows are few ticks long, so that their edges are met often. */
import * as fc from "fast-check";
import { expect } from "vitest";
import type { Decision, Limit, Meter } from "../../src/strategies/index.ts";
import { limitOf, type Variant, variants } from "./variants.ts";

export type StepKind = "consume" | "fill" | "look" | "book" | "refund";

export interface Step {
  /** `fill` spends all that remains, or asks for one unit where nothing does. */
  readonly kind: StepKind;
  /** Time since the step before; below 0 where the clock steps back. */
  readonly idleMs: number;
  readonly cost: number;
  readonly heldUnits: number;
  /** How long ago the units of a `book` were spent. */
  readonly agoMs: number;
  /** Which of the earlier spends a `refund` gives back. */
  readonly pick: number;
  /** Whether it gives back all of it, or about half. */
  readonly isWhole: boolean;
}

export interface Story {
  readonly limits: readonly Limit[];
  /** The form of each limit. */
  readonly forms: readonly Variant[];
  readonly longestWindowMs: number;
  readonly tickMs: number;
  readonly startMs: number;
  readonly steps: readonly Step[];
  /** Told after the question that a law asks. */
  readonly later: readonly Step[];
}

/** A cast is the limits that a story is about: one of a form, or several of any. */
export interface Cast {
  readonly title: string;
  readonly forms: readonly Variant[];
  readonly fewest: number;
  readonly most: number;
}

export const casts: readonly Cast[] = [
  ...variants.map((form) => ({ title: form.title, forms: [form], fewest: 1, most: 1 })),
  { title: "two or three limits", forms: variants, fewest: 2, most: 3 },
];

const isInelastic = (form: Variant): boolean => !form.isElastic;

/** Those of whom a denial changes nothing. */
export const inelasticCasts: readonly Cast[] = casts
  .map((cast) => ({ ...cast, forms: cast.forms.filter(isInelastic) }))
  .filter((cast) => cast.forms.length > 0);

const everyKind: readonly StepKind[] = ["consume", "consume", "fill", "look", "book", "refund"];

interface Draft {
  readonly kind: StepKind;
  readonly idleTicks: number;
  readonly jitterMs: number;
  readonly cost: number;
  readonly heldUnits: number;
  readonly agoTicks: number;
  readonly pick: number;
  readonly isWhole: boolean;
}

const jitter = fc.constantFrom(0, 0, 1, -1);

const drafts = (kinds: readonly StepKind[]): fc.Arbitrary<Draft> =>
  fc.record({
    kind: fc.constantFrom(...kinds),
    idleTicks: fc.oneof(
      { weight: 3, arbitrary: fc.constant(0) },
      { weight: 6, arbitrary: fc.integer({ min: 1, max: 5 }) },
      { weight: 2, arbitrary: fc.integer({ min: 5, max: 20 }) },
      { weight: 1, arbitrary: fc.integer({ min: -6, max: -1 }) },
    ),
    jitterMs: jitter,
    cost: fc.oneof(
      { weight: 6, arbitrary: fc.integer({ min: 1, max: 3 }) },
      { weight: 1, arbitrary: fc.integer({ min: 0, max: 60 }) },
    ),
    heldUnits: fc.oneof(
      { weight: 7, arbitrary: fc.constant(0) },
      { weight: 1, arbitrary: fc.integer({ min: 1, max: 4 }) },
    ),
    agoTicks: fc.integer({ min: 0, max: 9 }),
    pick: fc.nat(50),
    isWhole: fc.boolean(),
  });

const numbers = (
  cast: Cast,
): fc.Arbitrary<readonly { form: number; limit: number; ticks: number }[]> =>
  fc.uniqueArray(
    fc.record({
      form: fc.nat(cast.forms.length - 1),
      limit: fc.oneof(
        { weight: 5, arbitrary: fc.integer({ min: 1, max: 6 }) },
        { weight: 1, arbitrary: fc.integer({ min: 7, max: 50 }) },
      ),
      ticks: fc.integer({ min: 1, max: 8 }),
    }),
    {
      minLength: cast.fewest,
      maxLength: cast.most,
      selector: ({ form, ticks }) => kindOf(cast.forms[form], ticks),
    },
  );

/** Two limits of a kind share their state; a window that cannot be chosen is always the same. */
function kindOf(form: Variant | undefined, ticks: number): string {
  const { burst: _, buckets, ...options } = form?.options ?? {};
  // A window of a millisecond is one bucket, said or unsaid.
  const said = ticks === 1 ? undefined : buckets;
  return JSON.stringify([form?.strategy, options, said, form?.tickMs === null ? ticks : 0]);
}

/** Stories of a cast; those that tell of no debts or no refunds leave `book` or `refund` out of `kinds`. */
export function stories(cast: Cast, kinds: readonly StepKind[] = everyKind): fc.Arbitrary<Story> {
  return fc
    .record({
      numbers: numbers(cast),
      tickMs: fc.constantFrom(1, 1, 1, 13, 1_000, 60_000),
      startTick: fc.nat(20),
      startJitterMs: jitter,
      steps: fc.array(drafts(kinds), { minLength: 1, maxLength: 20 }),
      later: fc.array(drafts(kinds), { minLength: 1, maxLength: 10 }),
    })
    .map((draft) => {
      const forms = draft.numbers.flatMap(({ form }) => cast.forms[form] ?? []);
      const tickMs = Math.max(...forms.map((form) => form.tickMs ?? draft.tickMs));
      const limits = draft.numbers.map(({ limit, ticks }, index) => {
        const form = forms[index];
        if (form === undefined) throw new RangeError("a form that is not of the cast");
        return limitOf(form, limit, ticks * tickMs, `limit-${index}`);
      });
      return {
        limits,
        forms,
        longestWindowMs: Math.max(...limits.map((limit) => limit.windowMs)),
        tickMs,
        // 840 ticks hold every window a whole number of times, so that tick 0 is an edge on every clock.
        startMs: epochOf(tickMs) + draft.startTick * tickMs + draft.startJitterMs,
        steps: draft.steps.map((step) => inMilliseconds(step, tickMs)),
        later: draft.later.map((step) => inMilliseconds(step, tickMs)),
      };
    });
}

/** Where ticks are hours or days, early in a year whose clocks are changed in March and April. */
function epochOf(tickMs: number): number {
  const spanMs = 840 * tickMs;
  return tickMs < 3_600_000 ? 10 * spanMs : Date.UTC(2026, 2, 1);
}

function inMilliseconds(draft: Draft, tickMs: number): Step {
  const { kind, cost, heldUnits, pick, isWhole } = draft;
  const idleMs = draft.idleTicks * tickMs + (tickMs === 1 ? 0 : draft.jitterMs);
  const isForward = draft.idleTicks >= 0;
  return {
    kind,
    idleMs: isForward ? Math.max(0, idleMs) : idleMs,
    cost,
    heldUnits,
    agoMs: draft.agoTicks * tickMs,
    pick,
    isWhole,
  };
}

export interface Spend {
  /** What is left of it after refunds. */
  readonly units: number;
  /** What the caller's clock said, and when the meter counts it. */
  readonly saidAtMs: number;
  readonly atMs: number;
}

/** Tells steps to a meter. Its clock never lags further behind than a meter takes for the truth. */
export class Teller {
  meter: Meter;
  nowMs: number;
  /** The latest time told, and the latest at which anything was spent or given back. */
  latestMs: number;
  seenMs = 0;
  spends: Spend[] = [];
  readonly #mostLagMs: number;

  constructor(meter: Meter, startMs: number, mostLagMs: number) {
    this.meter = meter;
    this.nowMs = startMs;
    this.latestMs = startMs;
    this.#mostLagMs = mostLagMs;
  }

  tell(steps: readonly Step[]): Decision[] {
    return steps.map((step) => this.step(step));
  }

  step(step: Step): Decision {
    this.nowMs = Math.max(this.nowMs + step.idleMs, this.latestMs - this.#mostLagMs);
    this.latestMs = Math.max(this.nowMs, this.latestMs);
    const { meter, nowMs } = this;
    if (step.kind === "consume") return this.#consume(step.cost, step.heldUnits);
    if (step.kind === "fill")
      return this.#consume(Math.max(1, remainingOf(meter.look(1, nowMs))), 0);
    if (step.kind === "look") return meter.look(step.cost, nowMs, step.heldUnits);
    if (step.kind === "book") this.#book(step);
    else this.#refund(step);
    return meter.look(1, nowMs);
  }

  #book({ cost, agoMs }: Step): void {
    this.meter.book(cost, this.nowMs - agoMs, this.nowMs);
    if (cost > 0) this.#see();
  }

  #consume(cost: number, heldUnits: number): Decision {
    const decision = this.meter.consume(cost, this.nowMs, heldUnits);
    if (decision.allowed && cost > 0) {
      this.#see();
      // Not the latest time told: the denial of an elastic window is seen too.
      this.spends.push({ units: cost, saidAtMs: this.nowMs, atMs: this.meter.seenMs });
    }
    return decision;
  }

  #refund({ pick, isWhole }: Step): void {
    const index = pick % Math.max(1, this.spends.length);
    const spend = this.spends[index];
    if (spend === undefined) return;
    const units = isWhole ? spend.units : Math.ceil(spend.units / 2);
    this.meter.refund(units, spend.saidAtMs, this.nowMs);
    this.#see();
    const left = spend.units - units;
    this.spends.splice(index, 1, ...(left > 0 ? [{ ...spend, units: left }] : []));
  }

  #see(): void {
    this.seenMs = Math.max(this.nowMs, this.seenMs);
  }
}

/** The most units spent in any span of one window. */
export function mostWithin(
  spends: readonly Pick<Spend, "atMs" | "units">[],
  windowMs: number,
): number {
  const sums = spends.map(({ atMs }) =>
    spends
      .filter((spend) => spend.atMs >= atMs && spend.atMs < atMs + windowMs)
      .reduce((sum, spend) => sum + spend.units, 0),
  );
  return Math.max(0, ...sums);
}

/** What a request may cost at most: the least that remains of any limit. */
export function remainingOf(decision: Decision): number {
  return Math.min(...decision.limits.map((limit) => limit.remaining));
}

/**
 * Equality of plain data. The usual matcher costs more than a decision does, and laws ask it a million times: it is
 * called only to tell the difference.
 */
export function expectSame(actual: unknown, expected: unknown): void {
  if (actual === expected || JSON.stringify(actual) === JSON.stringify(expected)) return;
  expect(actual).toStrictEqual(expected);
}
