/** Policies within policies: which configurations are accepted, and which requests apply. */
import { describe, expect, it } from "vitest";
import { matchingPolicies } from "../../src/policy/compiled-policy.ts";
import { resolveAnnounced } from "../../src/policy/preflights.ts";
import { policyWithRules, readPolicyRule } from "../../src/policy/read-runtime-rules.ts";
import { resolveCallerKey } from "../../src/policy/resolve-key.ts";
import { describeProblem } from "../../src/validation/problems.ts";
import { requestTo } from "./harness.ts";
import { configOf, namedProblemsIn } from "./parsed.ts";
import { type Fields, org, policiesOf, secrets, team, treeOf, user } from "./trees.ts";

const linesOf = (...POLICIES: readonly Fields[]): string[] =>
  namedProblemsIn({ ...secrets, POLICIES }).map(describeProblem);

const warningsOf = (...POLICIES: readonly Fields[]): readonly string[] => configOf({ ...secrets, POLICIES }).warnings;

describe("the configuration of a policy within another one", () => {
  it("the key of a child begins with the keys of its ancestors, and its ancestors are listed from the root on", () => {
    const { last } = treeOf(org, team, user);
    expect(last.key).toEqual(["org", "team", "sub"].map((name) => ({ kind: "jwt", name })));
    expect(last.ancestors.map(({ policy, keyParts }) => [policy, keyParts])).toEqual([
      ["org", 1],
      ["team", 2],
    ]);
    expect(treeOf(org).last.ancestors).toEqual([]);
  });

  it("a child without a key has the key of its parent and the address", () => {
    const { key: _, ...byAddress } = team;
    expect(treeOf(org, byAddress).last.key).toEqual([{ kind: "jwt", name: "org" }, { kind: "ip" }]);
  });

  it("a child has the settings of the root about its object, failures and addresses", () => {
    const root = {
      ...org,
      objects: "sharded",
      shards: 7,
      locationHint: "weur",
      durability: "confirmed",
      timeout: "500ms",
      onError: "closed",
      denyCache: false,
      trustedProxies: 2,
      ipv6Prefix: 56,
      pathMatching: "exact",
    };
    const [first, , third] = policiesOf(root, { ...team, match: { path: "/teams/*" } }, user);
    if (first === undefined || third === undefined) throw new Error("no policy");
    const { addresses, onError, timeoutMs, objects, durability, consistency, isDenyCached } = first;
    const shared = { addresses, onError, timeoutMs, objects, durability, consistency, isDenyCached };
    expect(third).toMatchObject(shared);
    expect(third.match.pathMatching).toBe("exact");
    expect(third.ancestors.map(({ match }) => match.pathMatching)).toEqual(["exact", "exact"]);
  });

  it.each<[string, unknown]>([
    ["objects", "sharded"],
    ["shards", 4],
    ["locationHint", "weur"],
    ["jurisdiction", "eu"],
    ["durability", "relaxed"],
    ["consistency", "leased"],
    ["syncEvery", "1s"],
    ["timeout", "1s"],
    ["onError", "open"],
    ["denyCache", true],
    ["trustedProxies", 1],
    ["ipv6Prefix", 64],
    ["pathMatching", "exact"],
    ["match.pathMatching", "exact"],
  ])("a child that states %s is rejected with the name of the root", (field, value) => {
    const [first = "", within] = field.split(".");
    const stated = within === undefined ? { [first]: value } : { [first]: { [within]: value } };
    expect(linesOf(org, team, { ...user, ...stated })).toEqual([
      `POLICIES[2] (user) ${field}: expected nothing: the root "org" states it, got ${JSON.stringify(value)}`,
    ]);
  });

  it.each(["user", "team", "organisation", "", 5, null, ["org"]])(
    "within = %j names no earlier policy, which is a problem that lists the earlier ones",
    (within) => {
      const [line, ...others] = linesOf(org, { ...team, within }, { ...user, within: "org" });
      expect(line).toMatch(
        /^POLICIES\[1\] \(team\) within: expected the name of an earlier policy, one of "org", got /,
      );
      expect(others).toEqual([]);
    },
  );

  it("a misspelt parent gives a suggestion, and the first policy cannot be within any", () => {
    expect(linesOf(org, { ...team, within: "orgs" })[0]).toMatch(/; did you mean org\?$/);
    expect(linesOf({ ...org, within: "org" })).toEqual([
      'POLICIES[0] (org) within: expected the name of an earlier policy, and there is none, got "org"',
    ]);
  });

  it("a policy in a later list may be within one of an earlier list", () => {
    const { policies } = configOf({ ...secrets, POLICIES: [org], POLICIES_2: [team] });
    expect(policies[1]?.ancestors.map(({ policy }) => policy)).toEqual(["org"]);
  });

  it("the problems of a parent and those of its child are reported together, without problems that follow from them", () => {
    expect(linesOf({ ...org, key: "jwt" }, { ...team, dryRun: 1 }, { ...user, objects: "sharded" })).toEqual([
      expect.stringMatching(/^POLICIES\[0\] \(org\) key: expected 1 to 8 different key parts/),
      "POLICIES[1] (team) dryRun: expected true or false, got 1",
      'POLICIES[2] (user) objects: expected nothing: the root "team" states it, got "sharded"',
    ]);
  });

  it.each(["leased", "eventual"])("a policy with consistency = %s cannot be the root of others", (consistency) => {
    expect(linesOf({ ...org, consistency }, team)).toEqual([
      `POLICIES[1] (team) within: expected a policy with consistency = "strict", got "org"; "org" has consistency = "${consistency}"`,
    ]);
  });

  it("a key part of an ancestor in the key of a child is a problem, and so are more than 8 parts in total", () => {
    expect(linesOf(org, team, { ...user, key: ["jwt:sub", "jwt:org"] })).toEqual([
      'POLICIES[2] (user) key: expected key parts that "team" does not have: its key already has jwt:org, got ["jwt:sub","jwt:org"]',
    ]);
    const { key: _, ...byAddress } = team;
    expect(linesOf({ ...org, key: "ip" }, byAddress)).toEqual([
      'POLICIES[1] (team) key is missing: expected key parts that "org" does not have: its key already has ip',
    ]);
    const headers = (letter: string): string[] => Array.from({ length: 4 }, (_each, at) => `header:${letter}${at}`);
    const [root, child] = [
      { ...org, key: headers("a") },
      { ...team, key: headers("b") },
    ];
    expect(linesOf(root, child)).toEqual([]);
    expect(linesOf(root, child, user)).toEqual([
      'POLICIES[2] (user) key: expected at most 8 key parts together with the 8 of "team", got "jwt:sub"',
    ]);
  });

  it("an entry of a list of a child has a text for each part of the whole key", () => {
    const deny = [["acme", "core"]];
    expect(linesOf(org, { ...team, deny })).toEqual([]);
    expect(linesOf(org, { ...team, deny: ["core"] })).toEqual([
      expect.stringMatching(/^POLICIES\[1\] \(team\) deny\[0\]: expected .* a list of 2 texts for jwt:org, jwt:team/),
    ]);
  });
});

