/** Requests that an object refuses to decide, because it has newer policy rules than the isolate. */
import { describe, expect, it, vi } from "vitest";
import type { LimiterObserver } from "../../../src/limiter/isolate/object-caller.ts";
import type { Outcome, Spend, ChargeResult } from "../../../src/limiter/isolate/outcome.ts";
import type { CheckCall, LeaseCall, RefundCall } from "../../../src/limiter/protocol.ts";
import type { BatchCall } from "../../fakes/flat-calls.ts";
import { policyOf, settled, spendOf, TestIsolate, scopeOf } from "../../fakes/isolate.ts";
import { requireRules, RulesKeeper, rulesOf, under } from "../../fakes/newer-rules.ts";

const strict = policyOf({ limits: "5/minute" });

const keyed = (policy: Spend["policy"], partitionKey = "k", cost = 1): Spend => ({
  policy,
  partitionKey,
  cost,
});

/** A new isolate whose rules have version 1. */
function staleIsolate() {
  const isolate = new TestIsolate();
  const keeper = new RulesKeeper();
  const events = vi.spyOn(console, "error").mockReturnValue(undefined);
  const admit = (spends: () => readonly Spend[]): Promise<ChargeResult> =>
    keeper.decide((scope) => isolate.client.admit(spends(), scope));
  /** Admits a spend under the rules that the isolate has now. */
  const admitOne = (policy = strict): Promise<ChargeResult> => admit(() => [keyed(under(policy, keeper.version))]);
  return { isolate, keeper, events, admit, admitOne };
}

const kinds = ({ outcomes }: ChargeResult): unknown[] => outcomes.map(resultOf);
const resultOf = (outcome: Outcome): unknown =>
  outcome.decision === null ? outcome.kind : [outcome.kind, outcome.decision.allowed];

function remainingAt(isolate: TestIsolate, { policy, partitionKey }: Spend): number | undefined {
  const charges = [{ policy: policy.name, limits: policy.limits, cost: 0 }];
  const { decisions } = isolate.object(partitionKey).look({ key: partitionKey, charges });
  return decisions[0]?.limits[0]?.remaining;
}

const chargesIn = ({ argument }: { argument: unknown }) => (argument as CheckCall).charges;

describe("the rules in a call", () => {
  it("without a control plane, a call to the object contains nothing about rules", async () => {
    const isolate = new TestIsolate();
    await isolate.admit(spendOf({ limits: "5/minute" }));
    const limits = JSON.stringify(strict.limits);
    expect(JSON.stringify(isolate.calls[0]?.argument)).toBe(
      `{"key":"k","charges":[{"policy":"p","limits":${limits},"cost":1}],"durability":"relaxed"}`,
    );
  });

  it("a charge contains the version and text of its policy's rules, and a refund does not", async () => {
    const { isolate, keeper, admit } = staleIsolate();
    const other = policyOf({ name: "q", limits: "1/minute" });
    await isolate.admit(keyed(other, "l"));
    isolate.calls.length = 0;
    await admit(() => [keyed(under(strict, 1)), keyed(under(other, 3), "l")]);
    await keeper.afterAnswers();
    const rules = isolate.calls.map((call) => [call.name, ...chargesIn(call).map((each) => each.rules)]);
    expect(rules).toEqual([
      ["check", rulesOf(1)],
      ["check", rulesOf(3)],
      ["refund", undefined],
    ]);
  });
});

