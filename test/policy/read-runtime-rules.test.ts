/** Runtime rules: how they change a policy, and which ones a configuration refuses. */
import { describe, expect, it } from "vitest";
import type { Policy } from "../../src/policy/policy.ts";
import type { PolicyRules } from "../../src/policy/runtime-rules.ts";
import { policyWithRules, readKeyRule, readPolicyRule, type RuleContext } from "../../src/policy/read-runtime-rules.ts";
import { parseLimits } from "../../src/strategies/index.ts";
import { configOf, problemsIn } from "./parsed.ts";

type Fields = Readonly<Record<string, unknown>>;

const nowMs = 1_000_000;

const policyOf = (fields: Fields = {}): Policy => {
  const [policy] = configOf({
    POLICIES: [{ name: "a", limits: "10/minute", ...fields }],
    JWT_KEY: "a secret of at least thirty-two bytes",
  }).policies;
  if (policy === undefined) throw new Error("a policy was configured");
  return policy;
};

const rulesOf = (...rules: readonly unknown[]): PolicyRules => ({
  epoch: 5,
  version: 7,
  text: JSON.stringify(rules.map((rule, index) => ({ id: `r${index}`, ...Object(rule) }))),
});

const underRules = (base: Policy, ...rules: readonly unknown[]) => policyWithRules(base, rulesOf(...rules), nowMs);

const limitOf = ({ limits }: Pick<Policy, "limits">): unknown =>
  limits.map(({ name, limit, windowMs, strategy }) => [name, limit, windowMs, strategy]);

describe("a policy under rules", () => {
  it("a policy without rules keeps all of its fields, and states the version of its rules", () => {
    const base = policyOf();
    const rules = rulesOf();
    const { policy, changesAtMs, refused } = policyWithRules(base, rules, nowMs);
    expect(policy).toEqual({ ...base, rules });
    expect([changesAtMs, refused]).toEqual([Number.POSITIVE_INFINITY, []]);
  });

  it.each([
    ["enforce", false, { isDryRun: false, isOff: false }],
    ["enforce", true, { isDryRun: false, isOff: false }],
    ["dry-run", false, { isDryRun: true, isOff: false }],
    ["dry-run", true, { isDryRun: true, isOff: false }],
    ["off", false, { isDryRun: false, isOff: true }],
    ["off", true, { isDryRun: true, isOff: true }],
  ] as const)("the mode %s replaces dryRun = %s of the configuration", (mode, dryRun, expected) => {
    const { policy } = underRules(policyOf({ dryRun }), { kind: "mode", mode });
    expect(policy).toMatchObject({ ...expected, modeRule: "r0", limitsRule: null });
  });

  it("only the newest rule for the mode and the newest rule for the limits apply", () => {
    const { policy } = underRules(
      policyOf(),
      { kind: "limits", limits: "30/minute" },
      { kind: "mode", mode: "dry-run" },
      { kind: "limits", limits: "20/minute" },
      { kind: "mode", mode: "off" },
    );
    expect(limitOf(policy)).toEqual([["a", 30, 60_000, "sliding-window-counter"]]);
    expect(policy).toMatchObject({ isDryRun: true, isOff: false });
    expect([policy.limitsRule, policy.modeRule]).toEqual(["r0", "r1"]);
  });

  it("the limits of a rule inherit the policy's strategy and names, unless the rule has its own strategy", () => {
    const base = policyOf({ strategy: "fixed-window" });
    const inherited = underRules(base, { kind: "limits", limits: "30/minute; 5/s" }).policy;
    expect(limitOf(inherited)).toEqual([
      ["a.30-per-1m", 30, 60_000, "fixed-window"],
      ["a.5-per-1s", 5, 1_000, "fixed-window"],
    ]);
    const own = { kind: "limits", limits: "30/minute", strategy: "sliding-log" };
    expect(limitOf(underRules(base, own).policy)).toEqual([["a", 30, 60_000, "sliding-log"]]);
  });

  it("the entries of all rules apply, the newest rule's first, each with its rule and position", () => {
    const { policy } = underRules(
      policyOf({ deny: ["192.0.2.9"] }),
      { kind: "deny", entries: ["192.0.2.1", "192.0.2.0/28"] },
      { kind: "allow", entries: ["192.0.2.2"] },
      { kind: "deny", entries: ["192.0.2.3"] },
      { kind: "overrides", overrides: [{ key: "192.0.2.4", limits: "1/s" }] },
    );
    const origins = (list: readonly { rule: string; index: number }[]): unknown =>
      list.map(({ rule, index }) => [rule, index]);
    const { deny, allow, overrides } = policy.ruleLists;
    expect(origins(deny)).toEqual([
      ["r0", 0],
      ["r0", 1],
      ["r2", 0],
    ]);
    expect([origins(allow), origins(overrides)]).toEqual([[["r1", 0]], [["r3", 0]]]);
    expect(policy.lists.deny).toHaveLength(1);
  });

  it("a policy from LIMITS, STRATEGY and KEY accepts rules, which inherit its strategy and key", () => {
    const [base] = configOf({
      LIMITS: "1/s",
      STRATEGY: "token-bucket",
      KEY: "header:x-k",
    }).policies;
    if (base === undefined) throw new Error("a policy was configured");
    const { policy, refused } = underRules(
      base,
      { kind: "limits", limits: "7/hour" },
      { kind: "deny", entries: ["k-1"] },
    );
    expect(refused).toEqual([]);
    expect(limitOf(policy)).toEqual([["default", 7, 3_600_000, "token-bucket"]]);
    expect(policy.ruleLists.deny).toMatchObject([{ kind: "key", patterns: [{ kind: "text", text: "k-1" }] }]);
  });

  it("entries that POLICIES_2 adds to a policy still apply under rules", () => {
    const [base] = configOf({
      POLICIES: [{ name: "a", limits: "1/s", overrides: [{ key: "192.0.2.1", limits: "2/s" }] }],
      POLICIES_2: [{ continues: "a", overrides: [{ key: "192.0.2.2", limits: "3/s" }] }],
    }).policies;
    if (base === undefined) throw new Error("a policy was configured");
    const { policy, refused } = underRules(base, { kind: "limits", limits: "9/s" });
    expect(refused).toEqual([]);
    expect(policy.lists.overrides.map(({ limits }) => limits[0]?.limit)).toEqual([2, 3]);
    expect(policy.limits[0]?.limit).toBe(9);
  });
});