describe("a child that can never deny", () => {
  const root = { name: "org", key: "jwt:org" };

  it.each<[unknown, unknown, boolean]>([
    ["500/minute", "600/minute", true],
    ["500/hour", "600/minute", true],
    ["600/minute", "600/minute", false],
    ["600/minute", "500/minute", false],
    ["500/second", "600/minute", false],
    // The child denies a burst that the root allows.
    [{ limit: 500, window: "1m", strategy: "token-bucket", burst: 900 }, "600/minute", false],
    ["500/minute", { limit: 600, window: "1m", strategy: "token-bucket", burst: 20 }, false],
    // Requests in flight are not compared with requests per window.
    [{ limit: 5, window: "1m", strategy: "concurrency" }, "600/minute", false],
    [{ limit: 5, window: "10s", strategy: "concurrency" }, { limit: 6, window: "1m", strategy: "concurrency" }, true],
    ["500/minute", { limit: 600, window: "1m", strategy: "leaky-bucket" }, false],
  ])("with %j on the root, the limit %j of a child gives a warning: %s", (limits, own, isWarned) => {
    const warnings = warningsOf({ ...root, limits }, { ...team, limits: own });
    expect(warnings.filter((line) => line.includes("hardly ever denies")).length).toBe(isWarned ? 1 : 0);
  });

  it("the warning names the limit of the ancestor, at any distance", () => {
    expect(warningsOf({ ...org, limits: "5/minute" }, team, user)).toEqual([
      'POLICIES[1].limits: the limit "team" of the policy "team": it hardly ever denies a request, because the limit "org" of a policy that it is within is lower over the same or a longer window',
      'POLICIES[2].limits: the limit "user" of the policy "user": it hardly ever denies a request, because the limit "org" of a policy that it is within is lower over the same or a longer window',
    ]);
  });

  it.each<Fields>([
    { dryRun: true },
    { count: { status: ["401"] } },
    { cost: { from: "header:X-Rows", max: 9 } },
    { allow: ["acme"] },
    { overrides: [{ key: "acme", limits: "9000/minute" }] },
  ])("a root with %j may allow what the child denies, so there is no warning", (fields) => {
    expect(warningsOf({ ...org, limits: "5/minute", ...fields }, team)).toEqual([]);
  });

  it("only policies whose keys are in the same object share the rows of a key", () => {
    const limits = ["1d", "2d"].map((window) => ({ limit: 90_000, window, strategy: "sliding-log" }));
    const [first, second] = ["first", "second"].map((name) => ({ ...team, name, limits }));
    const alone = { name: "alone", key: ["jwt:org", "jwt:team"], limits };
    const warned = (...written: readonly (Fields | undefined)[]): readonly string[] =>
      warningsOf({ ...org, limits: "100000/minute" }, ...written.map((each) => each ?? {})).filter((line) =>
        line.includes("share the key"),
      );
    expect(warned(first, alone)).toEqual([]);
    expect(warned(first, second)).toEqual([
      expect.stringMatching(/^POLICIES: the policies "first", "second" share the key jwt:org, jwt:team,/),
    ]);
  });

  it("a key of a child that callers can invent gives no warning, because the root bounds it", () => {
    const byHeader = { name: "one", within: "all", key: "header:x-user", limits: "10/minute" };
    expect(warningsOf({ name: "all", key: "global", limits: "100/minute" }, byHeader)).toEqual([]);
    expect(warningsOf({ name: "one", key: "header:x-user", limits: "10/minute" })).toHaveLength(1);
  });
});