describe("a stale call", () => {
  it("a request that is stale is decided again under the newer rules, and charged once", async () => {
    const { isolate, keeper, admitOne } = staleIsolate();
    requireRules(isolate, "p", 4);
    const admission = await admitOne();
    expect(kinds(admission)).toEqual([["decided", true]]);
    expect(admission.isRefused).toBe(false);
    expect(keeper.adopted).toEqual([{ policy: "p", ...rulesOf(4) }]);
    expect(isolate.calls.map((call) => chargesIn(call)[0]?.rules?.version)).toEqual([1, 4]);
    expect(remainingAt(isolate, keyed(strict))).toBe(4);
    // From here on, the isolate has the newer rules.
    isolate.calls.length = 0;
    await admitOne();
    expect(isolate.callNames()).toEqual(["check"]);
  });

  it.each([
    ["local", ["local", true]],
    ["open", "open"],
    ["closed", "closed"],
  ] as const)("onError = %s decides a request that is stale a second time", async (onError, result) => {
    const { isolate, keeper, admit, events } = staleIsolate();
    requireRules(isolate, "p", 9);
    const policy = policyOf({ limits: "5/minute", onError });
    expect(kinds(await admit(() => [keyed(under(policy, 2))]))).toEqual([result]);
    expect(isolate.callNames()).toEqual(["check", "check"]);
    expect(keeper.adopted).toHaveLength(2);
    expect(events.mock.calls.join()).toContain("the object has newer policy rules");
  });

  it("the second attempt has only the time that the first attempt has left", async () => {
    const { isolate, admitOne } = staleIsolate();
    requireRules(isolate, "p", 2);
    const { clock } = isolate;
    isolate.before = () => {
      const isFirst = isolate.calls.length === 1;
      return new Promise((resolve) => void (isFirst ? clock.after(600, () => resolve(0)) : 0));
    };
    let answeredAtMs = 0;
    const startedAtMs = clock.now();
    const admitting = admitOne().then((admission) => {
      answeredAtMs = clock.now();
      return admission;
    });
    await clock.pass(2_000);
    expect(kinds(await admitting)).toEqual([["local", true]]);
    expect(answeredAtMs - startedAtMs).toBe(1_000);
    expect(isolate.calls).toHaveLength(2);
    // The object had less time than usual, so it is not skipped for the next second.
    isolate.before = () => Promise.resolve();
    expect(kinds(await admitOne())).toEqual([["decided", true]]);
  });

  it("when the second of two objects is stale, the spend in the first is refunded and checked again", async () => {
    const { isolate, admit, keeper } = staleIsolate();
    requireRules(isolate, "q", 2);
    const other = policyOf({ name: "q", limits: "9/minute" });
    await admit(() => [keyed(strict, "k"), keyed(under(other, keeper.version), "l")]);
    await keeper.afterAnswers();
    expect(isolate.callNames()).toEqual(["check", "check", "refund", "check", "check"]);
  });

  it("an earlier object is refunded before the second attempt, which would otherwise exceed its limit", async () => {
    const { isolate, admit, keeper } = staleIsolate();
    requireRules(isolate, "q", 2);
    const one = policyOf({ limits: "1/minute", strategy: "sliding-log" });
    const other = policyOf({ name: "q", limits: "9/minute" });
    const admission = await admit(() => [keyed(one), keyed(under(other, keeper.version), "l")]);
    expect(kinds(admission)).toEqual([
      ["decided", true],
      ["decided", true],
    ]);
    await keeper.afterAnswers();
    expect(remainingAt(isolate, keyed(one))).toBe(0);
    expect(remainingAt(isolate, keyed(other, "l"))).toBe(8);
    expect(isolate.calls.filter(({ name }) => name === "refund")).toHaveLength(1);
  });

  it("the failure mode decides when refunding earlier spends has used up the time for a second attempt", async () => {
    const { isolate, admit, keeper } = staleIsolate();
    requireRules(isolate, "q", 2);
    const other = policyOf({ name: "q", limits: "9/minute", onError: "closed" });
    isolate.before = ({ name }) => (name === "refund" ? new Promise(() => 0) : Promise.resolve());
    const admitting = admit(() => [keyed(strict), keyed(under(other, keeper.version), "l")]);
    await isolate.clock.pass(3_000);
    expect(kinds(await admitting)).toEqual([["local", true], "closed"]);
    expect(isolate.callNames()).toEqual(["check", "check", "refund"]);
  });

  it("a look is repeated under the newer rules", async () => {
    const { isolate, keeper } = staleIsolate();
    requireRules(isolate, "p", 2);
    const outcome = await keeper.decide((scope) => isolate.client.look(keyed(under(strict, keeper.version)), scope));
    expect(resultOf(outcome)).toEqual(["decided", true]);
    expect(isolate.callNames()).toEqual(["look", "look"]);
  });

  it("a look that is stale a second time is decided by the isolate, without the event object-silent", async () => {
    const { isolate, keeper, events } = staleIsolate();
    // Earlier tests have logged through the same spy.
    events.mockClear();
    requireRules(isolate, "p", 9);
    const outcome = await keeper.decide((scope) => isolate.client.look(keyed(under(strict, 2)), scope));
    expect(resultOf(outcome)).toEqual(["local", true]);
    expect(events.mock.calls).toEqual([]);
  });

  it("a reservation is opened once, under the newer rules", async () => {
    const { isolate, keeper } = staleIsolate();
    requireRules(isolate, "p", 2);
    const { address } = await keeper.decide((scope) => {
      const spend = keyed(under(strict, keeper.version), "k", 3);
      return isolate.client.reserve([spend], 60_000, scope);
    });
    await keeper.afterAnswers();
    expect(isolate.callNames()).toEqual(["reserve", "reserve"]);
    expect(remainingAt(isolate, keyed(strict))).toBe(2);
    if (address === null) throw new Error("a reservation was due");
    expect(await isolate.client.settle(address, 1)).toBe(true);
    expect(remainingAt(isolate, keyed(strict))).toBe(4);
  });

  it("only the stale checks of a batch are repeated", async () => {
    const { isolate, keeper } = staleIsolate();
    requireRules(isolate, "q", 2);
    const other = policyOf({ name: "q", limits: "9/minute" });
    const sharded = { objects: "sharded", shards: 1 };
    const [one, two] = [{ ...strict }, { ...other }].map((policy) => ({
      ...policy,
      objects: policyOf(sharded).objects,
    }));
    if (one === undefined || two === undefined) throw new Error("two policies were given");
    const decided = new Map<string, Outcome>();
    await keeper.decide(async (scope) => {
      const spends = [keyed(under(one, keeper.version)), keyed(under(two, keeper.version), "l")].filter(
        ({ policy }) => !decided.has(policy.name),
      );
      const results = await isolate.client.admitEach(
        spends.map((spend) => [spend]),
        scope,
      );
      for (const { isStale, outcomes } of results) {
        for (const outcome of isStale ? [] : outcomes) decided.set(outcome.policy.name, outcome);
      }
    });
    expect([...decided.values()].map(resultOf)).toEqual([
      ["decided", true],
      ["decided", true],
    ]);
    expect(isolate.calls.map(({ name }) => name)).toEqual(["batch", "check"]);
    const [all, repeated] = isolate.calls.map(({ argument }) => argument);
    expect((all as BatchCall).calls.map(({ key }) => key)).toEqual(["k", "l"]);
    expect((repeated as CheckCall).key).toBe("l");
    const left = (key: string, { name, limits }: Spend["policy"]) =>
      isolate.object("0-of-1").look({ key, charges: [{ policy: name, limits, cost: 0 }] }).decisions[0]?.limits[0]
        ?.remaining;
    expect([left("k", one), left("l", two)]).toEqual([4, 8]);
  });

  it("when a dry run in the background is stale, the isolate adopts the newer rules and does not repeat the dry run", async () => {
    const { isolate, admit, keeper } = staleIsolate();
    requireRules(isolate, "dry", 2);
    const dryRun = policyOf({ name: "dry", limits: "9/minute", dryRun: true });
    await admit(() => [keyed(strict), keyed(under(dryRun, 1), "l")]);
    await keeper.afterAnswers();
    expect(isolate.callNames()).toEqual(["check", "check"]);
    expect(keeper.adopted).toHaveLength(1);
  });
});

