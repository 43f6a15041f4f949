/** Slices of a quota that an isolate borrows: when it asks for one, what it spends from it, and what goes back. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { LeaseCall } from "../../../src/limiter/protocol.ts";
import type { Spend } from "../../../src/limiter/client/outcome.ts";
import { type Call, settled, spendOf, TestIsolate } from "../../fakes/isolate.ts";

/** Calls that fail report it. */
beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

const fields = { limits: "1000/hour", consistency: "leased", timeout: "500ms" };
const leased = spendOf(fields);

const leaseCalls = (calls: readonly Call[]): LeaseCall[] =>
  calls.filter(({ name }) => name === "lease").map(({ argument }) => argument as LeaseCall);

/** What is left by each of so many requests in a row. */
async function remainingOfEach(
  isolate: TestIsolate,
  requests: number,
  spend: Spend = leased,
): Promise<(number | undefined)[]> {
  const left = [];
  for (let request = 0; request < requests; request++) {
    // oxlint-disable-next-line no-await-in-loop
    const [outcome] = (await isolate.admit(spend)).outcomes;
    const decision = outcome !== undefined && "decision" in outcome ? outcome.decision : undefined;
    expect(decision).toMatchObject({ allowed: true, retryAfterMs: 0, cost: spend.cost });
    left.push(decision?.limits[0]?.remaining);
  }
  return left;
}

/** What the object has left, with what is lent counted as spent. */
const leftAtObject = (isolate: TestIsolate): number | undefined => {
  const charge = { policy: "p", limits: leased.policy.limits, cost: 1 };
  const { decisions } = isolate.object("k").look({ key: "k", charges: [charge] });
  return decisions[0]?.limits[0]?.remaining;
};

