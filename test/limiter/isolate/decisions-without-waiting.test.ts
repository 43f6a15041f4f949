/** Decisions that need no object: the isolate makes them without a promise, a timer or background work. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { decideByNewestRules, type RequestScope } from "../../../src/limiter/isolate/newer-rules-retry.ts";
import { LimiterClient } from "../../../src/limiter/isolate/client.ts";
import { type Outcome, type Spend, ChargeResult } from "../../../src/limiter/isolate/outcome.ts";
import { settled, spendOf, TestIsolate, scopeOf } from "../../fakes/isolate.ts";

/** Silences the log of failed calls. */
beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

const strict = spendOf({ name: "strict" });
const leased = spendOf({ name: "leased", limits: "1000/hour", consistency: "leased" }, 1, "l");
const eventual = spendOf({ name: "eventual", limits: "6/hour", consistency: "eventual" }, 1, "e");

/** An isolate that has a cached denial of `strict`, a slice for `leased` and a synced replica for `eventual`. */
async function preparedIsolate(): Promise<TestIsolate> {
  const isolate = new TestIsolate();
  for (let request = 0; request < 6; request++) {
    // oxlint-disable-next-line no-await-in-loop
    await isolate.admit(leased);
    // oxlint-disable-next-line no-await-in-loop
    if (request < 3) await isolate.admit(strict);
  }
  // The first spend is synced at once, and the second spend schedules the next sync.
  for (let request = 0; request < 2; request++) {
    // oxlint-disable-next-line no-await-in-loop
    await isolate.admit(eventual);
    // oxlint-disable-next-line no-await-in-loop
    await settled();
  }
  isolate.calls.length = 0;
  return isolate;
}

interface Decided {
  readonly admission: ChargeResult;
  readonly timers: number;
  readonly work: number;
}

/**
 * Decides spends without waiting.
 * @returns null when `admit` returns a promise
 */
function decideAtOnce(isolate: TestIsolate, ...spends: readonly Spend[]): Decided | null {
  const after = vi.spyOn(isolate.clock, "after");
  const waitUntil = vi.fn<(work: Promise<unknown>) => void>();
  const admission = isolate.client.admit(spends, scopeOf(waitUntil));
  const timers = after.mock.calls.length;
  after.mockRestore();
  if (admission instanceof Promise) return null;
  return { admission, timers, work: waitUntil.mock.calls.length };
}

const isAllowed = (outcome: Outcome): boolean => outcome.decision?.allowed === true;

describe("a decision of the isolate alone", () => {
  it.for<[string, boolean[], Spend[]]>([
    ["a cached denial", [false], [strict]],
    ["a spend from a slice", [true], [leased]],
    ["a decision of a replica whose next sync is scheduled", [true], [eventual]],
    ["a cached denial of the last key", [false], [leased, eventual, strict]],
  ])("%s needs no promise, no timer and no work after the response", async ([, allowed, spends]) => {
    const isolate = await preparedIsolate();
    for (let time = 0; time < 3; time++) {
      const decided = decideAtOnce(isolate, ...spends);
      expect(decided).toMatchObject({ timers: 0, work: 0 });
      expect(decided?.admission.outcomes.map(isAllowed)).toEqual(allowed);
      expect(decided?.admission.isRefused).toBe(!allowed.every(Boolean));
    }
    await settled();
    expect(isolate.calls).toEqual([]);
  });

  it("a request whose keys are all decided by slices and replicas needs no promise, and every key is charged", async () => {
    const isolate = await preparedIsolate();
    const before = decideAtOnce(isolate, eventual)?.admission.outcomes;
    expect(decideAtOnce(isolate, leased, eventual)).not.toBeNull();
    const after = decideAtOnce(isolate, eventual)?.admission.outcomes;
    const remaining = [before, after].map((outcomes) => outcomes?.map(remainingOf));
    expect(remaining).toEqual([[3], [1]]);
  });

  it("the first decision of a replica needs no promise, and its sync happens after the response", async () => {
    const isolate = new TestIsolate();
    expect(decideAtOnce(isolate, eventual)).toMatchObject({ work: 1 });
    await settled();
    expect(isolate.callNames()).toEqual(["sync"]);
  });

  it("a denial by a replica needs neither a promise nor work after the response", async () => {
    const isolate = await preparedIsolate();
    for (let spent = 2; spent < 6; spent++) decideAtOnce(isolate, eventual);
    const decided = decideAtOnce(isolate, eventual);
    expect(decided).toMatchObject({ timers: 0, work: 0, admission: { isRefused: true } });
  });

  it("units that are refunded to a slice can be spent again", async () => {
    const isolate = await preparedIsolate();
    const first = decideAtOnce(isolate, leased)?.admission;
    void first?.giveBack();
    await settled();
    const second = decideAtOnce(isolate, leased)?.admission;
    expect(second?.outcomes.map(remainingOf)).toEqual(first?.outcomes.map(remainingOf));
  });
});

