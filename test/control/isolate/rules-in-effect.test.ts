/** The rules in effect in an isolate never become older, in whatever order replies arrive. */
import * as fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { compareVersions, type RulesVersion } from "../../../src/policy/runtime-rules.ts";
import { RulesInEffect } from "../../../src/control/isolate/control-client.ts";
import type { StaleRules } from "../../../src/limiter/protocol.ts";
import { forAll } from "../../for-all.ts";
import { configured } from "./network.ts";

const nowMs = 1_000_000;

const limits = (limit: number, expiresAtMs?: number): object => ({
  id: `limits-${limit}`,
  kind: "limits",
  limits: `${limit}/minute`,
  ...(expiresAtMs !== undefined && { expiresAtMs }),
});

const rulesFor = (policy: string, epoch: number, version: number, ...rules: readonly object[]): StaleRules => ({
  policy,
  epoch,
  version,
  text: JSON.stringify(rules),
});

const stateOf = (rules: RulesInEffect, atMs = nowMs): unknown =>
  rules.policies(atMs).map((policy) => ({
    limit: policy.limits[0]?.limit,
    version: [policy.rules?.epoch, policy.rules?.version],
  }));

const errors = vi.spyOn(console, "error");
afterEach(() => errors.mockReset());
const events = (): unknown[] => errors.mock.calls.map(([line]): unknown => JSON.parse(String(line)));

describe("an isolate without rules", () => {
  it("without rules, the configuration is in effect, with a version older than that of any rule", () => {
    const policies = configured();
    const rules = new RulesInEffect(policies);
    expect(rules.policies(nowMs)).toEqual(
      policies.map((policy) => ({ ...policy, rules: { epoch: 0, version: 0, text: "[]" } })),
    );
    expect(rules.known).toEqual({ epoch: 0, versions: {} });
  });

  it("the list of policies is the same object until a rule changes it", () => {
    const rules = new RulesInEffect(configured());
    const before = rules.policies(nowMs);
    expect(rules.policies(nowMs + 1_000)).toBe(before);
    rules.adoptReply({ epoch: 1, changed: [rulesFor("p", 1, 1, limits(5, nowMs + 10))] });
    const after = rules.policies(nowMs);
    expect(after).not.toBe(before);
    expect(rules.policies(nowMs + 9)).toBe(after);
    expect(rules.policies(nowMs + 10)).not.toBe(after);
  });
});

describe("newer and older rules", () => {
  it("a reply changes only the policies that it names, and all other policies have no rules in its epoch", () => {
    const rules = new RulesInEffect(configured());
    rules.adoptReply({ epoch: 7, changed: [rulesFor("p", 7, 3, limits(5))] });
    expect(stateOf(rules)).toEqual([
      { limit: 5, version: [7, 3] },
      { limit: 20, version: [7, 0] },
    ]);
    rules.adoptReply({ epoch: 7, changed: [rulesFor("q", 7, 4, limits(6))] });
    expect(stateOf(rules)).toEqual([
      { limit: 5, version: [7, 3] },
      { limit: 6, version: [7, 4] },
    ]);
    expect(rules.known).toEqual({ epoch: 7, versions: { p: 3, q: 4 } });
  });

  it("a recreated control plane, whose epoch is later, ends all rules of the earlier one", () => {
    const rules = new RulesInEffect(configured());
    rules.adoptReply({
      epoch: 7,
      changed: [rulesFor("p", 7, 30, limits(5)), rulesFor("q", 7, 31, limits(6))],
    });
    rules.adoptReply({ epoch: 8, changed: [] });
    expect(stateOf(rules)).toEqual([
      { limit: 10, version: [8, 0] },
      { limit: 20, version: [8, 0] },
    ]);
    rules.adoptReply({ epoch: 7, changed: [rulesFor("p", 7, 32, limits(9))] });
    expect(stateOf(rules)).toMatchObject([{ limit: 10 }, { limit: 20 }]);
  });

  it("when an object brings rules of a later epoch, other policies keep their rules until a beat of that epoch", () => {
    const rules = new RulesInEffect(configured());
    rules.adoptReply({
      epoch: 7,
      changed: [rulesFor("p", 7, 3, limits(5)), rulesFor("q", 7, 4, limits(6))],
    });
    rules.adopt([rulesFor("p", 9, 1, limits(8))]);
    expect(stateOf(rules)).toMatchObject([{ limit: 8 }, { limit: 6 }]);
    // Version 4 of "q" belongs to the earlier epoch, and must not be mistaken for a version of the later one.
    expect(rules.known).toEqual({ epoch: 9, versions: { p: 1 } });
    rules.adoptReply({ epoch: 9, changed: [] });
    expect(stateOf(rules)).toMatchObject([{ limit: 8 }, { limit: 20, version: [9, 0] }]);
  });

  it("an older version, the same version and version 0 of the same epoch change nothing", () => {
    const rules = new RulesInEffect(configured());
    rules.adopt([rulesFor("p", 7, 3, limits(5))]);
    for (const version of [3, 2, 0]) rules.adopt([rulesFor("p", 7, version, limits(9))]);
    rules.adopt([rulesFor("p", 6, 99, limits(9))]);
    expect(stateOf(rules)).toMatchObject([{ limit: 5, version: [7, 3] }, { limit: 20 }]);
  });

  it("rules for policies that are not in the configuration are not kept", () => {
    const rules = new RulesInEffect(configured());
    const others = Array.from({ length: 1_000 }, (_, index) => rulesFor(`x${index}`, 7, index + 1));
    rules.adoptReply({ epoch: 7, changed: [...others, rulesFor("p", 7, 2_000, limits(5))] });
    expect(rules.known).toEqual({ epoch: 7, versions: { p: 2_000 } });
    expect(rules.policies(nowMs)).toHaveLength(2);
  });

  it("whatever the order of replies, the version of a policy never decreases, and the newest version wins", () => {
    const version = fc.record({
      epoch: fc.integer({ min: 1, max: 3 }),
      version: fc.integer({ min: 0, max: 6 }),
    });
    const entry = fc.tuple(fc.constantFrom("p", "q", "x"), version);
    const step = fc.oneof(
      fc.record({
        kind: fc.constant("stale" as const),
        entries: fc.array(entry, { maxLength: 3 }),
      }),
      fc.record({
        kind: fc.constant("reply" as const),
        epoch: fc.integer({ min: 1, max: 3 }),
        entries: fc.array(entry, { maxLength: 3 }),
      }),
    );
    const check = (steps: readonly (typeof step extends fc.Arbitrary<infer Value> ? Value : never)[]): void => {
      const rules = new RulesInEffect(configured());
      const newest = new Map<string, RulesVersion>();
      const none: RulesVersion = { epoch: 0, version: 0 };
      for (const each of steps) {
        const changed = each.entries.map(([policy, { epoch, version: number }]) => {
          // All entries of a reply have its epoch.
          const own = each.kind === "reply" ? each.epoch : epoch;
          return rulesFor(policy, own, number, limits(100 * own + number));
        });
        if (each.kind === "reply") rules.adoptReply({ epoch: each.epoch, changed });
        else rules.adopt(changed);
        const begun = each.kind === "reply" ? ["p", "q"].map((policy) => rulesFor(policy, each.epoch, 0)) : [];
        for (const offered of [...changed, ...begun]) {
          const known = newest.get(offered.policy) ?? none;
          if (compareVersions(offered, known) > 0) newest.set(offered.policy, offered);
        }
        for (const {
          name,
          rules: inForce,
          limits: [first],
        } of rules.policies(nowMs)) {
          const expected = newest.get(name) ?? none;
          expect(inForce).toMatchObject({ epoch: expected.epoch, version: expected.version });
          const configuredLimit = name === "p" ? 10 : 20;
          const isRule = inForce?.text !== "[]";
          const limit = isRule ? 100 * expected.epoch + expected.version : configuredLimit;
          expect(first?.limit).toBe(limit);
        }
      }
    };
    return forAll([fc.array(step, { maxLength: 20 })], check, 200)();
  });
});

