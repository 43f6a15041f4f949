/** Decisions of an isolate under eventual consistency, and the times at which it sends its spends to the object. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { SyncCall } from "../../../src/limiter/protocol.ts";
import { spendOf, TestIsolate, scopeOf } from "../../fakes/isolate.ts";

/** Silences the log of failed calls. */
beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

const fields = { limits: "1000/hour", consistency: "eventual", syncEvery: "1s" };
const eventual = spendOf(fields);

const syncs = (isolate: TestIsolate): SyncCall[] =>
  isolate.calls.flatMap(({ name, argument }) => (name === "sync" ? [argument as SyncCall] : []));

/** The spends in a call, as pairs of age in milliseconds and units. */
const sentSpends = ({ charges }: SyncCall): (readonly [number, number])[] => charges.flatMap(({ spends }) => spends);

const leftAtObject = (isolate: TestIsolate): number | undefined => {
  const charge = { policy: "p", limits: eventual.policy.limits, cost: 1 };
  const { decisions } = isolate.object("k").look({ key: "k", charges: [charge] });
  return decisions[0]?.limits[0]?.remaining;
};

describe("the spends of an isolate", () => {
  it("an isolate sends its spends once per syncEvery, each with its age", async () => {
    const isolate = new TestIsolate();
    await isolate.admit(eventual);
    await isolate.clock.pass(200);
    isolate.calls.length = 0;
    await isolate.admit(eventual);
    await isolate.clock.pass(100);
    await isolate.admit({ ...eventual, cost: 3 });
    await isolate.clock.pass(2_000);
    const calls = syncs(isolate).map(sentSpends);
    expect(calls.flat().map(([, units]) => units)).toEqual([1, 3]);
    const [[first], [second]] = calls.flat() as [[number, number], [number, number]];
    expect(first - second).toBe(100);
    expect(leftAtObject(isolate)).toBe(995);
  });

  it("spends of more than 100 times are merged into 100, and all units count", async () => {
    const isolate = new TestIsolate();
    isolate.before = () => Promise.reject(new Error("lost"));
    await isolate.admit(eventual);
    await isolate.clock.pass(300);
    for (let request = 0; request < 250; request++) {
      isolate.clock.nowMs += 1;
      // oxlint-disable-next-line no-await-in-loop
      await isolate.admit(eventual);
    }
    isolate.before = () => Promise.resolve();
    await isolate.clock.pass(20_000);
    const most = Math.max(...syncs(isolate).map((call) => sentSpends(call).length));
    expect(most).toBeGreaterThan(90);
    expect(most).toBeLessThanOrEqual(100);
    expect(leftAtObject(isolate)).toBe(1_000 - 251);
  });

  it("spends that are sent again after a lost answer count once", async () => {
    const isolate = new TestIsolate();
    let answers = 0;
    const sync = isolate.object("k").sync.bind(isolate.object("k"));
    vi.spyOn(isolate.object("k"), "sync").mockImplementation((call) => {
      const answer = sync(call);
      if ((answers += 1) <= 2) throw new Error("the answer is lost");
      return answer;
    });
    await isolate.admit({ ...eventual, cost: 7 });
    await isolate.clock.pass(20_000);
    expect(answers).toBeGreaterThan(2);
    expect(leftAtObject(isolate)).toBe(993);
  });

  it("a sync is confirmed in storage if any policy on the key has durability = confirmed", async () => {
    for (const [durability, expected] of [
      ["relaxed", "relaxed"],
      ["confirmed", "confirmed"],
    ]) {
      const isolate = new TestIsolate();
      // oxlint-disable no-await-in-loop
      await isolate.admit(eventual, spendOf({ ...fields, name: "q", durability }));
      await isolate.clock.pass(3_000);
      // oxlint-enable no-await-in-loop
      expect(new Set(syncs(isolate).map((call) => call.durability))).toEqual(new Set([expected]));
    }
  });

  it("an eventual spend is refunded when the object of another key denies the request", async () => {
    const isolate = new TestIsolate();
    const denying = spendOf({ name: "denying", limits: "1/hour" }, 2, "other");
    await isolate.admit({ ...eventual, cost: 4 });
    expect(await isolate.outcomes(eventual, denying)).toEqual([true, false]);
    await isolate.clock.pass(10_000);
    await isolate.afterAnswers();
    expect(leftAtObject(isolate)).toBe(996);
    const { outcomes } = await isolate.admit(eventual);
    expect(outcomes).toMatchObject([{ kind: "decided", decision: { limits: [{ remaining: 995 }] } }]);
  });

  it("many concurrent requests that are denied leave no spends in the replica", async () => {
    const isolate = new TestIsolate();
    const denied = spendOf({ name: "denied", limits: "1/hour", denyCache: false }, 1, "other");
    await isolate.admit(denied);
    const bucket = { limit: 100, window: "1h", strategy: "token-bucket" };
    const own = spendOf({ ...fields, limits: [bucket], syncEvery: "10s" });
    // During the requests, the replica has no snapshot yet.
    isolate.before = ({ name }) =>
      new Promise((resolve) => void isolate.clock.after(name === "sync" ? 900 : 20, () => resolve(0)));
    const outcomes: Promise<(boolean | string)[]>[] = [];
    for (let request = 0; request < 200; request++) {
      outcomes.push(isolate.outcomes(own, denied));
      // oxlint-disable-next-line no-await-in-loop
      await isolate.clock.pass(1);
    }
    await isolate.clock.pass(50);
    expect(await Promise.all(outcomes)).toEqual(outcomes.map(() => [true, false]));
    const { outcomes: last } = await isolate.admit(own);
    expect(last).toMatchObject([{ kind: "local", decision: { limits: [{ remaining: 99 }] } }]);
  });

  it("deleting a key also deletes its unsent spends", async () => {
    const isolate = new TestIsolate();
    await isolate.admit({ ...eventual, cost: 4 });
    await isolate.client.forget(eventual.policy, "k");
    await isolate.clock.pass(10_000);
    expect(leftAtObject(isolate)).toBe(1_000);
    const { outcomes } = await isolate.admit(eventual);
    expect(outcomes).toMatchObject([{ decision: { limits: [{ remaining: 999 }] } }]);
  });
});

