/** Slices that an isolate borrows: when it requests one, what it spends from it, and what it returns. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { LeaseCall } from "../../../src/limiter/protocol.ts";
import type { Spend } from "../../../src/limiter/isolate/outcome.ts";
import { type Call, settled, spendOf, TestIsolate } from "../../fakes/isolate.ts";

/** Silences the log of failed calls. */
beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

const fields = { limits: "1000/hour", consistency: "leased", timeout: "500ms" };
const leased = spendOf(fields);

const leaseCalls = (calls: readonly Call[]): LeaseCall[] =>
  calls.filter(({ name }) => name === "lease").map(({ argument }) => argument as LeaseCall);

/** The `remaining` of each of these requests, one after the other. */
async function remainingOfEach(
  isolate: TestIsolate,
  requests: number,
  spend: Spend = leased,
): Promise<(number | undefined)[]> {
  const left = [];
  for (let request = 0; request < requests; request++) {
    // oxlint-disable-next-line no-await-in-loop
    const [outcome] = (await isolate.admit(spend)).outcomes;
    const decision = outcome?.decision;
    expect(decision).toMatchObject({ allowed: true, retryAfterMs: 0, cost: spend.cost });
    left.push(decision?.limits[0]?.remaining);
  }
  return left;
}

/** The `remaining` that the object reports, in which lent units count as spent. */
const leftAtObject = (isolate: TestIsolate): number | undefined => {
  const charge = { policy: "p", limits: leased.policy.limits, cost: 1 };
  const { decisions } = isolate.object("k").look({ key: "k", charges: [charge] });
  return decisions[0]?.limits[0]?.remaining;
};

describe("an isolate that borrows", () => {
  it("an isolate requests a slice at a key's sixth request in a second, and spends from it without calls", async () => {
    const isolate = new TestIsolate();
    await remainingOfEach(isolate, 6);
    expect(leaseCalls(isolate.calls).map(({ wanted }) => wanted?.units ?? 0)).toEqual([0, 0, 0, 0, 0, 8]);
    isolate.calls.length = 0;
    await remainingOfEach(isolate, 5);
    expect(isolate.calls).toEqual([]);
    await remainingOfEach(isolate, 1);
    expect(leaseCalls(isolate.calls)).toHaveLength(1);
  });

  it("a spend from a slice reports the same remaining units as the object would", async () => {
    const isolate = new TestIsolate();
    const left = [];
    for (let request = 0; request < 40; request++) {
      // oxlint-disable-next-line no-await-in-loop
      left.push(...(await remainingOfEach(isolate, 1)));
      // Lets the next slice arrive before the next request.
      // oxlint-disable-next-line no-await-in-loop
      await settled();
    }
    expect(left).toEqual(left.map((_, request) => 999 - request));
    expect(isolate.calls.length).toBeLessThan(20);
  });

  it("an isolate borrows the next slice before the last one is used up, by a call that spends nothing", async () => {
    const isolate = new TestIsolate();
    await remainingOfEach(isolate, 12);
    await settled();
    const [borrowing] = leaseCalls(isolate.calls.slice(6));
    expect(borrowing).toMatchObject({ charges: [{ cost: 0 }], wanted: { units: 15 } });
  });

  it("an isolate borrows nothing for a key with five requests per second", async () => {
    const isolate = new TestIsolate();
    for (let second = 0; second < 10; second++) {
      // oxlint-disable-next-line no-await-in-loop
      await remainingOfEach(isolate, 5);
      // oxlint-disable-next-line no-await-in-loop
      await isolate.clock.pass(1_000);
    }
    const calls = leaseCalls(isolate.calls);
    expect([calls.length, calls.filter(({ wanted }) => wanted !== null)]).toEqual([50, []]);
  });

  it("the size of a requested slice follows the demand of the last second, not of earlier ones", async () => {
    const isolate = new TestIsolate();
    const wantedAfter = async (ms: number): Promise<number> => {
      await remainingOfEach(isolate, 40);
      await isolate.clock.pass(ms);
      isolate.calls.length = 0;
      await remainingOfEach(isolate, 1);
      return leaseCalls(isolate.calls)[0]?.wanted?.units ?? 0;
    };
    expect(await wantedAfter(1_500)).toBe(50);
    await isolate.clock.pass(10_000);
    expect(await wantedAfter(2_000)).toBe(0);
  });

  it("a request that costs more than the slice has left goes to the object", async () => {
    const isolate = new TestIsolate();
    await remainingOfEach(isolate, 7);
    isolate.calls.length = 0;
    await remainingOfEach(isolate, 1, { ...leased, cost: 10 });
    expect(leaseCalls(isolate.calls)).toMatchObject([{ charges: [{ cost: 10 }] }]);
  });

  it("each key and each policy has its own slices", async () => {
    const isolate = new TestIsolate();
    await remainingOfEach(isolate, 8);
    isolate.calls.length = 0;
    await remainingOfEach(isolate, 1, { ...leased, partitionKey: "other" });
    await remainingOfEach(isolate, 1, spendOf({ name: "q", limits: "9/hour", consistency: "leased" }));
    expect(isolate.callNames()).toEqual(["lease", "lease"]);
  });
});

