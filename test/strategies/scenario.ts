/**
 * Random scenarios: limits on one key and a list of steps. Windows are a few ticks long, so that steps often fall on
 * their edges.
 */
import * as fc from "fast-check";
import { test } from "vitest";
import { createMeter, type Decision, type Limit, type Meter } from "../../src/strategies/index.ts";
import { forAllCounted } from "../for-all.ts";
import { hourMs, remainingAt } from "./meters.ts";
import { limitOf, type Variant, variants } from "./variants.ts";

export type StepKind = "consume" | "fill" | "look" | "book" | "refund";

export interface Step {
  /** A step `fill` consumes all remaining units, or 1 unit if none remain. */
  readonly kind: StepKind;
  /** The time since the previous step; negative when the clock steps back. */
  readonly idleMs: number;
  readonly cost: number;
  readonly heldUnits: number;
  /** The age of the units that a step `book` books. */
  readonly agoMs: number;
  /** Selects the earlier spend that a step `refund` refunds. */
  readonly pick: number;
  /** Whether a step `refund` refunds the whole spend, or else about half of it. */
  readonly isWhole: boolean;
}

export interface Scenario {
  readonly limits: readonly Limit[];
  /** The variant of each limit. */
  readonly variants: readonly Variant[];
  readonly longestWindowMs: number;
  readonly tickMs: number;
  readonly startMs: number;
  readonly steps: readonly Step[];
  /** Steps that a test applies after the calls that its law is about. */
  readonly laterSteps: readonly Step[];
}

/** The variants from which the limits of a scenario are drawn, and how many limits are drawn. */
export interface LimitSet {
  readonly title: string;
  readonly variants: readonly Variant[];
  readonly fewest: number;
  readonly most: number;
}

/** For each of these variants, a limit set with one limit of this variant. */
export const singleLimits = (those: readonly Variant[]): readonly LimitSet[] =>
  those.map((variant) => ({ title: variant.title, variants: [variant], fewest: 1, most: 1 }));

export const limitSets: readonly LimitSet[] = [
  ...singleLimits(variants),
  { title: "two or three limits", variants, fewest: 2, most: 3 },
];

/** The limit sets without the variants that the predicate rejects. */
export const limitSetsOf = (isIncluded: (variant: Variant) => boolean): readonly LimitSet[] =>
  limitSets
    .map((limitSet) => ({ ...limitSet, variants: limitSet.variants.filter(isIncluded) }))
    .filter((limitSet) => limitSet.variants.length > 0);

/** The limit sets in which a denial changes nothing. */
export const inelasticLimitSets = limitSetsOf(({ isElastic }) => !isElastic);

const everyKind: readonly StepKind[] = ["consume", "consume", "fill", "look", "book", "refund"];

const jitter = fc.constantFrom(0, 0, 1, -1);

const stepDrafts = (kinds: readonly StepKind[]) =>
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

type StepDraft = ReturnType<typeof stepDrafts> extends fc.Arbitrary<infer Draft> ? Draft : never;

const limitDrafts = ({ variants: choices, fewest, most }: LimitSet) =>
  fc.uniqueArray(
    fc.record({
      variant: fc.constantFrom(...choices),
      limit: fc.oneof(
        { weight: 5, arbitrary: fc.integer({ min: 1, max: 6 }) },
        { weight: 1, arbitrary: fc.integer({ min: 7, max: 50 }) },
      ),
      ticks: fc.integer({ min: 1, max: 8 }),
    }),
    {
      minLength: fewest,
      maxLength: most,
      selector: ({ variant, ticks }) => stateIdentity(variant, ticks),
    },
  );

/**
 * A text that is equal for two limits that would share one state. The length of a calendar window does not depend on
 * `ticks`.
 */
function stateIdentity({ strategy, options, tickMs }: Variant, ticks: number): string {
  const { burst: _, buckets, ...others } = options;
  // A window of 1 ms has one bucket, whatever `buckets` is.
  const ownBuckets = ticks === 1 ? undefined : buckets;
  return JSON.stringify([strategy, others, ownBuckets, tickMs === null ? ticks : 0]);
}

/** Draws scenarios whose steps are of these kinds. */
export function scenarios(limitSet: LimitSet, kinds: readonly StepKind[] = everyKind): fc.Arbitrary<Scenario> {
  return fc
    .record({
      limits: limitDrafts(limitSet),
      tickMs: fc.constantFrom(1, 1, 1, 13, 1_000, 60_000),
      startTick: fc.nat(20),
      startJitterMs: jitter,
      steps: fc.array(stepDrafts(kinds), { minLength: 1, maxLength: 20 }),
      laterSteps: fc.array(stepDrafts(kinds), { minLength: 1, maxLength: 10 }),
    })
    .map((draft) => {
      const tickMs = Math.max(...draft.limits.map(({ variant }) => variant.tickMs ?? draft.tickMs));
      const limits = draft.limits.map(({ variant, limit, ticks }, index) =>
        limitOf(variant, limit, ticks * tickMs, `limit-${index}`),
      );
      return {
        limits,
        variants: draft.limits.map(({ variant }) => variant),
        longestWindowMs: Math.max(...limits.map((limit) => limit.windowMs)),
        tickMs,
        startMs: epochOf(tickMs) + draft.startTick * tickMs + draft.startJitterMs,
        steps: draft.steps.map((step) => stepOf(step, tickMs)),
        laterSteps: draft.laterSteps.map((step) => stepOf(step, tickMs)),
      };
    });
}