describe("the requests of a child", () => {
  const levels: readonly Fields[] = [
    { ...org, match: { path: "/v1/*", header: { "X-Plan": "pro" } } },
    { ...team, match: { methods: ["POST"] } },
    { ...user, match: { path: "/*/jobs", host: "h.example" } },
  ];
  const pro = { headers: { "X-Plan": "pro" }, method: "POST" };

  it.each<[string, string, Parameters<typeof requestTo>[1], string[]]>([
    ["all conditions hold", "/v1/jobs", pro, ["org", "team", "user"]],
    ["the path of the user does not match", "/v1/files", pro, ["org", "team"]],
    ["the method of the team does not match", "/v1/jobs", { ...pro, method: "GET" }, ["org"]],
    ["the path of the organisation does not match", "/v2/jobs", pro, []],
    ["the header of the organisation is missing", "/v1/jobs", { method: "POST" }, []],
    ["the host of the user does not match", "https://other.example/v1/jobs", pro, ["org", "team"]],
  ])("if %s, the levels above that condition apply", (_, target, options, names) => {
    const policies = policiesOf(...levels);
    expect(matchingPolicies(policies, requestTo(target, options)).map(({ name }) => name)).toEqual(names);
  });

  it("a preflight announces a child only where its root may apply", () => {
    const [root, child] = [
      { ...org, key: "ip", deny: ["203.0.113.7"], match: { path: "/v1/*", header: { "X-Plan": "pro" } } },
      { ...team, key: "path", deny: ["203.0.113.7"] },
    ];
    const blockedBy = (target: string, names: string): string[] => {
      const headers = {
        "CF-Connecting-IP": "203.0.113.7",
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": names,
      };
      const attributes = requestTo(target, { method: "OPTIONS", headers });
      return resolveAnnounced(policiesOf(root, child), attributes).blocked.map(({ policy }) => policy.name);
    };
    expect(blockedBy("/v1/a", "x-plan")).toEqual(["org", "team"]);
    expect(blockedBy("/v1/a", "x-other")).toEqual([]);
    expect(blockedBy("/v2/a", "x-plan")).toEqual([]);
  });

  it("a tree limits calls of /check only if its root does", () => {
    const named = (...written: readonly Fields[]): string[] =>
      configOf({ ...secrets, POLICIES: written }).selfPolicies.map(({ name }) => name);
    const checks = { match: { path: "/check/*" } };
    expect(named({ ...org, ...checks }, team)).toEqual(["org", "team"]);
    expect(named(org, { ...team, ...checks })).toEqual([]);
  });
});

describe("runtime rules of a child", () => {
  it("a rule for a child reads entries of the whole key, and keeps the place of the child in its tree", () => {
    const { last, policies } = treeOf({ ...org, objects: "sharded" }, { ...team, deny: [["acme", "old"]] });
    const problems: string[] = [];
    const read = (input: Fields) =>
      readPolicyRule(last, input, { policies, jwt: {} }, ({ accepted }) => problems.push(accepted));
    expect(read({ kind: "allow", entries: [["acme", "core"]] })).not.toBeNull();
    expect(read({ kind: "limits", limits: "7/minute" })).not.toBeNull();
    expect(problems).toEqual([]);
    expect(read({ kind: "allow", entries: ["core"] })).toBeNull();
    expect(problems).toEqual([expect.stringMatching(/a list of 2 texts for jwt:org, jwt:team/)]);
    const rules = [
      { id: "r1", kind: "limits", limits: "7/minute" },
      { id: "r2", kind: "allow", entries: [["acme", "core"]] },
    ];
    const state = { epoch: 1, version: 2, text: JSON.stringify(rules) };
    const { policy, refused } = policyWithRules(last, state, 0);
    expect(refused).toEqual([]);
    expect(policy).toMatchObject({ ancestors: last.ancestors, objects: last.objects, limits: [{ limit: 7 }] });
    expect(resolveCallerKey(policy, ["acme", "core"])?.kind).toBe("exempt");
    expect(resolveCallerKey(policy, ["acme", "old"])?.kind).toBe("blocked");
  });
});