describe("the expiry of rules", () => {
  const rules = rulesOf(
    { kind: "limits", limits: "30/minute", expiresAtMs: nowMs + 100 },
    { kind: "limits", limits: "20/minute", expiresAtMs: nowMs + 200 },
    { kind: "mode", mode: "off", expiresAtMs: nowMs },
  );

  it.each([
    [99, 30, 100],
    [100, 20, 200],
    [199, 20, 200],
    [200, 10, Number.POSITIVE_INFINITY],
  ])("%i ms later, the limit under rules is %i, until %i ms", (afterMs, limit, untilMs) => {
    const { policy, changesAtMs } = policyWithRules(policyOf(), rules, nowMs + afterMs);
    expect(policy.limits[0]?.limit).toBe(limit);
    expect(changesAtMs - nowMs).toBe(untilMs);
    expect(policy.isOff).toBe(false);
  });
});

describe("rules that the configuration refuses", () => {
  it.each([
    ["not JSON", "{"],
    ["no list", "{}"],
    ["without ids", '[{"kind":"mode","mode":"off"}]'],
    ["with a text as expiry", '[{"id":"r","kind":"mode","mode":"off","expiresAtMs":"soon"}]'],
  ])("rules that are %s have no effect", (_, text) => {
    const rules = { epoch: 1, version: 2, text };
    const base = policyOf();
    const { policy, refused } = policyWithRules(base, rules, nowMs);
    expect(policy).toEqual({ ...base, rules });
    expect(refused).toEqual([{ id: null, reason: expect.stringContaining("JSON") }]);
  });

  it.each<[Fields, unknown, string]>([
    [{ consistency: "leased" }, { kind: "limits", limits: "many" }, "limits: expected"],
    [{}, { kind: "limits" }, "limits: expected"],
    [{}, { kind: "allow", entries: "192.0.2.1" }, "entries: expected a list of up to 256"],
    [{ key: ["ip", "path"] }, { kind: "deny", entries: ["k"] }, "entries[0]: expected an address"],
    [{}, { kind: "overrides", overrides: [{ key: "192.0.2.1" }] }, "overrides[0].limits: expected"],
    [{}, { kind: "mode", mode: "none" }, 'mode: expected one of "enforce", "dry-run", "off"'],
    [{}, { kind: "later", entries: [] }, "kind: expected one of"],
  ])("under %j the rule %j has no effect, and the others stay in effect", (fields, rule, reason) => {
    const { policy, refused } = underRules(policyOf(fields), rule, { kind: "mode", mode: "off" });
    expect(refused).toEqual([{ id: "r0", reason: expect.stringContaining(reason) }]);
    expect(policy).toMatchObject({ isOff: true, modeRule: "r1", limitsRule: null });
  });

  it("the reason why a rule is refused quotes no entry, since entries may be API keys", () => {
    const base = policyOf({ key: ["header:x-key", "path"] });
    const { refused } = underRules(base, { kind: "deny", entries: ["secret-api-key"] });
    expect(refused).toHaveLength(1);
    expect(JSON.stringify(refused)).not.toContain("secret");
  });

  it("a rule that a rolled-back configuration refuses takes effect again after the next deployment", () => {
    const rule = { kind: "limits", limits: { limit: 5, window: "1m", elastic: true } };
    const fixed = { strategy: "fixed-window" };
    expect(underRules(policyOf(fixed), rule).policy.limits[0]?.limit).toBe(5);
    const rolledBack = underRules(policyOf({ ...fixed, consistency: "leased" }), rule);
    expect([rolledBack.policy.limits[0]?.limit, rolledBack.refused.length]).toEqual([10, 1]);
  });
});

