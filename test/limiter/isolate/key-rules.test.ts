/** How isolates apply key rules, which the key's object enforces and reports to them. */
import { describe, expect, it, vi } from "vitest";
import { Bans } from "../../../src/limiter/isolate/bans.ts";
import { denialReason, type Outcome, type Spend } from "../../../src/limiter/isolate/outcome.ts";
import type { KeyRule } from "../../../src/limiter/protocol.ts";
import { parseLimits } from "../../../src/strategies/index.ts";
import { settled, spendOf, TestIsolate, scopeOf } from "../../fakes/isolate.ts";

const limitsOf = (limits: string) => parseLimits(limits, { policy: "p", strategy: "fixed-window" });

const boost: KeyRule = { id: "boost", kind: "limits", limits: limitsOf("100/minute") };
const allow: KeyRule = { id: "allow", kind: "allow" };
const block: KeyRule = { id: "block", kind: "block" };

let version = 0;

/** Sets rules as the control plane does, by default for the key `k` of the policy `p`. */
function setRules(isolate: TestIsolate, rules: readonly KeyRule[], key = "k", policy = "p"): void {
  version += 1;
  isolate.object(key).setRules(key, policy, structuredClone(rules), { epoch: 1, version });
}

const resultOf = (outcome: Outcome): unknown => {
  if (outcome.decision === null) return outcome.kind;
  const { kind, decision, keyRule } = outcome;
  const by = keyRule === undefined ? [] : [keyRule];
  return [kind, decision.allowed, decision.limits[0]?.remaining, ...by];
};

async function resultsOf(isolate: TestIsolate, ...spends: readonly Spend[]): Promise<unknown[]> {
  return (await isolate.admit(...spends)).outcomes.map(resultOf);
}

function remainingAt(isolate: TestIsolate, { policy, partitionKey }: Spend): number | undefined {
  const charges = [{ policy: policy.name, limits: policy.limits, cost: 0 }];
  const { decisions } = isolate.object(partitionKey).look({ key: partitionKey, charges });
  return decisions[0]?.limits[0]?.remaining;
}

const quiet = () => vi.spyOn(console, "error").mockReturnValue(undefined);

