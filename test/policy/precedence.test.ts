/**
 * The precedence of runtime rules and of the configuration, over all combinations: rule deny, rule allow, configuration
 * deny, configuration allow; then the limits of rule overrides, configuration overrides, rule limits, configuration limits.
 */
import { describe, expect, it } from "vitest";
import type { Policy } from "../../src/policy/policy.ts";
import { policyWithRules } from "../../src/policy/read-runtime-rules.ts";
import type { DecisionSource } from "../../src/policy/lists.ts";
import { compiledPolicy } from "../../src/policy/compiled-policy.ts";
import { resolveCallerKey, resolveKey } from "../../src/policy/resolve-key.ts";
import { policyOf, requestTo } from "./harness.ts";

const address = "203.0.113.7";
const others = ["192.0.2.1", "192.0.2.2"];

/** All combinations of four flags. */
const combinations = Array.from({ length: 16 }, (_, bits) => [8, 4, 2, 1].map((bit) => (bits & bit) !== 0));

const withRules = (base: Policy, ...rules: readonly object[]): Policy => {
  const { policy, refused } = policyWithRules(base, { epoch: 1, version: 1, text: JSON.stringify(rules) }, 0);
  expect(refused).toEqual([]);
  return policy;
};

const resolutions = (policy: Policy) => [
  resolveKey(policy, requestTo("/", { headers: { "CF-Connecting-IP": address } }), {}),
  resolveCallerKey(policy, [address]),
];

const source = (
  field: DecisionSource["field"],
  rule: string | null = null,
  index: number | null = null,
): DecisionSource => ({ field, rule, index });

describe("lists that decide before any object is called", () => {
  it.each(combinations)(
    "rule deny %s, rule allow %s, configuration deny %s, configuration allow %s: the first match decides",
    (...matches) => {
      const [ruleDeny, ruleAllow, deny, allow] = matches;
      // A matching entry stands last in its list, after entries that do not match.
      const list = (isMatching = false): string[] => (isMatching ? [...others, address] : others);
      const policy = withRules(
        policyOf({ deny: list(deny), allow: list(allow) }),
        { id: "allowing", kind: "allow", entries: list(ruleAllow) },
        { id: "denying", kind: "deny", entries: list(ruleDeny) },
      );
      const expected = [
        { kind: "blocked", source: source("deny", "denying", 2) },
        { kind: "exempt", source: source("allow", "allowing", 2) },
        { kind: "blocked", source: source("deny", null, 2) },
        { kind: "exempt", source: source("allow", null, 2) },
        { kind: "charge", source: source("limits") },
      ].find((_, index) => matches[index] ?? true);
      for (const resolution of resolutions(policy)) expect(resolution).toMatchObject(expected ?? {});
    },
  );
});

describe("the limits of a key", () => {
  it.each(combinations.filter(([, , , isLast]) => isLast))(
    "rule overrides %s, configuration overrides %s, rule limits %s: the first match gives the limits",
    (...matches) => {
      const [ruleOverrides, overrides, ruleLimits] = matches;
      const list = (isMatching: boolean | undefined, limit: number): object[] => [
        { key: others[0], limits: "99/s" },
        ...(isMatching === true ? [{ key: address, limits: `${limit}/s` }] : []),
      ];
      const policy = withRules(
        policyOf({ limits: "4/s", overrides: list(overrides, 2) }),
        { id: "overriding", kind: "overrides", overrides: list(ruleOverrides, 1) },
        ...(ruleLimits === true ? [{ id: "limiting", kind: "limits", limits: "3/s" }] : []),
      );
      const [limit, from] = [
        [1, source("overrides", "overriding", 1)] as const,
        [2, source("overrides", null, 1)] as const,
        [3, source("limits", "limiting")] as const,
        [4, source("limits")] as const,
      ].find((_, index) => matches[index]) ?? [0, null];
      for (const resolution of resolutions(policy)) {
        expect(resolution).toMatchObject({
          kind: "charge",
          source: from,
          policy: { limits: [{ limit }] },
        });
      }
    },
  );

  it("the overrides of a newer rule come before those of an older rule", () => {
    const overrides = (limits: string): object[] => [{ key: address, limits }];
    const policy = withRules(
      policyOf({}),
      { id: "newer", kind: "overrides", overrides: overrides("8/s") },
      { id: "older", kind: "overrides", overrides: overrides("9/s") },
    );
    for (const resolution of resolutions(policy)) {
      expect(resolution?.source).toEqual(source("overrides", "newer", 0));
    }
  });
});

describe("a policy that a rule has switched off", () => {
  const off = { id: "stopping", kind: "mode", mode: "off" };

  it("under a rule that switches a policy off, every key is exempt, even on a deny list or without a required part", () => {
    const lists = { deny: [address], overrides: [{ key: address, limits: "1/s" }] };
    const policy = withRules(policyOf(lists), off, { id: "d", kind: "deny", entries: [address] });
    for (const resolution of resolutions(policy)) {
      expect(resolution).toMatchObject({ kind: "exempt", source: source("mode", "stopping") });
    }
    const strict = withRules(policyOf({ key: "header:x-key", onMissingKey: "deny" }), off);
    expect(resolveKey(strict, requestTo("/"), {}).kind).toBe("exempt");
  });

  it("under a rule that switches a policy off, the policy needs no claims of the request's token", () => {
    const policy = policyOf({ key: "jwt:sub" });
    expect([compiledPolicy(policy).needsClaims, compiledPolicy(withRules(policy, off)).needsClaims]).toEqual([
      true,
      false,
    ]);
  });
});

it("when the condition of a rule's override reads a claim, the policy needs the claims of a token", () => {
  const overrides = [{ when: "jwt:plan=pro", limits: "9/s" }];
  const policy = withRules(policyOf({}), { id: "r", kind: "overrides", overrides });
  expect([compiledPolicy(policyOf({})).needsClaims, compiledPolicy(policy).needsClaims]).toEqual([false, true]);
  const headers = { "CF-Connecting-IP": address };
  const resolution = resolveKey(policy, requestTo("/", { headers }), { plan: "pro" });
  expect(resolution.source).toEqual(source("overrides", "r", 0));
});

it.each(["deny", "skip"])(
  "when a key part is missing, onMissingKey = %j is named as the source of the decision",
  (value) => {
    const policy = policyOf({ key: "header:x-key", onMissingKey: value });
    expect(resolveKey(policy, requestTo("/"), {}).source).toEqual(source("onMissingKey"));
  },
);

it("every value of a repeated header is compared with the deny entries of rules", () => {
  const policy = withRules(policyOf({ key: "header:x-key" }), {
    id: "d",
    kind: "deny",
    entries: ["k-2"],
  });
  const resolution = resolveKey(policy, requestTo("/", { headers: { "x-key": "k-1, k-2" } }), {});
  expect(resolution).toMatchObject({ kind: "blocked", source: source("deny", "d", 0) });
});