const context = (...policies: readonly Policy[]): RuleContext => ({ policies, jwt: null });

/** The rule in its stored form, or its problems. */
function created(policy: Policy, input: Fields, others = context(policy)): unknown {
  const problems: unknown[] = [];
  const rule = readPolicyRule(policy, input, others, (problem) => problems.push(problem));
  expect(rule === null).toBe(problems.length > 0);
  return rule ?? problems;
}

describe("validation of a new policy rule", () => {
  it.each<[Fields]>([
    [{ kind: "mode", mode: "off" }],
    [{ kind: "limits", limits: "20/minute" }],
    [{ kind: "limits", limits: [{ limit: 2, window: "1s" }], strategy: "sliding-log" }],
    [{ kind: "allow", entries: ["10.0.0.0/8", "192.0.2.*"] }],
    [{ kind: "deny", entries: ["2001:db8::/32"] }],
    [{ kind: "overrides", overrides: [{ when: "country=DE", limits: "1/s" }] }],
  ])("the rule %j is accepted as written, without other fields", (input) => {
    expect(created(policyOf(), { ...input, note: "a note" })).toEqual(input);
  });

  it.each<[Fields, Fields]>([
    [{}, { limits: "10/parsec" }],
    [{}, { limits: [{ limit: 0, window: "1m" }, { limit: 1 }] }],
    [{}, { limits: "5/minute", strategy: "leaky" }],
    [{ consistency: "leased" }, { limits: { limit: 5, window: "1s" }, strategy: "concurrency" }],
    [{}, { limits: { limit: 5, window: "1m", buckets: 6 }, strategy: "sliding-log" }],
  ])("under %j the limits %j are refused with the configuration's messages", (fields, limits) => {
    const POLICIES = [{ name: "a", limits: "10/minute", ...fields, ...limits }];
    const configured = problemsIn({ KEY_SECRET: "s", POLICIES }).map(({ field, value, accepted }) => ({
      field: field.replace("[0].", ""),
      value,
      accepted,
    }));
    expect(configured.length).toBeGreaterThan(0);
    const problems = created(policyOf(fields), { kind: "limits", ...limits });
    expect(problems).toEqual(configured);
  });

  it("an invalid entry is reported by its position, and not quoted if it may be an API key", () => {
    const policy = policyOf({ key: ["header:x-key", "path"] });
    const entries = ["192.0.2.1", "secret-api-key"];
    expect(created(policy, { kind: "deny", entries })).toMatchObject([{ field: "entries[1]", value: "(hidden)" }]);
  });

  it.each([["allow"], ["deny"], ["overrides"]])("a rule of kind %s needs an entry", (kind) => {
    const field = kind === "overrides" ? "overrides" : "entries";
    expect(created(policyOf(), { kind })).toMatchObject([{ field, value: undefined }]);
    expect(created(policyOf(), { kind, [field]: [] })).toMatchObject([{ field, value: [] }]);
  });

  it("a rule of more than 32 KB is refused", () => {
    const entries = Array.from({ length: 256 }, (_, index) => `${index}`.padStart(127, "k"));
    const policy = policyOf({ key: "header:x-key" });
    expect(created(policy, { kind: "deny", entries })).toMatchObject([
      { field: "entries", accepted: "a rule of at most 32 KB" },
    ]);
    expect(created(policy, { kind: "deny", entries: entries.slice(0, 200) })).toMatchObject({
      kind: "deny",
    });
  });

  it("a limit of a rule must not have the name of another policy or of another policy's limits", () => {
    const policy = policyOf();
    const other = { ...policyOf(), name: "b", limits: parseLimits("1/s; 2/m", { policy: "b" }) };
    const names = ["b", "b.1-per-1s", "c"];
    const limits = names.map((name, index) => ({
      name,
      limit: index + 1,
      window: `${index + 1}m`,
    }));
    const problems = created(policy, { kind: "limits", limits }, context(policy, other));
    expect(problems).toMatchObject([
      { field: "limits", value: "b", accepted: expect.stringContaining('the policy "b"') },
      { field: "limits", value: "b.1-per-1s" },
    ]);
  });

  it("a condition on a claim requires a configured key that verifies tokens", () => {
    const input = { kind: "overrides", overrides: [{ when: "jwt:plan=pro", limits: "1/s" }] };
    const policy = policyOf();
    expect(created(policy, input)).toMatchObject([{ field: "overrides" }]);
    const { jwt } = configOf({ JWT_KEY: "a secret of at least thirty-two bytes" });
    expect(created(policy, input, { policies: [], jwt })).toEqual(input);
  });

  it("under a policy with maxDelay, a rule may have limits without a queue, and maxDelay bounds any queue", () => {
    const policy = policyOf({ strategy: "leaky-bucket", maxDelay: "5s" });
    const plain = { kind: "limits", limits: "5/s", strategy: "fixed-window" };
    expect(created(policy, plain)).toEqual(plain);
    expect(underRules(policy, { kind: "limits", limits: "5/s" }).policy.limits).toMatchObject([
      { limit: 5, maxDelayMs: 5_000 },
    ]);
  });

  it("the limits of a rule need not be compatible with configured overrides, which keep their own strategy", () => {
    const own = { limit: 6, window: "1m", buckets: 6 };
    const policy = policyOf({
      strategy: "sliding-buckets",
      overrides: [{ key: "192.0.2.1", limits: own }],
    });
    const input = { kind: "limits", limits: "5/s", strategy: "fixed-window" };
    expect(created(policy, input)).toEqual(input);
    const { lists } = underRules(policy, input).policy;
    expect(lists).toEqual(policy.lists);
  });
});