/** An isolate that has used up a slice of 8 units. Its call for the next slice is never answered. */
async function usedUp(): Promise<TestIsolate> {
  const isolate = new TestIsolate();
  await remainingOfEach(isolate, 6);
  isolate.before = ({ argument }) =>
    (argument as LeaseCall).charges?.[0]?.cost === 0 ? new Promise(() => undefined) : Promise.resolve();
  await remainingOfEach(isolate, 8);
  isolate.calls.length = 0;
  return isolate;
}

describe("a slice after its lifetime of one second", () => {
  it("after one second, a slice is returned with the number of its used units, and the isolate no longer spends from it", async () => {
    const isolate = new TestIsolate();
    await remainingOfEach(isolate, 9);
    isolate.calls.length = 0;
    await isolate.clock.pass(999);
    expect([isolate.callNames(), leftAtObject(isolate)]).toEqual([[], 1_000 - 6 - 8]);
    await isolate.clock.pass(1);
    expect(isolate.calls).toMatchObject([{ name: "giveBackSlices", argument: { key: "k", returned: [{ used: 3 }] } }]);
    expect(leftAtObject(isolate)).toBe(991);
    isolate.calls.length = 0;
    await remainingOfEach(isolate, 1);
    expect(isolate.callNames()).toEqual(["lease"]);
  });

  it("a slice that is used up causes no call for its return alone", async () => {
    const isolate = await usedUp();
    await isolate.clock.pass(1_100);
    expect(isolate.callNames()).toEqual([]);
  });

  it.for([
    [0, [8]],
    [2_999, [8]],
    [3_000, []],
  ] as const)(
    "a slice that is used up is returned with the next call, unless the object has booked it by then: after %i ms, used units %j",
    async ([afterMs, returned]) => {
      const isolate = await usedUp();
      await isolate.clock.pass(afterMs);
      await remainingOfEach(isolate, 1);
      expect(leaseCalls(isolate.calls)[0]?.returned?.map(({ used }) => used)).toEqual(returned);
    },
  );

  it("a slice is no longer spent after its second while the next slice is open", async () => {
    const isolate = new TestIsolate();
    await remainingOfEach(isolate, 7);
    await isolate.clock.pass(900);
    // This request borrows the next slice.
    await remainingOfEach(isolate, 1);
    await settled();
    isolate.calls.length = 0;
    await isolate.clock.pass(100);
    expect(isolate.calls).toMatchObject([{ name: "giveBackSlices", argument: { returned: [{ used: 2 }] } }]);
    await remainingOfEach(isolate, 3);
    await isolate.clock.pass(1_000);
    expect(leftAtObject(isolate)).toBe(1_000 - 11);
  });

  it("the return of a slice is sent again after its call was lost", async () => {
    const isolate = new TestIsolate();
    await remainingOfEach(isolate, 9);
    isolate.calls.length = 0;
    let losses = 1;
    isolate.before = () => (losses-- > 0 ? Promise.reject(new Error("lost")) : Promise.resolve());
    await isolate.clock.pass(1_000);
    expect(isolate.callNames()).toEqual(["giveBackSlices", "giveBackSlices"]);
    expect(leftAtObject(isolate)).toBe(991);
  });
});

describe("a slice that arrives after the deadline", () => {
  it("a slice that arrives after the deadline is returned unused", async () => {
    const isolate = new TestIsolate();
    await remainingOfEach(isolate, 5);
    isolate.calls.length = 0;
    isolate.before = ({ name }) =>
      name === "lease" ? new Promise((resolve) => void isolate.clock.after(800, () => resolve(1))) : Promise.resolve();
    const late = isolate.outcomes(leased);
    await isolate.clock.pass(500);
    expect(await late).toEqual([true]);
    expect(leaseCalls(isolate.calls)).toMatchObject([{ wanted: { units: 8 } }]);
    await isolate.clock.pass(300);
    await isolate.afterAnswers();
    expect(isolate.calls.slice(1)).toMatchObject([{ name: "giveBackSlices", argument: { returned: [{ used: 0 }] } }]);
    expect(leftAtObject(isolate)).toBe(994);
  });
});