describe("a decision under eventual consistency", () => {
  it("a decision counts the spends that other isolates had sent by the last sync", async () => {
    const isolate = new TestIsolate();
    const other = isolate.newClient();
    await isolate.admit(eventual);
    await isolate.clock.pass(500);
    await other.admit([{ ...eventual, cost: 900 }], scopeOf());
    await isolate.clock.pass(3_000);
    await isolate.admit(eventual);
    await isolate.clock.pass(3_000);
    expect(await isolate.outcomes({ ...eventual, cost: 99 })).toEqual([false]);
    expect(await isolate.outcomes({ ...eventual, cost: 98 })).toEqual([true]);
  });

  it("a decision has the kind `local` until the first sync, and `decided` from then on", async () => {
    const isolate = new TestIsolate();
    const kinds = [];
    for (const ms of [0, 500]) {
      // oxlint-disable no-await-in-loop
      await isolate.clock.pass(ms);
      kinds.push((await isolate.admit(eventual)).outcomes[0]?.kind);
      // oxlint-enable no-await-in-loop
    }
    expect(kinds).toEqual(["local", "decided"]);
  });

  it("several eventual policies on one key are either all charged or none", async () => {
    const isolate = new TestIsolate();
    const narrow = spendOf({ ...fields, name: "q", limits: "1/hour" });
    expect(await isolate.outcomes(eventual, narrow)).toEqual([true, true]);
    expect(await isolate.outcomes(eventual, narrow)).toEqual([true, false]);
    await isolate.clock.pass(3_000);
    expect(leftAtObject(isolate)).toBe(999);
  });
});