describe("cached denials and slices from before newer rules", () => {
  const flooded = policyOf({ limits: "1/minute" });

  it("a cached denial is not used under newer rules of the policy", async () => {
    const { isolate, admit } = staleIsolate();
    for (const version of [1, 1, 1]) {
      // oxlint-disable-next-line no-await-in-loop
      await admit(() => [keyed(under(flooded, version))]);
    }
    expect(isolate.callNames()).toEqual(["check", "check"]);
    await admit(() => [keyed(under(flooded, 2))]);
    expect(isolate.callNames()).toEqual(["check"]);
  });

  const leased = policyOf({ limits: "1000/hour", consistency: "leased" });

  it("a slice is not spent under newer rules, and its unused units are returned within a second", async () => {
    const { isolate, admit } = staleIsolate();
    const spending = (version: number) => admit(() => [keyed(under(leased, version))]);
    // oxlint-disable-next-line no-await-in-loop
    for (let request = 0; request < 7; request++) await spending(1);
    await settled();
    isolate.calls.length = 0;
    await spending(1);
    expect(isolate.callNames()).toEqual([]);
    await spending(2);
    expect(isolate.callNames()).toEqual(["lease"]);
    await isolate.clock.pass(1_100);
    expect(isolate.callNames()).toEqual(["giveBackSlices"]);
    expect(remainingAt(isolate, keyed(leased))).toBe(1_000 - 9);
  });

  it("a stale lease call lends nothing, and its request is decided under the newer rules", async () => {
    const { isolate, keeper, admitOne } = staleIsolate();
    // oxlint-disable-next-line no-await-in-loop
    for (let request = 0; request < 3; request++) await admitOne(leased);
    requireRules(isolate, "p", 2);
    // oxlint-disable-next-line no-await-in-loop
    for (let request = 0; request < 7; request++) await admitOne(leased);
    await isolate.clock.pass(2_000);
    await keeper.afterAnswers();
    expect(keeper.version).toBe(2);
    expect(remainingAt(isolate, keyed(leased))).toBe(1_000 - 10);
    const units = isolate.calls.flatMap(({ name, argument }) =>
      name === "lease" ? ((argument as LeaseCall).wanted?.units ?? []) : [],
    );
    expect(units.length).toBeGreaterThan(0);
  });

  it("a refund is accepted by an object that has newer rules of the policy", async () => {
    const { isolate, admit, keeper } = staleIsolate();
    const other = policyOf({ name: "q", limits: "1/minute" });
    await isolate.admit(keyed(other, "l"));
    isolate.before = async ({ name }) => {
      if (name === "refund") requireRules(isolate, "p", 7);
    };
    await admit(() => [keyed(under(strict, 1)), keyed(other, "l")]);
    await keeper.afterAnswers();
    const refunds = isolate.calls.filter(({ name }) => name === "refund");
    expect(refunds.map(({ argument }) => (argument as RefundCall).charges.length)).toEqual([1]);
    expect(remainingAt(isolate, keyed(strict))).toBe(5);
  });
});

describe("the latency of decisions", () => {
  it("the latency of each answered call on which a decision waits is recorded for its policies", async () => {
    const isolate = new TestIsolate();
    const observer = { answered: vi.fn<LimiterObserver["answered"]>() };
    const client = isolate.newClient(observer);
    isolate.before = () => new Promise((resolve) => void isolate.clock.after(40, () => resolve(0)));
    const spends = [spendOf(), spendOf({ name: "eventual", consistency: "eventual" }, 1, "l")];
    const admitting = client.admit(spends, scopeOf());
    await isolate.clock.pass(1_000);
    await admitting;
    expect(observer.answered.mock.calls).toEqual([[["p"], 40]]);
  });

  it("a call without an answer has no recorded latency", async () => {
    const isolate = new TestIsolate();
    const observer = { answered: vi.fn<LimiterObserver["answered"]>() };
    vi.spyOn(console, "error").mockReturnValue(undefined);
    isolate.before = () => Promise.reject(new Error("gone"));
    await isolate.newClient(observer).admit([spendOf()], scopeOf());
    expect(observer.answered).not.toHaveBeenCalled();
  });
});
