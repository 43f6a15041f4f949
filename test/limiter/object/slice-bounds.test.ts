/**
 * Random schedules of isolates that borrow slices of one key, in virtual time. They check waits and the bound of law 1.
 */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Charge, LeaseReply, LeaseCall, CheckReply } from "../../../src/limiter/protocol.ts";
import type { Limit, LimitDecision } from "../../../src/strategies/index.ts";
import { MemoryStorage } from "../../../src/sdk/testing/memory-storage.ts";
import { VirtualObject } from "../../fakes/virtual-object.ts";
import { forAll } from "../../for-all.ts";
import { mostWithin } from "../../strategies/scenario.ts";
import { boundOf, limitOf, spanOf, type Variant, variants } from "../../strategies/variants.ts";
import { startMs } from "../../fakes/isolate.ts";

/** Limits that are valid with `leased` consistency. */
const lendable = variants.filter(
  ({ strategy, options, isElastic }) =>
    !isElastic && strategy !== "concurrency" && (strategy !== "leaky-bucket" || options["mode"] === "police"),
);

const limitSets = [
  ...lendable.map((form) => ({ title: form.title, forms: [form], policies: 1 })),
  { title: "two policies of any strategies", forms: lendable, policies: 2 },
];

interface Step {
  readonly kind: "lease" | "borrow" | "use" | "return" | "vanish" | "check" | "fill" | "crash";
  readonly idleTicks: number;
  readonly jitterMs: number;
  readonly units: number;
  readonly ttlTicks: number;
  /** How long ago the isolate sent its call. */
  readonly latencyMs: number;
  /** Selects one of the slices that isolates have borrowed. */
  readonly pick: number;
}

interface Schedule {
  readonly charges: readonly Charge[];
  readonly tickMs: number;
  readonly steps: readonly Step[];
  /** The steps that end the slices that are still open. */
  readonly ends: readonly Step[];
  readonly cost: number;
}

const kinds: readonly Step["kind"][] = [
  ...(["lease", "lease", "lease", "borrow", "use", "use", "use"] as const),
  ...(["return", "return", "vanish", "check", "check", "fill", "crash"] as const),
];

const steps: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom(...kinds),
  idleTicks: fc.oneof(
    { weight: 3, arbitrary: fc.constant(0) },
    { weight: 6, arbitrary: fc.integer({ min: 1, max: 5 }) },
    { weight: 1, arbitrary: fc.integer({ min: 5, max: 20 }) },
  ),
  jitterMs: fc.constantFrom(0, 0, 1, -1),
  units: fc.integer({ min: 1, max: 12 }),
  ttlTicks: fc.integer({ min: 1, max: 9 }),
  latencyMs: fc.constantFrom(0, 0, 1, 2),
  pick: fc.nat(50),
});

const schedules = ({ forms, policies }: (typeof limitSets)[number]): fc.Arbitrary<Schedule> =>
  fc
    .record({
      numbers: fc.array(
        fc.record({
          form: fc.constantFrom<Variant[]>(...forms),
          limit: fc.integer({ min: 8, max: 60 }),
          ticks: fc.integer({ min: 1, max: 8 }),
        }),
        { minLength: policies, maxLength: policies },
      ),
      tickMs: fc.constantFrom(1, 1, 13, 1_000),
      steps: fc.array(steps, { minLength: 5, maxLength: 40 }),
      ends: fc.array(steps, { minLength: 1, maxLength: 20 }),
      cost: fc.integer({ min: 1, max: 12 }),
    })
    .map(({ numbers, tickMs: tick, ...rest }) => {
      const tickMs = Math.max(tick, ...numbers.map(({ form }) => form.tickMs ?? 0));
      const charges = numbers.map(({ form, limit, ticks }, index) => {
        const policy = `p-${index}`;
        return { policy, limits: [limitOf(form, limit, ticks * tickMs, policy)], cost: 1 };
      });
      return { ...rest, charges, tickMs };
    });

interface BorrowedSlice {
  readonly id: string;
  readonly endsAtMs: number;
  readonly units: number;
  used: number;
}

class Borrowers {
  readonly object = new VirtualObject(new MemoryStorage(), startMs);
  readonly spends: { atMs: number; units: number }[] = [];
  readonly #charges: readonly Charge[];
  slices: BorrowedSlice[] = [];
  /** Slices that were returned or abandoned. */
  readonly #over: BorrowedSlice[] = [];
  #count = 0;

  constructor(charges: readonly Charge[]) {
    this.#charges = charges;
  }

  get nowMs(): number {
    return this.object.nowMs;
  }

  async step(step: Step, tickMs: number): Promise<void> {
    await this.object.pass(Math.max(0, step.idleTicks * tickMs + (tickMs > 1 ? step.jitterMs : 0)));
    if (step.kind === "lease") this.#lease(step, tickMs, 1 + (step.pick % 3));
    else if (step.kind === "borrow") this.#lease(step, tickMs, 0);
    else if (step.kind === "crash") this.object.crash();
    else if (step.kind === "check") this.check(step.units);
    else if (step.kind === "fill") this.check(Math.max(1, this.remaining()));
    else this.end(step);
  }

  /** Uses, returns or abandons one of the slices. */
  end({ kind, pick, units }: Step): void {
    const index = pick % Math.max(1, this.slices.length);
    const slice = this.slices[index];
    if (slice === undefined) return;
    if (kind === "use") {
      this.#use(slice, units);
      return;
    }
    this.slices.splice(index, 1);
    this.#over.push(slice);
    if (kind !== "vanish") {
      this.object.limiter.giveBackSlices({ key: "k", returned: [slice, slice] });
    }
  }

