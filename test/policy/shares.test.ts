/** The fields `guaranteed`, `weight` and `classes`: which values are accepted, and what a request gets from them. */
import { describe, expect, it } from "vitest";
import type { Policy } from "../../src/policy/policy.ts";
import { policyWithRules } from "../../src/policy/read-runtime-rules.ts";
import type { Claims } from "../../src/policy/request.ts";
import { resolveCallerKey, resolveKey } from "../../src/policy/resolve-key.ts";
import { chargeOf, chargeTextOf } from "../../src/limiter/isolate/outcome.ts";
import { describeProblem } from "../../src/validation/problems.ts";
import { policyOf, requestTo } from "./harness.ts";
import { configOf, namedProblemsIn } from "./parsed.ts";
import { type Fields, secrets, treeOf } from "./trees.ts";

const model: Fields = { name: "model", key: "global", limits: ["100/second", "1000/minute"] };
const tenant: Fields = { name: "tenant", within: "model", key: "jwt:org", limits: "800/minute", guaranteed: "fair" };

const linesOf = (...POLICIES: readonly Fields[]): string[] =>
  namedProblemsIn({ ...secrets, POLICIES }).map(describeProblem);

/** The policy that a request with these claims and headers is charged under. */
function chargedOf(policy: Policy, claims: Claims = {}, headers: Record<string, string> = {}): Policy {
  const resolution = resolveKey(policy, requestTo("/", { headers }), claims);
  if (resolution.kind !== "charge") throw new Error(`expected a charge, got ${resolution.kind}`);
  return resolution.policy;
}

describe("the field guaranteed", () => {
  it("fair refers to the parent's first limit over a window of the policy, and has the weight 1", () => {
    const { last } = treeOf(model, tenant);
    expect(chargeOf({ policy: last, cost: 1 }).share).toEqual({
      parent: "model",
      limit: 1,
      windowMs: 60_000,
      guaranteed: "fair",
      weight: 1,
    });
  });

  it("a number refers to the parent's limit over its window", () => {
    const share = (guaranteed: string) => treeOf(model, { ...tenant, guaranteed }).last.share;
    expect(share("5/second")).toEqual({ parent: "model", limit: 0, windowMs: 1_000, guaranteed: 5 });
    expect(share("1_000 per minute")).toEqual({ parent: "model", limit: 1, windowMs: 60_000, guaranteed: 1_000 });
  });

  it.each<[unknown, string]>([
    ["50/hour", "a share of a limit of the level above over the same window"],
    ["equal", '"fair", or units per window such as "50000/minute"'],
    ["5/minute; 6/second", '"fair", or units per window such as "50000/minute"'],
    [5, '"fair", or units per window such as "50000/minute"'],
    [null, '"fair", or units per window such as "50000/minute"'],
    ["1001/minute", 'under the limit model.1000-per-1m: an integer from 1 to 1000, or "fair"'],
    ["0/minute", 'under the limit model.1000-per-1m: an integer from 1 to 1000, or "fair"'],
  ])("%j is a problem that says what is accepted", (guaranteed, accepted) => {
    expect(linesOf(model, { ...tenant, guaranteed })).toEqual([
      `POLICIES[1] (tenant) guaranteed: expected ${accepted}, got ${JSON.stringify(guaranteed)}`,
    ]);
  });

  it("a policy without a parent guarantees nothing", () => {
    const { within: _, ...root } = tenant;
    expect(linesOf(root)).toEqual(['POLICIES[0] (tenant) guaranteed: expected nothing without within, got "fair"']);
  });

  it("an invalid or unknown parent gives no second problem", () => {
    const ofRoot = ["POLICIES[0] (model) dryRun: expected true or false, got 1"];
    expect(linesOf({ ...model, dryRun: 1 }, tenant)).toEqual(ofRoot);
    expect(linesOf(model, { ...tenant, within: "modle" })).toEqual([expect.stringContaining("within: expected")]);
  });

  it("fair needs a parent with the window of a limit of the policy", () => {
    expect(linesOf(model, { ...tenant, limits: "800/hour" })).toEqual([
      'POLICIES[1] (tenant) guaranteed: expected a share of a limit of the level above over the same window, got "fair"',
    ]);
  });

  it.each<[string, Fields, string]>([
    ["elastic windows", { strategy: "fixed-window", elastic: true }, "a limit that is not elastic"],
    ["queues", { strategy: "leaky-bucket", mode: "queue" }, 'mode = "police"'],
    ["buckets, fairly", { strategy: "token-bucket" }, 'a number, because "fair" needs a window or a log'],
  ])("%s cannot be shared", (_, options, accepted) => {
    const root = { ...model, limits: { limit: 1_000, window: "1m", ...options } };
    expect(linesOf(root, tenant)).toEqual([
      `POLICIES[1] (tenant) guaranteed: expected under the limit model: ${accepted}, got "fair"`,
    ]);
  });

  it("only one policy shares a limit of a parent, and another one may share another limit", () => {
    const second = { name: "app", within: "model", key: "jwt:app", limits: "9/second", guaranteed: "fair" };
    expect(linesOf(model, tenant, second)).toEqual([]);
    expect(linesOf(model, tenant, { ...second, limits: "9/minute" })).toEqual([
      'POLICIES[2] (app) guaranteed: expected nothing: the policy "tenant" shares the limit "model.1000-per-1m" of "model", got "fair"',
    ]);
  });

  it("an override of the parent keeps the window of a shared limit at its place", () => {
    const of = (limits: unknown) => ({ ...model, overrides: [{ when: "jwt:plan=pro", limits }] });
    expect(linesOf(of(["200/second", "2000/minute"]), tenant)).toEqual([]);
    expect(linesOf(of("2000/minute"), tenant)).toEqual([
      'POLICIES[1] (tenant) guaranteed: expected overrides of "model" that have the window of "model.1000-per-1m" at the same place, got "fair"',
    ]);
  });
});