describe("an isolate that has requested a slice", () => {
  it("an isolate requests no second slice until its first request for one counts as lost", async () => {
    const isolate = new TestIsolate();
    await remainingOfEach(isolate, 5);
    isolate.before = () => new Promise(() => undefined);
    isolate.calls.length = 0;
    for (const sinceMs of [0, 2_499, 1]) {
      // The deadline of the first call does not fire, because its request was cut off.
      isolate.clock.nowMs += sinceMs;
      void isolate.admit({ ...leased, cost: 7 });
    }
    await settled();
    expect(leaseCalls(isolate.calls).map(({ wanted }) => wanted !== null)).toEqual([true, false, true]);
  });
});

describe("a lease call that is answered after its deadline", () => {
  it("under onError = closed, a lease call that is answered late and lends nothing is refunded", async () => {
    const isolate = new TestIsolate();
    const closed = spendOf({ ...fields, onError: "closed" });
    isolate.before = ({ name }) =>
      name === "lease" ? new Promise((resolve) => void isolate.clock.after(800, () => resolve(1))) : Promise.resolve();
    const late = isolate.outcomes(closed);
    await isolate.clock.pass(800);
    expect(await late).toEqual(["closed"]);
    await isolate.afterAnswers();
    expect(leaseCalls(isolate.calls)).toMatchObject([{ wanted: null }]);
    expect(leftAtObject(isolate)).toBe(1_000);
  });
});

describe("a request that a later object denies", () => {
  const denying = spendOf({ name: "denying", limits: "1/hour" }, 2, "other");

  it("the units of a denied request return to the slice, so later requests can spend them", async () => {
    const isolate = new TestIsolate();
    await remainingOfEach(isolate, 8);
    isolate.calls.length = 0;
    expect(await isolate.outcomes(leased, denying)).toEqual([true, false]);
    await settled();
    expect(isolate.callNames()).toEqual(["check"]);
    expect(await remainingOfEach(isolate, 1)).toEqual([1_000 - 9]);
    await isolate.clock.pass(3_000);
    await isolate.afterAnswers();
    expect(leftAtObject(isolate)).toBe(991);
  });

  it("the object refunds the units of a denied request if the slice has been returned meanwhile", async () => {
    const isolate = new TestIsolate();
    await remainingOfEach(isolate, 8);
    const { promise: isReleased, resolve: release } = Promise.withResolvers<void>();
    isolate.before = ({ object }) => (object === "other" ? isReleased : Promise.resolve());
    const denied = isolate.outcomes(leased, {
      ...denying,
      policy: { ...denying.policy, timeoutMs: 9_000 },
    });
    await isolate.clock.pass(1_500);
    release();
    expect(await denied).toEqual([true, false]);
    await isolate.clock.pass(5_000);
    await isolate.afterAnswers();
    expect(leftAtObject(isolate)).toBe(992);
  });
});

describe("several policies on one key", () => {
  it.for<[string, object]>([
    ["a strict policy", {}],
    ["a dry run", { consistency: "leased", dryRun: true }],
  ])("a leased policy borrows nothing while it shares its key with %s", async ([, strict]) => {
    const isolate = new TestIsolate();
    const other = spendOf({ name: "other", limits: "900/hour", ...strict });
    for (let request = 0; request < 12; request++) {
      // oxlint-disable-next-line no-await-in-loop
      await isolate.admit(leased, other);
    }
    expect(isolate.callNames()).toEqual(Array.from({ length: 12 }, () => "check"));
  });

  it("two leased policies on one key borrow in one call, the same number of units each", async () => {
    const isolate = new TestIsolate();
    const other = spendOf({ name: "other", limits: "900/hour", consistency: "leased" });
    for (let request = 0; request < 12; request++) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await isolate.outcomes(leased, other)).toEqual([true, true]);
    }
    expect(isolate.calls.length).toBeLessThan(10);
    await isolate.clock.pass(1_000);
    const charges = [leased, other].map(({ policy: { name, limits } }) => ({
      policy: name,
      limits,
      cost: 1,
    }));
    const { decisions } = isolate.object("k").look({ key: "k", charges });
    expect(decisions.map(({ limits }) => limits[0]?.remaining)).toEqual([988, 888]);
  });
});
