/** Bans that an isolate caches, for preflights of banned clients. */
import { scopeOf } from "../../fakes/isolate.ts";
import { describe, expect, it } from "vitest";
import { parseConfig } from "../../../src/policy/vars/config.ts";
import type { Policy } from "../../../src/policy/policy.ts";
import { Bans, type Refusal } from "../../../src/limiter/isolate/bans.ts";
import type { Outcome, Spend } from "../../../src/limiter/isolate/outcome.ts";
import { createMeter } from "../../../src/strategies/index.ts";

function policyOf(fields: object = {}): Policy {
  const policy = { name: "p", limits: "2/minute", ban: "1h", ...fields };
  const [read] = parseConfig({ KEY_SECRET: "s", POLICIES: [policy] }).policies;
  if (read === undefined) throw new Error("a policy was configured");
  return read;
}

const spendOf = (policy: Policy, partitionKey = "k"): Spend => ({ policy, partitionKey, cost: 5 });

/**
 * The bans that an isolate finds. The object reports `bannedForMs`; if that is a failure mode, the object does not
 * answer. Each look takes 10 ms.
 */
function banning(bannedForMs: number | "open" | "closed") {
  const state = { nowMs: 1_000_000, looks: [] as number[] };
  const look = async ({ policy, cost }: Spend): Promise<Outcome> => {
    state.looks.push(cost);
    state.nowMs += 10;
    const decidedAtMs = state.nowMs;
    if (typeof bannedForMs === "string") return { kind: bannedForMs, policy, decidedAtMs, decision: null };
    const decision = createMeter(policy.limits).look(cost, 0);
    const denied = bannedForMs > 0 ? { allowed: false, retryAfterMs: bannedForMs } : {};
    const decided = { ...decision, ...denied, bannedForMs };
    return { kind: "decided", policy, decision: decided, decidedAtMs };
  };
  return { state, bans: new Bans({ look }, { now: () => state.nowMs }) };
}

const waitOf = (refusal: Refusal | null): number | null => {
  const [outcome] = refusal?.admission.outcomes ?? [];
  return outcome?.decision?.bannedForMs ?? null;
};

describe("a cached ban", () => {
  it("a ban is cached for one second from the call, with a wait that counts down", async () => {
    const { state, bans } = banning(60_000);
    const spend = spendOf(policyOf());
    expect(bans.cached([spend])).toBeNull();
    const found = await bans.find([spend], scopeOf());
    expect([waitOf(found), found?.admission.isRefused]).toEqual([60_000, true]);
    expect(found?.admission.decidedAtMs).toBe(1_000_010);
    state.nowMs = 1_000_999;
    expect(waitOf(bans.cached([spend]))).toBe(60_000 - 989);
    state.nowMs = 1_001_000;
    expect(bans.cached([spend])).toBeNull();
    expect(state.looks).toEqual([0]);
  });

  it("a request without spends has no bans", async () => {
    const { bans } = banning(60_000);
    expect([bans.cached([]), await bans.find([], scopeOf())]).toEqual([null, null]);
  });

  it("a ban is not cached beyond its end", async () => {
    const { state, bans } = banning(300);
    const spend = spendOf(policyOf());
    await bans.find([spend], scopeOf());
    state.nowMs = 1_000_299;
    expect(waitOf(bans.cached([spend]))).toBe(11);
    state.nowMs = 1_000_300;
    expect(bans.cached([spend])).toBeNull();
  });

  it("a cached ban is not used while the clock shows a time before the call that found it", async () => {
    const { state, bans } = banning(60_000);
    const spend = spendOf(policyOf());
    await bans.find([spend], scopeOf());
    state.nowMs = 999_999;
    expect(bans.cached([spend])).toBeNull();
    // Between the call and the answer, the wait does not count down yet.
    state.nowMs = 1_000_005;
    expect(waitOf(bans.cached([spend]))).toBe(60_000);
  });

  it("a cached ban applies only to its policy and its key", async () => {
    const { bans } = banning(60_000);
    const [spend, other] = [spendOf(policyOf()), spendOf(policyOf({ name: "q" }))];
    await bans.find([spend], scopeOf());
    expect(bans.cached([other, spendOf(policyOf(), "l")])).toBeNull();
    expect(bans.cached([other, spend])?.spends).toEqual([spend]);
  });

  it("a ban is not cached under denyCache = false or after the key is deleted", async () => {
    const { bans } = banning(60_000);
    const uncached = spendOf(policyOf({ denyCache: false }));
    expect(waitOf(await bans.find([uncached], scopeOf()))).toBe(60_000);
    expect(bans.cached([uncached])).toBeNull();
    const spend = spendOf(policyOf());
    await bans.find([spend], scopeOf());
    bans.forget(spend.policy, spend.partitionKey);
    expect(bans.cached([spend])).toBeNull();
  });

  it("an isolate finds no ban when the object reports none, or does not answer under onError = open", async () => {
    for (const answer of [0, "open"] as const) {
      const { bans } = banning(answer);
      // oxlint-disable-next-line no-await-in-loop
      expect(await bans.find([spendOf(policyOf())], scopeOf())).toBeNull();
    }
  });

  it("onError = closed denies the preflight when the object does not answer, and no ban is cached", async () => {
    const { bans } = banning("closed");
    const spend = spendOf(policyOf());
    expect((await bans.find([spend], scopeOf()))?.admission.outcomes).toMatchObject([{ kind: "closed" }]);
    expect(bans.cached([spend])).toBeNull();
  });
});