describe("validation of a new key rule", () => {
  const read = (input: Fields, policy = policyOf(), others = context(policy)): unknown => {
    const problems: unknown[] = [];
    return readKeyRule(policy, input, others, (problem) => problems.push(problem)) ?? problems;
  };

  it("a key rule is read as complete limits, as allow or as block", () => {
    const limits = policyOf({ limits: "20/minute" }).limits;
    expect(read({ kind: "limits", limits: "20/minute" })).toEqual({ kind: "limits", limits });
    expect(read({ kind: "allow" })).toEqual({ kind: "allow" });
    expect(read({ kind: "block", note: "abuse" })).toEqual({ kind: "block" });
  });

  it("invalid kinds and limits of key rules are reported with the messages of the configuration", () => {
    const accepted = 'one of "limits", "allow", "block"';
    expect(read({ kind: "deny" })).toEqual([{ field: "kind", value: "deny", accepted }]);
    expect(read({ kind: "limits", limits: "10/parsec" })).toMatchObject([{ field: "limits.window" }]);
    expect(read({ kind: "limits" })).toMatchObject([{ field: "limits", value: undefined }]);
    const other = { ...policyOf(), name: "b" };
    const named = { kind: "limits", limits: [{ name: "b", limit: 1, window: "1s" }] };
    expect(read(named, policyOf(), context(policyOf(), other))).toMatchObject([{ value: "b" }]);
  });

  it("a rule may have a concurrency limit only if its policy has one, so that requests release their slots", () => {
    const limits = "5/minute";
    const slots = { kind: "limits", limits, strategy: "concurrency" };
    const accepted = "no concurrency limit, because the policy has none: its requests release no slots";
    expect(read(slots)).toEqual([{ field: "limits", value: limits, accepted }]);
    const policy = policyOf({ strategy: "concurrency" });
    expect(read(slots, policy)).toMatchObject({ limits: [{ strategy: "concurrency" }] });
  });
});