describe("a key rule under strict consistency", () => {
  it("a rule with limits decides from the next call on, and the outcome shows its limits", async () => {
    const isolate = new TestIsolate();
    const spend = spendOf({ limits: "2/minute" });
    expect(await resultsOf(isolate, spend)).toEqual([["decided", true, 1]]);
    setRules(isolate, [boost]);
    const { outcomes } = await isolate.admit(spend);
    expect(outcomes.map(resultOf)).toEqual([["decided", true, 98]]);
    expect(outcomes[0]?.policy.limits).toEqual(boost.kind === "limits" ? boost.limits : null);
    setRules(isolate, []);
    expect(await resultsOf(isolate, spend)).toEqual([["decided", false, 0]]);
  });

  it("a rule that allows a key prevents charges in the object and in the isolate's own meters", async () => {
    const isolate = new TestIsolate();
    const spend = spendOf({ limits: "2/minute" });
    setRules(isolate, [allow]);
    for (let request = 0; request < 4; request++) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await resultsOf(isolate, spend)).toEqual([["decided", true, 2, "allow"]]);
    }
    setRules(isolate, []);
    expect(remainingAt(isolate, spend)).toBe(2);
    await isolate.client.look(spend, scopeOf());
    isolate.before = () => Promise.reject(new Error("gone"));
    quiet();
    expect(await resultsOf(isolate, spend)).toEqual([["local", true, 1]]);
  });

  it("a spend under a rule is refunded to the limits of the rule, even if the rule has ended meanwhile", async () => {
    const isolate = new TestIsolate();
    const hourly: KeyRule = { id: "hourly", kind: "limits", limits: limitsOf("100/hour") };
    setRules(isolate, [hourly]);
    const denied = spendOf({ name: "q", limits: "1/minute" }, 2, "other");
    isolate.instead = ({ name, object }) => {
      if (name === "check" && object === "other") setRules(isolate, []);
      return undefined;
    };
    expect((await isolate.admit(spendOf(), denied)).isRefused).toBe(true);
    await settled();
    setRules(isolate, [hourly]);
    expect(remainingAt(isolate, spendOf())).toBe(100);
  });

  it("a denial by a rule that blocks a key has the reason of the deny list, and no wait", async () => {
    const isolate = new TestIsolate();
    setRules(isolate, [{ ...block, expiresAtMs: isolate.clock.now() + 60_000 }]);
    const { outcomes, isRefused } = await isolate.admit(spendOf());
    expect(outcomes.map(resultOf)).toEqual([["decided", false, 2, "block"]]);
    expect(isRefused).toBe(true);
    expect(denialReason(outcomes)).toBe("deny");
    expect(outcomes).toMatchObject([{ decision: { retryAfterMs: null, bannedForMs: 0 } }]);
  });

  it("a rule with limits affects neither other keys nor other policies", async () => {
    const isolate = new TestIsolate();
    setRules(isolate, [boost]);
    const [other, elsewhere] = [spendOf({ name: "q" }), spendOf({}, 1, "l")];
    expect(await resultsOf(isolate, other)).toEqual([["decided", true, 1]]);
    expect(await resultsOf(isolate, elsewhere)).toEqual([["decided", true, 1]]);
  });

  it("when a later object blocks a key, the spends in earlier objects are refunded", async () => {
    const isolate = new TestIsolate();
    const [first, second] = [spendOf({ name: "q" }, 1, "l"), spendOf()];
    setRules(isolate, [block]);
    expect((await isolate.admit(first, second)).isRefused).toBe(true);
    await isolate.afterAnswers();
    expect(remainingAt(isolate, first)).toBe(2);
  });

  it("a rule that allows a key does not lift a denial by another policy", async () => {
    const isolate = new TestIsolate();
    const [allowed, other] = [spendOf(), spendOf({ name: "q" }, 3)];
    setRules(isolate, [allow]);
    expect(await resultsOf(isolate, allowed, other)).toEqual([
      ["decided", true, 2, "allow"],
      ["decided", false, 2],
    ]);
  });

  it("a dry run reports a blocked key as if it were on the deny list, and denies nothing", async () => {
    const isolate = new TestIsolate();
    const spends = [spendOf({ dryRun: true }), spendOf({ name: "q" })];
    const warnings = vi.spyOn(console, "warn").mockReturnValue(undefined);
    setRules(isolate, [block]);
    const { isRefused } = await isolate.admit(...spends);
    expect(isRefused).toBe(false);
    expect(warnings.mock.calls.map(([line]) => JSON.parse(String(line)))).toEqual([
      { event: "dry-run-denied", policy: "p", violated: [], reason: "listed", key: "k" },
    ]);
    warnings.mockRestore();
  });

  it("when a rule allows the key for one policy, a reservation settles only the charges of the other policies", async () => {
    const isolate = new TestIsolate();
    setRules(isolate, [allow]);
    const [allowed, other] = [spendOf({ limits: "9/minute" }), spendOf({ name: "q", limits: "9/minute" })];
    const reserved = [allowed, other].map((spend) => ({ ...spend, cost: 5, ttlMs: 60_000 }));
    const admission = await isolate.admit(...reserved);
    expect(admission.address).not.toBeNull();
    await admission.settle(({ policy }) => (policy.name === "q" ? 2 : 4));
    setRules(isolate, []);
    expect([remainingAt(isolate, allowed), remainingAt(isolate, other)]).toEqual([9, 7]);
  });

  it("a reservation for an allowed key has no id and reserves nothing", async () => {
    const isolate = new TestIsolate();
    const spend = spendOf({ strategy: "concurrency", limits: "1/hour" });
    setRules(isolate, [allow]);
    const results = [1, 2].map(() => isolate.client.reserve([spend], 60_000, scopeOf()));
    for (const { outcomes, address, fullForMs } of await Promise.all(results)) {
      expect([...outcomes.map(resultOf), address, fullForMs]).toEqual([["decided", true, 1, "allow"], null, 0]);
    }
  });

  it("key rules apply to the checks of a batch and to looks", async () => {
    const isolate = new TestIsolate();
    setRules(isolate, [block]);
    const other = spendOf({ name: "q" });
    const results = await isolate.client.admitEach([[spendOf()], [other]], scopeOf());
    expect(results.flatMap(({ outcomes }) => outcomes.map(resultOf))).toEqual([
      ["decided", false, 2, "block"],
      ["decided", true, 1],
    ]);
    setRules(isolate, [allow]);
    expect(resultOf(await isolate.client.look(spendOf(), scopeOf()))).toEqual(["decided", true, 2, "allow"]);
  });
});