const remainingOf = (outcome: Outcome): number | undefined => outcome.decision?.limits[0]?.remaining;

describe("a decision that needs an object", () => {
  it.for<[string, Spend]>([
    ["a strict spend without a cached denial", { ...strict, partitionKey: "new" }],
    ["a leased spend without a slice", { ...leased, partitionKey: "new" }],
    ["a reservation", { ...leased, ttlMs: 1_000 }],
  ])("admit returns a promise for %s", async ([, spend]) => {
    const isolate = await preparedIsolate();
    expect(decideAtOnce(isolate, spend)).toBeNull();
    await settled();
    expect(isolate.calls).toHaveLength(1);
  });

  it("when a key needs its object, admit returns a promise, after all earlier keys are decided and before the object is called", async () => {
    const isolate = await preparedIsolate();
    const other = { ...strict, partitionKey: "new" };
    const admission = await isolate.admit(leased, other, eventual);
    expect(admission.outcomes.map(({ policy: { name } }) => name)).toEqual(["leased", "strict", "eventual"]);
    expect(isolate.calls.map(({ object }) => object)).toEqual(["new"]);
  });

  it("when an object denies a request, the request's spends from a slice and a replica are refunded", async () => {
    const isolate = await preparedIsolate();
    const denied = { ...strict, partitionKey: "new", cost: 3 };
    const before = decideAtOnce(isolate, leased, eventual)?.admission.outcomes.map(remainingOf);
    const admission = await isolate.admit(leased, eventual, denied);
    await settled();
    const after = decideAtOnce(isolate, leased, eventual)?.admission.outcomes.map(remainingOf);
    expect(admission).toMatchObject({ isRefused: true, cachedDenial: null });
    expect(after).toEqual(before?.map((remaining) => (remaining ?? 0) - 1));
  });

  it("when an object denies a request that has spent nothing, only the call of the object is passed to waitUntil", async () => {
    const isolate = new TestIsolate();
    const waitUntil = vi.fn<(work: Promise<unknown>) => void>();
    const tooMuch = { ...strict, cost: 3 };
    const admission = await isolate.client.admit([tooMuch], scopeOf(waitUntil));
    expect(admission.isRefused).toBe(true);
    expect(waitUntil).toHaveBeenCalledOnce();
  });

  it("a spend that is booked after its request was denied is refunded", async () => {
    const isolate = new TestIsolate();
    const closed = spendOf({ name: "closed", onError: "closed", timeout: "100ms" });
    isolate.before = async ({ name }) => {
      if (name === "check") await new Promise<void>((act) => void isolate.clock.after(150, act));
    };
    const refusing = isolate.admit(closed);
    await isolate.clock.pass(100);
    const refused = await refusing;
    expect(refused).toMatchObject({ isRefused: true, outcomes: [{ kind: "closed" }] });
    await isolate.clock.pass(100);
    await isolate.afterAnswers();
    expect(isolate.callNames()).toEqual(["check", "refund"]);
  });
});