describe("an isolate that borrows", () => {
  it("asks for a slice once a key is asked for six times in a second, and spends it without calls", async () => {
    const isolate = new TestIsolate();
    await remainingOfEach(isolate, 6);
    expect(leaseCalls(isolate.calls).map(({ wanted }) => wanted?.units ?? 0)).toEqual([
      0, 0, 0, 0, 0, 8,
    ]);
    isolate.calls.length = 0;
    await remainingOfEach(isolate, 5);
    expect(isolate.calls).toEqual([]);
    await remainingOfEach(isolate, 1);
    expect(leaseCalls(isolate.calls)).toHaveLength(1);
  });

  it("reports what is left as if each request had asked the object", async () => {
    const isolate = new TestIsolate();
    const left = await remainingOfEach(isolate, 40);
    expect(left).toEqual(left.map((_, request) => 999 - request));
    expect(isolate.calls.length).toBeLessThan(20);
  });

  it("borrows more before the slice is used up, with a call that spends nothing itself", async () => {
    const isolate = new TestIsolate();
    await remainingOfEach(isolate, 12);
    await settled();
    const [refill] = leaseCalls(isolate.calls.slice(6));
    expect(refill).toMatchObject({ charges: [{ cost: 0 }], wanted: { units: 15 } });
  });

  it("borrows nothing for a key that is asked for seldom", async () => {
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

  it("wants what was asked for in the second before, but not in one longer ago", async () => {
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

  it("asks the object where a request costs more than the slice has left", async () => {
    const isolate = new TestIsolate();
    await remainingOfEach(isolate, 7);
    isolate.calls.length = 0;
    await remainingOfEach(isolate, 1, { ...leased, cost: 10 });
    expect(leaseCalls(isolate.calls)).toMatchObject([{ charges: [{ cost: 10 }] }]);
  });

  it("keeps the slices of other keys and policies apart", async () => {
    const isolate = new TestIsolate();
    await remainingOfEach(isolate, 8);
    isolate.calls.length = 0;
    await remainingOfEach(isolate, 1, { ...leased, partitionKey: "other" });
    await remainingOfEach(
      isolate,
      1,
      spendOf({ name: "q", limits: "9/hour", consistency: "leased" }),
    );
    expect(isolate.callNames()).toEqual(["lease", "lease"]);
  });
});

describe("a slice whose second is over", () => {
  it("goes back with what was used, and nothing is spent from it any more", async () => {
    const isolate = new TestIsolate();
    await remainingOfEach(isolate, 9);
    isolate.calls.length = 0;
    await isolate.clock.pass(999);
    expect([isolate.callNames(), leftAtObject(isolate)]).toEqual([[], 1_000 - 6 - 8]);
    await isolate.clock.pass(1);
    expect(isolate.calls).toMatchObject([
      { name: "giveBackSlices", argument: { key: "k", returned: [{ used: 3 }] } },
    ]);
    expect(leftAtObject(isolate)).toBe(991);
    isolate.calls.length = 0;
    await remainingOfEach(isolate, 1);
    expect(isolate.callNames()).toEqual(["lease"]);
  });

  it("waits for the next call where all of it was used, and is counted by that one", async () => {
    const isolate = new TestIsolate();
    isolate.before = ({ argument }) =>
      // The refill is under way for long: the slice is used up before there is another.
      (argument as LeaseCall).charges?.[0]?.cost === 0
        ? new Promise(() => undefined)
        : Promise.resolve();
    await remainingOfEach(isolate, 16);
    await isolate.clock.pass(1_100);
    expect(isolate.callNames()).not.toContain("giveBackSlices");
    isolate.before = () => Promise.resolve();
    await isolate.clock.pass(5_000);
    await remainingOfEach(isolate, 1);
    const last = leaseCalls(isolate.calls).at(-1);
    expect(last?.returned ?? []).toEqual([]);
  });

  it("is given back a second time where the first call was lost", async () => {
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

describe("a slice that comes too late", () => {
  it("goes back unused, and another is asked for meanwhile only after the call is lost", async () => {
    const isolate = new TestIsolate();
    await remainingOfEach(isolate, 5);
    isolate.calls.length = 0;
    isolate.before = ({ name }) =>
      name === "lease"
        ? new Promise((resolve) => void isolate.clock.after(800, () => resolve(1)))
        : Promise.resolve();
    const late = isolate.outcomes(leased);
    await isolate.clock.pass(500);
    expect(await late).toEqual([true]);
    expect(leaseCalls(isolate.calls)).toMatchObject([{ wanted: { units: 8 } }]);
    await isolate.clock.pass(300);
    await isolate.afterAnswers();
    expect(isolate.calls.slice(1)).toMatchObject([
      { name: "giveBackSlices", argument: { returned: [{ used: 0 }] } },
    ]);
    expect(leftAtObject(isolate)).toBe(994);
  });
});

describe("an isolate that has asked for a slice", () => {
  it("asks for none beside it, until whoever waited for the answer must be gone", async () => {
    const isolate = new TestIsolate();
    await remainingOfEach(isolate, 5);
    isolate.before = () => new Promise(() => undefined);
    isolate.calls.length = 0;
    for (const sinceMs of [0, 2_499, 1]) {
      // The timer of the first call does not fire: its request was cut off.
      isolate.clock.nowMs += sinceMs;
      void isolate.admit({ ...leased, cost: 7 });
    }
    await settled();
    expect(leaseCalls(isolate.calls).map(({ wanted }) => wanted !== null)).toEqual([
      true,
      false,
      true,
    ]);
  });
});

describe("a lease call that is answered too late", () => {
  it("has what it spent given back where the policy is closed, also where no slice was wanted", async () => {
    const isolate = new TestIsolate();
    const closed = spendOf({ ...fields, onError: "closed" });
    isolate.before = ({ name }) =>
      name === "lease"
        ? new Promise((resolve) => void isolate.clock.after(800, () => resolve(1)))
        : Promise.resolve();
    const late = isolate.outcomes(closed);
    await isolate.clock.pass(800);
    expect(await late).toEqual(["closed"]);
    await isolate.afterAnswers();
    expect(leaseCalls(isolate.calls)).toMatchObject([{ wanted: null }]);
    expect(leftAtObject(isolate)).toBe(1_000);
  });
});

describe("a request that another object denies", () => {
  const denying = spendOf({ name: "denying", limits: "1/hour" }, 2, "other");

  it("leaves the units that it took from a slice to the requests that follow", async () => {
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

  it("gives the units back to the object where the slice has gone back meanwhile", async () => {
    const isolate = new TestIsolate();
    await remainingOfEach(isolate, 8);
    const { promise: isLetGo, resolve: letGo } = Promise.withResolvers<void>();
    isolate.before = ({ object }) => (object === "other" ? isLetGo : Promise.resolve());
    const denied = isolate.outcomes(leased, {
      ...denying,
      policy: { ...denying.policy, timeoutMs: 9_000 },
    });
    await isolate.clock.pass(1_500);
    letGo();
    expect(await denied).toEqual([true, false]);
    await isolate.clock.pass(5_000);
    await isolate.afterAnswers();
    expect(leftAtObject(isolate)).toBe(992);
  });
});

describe("policies on one key that do not all borrow", () => {
  it.for<[string, object]>([
    ["is strict", {}],
    ["is a dry run", { consistency: "leased", dryRun: true }],
  ])("ask the object for every request where one of them %s", async ([, strict]) => {
    const isolate = new TestIsolate();
    const other = spendOf({ name: "other", limits: "900/hour", ...strict });
    for (let request = 0; request < 12; request++) {
      // oxlint-disable-next-line no-await-in-loop
      await isolate.admit(leased, other);
    }
    expect(isolate.callNames()).toEqual(Array.from({ length: 12 }, () => "check"));
  });

  it("borrow together where both may, as much of each", async () => {
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