describe("denials and bans that an isolate caches", () => {
  it("many requests of a blocked key call the object once a second, and are allowed within a second of the block's end", async () => {
    const isolate = new TestIsolate();
    setRules(isolate, [block]);
    for (let request = 0; request < 5; request++) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await resultsOf(isolate, spendOf())).toEqual([["decided", false, 2, "block"]]);
    }
    expect(isolate.callNames()).toEqual(["check"]);
    setRules(isolate, []);
    await isolate.clock.pass(1_000);
    expect(await resultsOf(isolate, spendOf())).toEqual([["decided", true, 1]]);
  });

  it("a cached denial ends at the same millisecond as the rule that causes it", async () => {
    const isolate = new TestIsolate();
    setRules(isolate, [{ ...block, expiresAtMs: isolate.clock.now() + 300 }]);
    await isolate.admit(spendOf());
    await isolate.clock.pass(299);
    expect(await resultsOf(isolate, spendOf())).toEqual([["decided", false, 2, "block"]]);
    expect(isolate.callNames()).toEqual(["check"]);
    await isolate.clock.pass(1);
    expect(await resultsOf(isolate, spendOf())).toEqual([["decided", true, 1]]);
  });

  it("a key whose limits a rule raises is allowed within a second of a cached denial", async () => {
    const isolate = new TestIsolate();
    const spend = spendOf({ limits: "1/minute" });
    await isolate.admit(spend);
    await isolate.admit(spend);
    setRules(isolate, [boost]);
    expect(await resultsOf(isolate, spend)).toEqual([["decided", false, 0]]);
    await isolate.clock.pass(1_000);
    expect(await resultsOf(isolate, spend)).toEqual([["decided", true, 98]]);
  });

  it("a preflight of a blocked key is denied, and the denial is cached for a second", async () => {
    const isolate = new TestIsolate();
    const bans = new Bans(isolate.client, isolate.clock);
    const spend = spendOf({ ban: { after: 2, within: "1m", for: "1h" } });
    expect(await bans.find([spend], scopeOf())).toBeNull();
    setRules(isolate, [block]);
    const refusal = await bans.find([spend], scopeOf());
    expect(refusal?.admission.outcomes.map(resultOf)).toEqual([["decided", false, 2, "block"]]);
    await isolate.clock.pass(999);
    expect(bans.cached([spend])).not.toBeNull();
    await isolate.clock.pass(1);
    expect(bans.cached([spend])).toBeNull();
  });
});

describe("a key rule under leased consistency", () => {
  const leased = spendOf({ limits: "1000/hour", consistency: "leased" });

  /** Sends `times` requests that cost one unit each. */
  async function flood(isolate: TestIsolate, times: number): Promise<unknown[]> {
    const results: unknown[] = [];
    for (let request = 0; request < times; request++) {
      // oxlint-disable-next-line no-await-in-loop
      results.push(...(await isolate.outcomes(leased)));
      // oxlint-disable-next-line no-await-in-loop
      await settled();
    }
    return results;
  }

  it("a key is denied within a second of being blocked, although the isolate has a slice", async () => {
    const isolate = new TestIsolate();
    await flood(isolate, 8);
    setRules(isolate, [block]);
    await isolate.clock.pass(1_000);
    expect(await flood(isolate, 3)).toEqual([false, false, false]);
  });

  it("an isolate borrows no slice for a key that a rule allows, and no request of the key is charged", async () => {
    const isolate = new TestIsolate();
    setRules(isolate, [allow]);
    expect(await flood(isolate, 12)).toEqual(Array.from({ length: 12 }, () => true));
    await isolate.clock.pass(2_000);
    setRules(isolate, []);
    expect(remainingAt(isolate, leased)).toBe(1_000);
  });

  it("spends from a slice are decided by the limits of the key's rule", async () => {
    const isolate = new TestIsolate();
    setRules(isolate, [boost]);
    await flood(isolate, 8);
    isolate.calls.length = 0;
    const { outcomes } = await isolate.admit(leased);
    expect(isolate.calls).toEqual([]);
    expect(outcomes[0]?.policy.limits.map(({ limit }) => limit)).toEqual([100]);
    expect(outcomes.map(resultOf)).toEqual([["decided", true, 91]]);
  });
});