describe("a cached denial", () => {
  it("repeated cached denials are the same object, whose age grows", async () => {
    const isolate = await preparedIsolate();
    const first = decideAtOnce(isolate, strict)?.admission.cachedDenial;
    isolate.clock.nowMs += 250;
    const second = decideAtOnce(isolate, { ...strict })?.admission.cachedDenial;
    expect(second?.denial).toBe(first?.denial);
    expect([first?.ageMs, second?.ageMs]).toEqual([0, 250]);
  });

  it("when a cached denial has expired, its replacement is a different object", async () => {
    const isolate = await preparedIsolate();
    const first = decideAtOnce(isolate, strict)?.admission.cachedDenial;
    isolate.clock.nowMs += 1_000;
    expect((await isolate.admit(strict)).cachedDenial).toBeNull();
    const second = decideAtOnce(isolate, strict)?.admission.cachedDenial;
    expect(first).toBeDefined();
    expect(second).toBeDefined();
    expect(second?.denial).not.toBe(first?.denial);
  });

  it("cached denials for another cost, another key or other limits are different objects", async () => {
    const isolate = await preparedIsolate();
    const others = [
      { ...strict, cost: 2 },
      { ...strict, partitionKey: "other", cost: 3 },
      spendOf({ name: "strict", limits: "1/minute" }),
    ];
    const denials = new Set([decideAtOnce(isolate, strict)?.admission.cachedDenial?.denial]);
    for (const other of others) {
      // oxlint-disable-next-line no-await-in-loop
      await isolate.admit(other);
      denials.add(decideAtOnce(isolate, other)?.admission.cachedDenial?.denial);
    }
    expect(denials.has(undefined)).toBe(false);
    expect(denials.size).toBe(4);
  });

  it("the outcomes of a cached denial are those of the object, with each wait shortened by the denial's age", async () => {
    const isolate = await preparedIsolate();
    isolate.clock.nowMs += 400;
    const admission = decideAtOnce(isolate, strict)?.admission;
    const { outcomes } = admission ?? new ChargeResult();
    const charge = { policy: "strict", limits: strict.policy.limits, cost: 1 };
    const { decisions } = isolate.object("k").look({ key: "k", charges: [charge] });
    const decidedAtMs = isolate.clock.nowMs;
    expect(outcomes).toEqual([{ kind: "decided", policy: strict.policy, decision: decisions[0], decidedAtMs }]);
    expect(admission?.outcomes).toBe(outcomes);
    expect(admission?.decidedAtMs).toBe(isolate.clock.nowMs);
  });

  it("an admission has no cached denial if an object decided an earlier key of the request", async () => {
    const isolate = new TestIsolate();
    const first = spendOf({ name: "first" }, 1, "first");
    const second = spendOf({ name: "second", limits: "1/minute" }, 1, "second");
    await isolate.admit(second);
    isolate.before = async ({ object }) => {
      if (object !== "first") return;
      isolate.before = () => Promise.resolve();
      await isolate.admit(second);
    };
    const admission = await isolate.admit(first, second);
    expect(admission).toMatchObject({ isRefused: true, cachedDenial: null });
    expect(admission.outcomes.map(isAllowed)).toEqual([true, false]);
    await isolate.afterAnswers();
    expect(isolate.callNames()).toEqual(["check", "check", "check", "refund"]);
  });
});

it("the first request under an eventual policy waits 250 ms for an object that hangs, and the second does not wait", async () => {
  const isolate = new TestIsolate();
  isolate.before = () => new Promise<never>(() => undefined);
  const client = new LimiterClient(isolate.namespace(), isolate.clock, null, {
    awaitsFirstCall: true,
  });
  const waitUntil = (): void => undefined;
  let isDecided = false;
  const first = Promise.resolve(client.admit([eventual], scopeOf(waitUntil)));
  void first.then(() => (isDecided = true));
  await isolate.clock.advance(249);
  expect(isDecided).toBe(false);
  await isolate.clock.advance(1);
  expect((await first).outcomes.map(isAllowed)).toEqual([true]);
  expect(client.admit([eventual], scopeOf(waitUntil))).toBeInstanceOf(ChargeResult);
});

describe("a decision by the newest rules", () => {
  const adopter = { adopt: () => undefined };
  const waitUntil = (): void => undefined;

  it("a decision that waits for an object is made again only when the object has newer rules", async () => {
    for (const isStale of [false, true]) {
      let attempts = 0;
      const decide = async (scope: RequestScope): Promise<number> => {
        attempts++;
        if (isStale && attempts === 1) scope.takeStale([]);
        return attempts;
      };
      // oxlint-disable-next-line no-await-in-loop
      const result = await decideByNewestRules(adopter, waitUntil, decide);
      expect([result, attempts]).toEqual(isStale ? [2, 2] : [1, 1]);
    }
  });
});
