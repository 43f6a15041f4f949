/** Batches: independent checks. Checks that the isolate cannot decide go to each object in one call. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Outcome, Spend } from "../../../src/limiter/isolate/outcome.ts";
import type { BatchCall } from "../../fakes/flat-calls.ts";
import type { RefundCall } from "../../../src/limiter/protocol.ts";
import { spendOf, TestIsolate, scopeOf } from "../../fakes/isolate.ts";

/** Silences the log of failed calls. */
beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

/** Work that continues after the answers. */
let work: Promise<unknown>[] = [];
beforeEach(() => void (work = []));

const batch = async (isolate: TestIsolate, ...spends: readonly Spend[]): Promise<Outcome[]> => {
  const results = await isolate.client.admitEach(
    spends.map((spend) => [spend]),
    scopeOf((each) => void work.push(each)),
  );
  return results.flatMap(({ outcomes }) => outcomes);
};

const resultsOf = (outcomes: readonly Outcome[]): unknown[] =>
  outcomes.map((outcome) => outcome.decision?.allowed ?? outcome.kind);

const remainingAtObject = (isolate: TestIsolate, spend: Spend, object = "k"): number | undefined => {
  const { policy, partitionKey: key } = spend;
  const charges = [{ policy: policy.name, limits: policy.limits, cost: 1 }];
  return isolate.object(object).look({ key, charges }).decisions[0]?.limits[0]?.remaining;
};

/** The costs of the checks that each batch call sends. */
const costsOf = (isolate: TestIsolate): number[][] =>
  isolate.calls.flatMap(({ name, argument }) =>
    name === "batch" ? [(argument as BatchCall).calls.map(({ charges }) => charges[0]?.cost ?? 0)] : [],
  );

const strict = spendOf({ name: "strict", limits: "1000/hour" });
const leased = spendOf({ name: "leased", limits: "1000/hour", consistency: "leased" });
const eventual = spendOf({ name: "eventual", limits: "1000/hour", consistency: "eventual" });

/** An isolate that has borrowed a slice of 8 units. */
async function borrower(): Promise<TestIsolate> {
  const isolate = new TestIsolate();
  // oxlint-disable-next-line no-await-in-loop
  for (let request = 0; request < 6; request++) await isolate.admit(leased);
  isolate.calls.length = 0;
  return isolate;
}

describe("a batch with leased policies", () => {
  it("a batch spends from a slice without a call", async () => {
    const isolate = await borrower();
    const outcomes = await batch(isolate, leased, leased, leased);
    expect(outcomes).toMatchObject(
      [993, 992, 991].map((remaining) => ({
        kind: "decided",
        decision: { limits: [{ remaining }] },
      })),
    );
    expect(isolate.calls).toEqual([]);
    await isolate.clock.pass(1_000);
    expect(remainingAtObject(isolate, leased)).toBe(991);
  });

  it("a batch spends from a slice and sends its strict checks in one call", async () => {
    const isolate = await borrower();
    const outcomes = await batch(isolate, strict, leased, { ...strict, cost: 2 }, leased);
    expect(resultsOf(outcomes)).toEqual([true, true, true, true]);
    expect(outcomes.map(({ policy }) => policy.name)).toEqual(["strict", "leased", "strict", "leased"]);
    expect(isolate.callNames()).toEqual(["batch"]);
    await isolate.clock.pass(1_000);
    expect([strict, leased].map((spend) => remainingAtObject(isolate, spend))).toEqual([997, 992]);
  });

  it("checks that cost more than the slice has left go to the object in one call, in the order of the batch", async () => {
    const isolate = await borrower();
    const costs = [9, 5, 20, 5, 1];
    const outcomes = await batch(isolate, ...costs.map((cost) => ({ ...leased, cost })));
    expect(resultsOf(outcomes)).toEqual([true, true, true, true, true]);
    // The slice has 8 units left: the checks of 5 and 1 fit.
    expect(costsOf(isolate)).toEqual([[9, 20, 5]]);
    await isolate.clock.pass(2_000);
    expect(remainingAtObject(isolate, leased)).toBe(1_000 - 6 - 40);
  });

  it("a batch never borrows a slice: without one, its leased and strict checks go in one call", async () => {
    const isolate = new TestIsolate();
    const spends = Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? leased : strict));
    const outcomes = await batch(isolate, ...spends);
    expect(resultsOf(outcomes)).toEqual(spends.map(() => true));
    expect(isolate.callNames()).toEqual(["batch"]);
  });

  it("a look in a batch goes to the object, even while the isolate has a slice", async () => {
    const isolate = await borrower();
    isolate.calls.length = 0;
    await batch(isolate, { ...leased, cost: 0 }, leased);
    expect(isolate.callNames()).toEqual(["look"]);
  });

  it("the isolate's own meters count what a batch spends from a slice", async () => {
    const isolate = await borrower();
    await batch(isolate, leased, leased);
    isolate.before = () => Promise.reject(new Error("gone"));
    const [outcome] = await batch(isolate, { ...leased, cost: 100 });
    expect(outcome).toMatchObject({ kind: "local", decision: { limits: [{ remaining: 892 }] } });
  });
});

