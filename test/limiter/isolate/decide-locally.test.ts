/** Decisions and counts that an isolate makes alone, for times when the objects do not answer. */
import { expect, it } from "vitest";
import { LocalDecider } from "../../../src/limiter/isolate/decide-locally.ts";
import { type Outcome, type Spend, ChargeResult } from "../../../src/limiter/isolate/outcome.ts";
import { spendOf, TestClock } from "../../fakes/isolate.ts";

const remainingOf = (outcome: Outcome | undefined): number | undefined => outcome?.decision?.limits[0]?.remaining;

class LocalIsolate {
  readonly clock = new TestClock();
  readonly #decider = new LocalDecider(this.clock);

  decide(
    spends: readonly Spend[],
    provisionalMs = 0,
  ): { readonly outcomes: readonly Outcome[]; readonly admission: ChargeResult } {
    const admission = new ChargeResult();
    const check = { group: spends, result: admission, provisionalMs, isLook: false };
    return { outcomes: this.#decider.decide(check), admission };
  }

  /** Counts spends that an object has admitted. */
  count(...spends: readonly Spend[]): ChargeResult {
    const result = new ChargeResult();
    this.#decider.count({ group: spends, result, provisionalMs: 0, isLook: false }, spends);
    return result;
  }

  remaining(spend: Spend): number | undefined {
    return remainingOf(this.#decider.look(spend));
  }
}

const log = { limits: "100/hour", strategy: "sliding-log" };

it("a look at the isolate's own meters spends nothing", () => {
  const isolate = new LocalIsolate();
  expect([isolate.remaining(spendOf(log)), isolate.remaining(spendOf(log))]).toEqual([100, 100]);
});

it('an isolate counts what objects admit only for policies with onError = "local"', () => {
  const isolate = new LocalIsolate();
  const spends = ["local", "open", "closed"].map((onError) => spendOf({ ...log, name: onError, onError }));
  isolate.count(...spends);
  // A decision of the isolate lists the limits of policies with onError = "local" only.
  const asLocal = spends.map(({ policy, ...spend }): Spend => {
    return { ...spend, policy: { ...policy, onError: "local" } };
  });
  expect(asLocal.map((spend) => isolate.remaining(spend))).toEqual([99, 100, 100]);
});

it("an isolate does not count spends that objects admit if the log of a limit could grow long", () => {
  const isolate = new LocalIsolate();
  const long = spendOf({ name: "long", limits: "100000/hour", strategy: "sliding-log" });
  const short = spendOf(log);
  isolate.count(long, short);
  expect([isolate.remaining(long), isolate.remaining(short)]).toEqual([100_000, 99]);
});

it("a local denial by one policy charges no other policy", () => {
  const isolate = new LocalIsolate();
  const wide = spendOf(log, 2);
  const { outcomes } = isolate.decide([wide, spendOf({ ...log, name: "q", limits: "1/hour" }, 2)]);
  expect(outcomes).toMatchObject([{ decision: { allowed: true } }, { decision: { allowed: false } }]);
  expect(isolate.remaining(wide)).toBe(100);
});

it("a dry run that would deny locally denies nothing and spends nothing", () => {
  const isolate = new LocalIsolate();
  const wide = spendOf(log, 2);
  const dryRun = spendOf({ ...log, name: "dry", limits: "1/hour", dryRun: true }, 2);
  isolate.decide([wide, dryRun]);
  expect([isolate.remaining(wide), isolate.remaining(dryRun)]).toEqual([98, 1]);
});

it("an isolate refunds a local spend, provisional or not, to the time of the spend", async () => {
  for (const provisionalMs of [0, 60_000]) {
    const isolate = new LocalIsolate();
    const spend = spendOf({ limits: "100/hour", strategy: "token-bucket" }, 10);
    const { admission } = isolate.decide([spend], provisionalMs);
    isolate.clock.nowMs += 10_000;
    // oxlint-disable-next-line no-await-in-loop
    await admission.giveBack();
    expect(isolate.remaining(spend)).toBe(100);
  }
});

it("an isolate corrects a counted reservation to its actual cost, however late", async () => {
  const isolate = new LocalIsolate();
  const spend = { ...spendOf(log, 10), ttlMs: 10_000 };
  const result = isolate.count(spend);
  isolate.clock.nowMs += 3_000_000;
  await result.settle(() => 4);
  expect(isolate.remaining(spend)).toBe(96);
});

it("a spend that is both counted and booked counts once", () => {
  const isolate = new LocalIsolate();
  const spend = spendOf(log, 10);
  isolate.count(spend).finalize();
  expect(isolate.remaining(spend)).toBe(90);
});

it("a local concurrency slot is taken until the request is settled", async () => {
  const isolate = new LocalIsolate();
  const slot = { ...spendOf({ limits: "5/hour", strategy: "concurrency" }), ttlMs: 10_000 };
  const { admission } = isolate.decide([slot]);
  expect(isolate.remaining(slot)).toBe(4);
  isolate.clock.nowMs += 20_000;
  expect(isolate.remaining(slot)).toBe(4);
  await admission.settle(() => 1);
  expect(isolate.remaining(slot)).toBe(5);
});

it("a local denial restarts an elastic window", () => {
  const isolate = new LocalIsolate();
  const elastic = spendOf({
    limits: { limit: 1, window: "10s", strategy: "fixed-window", elastic: true },
  });
  expect(remainingOf(isolate.decide([elastic]).outcomes[0])).toBe(0);
  for (let denial = 0; denial < 2; denial++) {
    isolate.clock.nowMs += 9_000;
    expect(isolate.decide([elastic]).outcomes).toMatchObject([{ decision: { allowed: false } }]);
  }
});

it("an isolate keeps the 1,024 most recently used local meters", () => {
  const isolate = new LocalIsolate();
  const spend = spendOf(log);
  const useOthers = (count: number, name: string): void => {
    for (let key = 0; key < count; key++) {
      isolate.decide([{ ...spend, partitionKey: `${name}-${key}` }]);
    }
  };
  isolate.decide([spend]);
  useOthers(1_000, "first");
  expect(isolate.remaining(spend)).toBe(99);
  useOthers(1_023, "second");
  expect(isolate.remaining(spend)).toBe(99);
  useOthers(1_024, "third");
  expect(isolate.remaining(spend)).toBe(100);
});