describe("a key rule under eventual consistency", () => {
  const eventual = spendOf({ limits: "2/minute", consistency: "eventual", syncEvery: "1s" });

  /** An isolate with a replica of the key that has the rules. */
  async function synced(rules: readonly KeyRule[]): Promise<TestIsolate> {
    const isolate = new TestIsolate();
    setRules(isolate, rules);
    await isolate.admit(eventual);
    await isolate.clock.pass(200);
    return isolate;
  }

  it("an eventual policy applies a rule within one sync interval, and no longer one sync interval after its end", async () => {
    const isolate = await synced([]);
    setRules(isolate, [block]);
    expect(await resultsOf(isolate, eventual)).toEqual([["decided", true, 0]]);
    await isolate.clock.pass(1_000);
    expect(await resultsOf(isolate, eventual)).toEqual([["decided", false, 0, "block"]]);
    setRules(isolate, [boost]);
    await isolate.clock.pass(1_000);
    expect(await resultsOf(isolate, eventual)).toEqual([["decided", true, 97]]);
    setRules(isolate, []);
    await isolate.clock.pass(1_000);
    expect(await resultsOf(isolate, eventual)).toEqual([["decided", false, 0]]);
  });

  it("all spends count under the rule's limits, in the replica and in the object", async () => {
    const isolate = await synced([boost]);
    for (const remaining of [98, 97, 96, 95]) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await resultsOf(isolate, eventual)).toEqual([["decided", true, remaining]]);
    }
    await isolate.clock.pass(1_000);
    expect(await resultsOf(isolate, eventual)).toEqual([["decided", true, 94]]);
    await isolate.clock.pass(1_000);
    expect(remainingAt(isolate, eventual)).toBe(94);
  });

  it("a key that a rule allows spends nothing that a sync would have to send", async () => {
    const isolate = await synced([allow]);
    for (let request = 0; request < 5; request++) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await resultsOf(isolate, eventual)).toEqual([["decided", true, 1, "allow"]]);
    }
    await isolate.clock.pass(1_000);
    setRules(isolate, []);
    expect(remainingAt(isolate, eventual)).toBe(1);
  });

  it("a rule in a replica expires by the object's clock, even without a sync", async () => {
    const isolate = await synced([]);
    setRules(isolate, [{ ...boost, expiresAtMs: isolate.clock.now() + 1_500 }]);
    await isolate.admit(eventual);
    await isolate.clock.pass(1_000);
    expect(await resultsOf(isolate, eventual)).toEqual([["decided", true, 97]]);
    isolate.before = () => new Promise(() => undefined);
    await isolate.clock.pass(499);
    expect(await resultsOf(isolate, eventual)).toEqual([["decided", true, 96]]);
    await isolate.clock.pass(1);
    expect(await resultsOf(isolate, eventual)).toEqual([["decided", false, 0]]);
  });

  it("a reset removes the usage of a key, and keeps its rule", async () => {
    const isolate = await synced([boost]);
    await isolate.client.forget(eventual.policy, "k");
    expect(await resultsOf(isolate, eventual)).toMatchObject([["local", true, 99]]);
  });
});

describe("key rules while the object gives no answer", () => {
  /** An isolate that has seen the rules, and whose objects no longer answer. */
  async function cutOff(rules: readonly KeyRule[], spend: Spend): Promise<TestIsolate> {
    const isolate = new TestIsolate();
    setRules(isolate, rules);
    await isolate.admit(spend);
    isolate.before = () => Promise.reject(new Error("gone"));
    quiet();
    await isolate.clock.pass(1_000);
    return isolate;
  }

  const local = spendOf({ limits: "2/minute" });

  it("onError = local applies the last rule that the isolate has seen, until the rule expires", async () => {
    const isolate = await cutOff([{ ...boost, expiresAtMs: startedMs() + 5_000 }], local);
    expect(await resultsOf(isolate, local)).toEqual([["local", true, 98]]);
    expect(await resultsOf(isolate, local)).toEqual([["local", true, 97]]);
    await isolate.clock.pass(4_000);
    expect(await resultsOf(isolate, local)).toEqual([["local", false, 0]]);
  });

  it("onError = local denies a key that was blocked when the isolate last saw its rules", async () => {
    const isolate = await cutOff([block], local);
    expect(await resultsOf(isolate, local)).toEqual([["local", false, 2, "block"]]);
  });

  it("onError = local allows a key that was allowed when the isolate last saw its rules, and does not count it", async () => {
    const isolate = await cutOff([allow], local);
    for (let request = 0; request < 3; request++) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await resultsOf(isolate, local)).toEqual([["local", true, 2, "allow"]]);
    }
  });

  it.each(["open", "closed"])("onError = %s decides without regard to key rules", async (onError) => {
    const spend = spendOf({ onError });
    const isolate = await cutOff([onError === "open" ? block : allow], spend);
    expect(await resultsOf(isolate, spend)).toEqual([onError]);
  });

  it("a rule that the object has stopped reporting has no effect during an outage", async () => {
    const isolate = new TestIsolate();
    setRules(isolate, [allow]);
    await isolate.admit(local);
    setRules(isolate, []);
    await isolate.admit(local);
    isolate.before = () => Promise.reject(new Error("gone"));
    quiet();
    expect(await resultsOf(isolate, local)).toEqual([["local", true, 0]]);
  });
});

const startedMs = (): number => new TestIsolate().clock.now();