describe("the checks of a batch", () => {
  it("a denied check of a batch does not affect the others", async () => {
    const isolate = new TestIsolate();
    const small = spendOf({ name: "small", limits: "2/hour" });
    const spends = [small, { ...small, cost: 3 }, small, small, strict];
    expect(resultsOf(await batch(isolate, ...spends))).toEqual([true, false, true, false, true]);
  });

  it("a batch calls each object once and returns the outcomes in the order of the checks", async () => {
    const isolate = new TestIsolate();
    const at = (partitionKey: string, name: string): Spend => spendOf({ name, limits: "9/hour" }, 1, partitionKey);
    const spends = [at("a", "p1"), at("b", "p2"), eventual, at("a", "p3"), at("b", "p4")];
    const outcomes = await batch(isolate, ...spends);
    expect(outcomes.map(({ policy }) => policy.name)).toEqual(["p1", "p2", "eventual", "p3", "p4"]);
    const batches = isolate.calls.filter(({ name }) => name === "batch");
    expect(batches.map(({ object }) => object)).toEqual(["a", "b"]);
  });

  it("a batch decides checks of eventual policies without waiting for the object", async () => {
    const isolate = new TestIsolate();
    isolate.before = () => new Promise(() => undefined);
    expect(await batch(isolate, eventual, eventual)).toMatchObject([
      { kind: "local", decision: { limits: [{ remaining: 999 }] } },
      { kind: "local", decision: { limits: [{ remaining: 998 }] } },
    ]);
  });

  it("when an object fails, each check of a batch follows its own failure mode", async () => {
    const isolate = new TestIsolate();
    isolate.before = () => Promise.reject(new Error("gone"));
    const spends = ["local", "open", "closed"].map((onError) => spendOf({ name: onError, onError }));
    expect(resultsOf(await batch(isolate, ...spends))).toEqual([true, "open", "closed"]);
  });
});

describe("a batch whose answer comes after its deadline", () => {
  const refundedCosts = (isolate: TestIsolate): number[] =>
    isolate.calls.flatMap(({ name, argument }) =>
      name === "refund" ? (argument as RefundCall).charges.map(({ cost }) => cost) : [],
    );

  /** Sends a batch that the objects decide only after its deadline. */
  async function lateBatch(...spends: readonly Spend[]): Promise<[TestIsolate, unknown[]]> {
    const isolate = new TestIsolate();
    const { promise, resolve } = Promise.withResolvers<void>();
    isolate.before = ({ name }) => (name === "refund" ? Promise.resolve() : promise);
    const outcomes = batch(isolate, ...spends);
    await isolate.clock.pass(1_000);
    const kinds = (await outcomes).map(({ kind }) => kind);
    resolve();
    await Promise.all(work);
    return [isolate, kinds];
  }

  it.each([
    ["closed", 5],
    ["open", 3],
    ["local", 3],
  ] as const)(
    "a late batch keeps its spends unless the failure mode denied them: onError = %s",
    async (onError, remaining) => {
      const sharded = { objects: "sharded", shards: 1 };
      const spend = spendOf({ limits: "5/hour", strategy: "sliding-log", onError, ...sharded });
      const other = { ...spend, partitionKey: "l" };
      const [isolate, kinds] = await lateBatch(spend, { ...spend }, other);
      expect(kinds).toEqual([onError, onError, onError]);
      const left = [spend, other].map((each) => remainingAtObject(isolate, each, "0-of-1"));
      expect(left).toEqual([remaining, remaining === 5 ? 5 : 4]);
    },
  );

  it("a batch that is answered late refunds concurrency slots under onError = closed", async () => {
    const slots = spendOf({ limits: "5/hour", strategy: "concurrency", onError: "closed" }, 2);
    const [isolate] = await lateBatch(slots);
    expect(remainingAtObject(isolate, slots)).toBe(5);
  });

  it("a batch that is answered late refunds only the checks that spent", async () => {
    const spend = spendOf({ limits: "5/hour", strategy: "sliding-log", onError: "closed" });
    const [isolate] = await lateBatch(...[0, 6, 4].map((cost) => ({ ...spend, cost })));
    expect(remainingAtObject(isolate, spend)).toBe(5);
    expect(refundedCosts(isolate)).toEqual([4]);
  });
});