/**
 * A time at which clock-aligned windows begin: 840 ticks are a multiple of every window. If ticks are hours or days, it
 * is early in a year, before the clock changes of March and April.
 */
const epochOf = (tickMs: number): number => (tickMs < hourMs ? 10 * 840 * tickMs : Date.UTC(2026, 2, 1));

function stepOf({ idleTicks, jitterMs, agoTicks, ...step }: StepDraft, tickMs: number): Step {
  const idleMs = idleTicks * tickMs + (tickMs === 1 ? 0 : jitterMs);
  return {
    ...step,
    idleMs: idleTicks >= 0 ? Math.max(0, idleMs) : idleMs,
    agoMs: agoTicks * tickMs,
  };
}

export interface Spend {
  /** The units that remain spent after refunds. */
  readonly units: number;
  /** The time on the caller's clock at the spend. */
  readonly clockMs: number;
  /** The time at which the meter counts the spend, which is later than `clockMs` if the clock lags. */
  readonly atMs: number;
}

/** Applies steps to a meter. The clock lags by at most `mostLagMs`, so that the meter does not treat it as wrong. */
export class ScenarioRun {
  meter: Meter;
  nowMs: number;
  /** The latest time that the clock has shown. */
  latestMs: number;
  /** The latest time at which units were spent or refunded. */
  seenMs = 0;
  spends: Spend[] = [];
  readonly #mostLagMs: number;

  constructor(meter: Meter, startMs: number, mostLagMs: number) {
    this.meter = meter;
    this.nowMs = startMs;
    this.latestMs = startMs;
    this.#mostLagMs = mostLagMs;
  }

  /**
   * Applies steps in order.
   * @returns the decision after each step
   */
  applyAll(steps: readonly Step[]): Decision[] {
    return steps.map((step) => this.apply(step));
  }

  apply(step: Step): Decision {
    this.nowMs = Math.max(this.nowMs + step.idleMs, this.latestMs - this.#mostLagMs);
    this.latestMs = Math.max(this.nowMs, this.latestMs);
    const { meter, nowMs } = this;
    if (step.kind === "consume") return this.#consume(step.cost, step.heldUnits);
    if (step.kind === "fill") return this.#consume(Math.max(1, remainingAt(meter, nowMs)), 0);
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
      // The time is not `this.seenMs`: a meter with an elastic window has also seen the times of denials.
      this.spends.push({ units: cost, clockMs: this.nowMs, atMs: this.meter.seenMs });
    }
    return decision;
  }

  #refund({ pick, isWhole }: Step): void {
    const index = pick % Math.max(1, this.spends.length);
    const spend = this.spends[index];
    if (spend === undefined) return;
    const units = isWhole ? spend.units : Math.ceil(spend.units / 2);
    this.meter.refund(units, spend.clockMs, this.nowMs);
    this.#see();
    const left = spend.units - units;
    this.spends.splice(index, 1, ...(left > 0 ? [{ ...spend, units: left }] : []));
  }

  #see(): void {
    this.seenMs = Math.max(this.nowMs, this.seenMs);
  }
}

/** A run before the first step of the scenario. */
export const startRun = (scenario: Scenario): ScenarioRun =>
  new ScenarioRun(createMeter(scenario.limits), scenario.startMs, scenario.longestWindowMs);

/** A run after the `steps` of the scenario. The test itself applies `later`. */
export function run(scenario: Scenario): ScenarioRun {
  const started = startRun(scenario);
  started.applyAll(scenario.steps);
  return started;
}

/** A cost that is denied now and fits later: it is more than remains, and at most the capacity of each limit. */
export function deniedCost({ meter, nowMs }: ScenarioRun, pick: number): number {
  const capacity = Math.min(...meter.look(1, nowMs).limits.map((limit) => limit.capacity));
  if (remainingAt(meter, nowMs) === capacity) meter.consume(capacity, nowMs);
  const remaining = remainingAt(meter, nowMs);
  return remaining + 1 + (pick % (capacity - remaining));
}

/** Applies steps to a run whose clock never steps back, and books each spend on another meter too. */
export function applyToBoth(steps: readonly Step[], first: ScenarioRun, other: Meter): void {
  for (const step of steps) {
    const earlier = first.spends.length;
    first.apply({ ...step, idleMs: Math.max(0, step.idleMs) });
    for (const { units } of first.spends.slice(earlier)) {
      other.book(units, first.nowMs, first.nowMs);
    }
  }
}

/** The greatest number of units spent in any span of this length. */
export function mostWithin(spends: readonly Pick<Spend, "atMs" | "units">[], spanMs: number): number {
  const sums = spends.map(({ atMs }) =>
    spends
      .filter((spend) => spend.atMs >= atMs && spend.atMs < atMs + spanMs)
      .reduce((sum, spend) => sum + spend.units, 0),
  );
  return Math.max(0, ...sums);
}

/** Like `forAllCounted` with fewer runs, since a property of scenarios is checked for each of 24 limit sets. */
export const forAllScenarios: typeof forAllCounted = (arbitraries, check) => forAllCounted(arbitraries, check, 60);

/** Declares a test for each limit set. */
export function testEach(
  those: readonly LimitSet[],
  title: string,
  bodyOf: (limitSet: LimitSet) => () => Promise<void>,
): void {
  for (const limitSet of those) test(`${title} (${limitSet.title})`, bodyOf(limitSet));
}
