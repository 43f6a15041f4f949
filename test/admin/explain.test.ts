/** Explanations of keys: the outcome, the step that decides, the arithmetic, and when the outcome changes. */
import { describe, expect, it } from "vitest";
import type { PolicyRule } from "../../src/policy/runtime-rules.ts";
import type { StepName } from "../../src/admin/wire.ts";
import type { KeyRule } from "../../src/limiter/protocol.ts";
import { parseLimits } from "../../src/strategies/index.ts";
import { callerAddress, decidingStep, ExplainedPolicy, idOf, idOfUser, later, outcomeOf } from "./explained-policy.ts";

const otherAddress = "203.0.113.1";

describe("the outcome that an explanation states", () => {
  it("a key with room is allowed by the configured limits", async () => {
    const login = new ExplainedPolicy();
    await login.spend(2);
    const explained = await login.explain();
    expect(outcomeOf(explained)).toEqual([true, "limit", 0]);
    expect(decidingStep(explained)).toEqual(["configured-limits"]);
    expect(explained.limits).toMatchObject([
      {
        name: "login",
        used: 2,
        remaining: 3,
        account: { kind: "window", units: 2, endsInMs: 60_000 },
        sentence: "2 of 5 in this window of 1 minute; the window ends in 1 min; 3 more fit now.",
      },
    ]);
    expect(explained.nextChangeInMs).toBeNull();
    expect(explained.id).toBe(await idOf(callerAddress));
  });

  it("a key that has spent its limit is denied until the next request fits", async () => {
    const login = new ExplainedPolicy();
    await login.spend(5);
    await login.isolate.clock.pass(20_000);
    const explained = await login.explain();
    expect(outcomeOf(explained)).toEqual([false, "limit", 40_000]);
    expect(explained.nextChangeInMs).toBe(40_000);
    expect(explained.text.slice(0, 5)).toEqual([
      "Denied for another 40 s: the limit login is exceeded.",
      `Policy login (enforce), key ${await idOf(callerAddress)}.`,
      "Without further requests, this changes in 40 s.",
      "Limits, from the configuration:",
      "  login: 5 of 5 in this window of 1 minute; the next request fits in 40 s.",
    ]);
  });

  it("a key whose attributes put it into a class is denied above the part of the class, and the text says so", async () => {
    const login = new ExplainedPolicy({ classes: [{ when: "country=DE", upTo: "40%" }] });
    await login.spend(2);
    const explained = await login.explain({ attributes: new Map([["country", ["DE"]]]) });
    expect(outcomeOf(explained)).toEqual([false, "class", 60_000]);
    expect(explained.lines.outcome).toBe(
      "Denied for another 1 min: the class of the request may not use the rest of the limit login.",
    );
    expect(outcomeOf(await login.explain())).toEqual([true, "limit", 0]);
  });

  it("an explanation spends nothing and calls the object once", async () => {
    const login = new ExplainedPolicy();
    await login.spend(2);
    login.isolate.callNames();
    await login.explain();
    const { limits } = await login.explain();
    expect(limits[0]?.used).toBe(2);
    expect(login.isolate.callNames()).toEqual(["explain", "explain"]);
  });

  it("a ban decides before the limits, and its end is the next change", async () => {
    const login = new ExplainedPolicy({
      limits: "1/minute",
      ban: { after: 2, within: "1m", for: "10m" },
    });
    await login.spend(1);
    await login.spend(1);
    await login.spend(1);
    const explained = await login.explain();
    expect(outcomeOf(explained)).toEqual([false, "ban", 600_000]);
    expect(decidingStep(explained)).toEqual(["ban"]);
    expect(explained).toMatchObject({ bannedForMs: 600_000, nextChangeInMs: 600_000 });
    expect(explained.text[0]).toBe("Denied for another 10 min: the key is banned.");
    expect(explained.text).toContain("  A ban denies the key for 10 min more.");
  });

  it("a ban that ends before the limits allow the key is the next change", async () => {
    const login = new ExplainedPolicy({
      limits: "1/hour",
      ban: { after: 1, within: "1m", for: "10m" },
    });
    await login.spend(1);
    await login.spend(1);
    const explained = await login.explain();
    expect(outcomeOf(explained)).toEqual([false, "ban", 3_600_000]);
    expect(explained.nextChangeInMs).toBe(600_000);
  });

  it("a dry run allows, and states what it would deny", async () => {
    const login = new ExplainedPolicy({ dryRun: true });
    await login.spend(5);
    const explained = await login.explain();
    expect(outcomeOf(explained)).toEqual([true, "dry-run", 0]);
    expect(explained.mode).toBe("dry-run");
    expect(explained.nextChangeInMs).toBe(60_000);
    expect(explained.text[0]).toBe(
      "Allowed, because the policy is in dry run. Enforced, it would deny: the limit login is exceeded.",
    );
  });

  it("a policy that a rule has switched off allows, until the rule expires", async () => {
    const login = new ExplainedPolicy({}, [{ id: "m1", kind: "mode", mode: "off", ...later(5_000) }]);
    const explained = await login.explain();
    expect(outcomeOf(explained)).toEqual([true, "off", 0]);
    expect(explained.steps[0]).toEqual({
      step: "mode",
      matches: true,
      rule: "m1",
      entry: null,
      decides: true,
    });
    expect(explained).toMatchObject({ mode: "off", nextChangeInMs: 5_000 });
  });
});