describe("the field weight", () => {
  it("a number is the weight of every key", () => {
    expect(chargedOf(treeOf(model, { ...tenant, weight: 7 }).last, { org: "a" }).weight).toBe(7);
  });

  it("the first condition of a list that a request meets gives the weight, and 1 is the weight of all others", () => {
    const weight = [
      { when: "jwt:plan=pro", weight: 4 },
      { when: "jwt:plan=p*", weight: 2 },
    ];
    const { last } = treeOf(model, { ...tenant, weight });
    const weightOf = (plan: string): number => chargedOf(last, { org: "a", plan }).weight;
    expect(["pro", "plus", "free"].map(weightOf)).toEqual([4, 2, 1]);
  });

  it.each<[unknown, string]>([
    [0, "weight: expected an integer from 1 to 1000000; or a list of up to 16 weights"],
    ["4", "weight: expected an integer from 1 to 1000000; or a list of up to 16 weights"],
    [Array.from({ length: 17 }, () => ({ when: "jwt:a=b", weight: 1 })), "weight: expected an integer from 1"],
    [[5], "weight[0]: expected an integer from 1 to 1000000; or a list of up to 16 weights"],
    [[{ when: "jwt:plan=pro", weight: 1_000_001 }], "weight[0].weight: expected an integer from 1 to 1000000"],
    [[{ when: "header:X-Plan=pro", weight: 4 }], 'weight[0].when: expected "<part>=<value>" with a part that callers'],
    [[{ when: "plan", weight: 4 }], 'weight[0].when: expected "<part>=<value>" with a part that callers'],
    [
      [{ when: "jwt:plan=pro", wieght: 4, weight: 4 }],
      "weight[0].wieght: expected one of the fields when, weight, got 4; did you mean weight?",
    ],
  ])("%j is a problem at its place", (weight, line) => {
    expect(linesOf(model, { ...tenant, weight })).toEqual([expect.stringContaining(`POLICIES[1] (tenant) ${line}`)]);
  });

  it.each([undefined, "5/second"])("has no meaning with guaranteed = %j", (guaranteed) => {
    const { guaranteed: _, ...plain } = tenant;
    const stated = guaranteed === undefined ? plain : { ...plain, guaranteed };
    expect(linesOf(model, { ...stated, weight: 2 })).toEqual([
      'POLICIES[1] (tenant) weight: expected nothing unless guaranteed is "fair", got 2',
    ]);
  });
});