  check(cost: number): CheckReply {
    const reply = this.object.limiter.check(this.#call(cost));
    this.#note(reply, cost);
    return reply;
  }

  look(cost: number): LimitDecision[] {
    return this.object.limiter.look(this.#call(cost)).decisions.flatMap(({ limits }): LimitDecision[] => limits);
  }

  remaining(): number {
    return Math.min(...this.look(1).map(({ remaining }) => remaining));
  }

  #lease({ units, ttlTicks, latencyMs, pick }: Step, tickMs: number, cost: number): void {
    const id = `slice-${this.#count++}`;
    const ttlMs = ttlTicks * tickMs;
    // Returns some slices late, and some a second time.
    const returned = pick % 4 === 0 ? [...this.slices.splice(0, 1), ...this.#over.slice(-1)] : [];
    this.#over.push(...returned);
    const call: LeaseCall = { ...this.#call(cost), wanted: { id, units, ttlMs }, returned };
    const leased: LeaseReply = this.object.limiter.lease(call);
    if (cost > 0) this.#note(leased, cost);
    expect(leased.lentUnits).toBeLessThanOrEqual(units);
    if (leased.lentUnits === 0) return;
    const endsAtMs = this.nowMs - latencyMs + ttlMs;
    this.slices.push({ id, units: leased.lentUnits, endsAtMs, used: 0 });
  }

  #use(slice: BorrowedSlice, wanted: number): void {
    const units = Math.min(wanted, slice.units - slice.used);
    if (units === 0 || this.nowMs >= slice.endsAtMs) return;
    slice.used += units;
    this.spends.push({ atMs: this.nowMs, units });
  }

  #note({ decisions }: CheckReply, units: number): void {
    if (decisions.every(({ allowed }) => allowed)) this.spends.push({ atMs: this.nowMs, units });
  }

  #call(cost: number) {
    const charges = this.#charges.map((charge) => ({ ...charge, cost }));
    return { key: "k", charges, durability: "confirmed" } as const;
  }
}

async function run(schedule: Schedule): Promise<Borrowers> {
  const borrowers = new Borrowers(schedule.charges);
  for (const step of schedule.steps) {
    // oxlint-disable-next-line no-await-in-loop
    await borrowers.step(step, schedule.tickMs);
  }
  return borrowers;
}

const limitsOf = ({ charges }: Schedule): Limit[] => charges.flatMap(({ limits }) => limits);

describe.each(limitSets)("$title", (limitSet) => {
  const { title } = limitSet;
  it(
    `${title}: isolates use at most the strategy's bound in any span of a window`,
    forAll(
      [schedules(limitSet)],
      async (schedule) => {
        const { spends } = await run(schedule);
        for (const limit of limitsOf(schedule)) {
          expect(mostWithin(spends, spanOf(limit))).toBeLessThanOrEqual(boundOf(limit));
        }
      },
      80,
      5,
    ),
  );

  it(
    `${title}: waits reported with open slices suffice, whether slices are returned or not`,
    forAll(
      [schedules(limitSet)],
      async (schedule) => {
        const borrowers = await run(schedule);
        const { cost, ends, tickMs } = schedule;
        const lookedAtMs = borrowers.nowMs;
        const limits = borrowers.look(cost);
        // From here on, isolates only spend units of slices that are already lent.
        for (const end of ends) {
          // oxlint-disable no-await-in-loop
          await borrowers.object.pass(end.idleTicks * tickMs);
          // An eviction instead of a crash, which could revive a slice whose return is not written yet.
          if (end.kind === "crash") await borrowers.object.evict();
          else borrowers.end(end);
          // oxlint-enable no-await-in-loop
        }
        const sinceMs = borrowers.nowMs - lookedAtMs;
        const waits = limits.flatMap((limit, index) => [
          { index, waitMs: limit.retryAfterMs, least: cost },
          { index, waitMs: limit.replenishAfterMs, least: leastGrown(limit) },
          { index, waitMs: limit.resetAfterMs, least: limit.capacity },
        ]);
        const pendingWaits = waits
          .filter(({ waitMs }) => waitMs !== null && waitMs >= sinceMs)
          .toSorted((a, b) => (a.waitMs ?? 0) - (b.waitMs ?? 0));
        fc.pre(pendingWaits.some(({ waitMs }) => waitMs !== null && waitMs > 0));
        for (const { index, waitMs, least } of pendingWaits) {
          // oxlint-disable-next-line no-await-in-loop
          await borrowers.object.pass(lookedAtMs + (waitMs ?? 0) - borrowers.nowMs);
          expect(borrowers.look(1)[index]?.remaining).toBeGreaterThanOrEqual(least);
        }
      },
      80,
      5,
    ),
  );

  it(
    `${title}: slices leave nothing in storage once they are over`,
    forAll(
      [schedules(limitSet)],
      async (schedule) => {
        const { object } = await run(schedule);
        await object.finish();
        expect([object.storage.rows.size, object.storage.alarmAtMs]).toEqual([0, null]);
      },
      40,
      4,
    ),
  );
});

const leastGrown = ({ remaining, capacity }: LimitDecision): number => Math.min(capacity, remaining + 1);