/** A policy and key rules for the address 203.0.113.7, which matches at every step of a decision. */
const everyPlace: {
  readonly fields: Record<string, unknown>;
  readonly rules: Record<string, PolicyRule>;
  readonly keyRules: Record<string, KeyRule>;
} = {
  fields: {
    deny: ["192.0.2.0/24", callerAddress],
    allow: [callerAddress],
    overrides: [
      { key: otherAddress, limits: "1/minute" },
      { key: callerAddress, limits: "50/minute" },
    ],
  },
  rules: {
    "policy-rule-deny": { id: "d", kind: "deny", entries: [callerAddress] },
    "policy-rule-allow": { id: "a", kind: "allow", entries: [otherAddress, callerAddress] },
    "policy-rule-overrides": {
      id: "o",
      kind: "overrides",
      overrides: [{ key: callerAddress, limits: "40/minute" }],
    },
    "policy-rule-limits": { id: "l", kind: "limits", limits: "30/minute" },
  },
  keyRules: {
    "key-rule-block": { id: "kb", kind: "block" },
    "key-rule-allow": { id: "ka", kind: "allow" },
    "key-rule-limits": {
      id: "kl",
      kind: "limits",
      limits: parseLimits("20/minute", { policy: "login" }),
    },
  },
};

/** The steps in the order of the design, each with its outcome and with what the deciding step names. */
const precedence: readonly (readonly [
  step: StepName,
  allowed: boolean,
  reason: string,
  rule: string | null,
  entry: number | null,
  capacity: number,
])[] = [
  ["policy-rule-deny", false, "deny", "d", 0, 20],
  ["policy-rule-allow", true, "allow", "a", 1, 20],
  ["configured-deny", false, "deny", null, 1, 20],
  ["configured-allow", true, "allow", null, 0, 20],
  ["key-rule-block", false, "deny", "kb", null, 20],
  ["key-rule-allow", true, "allow", "ka", null, 20],
  ["key-rule-limits", true, "limit", "kl", null, 20],
  ["policy-rule-overrides", true, "limit", "o", 0, 40],
  ["configured-overrides", true, "limit", null, 1, 50],
  ["policy-rule-limits", true, "limit", "l", null, 30],
  ["configured-limits", true, "limit", null, null, 5],
];