describe("the field classes", () => {
  const classes = [
    { when: "jwt:plan=free", upTo: "70%" },
    { when: "header:X-Batch=1", upTo: "50 %" },
  ];

  it("the least part of the classes that a request meets applies, and the whole limit without a class", () => {
    const policy = policyOf({ key: "global", classes });
    const upTo = (plan: string, headers = {}): number => chargedOf(policy, { plan }, headers).upTo;
    const batch = { "X-Batch": "1" };
    expect([upTo("pro"), upTo("free"), upTo("free", batch), upTo("pro", batch)]).toEqual([100, 70, 50, 50]);
    expect(chargedOf(policy, {}, { "X-Batch": "0, 1" }).upTo).toBe(50);
  });

  it("a claim that an origin may read puts the request into a class, but gives no weight", () => {
    const weight = [{ when: "jwt:plan=free", weight: 4 }];
    const { last } = treeOf(model, { ...tenant, classes, weight, key: "ip" });
    const { policy } = resolveKey(last, requestTo("/", {}), {}, { plan: ["pro", "free"] });
    expect([policy.upTo, policy.weight]).toEqual([70, 1]);
  });

  it("a request with too many tokens to verify is of each class by a claim, and of no other", () => {
    const policy = policyOf({ key: "global", classes });
    expect(resolveKey(policy, requestTo("/", {}), {}, null).policy.upTo).toBe(70);
  });

  it("a class that may not use a single unit is a warning", () => {
    const warningsOf = (limits: string) =>
      configOf({ ...secrets, POLICIES: [{ name: "a", key: "global", limits, classes }] }).warnings;
    expect(warningsOf("2/minute")).toEqual([]);
    expect(warningsOf("1/minute")).toEqual([
      'POLICIES[0].classes: the policy "a": every request of a class is denied, because 70 % of a limit is less than 1 unit',
    ]);
  });

  it("the charges of a class have their own text, and the same one for each request", () => {
    const policy = policyOf({ key: "global", classes });
    const free = chargedOf(policy, { plan: "free" });
    expect(free).toBe(chargedOf(policy, { plan: "free" }));
    expect(JSON.parse(chargeTextOf(free))).toMatchObject({ upTo: 70 });
    expect(JSON.parse(chargeTextOf(chargedOf(policy)))).not.toHaveProperty("upTo");
  });

  it("a class applies to the limits of an override, too", () => {
    const policy = policyOf({ key: "global", classes, overrides: [{ when: "jwt:vip=1", limits: "7/minute" }] });
    const { limits, upTo } = chargedOf(policy, { plan: "free", vip: "1" });
    expect([limits[0]?.limit, upTo]).toEqual([7, 70]);
  });

  it("a class applies to the limits of a runtime rule, too", () => {
    const policy = policyOf({ key: "global", classes });
    const text = JSON.stringify([{ id: "r0", kind: "limits", limits: "7/minute" }]);
    const ruled = policyWithRules(policy, { epoch: 1, version: 1, text }, 0);
    const { limits, upTo } = chargedOf(ruled.policy, { plan: "free" });
    expect([limits[0]?.limit, upTo]).toEqual([7, 70]);
  });

  it("attributes in a check state the class", () => {
    const policy = policyOf({ key: "header:X-Tenant", classes });
    const upTo = (attributes: ReadonlyMap<string, readonly string[]>) =>
      resolveCallerKey(policy, ["acme"], attributes)?.policy.upTo;
    expect(upTo(new Map([["jwt:plan", ["free"]]]))).toBe(70);
    expect(upTo(new Map())).toBe(100);
  });

  it.each<[unknown, string]>([
    ["free", "classes: expected a list of up to 16 classes"],
    [[{ when: "jwt:plan=free" }], 'classes[0].upTo is missing: expected a percentage from "1%" to "99%"'],
    [[{ when: "jwt:plan=free", upTo: "100%" }], 'classes[0].upTo: expected a percentage from "1%" to "99%"'],
    [[{ when: "jwt:plan=free", upTo: 0.7 }], 'classes[0].upTo: expected a percentage from "1%" to "99%"'],
    [[{ when: "plan=free", upTo: "70%" }], 'classes[0].when: expected "<part>=<value>" with a claim, a header'],
    [[{ when: "global=1", upTo: "70%" }], 'classes[0].when: expected "<part>=<value>" with a claim, a header'],
    [[{ when: "header:X-A=1*", upTo: "70%" }], 'classes[0].when: expected a value without "*" for header:x-a'],
    [[{ when: "jwt:a=b", upTo: "7%", weight: 1 }], "classes[0].weight: expected one of the fields when, upTo, got 1"],
  ])("%j is a problem at its place", (written, line) => {
    const POLICY = { name: "a", limits: "9/minute", classes: written };
    expect(linesOf(POLICY)).toEqual([expect.stringContaining(`POLICIES[0] (a) ${line}`)]);
  });

  it.each(["leased", "eventual"])("consistency = %j has no classes", (consistency) => {
    const [line, ...others] = linesOf({ name: "a", limits: "9/minute", consistency, classes });
    expect(line).toMatch(/^POLICIES\[0\] \(a\) classes: expected nothing unless consistency = "strict", got /);
    expect(others).toEqual([]);
  });

  it("a condition on a claim needs a key that verifies tokens", () => {
    const POLICIES = [{ name: "a", limits: "9/minute", classes }];
    const [problem] = namedProblemsIn({ KEY_SECRET: "the tests' secret", POLICIES });
    expect(problem).toMatchObject({ variable: "JWT_KEY", accepted: expect.stringContaining("POLICIES[0].classes") });
  });
});
