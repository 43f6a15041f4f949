import { describe, expect, it } from "vitest";
import { partName } from "../../src/policy/key.ts";
import { readPolicy } from "../../src/policy/policy.ts";
import { describeProblem } from "../../src/validation/problems.ts";
import { configOf, namedProblemsIn, placesOf, plain, problemsIn } from "./parsed.ts";

const secret = { KEY_SECRET: "s" };

const policiesOf = (POLICIES: unknown): unknown => plain(configOf({ POLICIES }));

const problemsOfPolicy = (policy: unknown): unknown[] => [...problemsIn({ ...secret, POLICIES: [policy] })];

describe("a policy", () => {
  it("a policy has its configured fields, and defaults for the others", () => {
    const policy = {
      name: "login",
      match: { methods: ["post", "PUT"], path: "/login", host: "*.example.com" },
      key: ["ip", "path", "header:X-Api-Key"],
      limits: ["5/minute", { limit: 50, window: "1d", strategy: "sliding-log", name: "daily" }],
      strategy: "fixed-window",
      onError: "closed",
      timeout: "250 ms",
      objects: "sharded",
      shards: 64,
      locationHint: "weur",
      jurisdiction: "eu",
      durability: "confirmed",
    };
    expect(policiesOf([policy])).toMatchObject({
      policies: [
        {
          name: "login",
          methods: ["POST", "PUT"],
          path: "/login",
          host: "*.example.com",
          key: [{ kind: "ip" }, { kind: "path" }, { kind: "header", name: "x-api-key" }],
          limits: [
            { name: "login.5-per-1m", strategy: "fixed-window", limit: 5, windowMs: 60_000 },
            { name: "daily", strategy: "sliding-log", limit: 50, windowMs: 86_400_000 },
          ],
          onError: "closed",
          timeoutMs: 250,
          objects: { shards: 64, locationHint: "weur", jurisdiction: "eu" },
          durability: "confirmed",
        },
      ],
    });
  });

  it("a policy whose match is absent or empty matches every request, and its key defaults to ip", () => {
    for (const match of [{}, { match: {} }]) {
      expect(policiesOf([{ name: "a", limits: "1/s", ...match }])).toMatchObject({
        policies: [{ methods: null, path: null, host: null, key: [{ kind: "ip" }] }],
      });
    }
  });

  it.for<[unknown, string[]]>([
    ["ip", ["ip"]],
    ["global", ["global"]],
    [" ip , path ", ["ip", "path"]],
    [
      ["path", " header:X-Tenant "],
      ["path", "header:x-tenant"],
    ],
    ["HEADER:A,header:b", ["header:a", "header:b"]],
    [
      ["ip", "global"],
      ["ip", "global"],
    ],
  ])("a policy accepts the key %j", ([key, expected]) => {
    const { policies } = configOf({ POLICIES: [{ name: "a", limits: "1/s", key }] });
    expect(policies[0]?.key.map(partName)).toEqual(expected);
  });

  it.for([
    ["10ms", 10],
    ["30s", 30_000],
    ["second", 1_000],
  ] as const)("a policy accepts the timeout %s", ([timeout, timeoutMs]) => {
    const { policies } = configOf({ POLICIES: [{ name: "a", limits: "1/s", timeout }] });
    expect(policies[0]?.timeoutMs).toBe(timeoutMs);
  });

  it.for(["a", "a1_.-b", `a${"9".repeat(63)}`])("a policy accepts the name %s", (name) => {
    expect(policiesOf([{ name, limits: "1/s" }])).toMatchObject({ policies: [{ name }] });
  });
});