describe("the precedence that an explanation shows", () => {
  it.each(precedence.map((row, index) => [...row, index] as const))(
    "with the places from %s on, that one decides: allowed %s, reason %s",
    async (step, allowed, reason, rule, entry, capacity, index) => {
      const places = new Set<string>(precedence.slice(index).map(([name]) => name));
      const configured = { "configured-deny": "deny", "configured-allow": "allow" };
      const fields = { ...everyPlace.fields };
      for (const [place, field] of Object.entries(configured)) if (!places.has(place)) delete fields[field];
      if (!places.has("configured-overrides")) delete fields["overrides"];
      const rulesOf = <Each>(rules: Record<string, Each>): Each[] =>
        Object.entries(rules).flatMap(([place, each]) => (places.has(place) ? [each] : []));
      const login = new ExplainedPolicy(fields, rulesOf(everyPlace.rules));
      await login.setKeyRules(...rulesOf(everyPlace.keyRules));
      const explained = await login.explain();
      expect(outcomeOf(explained)).toEqual([allowed, reason, allowed ? 0 : null]);
      expect(explained.steps.filter(({ decides }) => decides)).toEqual([
        { step, matches: true, rule, entry, decides: true },
      ]);
      expect(explained.limits.map((limit) => limit.capacity)).toEqual([capacity]);
      // Every later step matches too, and is shown.
      const matching = explained.steps.filter(({ matches }) => matches === true);
      expect(matching.map((each) => each.step)).toEqual([...places]);
    },
  );

  it("an entry of the configuration is not attributed to a policy rule of the same kind", async () => {
    const login = new ExplainedPolicy({ deny: [callerAddress] }, [
      { id: "d", kind: "deny", entries: [otherAddress] },
      { id: "o", kind: "overrides", overrides: [{ key: otherAddress, limits: "9/minute" }] },
    ]);
    const explained = await login.explain();
    expect(decidingStep(explained)).toEqual(["configured-deny"]);
    expect(explained.steps.find(({ step }) => step === "policy-rule-deny")?.matches).toBe(false);
  });

  it("a rule that expires is the next change of the outcome", async () => {
    const login = new ExplainedPolicy({}, [{ id: "d", kind: "deny", entries: [callerAddress], ...later(90_000) }]);
    const explained = await login.explain();
    expect(explained.nextChangeInMs).toBe(90_000);
    expect(explained.text[0]).toBe("Denied: the key matches a deny entry of a policy rule (rule d, entry 1).");
  });

  it("limits of a key rule that expire before the wait ends are the next change", async () => {
    const login = new ExplainedPolicy({ limits: "1/hour" });
    const limits = parseLimits("2/hour", { policy: "login", strategy: "fixed-window" });
    await login.setKeyRules({ id: "boost", kind: "limits", limits, ...later(600_000) });
    await login.spend(2);
    const explained = await login.explain();
    expect(outcomeOf(explained)).toEqual([false, "limit", 3_600_000]);
    expect(explained).toMatchObject({ nextChangeInMs: 600_000, limitsFrom: "key-rule-limits" });
    expect(explained.limitsInEffect).toEqual(limits);
    expect(explained.limitsWithoutKeyRules).toMatchObject([{ limit: 1, windowMs: 3_600_000 }]);
    expect(explained.keyRules).toEqual([
      {
        id: "boost",
        kind: "limits",
        expiresInMs: 600_000,
        state: "in-effect",
        actor: null,
        note: null,
      },
    ]);
  });
});

describe("a key with a missing part", () => {
  const composite = { key: ["ip", "header:x-tenant"] };

  it.each([
    ["shared", "configured-limits", true, "limit"],
    ["deny", "missing-key", false, "deny"],
    ["skip", "missing-key", true, "allow"],
    ["ip", "configured-limits", true, "limit"],
  ])("with onMissingKey = %s, %s decides", async (onMissingKey, step, allowed, reason) => {
    const login = new ExplainedPolicy({ ...composite, onMissingKey });
    const explained = await login.explain({ key: [callerAddress, null] });
    expect(decidingStep(explained)).toEqual([step]);
    expect([explained.allowed, explained.reason]).toEqual([allowed, reason]);
  });

  it("onMissingKey = ip explains the key of the address that the attributes give", async () => {
    const login = new ExplainedPolicy({ key: "header:x-user", onMissingKey: "ip" });
    const attributes = new Map([["ip", [otherAddress]]]);
    const { id } = await login.explain({ key: [null], attributes });
    expect(id).toBe(await idOf(otherAddress));
  });

  const within = { within: "org", key: "header:x-user" };
  const org = { name: "org", key: "header:x-org", limits: "9/minute" };

  it("onMissingKey = ip of a root puts the address in place of its part in the explained key of a child", async () => {
    const login = new ExplainedPolicy(within, [], [{ ...org, onMissingKey: "ip" }]);
    const attributes = new Map([["ip", [otherAddress]]]);
    const explained = await login.explain({ key: [null, "ann"], attributes });
    expect(explained.id).toBe(`${await idOf(otherAddress)}.${await idOfUser(otherAddress, "ann")}`);
    expect([decidingStep(explained), explained.allowed, explained.reason]).toEqual([
      ["configured-limits"],
      true,
      "limit",
    ]);
  });

  it("onMissingKey = skip of a root allows a request without its part before onMissingKey = deny of a child", async () => {
    const login = new ExplainedPolicy({ ...within, onMissingKey: "deny" }, [], [{ ...org, onMissingKey: "skip" }]);
    const explained = await login.explain({ key: [null, null] });
    expect([decidingStep(explained), explained.allowed, explained.reason]).toEqual([["missing-key"], true, "allow"]);
    expect((await login.explain({ key: ["acme", null] })).reason).toBe("deny");
  });

  it.each([
    [{ key: ["203.0.113.7"] }, "a list of 2 texts for ip, header:x-tenant"],
    [{ key: ["nowhere", null] }, "where ip is an IPv4 or IPv6 address"],
    [{ key: undefined }, "a list of 2 texts"],
  ])("the key %o does not fit, and the answer says what does", async (input, accepted) => {
    const login = new ExplainedPolicy(composite);
    expect(await login.answer(input)).toMatchObject({
      kind: "fields-invalid",
      errors: [{ field: "key", accepted: expect.stringContaining(accepted) as string }],
    });
  });
});