describe("the expiry of rules", () => {
  it("a rule expires to the millisecond by the isolate's clock, without a reply", () => {
    const rules = new RulesInEffect(configured());
    rules.adopt([rulesFor("p", 7, 1, limits(5, nowMs + 100), limits(6, nowMs + 200))]);
    const limitAt = (afterMs: number): unknown => rules.policies(nowMs + afterMs)[0]?.limits[0]?.limit;
    expect([0, 99, 100, 199, 200].map(limitAt)).toEqual([5, 5, 6, 6, 10]);
  });

  it("the end of one policy's rules does not affect other policies", () => {
    const rules = new RulesInEffect(configured());
    rules.adopt([rulesFor("p", 7, 1, limits(5, nowMs + 100)), rulesFor("q", 7, 2, limits(6))]);
    const [, before] = rules.policies(nowMs);
    const [ended, after] = rules.policies(nowMs + 100);
    expect(ended?.limits[0]?.limit).toBe(10);
    expect(after).toBe(before);
  });

  it("a rule that has expired before it arrives has no effect", () => {
    const rules = new RulesInEffect(configured());
    rules.policies(nowMs);
    rules.adopt([rulesFor("p", 7, 1, limits(5, nowMs - 1))]);
    expect(stateOf(rules)).toMatchObject([{ limit: 10, version: [7, 1] }, {}]);
  });
});

describe("rules that the configuration refuses", () => {
  const refused = { id: "r-1", kind: "limits", limits: "many" };

  it("a refused rule is logged once while it stays refused, and the other rules stay in effect", () => {
    const rules = new RulesInEffect(configured());
    rules.adopt([rulesFor("p", 7, 1, refused, limits(5))]);
    rules.adopt([rulesFor("p", 7, 2, limits(6), refused)]);
    expect(events()).toEqual([
      {
        event: "rule-refused",
        policy: "p",
        rule: "r-1",
        reason: expect.stringContaining("limits"),
      },
    ]);
    expect(stateOf(rules)).toMatchObject([{ limit: 6 }, { limit: 20 }]);
    rules.adopt([rulesFor("p", 7, 3)]);
    rules.adopt([rulesFor("p", 7, 4, refused)]);
    expect(events()).toHaveLength(2);
  });

  it("rules that are not JSON have no effect but count as the newest version, and are logged without an id", () => {
    const rules = new RulesInEffect(configured());
    rules.adopt([rulesFor("p", 7, 1, limits(5))]);
    rules.adopt([{ policy: "p", epoch: 7, version: 2, text: "[{" }]);
    expect(events()).toMatchObject([{ event: "rule-refused", policy: "p", rule: null }]);
    expect(stateOf(rules)).toMatchObject([{ limit: 10, version: [7, 2] }, {}]);
    // Calls to objects carry the text unchanged, even if it is not JSON.
    expect(rules.policies(nowMs)[0]?.rules?.text).toBe("[{");
  });
});