describe("a problem of a policy", () => {
  it.for<[string, Record<string, unknown>, string, RegExp]>([
    ["no name", { name: undefined }, "name", /1 to 64 characters/],
    ["name in upper case", { name: "Login" }, "name", /1 to 64 characters/],
    ["name with a space", { name: "log in" }, "name", /1 to 64 characters/],
    ["name that begins with a digit", { name: "1st" }, "name", /begins with a letter/],
    ["name that is too long", { name: "a".repeat(65) }, "name", /1 to 64 characters/],
    ["name that is no text", { name: 5 }, "name", /1 to 64 characters/],
    ["unknown strategy", { strategy: "magic" }, "strategy", /"sliding-window-counter"/],
    ["unknown field", { matches: {} }, "matches", /fields name, match, key, onMissingKey/],
    ["inherited field", { constructor: 1 }, "constructor", /fields name, match, key/],
    ["match that is a text", { match: "/login" }, "match", /^an object$/],
    ["unknown field of a match", { match: { verb: "GET" } }, "match.verb", /methods, path, host/],
    ["methods in one text", { match: { methods: "GET, PUT" } }, "match.methods", /list of HTTP/],
    ["empty text for methods", { match: { methods: "" } }, "match.methods", /list of HTTP/],
    ["misspelt field of a match", { match: { method: "GET" } }, "match.method", /; did you mean methods\?$/],
    ["misspelt field", { limts: "1/s" }, "limts", /; did you mean limits\?$/],
    ["field of match", { methods: ["GET"] }, "methods", /; methods is a field of match$/],
    ["field of a limit", { burst: 5 }, "burst", /; burst is a field of a limit$/],
    ["misspelt field of a cost", { cost: { form: "query:n", max: 5 } }, "cost", /; did you mean from\?$/],
    ["misspelt field of count", { count: { statuses: ["401"] } }, "count", /; did you mean status\?$/],
    [
      "misspelt field of a ban",
      { ban: { after: 1, within: "1m", for: "1m", afer: 1 } },
      "ban.afer",
      /; did you mean after\?$/,
    ],
    ["misspelt field of onDeny", { onDeny: { stauts: 429 } }, "onDeny.stauts", /; did you mean status\?$/],
    ["no methods", { match: { methods: [] } }, "match.methods", /list of HTTP methods/],
    ["method that is none", { match: { methods: ["GET", "P UT"] } }, "match.methods", /list of/],
    ["path without a slash", { match: { path: "login" } }, "match.path", /"\/login" or "\/api/],
    ["path of another host", { match: { path: "https://h/a" } }, "match.path", /path pattern/],
    ["path that is no pattern", { match: { path: "/(" } }, "match.path", /path pattern/],
    ["path with a query", { match: { path: "/a?b=1" } }, "match.path", /path pattern/],
    ["path that is no text", { match: { path: ["/a"] } }, "match.path", /path pattern/],
    ["host with a port", { match: { host: "example.com:8080" } }, "match.host", /a host such/],
    ["host with a scheme", { match: { host: "https://example.com" } }, "match.host", /a host/],
    ["host with a path", { match: { host: "example.com/a" } }, "match.host", /a host such as/],
    ["empty host", { match: { host: "" } }, "match.host", /a host such as/],
    ["unknown part of a key", { key: ["ip", "planet"] }, "key", /"ip", "path", .*"jwt:<claim>"/],
    ["part in upper case", { key: "IP" }, "key", /different key parts/],
    ["part twice", { key: ["header:A", "header:a"] }, "key", /different key parts/],
    ["header without a name", { key: "header:" }, "key", /"header:<name>"/],
    ["header that is none", { key: ["header:a b"] }, "key", /"header:<name>"/],
    ["empty key", { key: [] }, "key", /^1 to 8 different/],
    ["empty text for a key", { key: "" }, "key", /^1 to 8 different/],
    ["nine parts", { key: Array.from("abcdefghi").map((c) => `header:${c}`) }, "key", /^1 to 8 different/],
    ["no limits", { limits: undefined }, "limits", /"10\/minute"/],
    ["limits that are null", { limits: null }, "limits", /"10\/minute"/],
    ["empty limits", { limits: [] }, "limits", /from 1 to 16 limits/],
    ["limit of 0", { limits: { limit: 0, window: "1s" } }, "limits.limit", /integer from 1/],
    ["bad duration", { limits: ["1/s", "1/soon"] }, "limits[1].window", /a duration/],
    ["unknown field of a limit", { limits: [{ limit: 1, window: "1s", per: 1 }] }, "limits[0].per", /limit, window/],
    ["failure mode", { onError: "ajar" }, "onError", /"local", "open", "closed"/],
    ["timeout too short", { timeout: "9ms" }, "timeout", /10 ms to 30 s/],
    ["timeout too long", { timeout: "31s" }, "timeout", /10 ms to 30 s/],
    ["timeout without a unit", { timeout: 500 }, "timeout", /"500ms"/],
  ])("a problem of a policy names its place, its value and what is accepted: %s", ([, wrong, place, accepted]) => {
    const policy = Object.fromEntries(
      Object.entries({ name: "a", limits: "1/s", ...wrong }).filter(([, value]) => value !== undefined),
    );
    expect(problemsOfPolicy(policy)).toEqual([
      {
        variable: "POLICIES",
        field: `[0].${place}`,
        value: valueAt(policy, place),
        accepted: expect.stringMatching(accepted),
      },
    ]);
  });

  /** The value at a place such as `limits[1].window`. For a limit in notation, this is its whole text. */
  function valueAt(policy: unknown, place: string): unknown {
    let value: unknown = policy;
    for (const step of place.match(/\w+/g) ?? []) {
      if (typeof value !== "object" || value === null) return value;
      value = Object.hasOwn(value, step) ? Reflect.get(value, step) : undefined;
    }
    return value;
  }

  it("the problems of all policies are reported together", () => {
    const POLICIES = [
      { name: "A", match: { methods: [], path: "x", host: "?" }, key: "x", limits: ["0/s", "1/x"] },
      { limits: [{ limit: 1, window: "soon", strategy: "magic" }], strategy: "magic" },
      7,
      { name: "c", limits: "1/s; 2/s", onError: "x", timeout: "x", colour: "x" },
    ];
    expect(placesOf({ ...secret, POLICIES }).toSorted()).toEqual(
      [
        "POLICIES [0].name",
        "POLICIES [0].match.methods",
        "POLICIES [0].match.path",
        "POLICIES [0].match.host",
        "POLICIES [0].key",
        "POLICIES [0].limits[0].limit",
        "POLICIES [0].limits[1].window",
        "POLICIES [1].name",
        "POLICIES [1].limits[0].window",
        "POLICIES [1].limits[0].strategy",
        "POLICIES [1].strategy",
        "POLICIES [2]",
        "POLICIES [3].limits",
        "POLICIES [3].onError",
        "POLICIES [3].timeout",
        "POLICIES [3].colour",
      ].toSorted(),
    );
  });
});

describe("the names of policies and limits", () => {
  const a = { name: "a", limits: "1/s" };

  /** The duplicate names that are reported, each with the place that the problem mentions. */
  const takenOf = (variables: Record<string, unknown>): unknown[] =>
    problemsIn({ ...secret, ...variables })
      .filter(({ accepted }) => accepted.includes("no other policy or limit"))
      .map(({ variable, field, value }) => [`${variable}${field}`, value]);

  it("duplicate names are reported even if one of the policies is invalid", () => {
    const taken = [["POLICIES[1].name", "a"]];
    expect(takenOf({ POLICIES: [a, a] })).toEqual(taken);
    expect(takenOf({ POLICIES: [{ ...a, limits: "0/s" }, a] })).toEqual(taken);
    expect(takenOf({ POLICIES: [a, { ...a, key: "x" }] })).toEqual(taken);
    expect(takenOf({ POLICIES: [{ name: "a" }, { name: "a", colour: 1 }] })).toEqual(taken);
  });

  it("the problem of a duplicate name states the place that already has the name", () => {
    const [problem] = problemsIn({ ...secret, POLICIES: [a], POLICIES_2: [a] });
    expect(problem).toMatchObject({ variable: "POLICIES_2", field: "[0].name", value: "a" });
    expect(problem?.accepted).toContain("POLICIES[0] has the same");
  });

  it("names are unique across POLICIES and POLICIES_2", () => {
    expect(takenOf({ POLICIES: [a], POLICIES_2: [a] })).toEqual([["POLICIES_2[0].name", "a"]]);
  });

  it("the name of a policy cannot equal that of another policy's limit", () => {
    const several = { name: "b", limits: "1/s; 5/minute" };
    expect(takenOf({ POLICIES: [several, { name: "b.5-per-1m", limits: "1/s" }] })).toEqual([
      ["POLICIES[1].name", "b.5-per-1m"],
    ]);
    const named = { name: "b", limits: { limit: 1, window: "1s", name: "c" } };
    expect(takenOf({ POLICIES: [named, { name: "c", limits: "1/s" }] })).toHaveLength(1);
  });

  it("the name of a policy may equal that of its own limit", () => {
    const policy = { name: "a", limits: { limit: 1, window: "1s", name: "a" } };
    expect(problemsIn({ ...secret, POLICIES: [policy] })).toEqual([]);
  });
});

describe("POLICIES", () => {
  const named = (name: string): unknown => ({ name, limits: "1/s" });
  const namesOf = (variables: Record<string, unknown>): string[] =>
    configOf({ POLICIES: undefined, ...variables }).policies.map(({ name }) => name);

  it("POLICIES, POLICIES_2, … are concatenated in the order of their numbers", () => {
    const variables = Object.fromEntries([
      ...[10, 9, 8, 7, 6, 5, 4, 3].map((number) => [`POLICIES_${number}`, [named(`p${number}`)]]),
      ["POLICIES_2", [named("b"), named("c")]],
      ["POLICIES", [named("a")]],
    ]);
    const numbered = ["p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10"];
    expect(namesOf(variables)).toEqual(["a", "b", "c", ...numbered]);
  });

  it("POLICIES_2 is valid without POLICIES", () => {
    expect(namesOf({ POLICIES_2: [named("b")] })).toEqual(["b"]);
  });

  it.for([
    [{ LIMITS: "1/s" }, "POLICIES"],
    [{ LIMITS: "0/s", STRATEGY: "token-bucket", KEY: "ip" }, "POLICIES"],
    [{ KEY: "ip" }, "POLICIES_2"],
  ] as const)("each variable of the short form beside POLICIES is one problem: %j", ([short, list]) => {
    expect(problemsIn({ ...secret, ...short, [list]: [named("a")] })).toEqual(
      Object.entries(short).map(([variable, value]) => ({
        variable,
        field: "",
        value,
        accepted: `no value, because ${list} is set; to keep its policy, write it in ${list} with name = "default" and ${variable.toLowerCase()} = …`,
      })),
    );
    expect(problemsIn({ ...secret, LIMITS: "", [list]: [named("a")] })).toEqual([]);
  });

  it("a problem names its policy, unless the name of the policy is invalid or is missing", () => {
    const lists = {
      POLICIES: [{ name: "login", limits: "0/s" }, { name: "Log in", limits: "1/s" }, { limits: "1/s" }],
      POLICIES_2: JSON.stringify([{ continues: "login", allow: [1] }]),
    };
    const problems = namedProblemsIn({ ...secret, ...lists });
    expect(problems.map(({ variable, field, policy }) => [variable, field, policy])).toEqual([
      ["POLICIES", "[0].limits.limit", "login"],
      ["POLICIES_2", "[0].allow[0]", "login"],
      ["POLICIES", "[1].name", undefined],
      ["POLICIES", "[2].name", undefined],
    ]);
    expect(problems.map(describeProblem).slice(0, 2)).toEqual([
      expect.stringMatching(/^POLICIES\[0\] \(login\) limits\.limit: expected an integer/),
      expect.stringMatching(/^POLICIES_2\[0\] \(login\) allow\[0\]: expected /),
    ]);
  });

  it.for<[string[], string, string]>([
    [["POLICIES", "POLICIES_3"], "POLICIES_2", "POLICIES_3"],
    [["POLICIES_3"], "POLICIES_2", "POLICIES_3"],
    [["POLICIES", "POLICIES_2", "POLICIES_7", "POLICIES_4"], "POLICIES_3", "POLICIES_7"],
  ])("a gap in the numbers of POLICIES is a problem: %j", ([names, missing, last]) => {
    const variables = Object.fromEntries(names.map((name) => [name, [named(name.toLowerCase())]]));
    expect(problemsIn({ ...secret, ...variables })).toEqual([
      {
        variable: missing,
        field: "",
        value: undefined,
        accepted: `a list of policies, because ${last} is set; the numbers must have no gaps`,
      },
    ]);
  });

  it("POLICIES may be a list while POLICIES_2 is JSON text", () => {
    const text = ` [${JSON.stringify(named("b"))}]\n`;
    expect(namesOf({ POLICIES: [named("a")], POLICIES_2: text })).toEqual(["a", "b"]);
  });

  it.for<[string, unknown]>([
    ["not JSON", "name = a"],
    ["JSON that is broken", '[{"name":"a","limits":"1/s"},]'],
    ["JSON of one policy", '{"name":"a","limits":"1/s"}'],
    ["one policy", { name: "a", limits: "1/s" }],
    ["an empty list", []],
    ["an empty list in JSON", "[]"],
    ["blank", "  "],
    ["a number", 5],
    ["a boolean", false],
  ])("POLICIES and POLICIES_2 reject %s", ([, value]) => {
    const POLICIES = [named("a")];
    const accepted = expect.stringContaining("list");
    expect(problemsIn({ ...secret, POLICIES: value })).toEqual([{ variable: "POLICIES", field: "", value, accepted }]);
    expect(problemsIn({ ...secret, POLICIES, POLICIES_2: value })).toEqual([
      { variable: "POLICIES_2", field: "", value, accepted },
    ]);
  });

  it.for(["x", null, 5, [named("a")]])("POLICIES rejects %j in place of a policy", (policy) => {
    expect(placesOf({ ...secret, POLICIES: [named("a"), policy] })[0]).toMatch(/^POLICIES \[1\]/);
  });
});

describe("a policy for calls of /check", () => {
  it.for<[string | undefined, string, boolean]>([
    [undefined, "/check/*", true],
    [undefined, "/CHECK/batch", true],
    ["/Check", "/check/*", true],
    [undefined, "/checkout", false],
    ["/limits", "/check/*", false],
  ])(
    "with CHECK_PATH %j, compared without regard to case, a policy for the path %j limits calls of /check: %s",
    ([CHECK_PATH, path, isOwn]) => {
      const POLICIES = [{ name: "own", limits: "1/s", match: { path } }];
      const { selfPolicies } = configOf({ POLICIES, CHECK_PATH });
      expect(selfPolicies.map(({ name }) => name)).toEqual(isOwn ? ["own"] : []);
    },
  );
});

describe("an invalid policy", () => {
  it.for<[string, object]>([
    ["its fields", { name: "A" }],
    ["its limits", { limits: "0/s" }],
    ["its exceptions", { deny: ["x/y"] }],
    ["its shards", { shards: 5 }],
  ])("a policy with one problem is not returned: %s", ([, fields]) => {
    const problems: unknown[] = [];
    const written = { name: "a", limits: "1/s", ...fields };
    expect(readPolicy("POLICIES", "[0]", written, (problem) => problems.push(problem))).toBeNull();
    expect(problems).toHaveLength(1);
  });
});
