import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { forAll } from "../for-all.ts";
import { parseConfig } from "../../src/policy/vars/config.ts";
import { strategies } from "../../src/strategies/index.ts";
import { configOf, plain, problemsIn, type Variables } from "./parsed.ts";
import { ConfigProblems, describeProblem } from "../../src/validation/problems.ts";

describe("a problem written as one line", () => {
  const accepted = "anything else";

  it.for<[string, string, string, unknown]>([
    ["POLICIES[0].limits[1].window", "POLICIES", "[0].limits[1].window", "soon"],
    ["ORIGIN", "ORIGIN", "", "x"],
    ["STRATEGY.a", "STRATEGY", "a", ["x", 1, null]],
    ["limit", "", "limit", -5],
    ["[1].name", "", "[1].name", null],
  ])("a problem written as one line names its place and value: %s", ([place, variable, field, value]) => {
    expect(describeProblem({ variable, field, value, accepted })).toBe(
      `${place}: expected anything else, got ${JSON.stringify(value)}`,
    );
  });

  it("a missing value is reported as missing", () => {
    expect(describeProblem({ variable: "KEY_SECRET", field: "", value: undefined, accepted })).toBe(
      "KEY_SECRET is missing: expected anything else",
    );
  });

  it.for([
    ["one of the fields a, b; did you mean a?", "expected one of the fields a, b, got 5; did you mean a?"],
    ['"x; y"; or { a = 1 }; did you mean a?', 'expected "x; y"; or { a = 1 }, got 5; did you mean a?'],
    ['an odd " quotation mark; or a hint', 'expected an odd " quotation mark; or a hint, got 5'],
  ] as const)("a hint follows the quoted value: %s", ([text, line]) => {
    expect(describeProblem({ variable: "V", field: "", value: 5, accepted: text })).toBe(`V: ${line}`);
  });

  it("a long value is truncated", () => {
    const line = describeProblem({ variable: "V", field: "", value: "x".repeat(9_999), accepted });
    expect(line.length).toBeLessThan(300);
    expect(line).toContain("xxx…");
  });

  it("the message of ConfigProblems has a line for each problem, in order", () => {
    const variables = { ORIGIN: "x", LIMITS: "0/s", CHECK_PATH: "y" };
    const problems = problemsIn(variables);
    expect(problems).toHaveLength(4);
    expect(() => parseConfig(variables)).toThrow(problems.map(describeProblem).join("\n"));
  });
});

const name = fc.stringMatching(/^[a-z][a-z0-9_.-]{0,20}$/);
const limit = fc.record(
  {
    limit: fc.integer({ min: 1, max: 100_000 }),
    window: fc.constantFrom("1s", "30 seconds", "1m", "2 hours", "day"),
    strategy: fc.constantFrom(...strategies.keys()),
  },
  { requiredKeys: ["limit", "window"] },
);
const policy = fc.record(
  {
    name,
    match: fc.record(
      {
        methods: fc.subarray(["GET", "post", "DELETE"], { minLength: 1 }),
        path: fc.constantFrom("/", "/login", "/api/*", "/a/:id"),
        host: fc.constantFrom("example.com", "*.example.com"),
        header: fc.constantFrom({ "X-Plan": "free" }, { "X-Plan": true, "X-Beta": "a b" }),
      },
      { requiredKeys: [] },
    ),
    key: fc.oneof(
      fc.constantFrom("ip", "path, ip", "header:X-Tenant"),
      fc.subarray(["ip", "path", "global", "header:a", "cookie:b", "query:c[d]", "asn"], {
        minLength: 1,
      }),
    ),
    onMissingKey: fc.constantFrom("shared", "ip", "deny", "skip"),
    ipv6Prefix: fc.integer({ min: 32, max: 128 }),
    trustedProxies: fc.integer({ min: 1, max: 10 }),
    limits: fc.oneof(fc.constantFrom("1/s", "10/minute; 100/hour"), limit, fc.tuple(limit)),
    strategy: fc.constantFrom(...strategies.keys()),
    onError: fc.constantFrom("local", "open", "closed"),
    timeout: fc.constantFrom("100ms", "1 second"),
    objects: fc.constantFrom("per-key", "sharded"),
    locationHint: fc.constantFrom("weur", "apac-ne"),
    jurisdiction: fc.constantFrom("eu", "fedramp-high"),
    durability: fc.constantFrom("relaxed", "confirmed"),
    denyCache: fc.boolean(),
    consistency: fc.constant("strict"),
  },
  { requiredKeys: ["name", "limits"] },
);
const policies = fc.uniqueArray(policy, {
  minLength: 1,
  maxLength: 4,
  // Policies and limits of other policies must have different names.
  selector: (each) => each.name.split(".")[0],
});

describe("POLICIES as a list and as JSON text", () => {
  it(
    "a list and its JSON text give the same configuration",
    forAll([policies], (list) => {
      const fromText = configOf({ POLICIES: JSON.stringify(list, null, 1) });
      expect(fromText.policies).toHaveLength(list.length);
      expect(plain(fromText)).toEqual(plain(configOf({ POLICIES: list })));
      const [first, ...others] = list;
      const split = configOf({
        POLICIES: [first],
        ...(others.length > 0 && { POLICIES_2: others }),
      });
      // A warning contains the name of its variable.
      expect(plain({ ...split, warnings: fromText.warnings })).toEqual(plain(fromText));
      expect(split.warnings).toHaveLength(fromText.warnings.length);
    }),
  );

  it(
    "a list and its JSON text have the same problems",
    forAll([policies, fc.jsonValue({ maxDepth: 2 })], (list, fault) => {
      const text = JSON.stringify([...list, fault, { ...list[0], key: "x", limits: ["0/s"] }]);
      const quoteless = (variables: Variables): unknown[] =>
        problemsIn(variables).map(({ variable, field, accepted }) => [variable, field, accepted]);
      const fromText = quoteless({ POLICIES: text });
      expect(fromText).toEqual(quoteless({ POLICIES: JSON.parse(text) as unknown }));
      expect(fromText.length).toBeGreaterThan(2);
    }),
  );
});

describe("a secret", () => {
  const secret = fc.stringMatching(/^[a-z0-9]{8}$/).map((text) => `hunter2-${text}`);
  /** Valid and invalid configurations that contain a secret. */
  const wrapped = secret.chain((text) =>
    fc.constantFrom<unknown[]>(
      text,
      ` ${text}`,
      `${text}\n`,
      [text],
      [text, 5],
      { token: text },
      JSON.stringify([text, ""]),
      JSON.stringify({ token: text }),
      [[text]],
    ),
  );

  it(
    "no problem contains a secret, whatever else is wrong",
    forAll(
      [wrapped, wrapped, wrapped, wrapped, secret, fc.boolean()],
      (keySecret, originSecret, tokens, jwtKey, password, isPolicyFine) => {
        const problems = problemsIn({
          KEY_SECRET: keySecret,
          ORIGIN_SECRET: originSecret,
          CHECK_TOKENS: tokens,
          ADMIN_TOKENS: tokens,
          JWT_KEY: jwtKey,
          JWT_JWKS_URL: `https://id.example/?key=${password}`,
          ORIGIN: `https://user:${password}@origin.example`,
          CHECK_PATH: "wrong",
          LIMITS: isPolicyFine ? "1/s" : "0/s",
        });
        expect(problems.length).toBeGreaterThanOrEqual(2);
        expect(JSON.stringify(problems)).not.toContain("hunter2");
        expect(new ConfigProblems(problems).message).not.toContain("hunter2");
      },
    ),
  );
});

describe("variables of any shape", () => {
  const any = fc.anything({ maxDepth: 2 });
  const entry = fc.record({ limit: any, window: any, strategy: any, name: any, align: any }, { requiredKeys: [] });
  const anyPolicy = fc.record(
    {
      name: fc.oneof(name, any),
      match: fc.oneof(fc.record({ methods: any, path: any, host: any, header: any }, { requiredKeys: [] }), any),
      key: fc.oneof(fc.constant("jwt:sub"), any),
      onMissingKey: any,
      ipv6Prefix: fc.oneof(fc.integer(), any),
      trustedProxies: fc.oneof(fc.integer(), any),
      limits: fc.oneof(fc.constant("1/s"), fc.array(entry, { maxLength: 3 }), any),
      strategy: any,
      onError: any,
      timeout: any,
      objects: fc.oneof(fc.constantFrom("per-key", "sharded"), any),
      shards: fc.oneof(fc.integer(), any),
      locationHint: any,
      jurisdiction: any,
      durability: any,
      denyCache: any,
      consistency: fc.oneof(fc.constantFrom("strict", "leased", "eventual"), any),
      syncEvery: any,
    },
    { requiredKeys: [] },
  );
  const lists = fc.oneof(policies, fc.array(anyPolicy, { maxLength: 3 }), any);
  const asText = lists.map((list) => JSON.stringify(list));
  const variables = fc.record(
    {
      ORIGIN: fc.oneof(fc.webUrl(), any),
      ORIGIN_SECRET: any,
      POLICIES: fc.oneof(lists, asText),
      POLICIES_2: lists,
      LIMITS: fc.oneof(fc.constant("1/s"), entry, any),
      STRATEGY: any,
      KEY: any,
      CHECK_PATH: fc.oneof(fc.webPath(), any),
      CHECK_TOKENS: any,
      ADMIN_PATH: fc.oneof(fc.webPath(), any),
      ADMIN_HOST: fc.oneof(fc.domain(), any),
      ADMIN_TOKENS: any,
      ACCESS_TEAM: fc.oneof(fc.domain(), any),
      ACCESS_AUDIENCE: any,
      REVEAL: any,
      SAMPLE: any,
      DENIALS: any,
      KEY_SECRET: fc.oneof(fc.constant("s"), any),
      JWT_KEY: fc.oneof(fc.base64String(), fc.json(), any),
      JWT_JWKS_URL: fc.oneof(fc.webUrl(), any),
      JWT_ISSUER: any,
      JWT_AUDIENCE: any,
      ORIGIN_TIMEOUT: any,
      CORS_ORIGINS: any,
      PREFLIGHT_LIMITS: any,
      LEGACY_HEADERS: any,
    },
    { requiredKeys: [] },
  );

  it(
    "variables of any shape give a configuration or problems that name variables",
    forAll(
      [variables],
      (env) => {
        const problems = problemsIn(env);
        if (problems.length === 0) return parseConfig(env).policies.length > 0;
        const { message } = new ConfigProblems(problems);
        return problems.every(
          (problem) =>
            /^[A-Z_2]+$/.test(problem.variable) &&
            problem.accepted !== "" &&
            message.includes(describeProblem(problem)),
        );
      },
      500,
    ),
  );

  it(
    "each problem names the variable that is wrong",
    forAll(
      [
        any,
        fc.constantFrom(
          "ORIGIN",
          "CHECK_PATH",
          "CHECK_TOKENS",
          "ADMIN_PATH",
          "ADMIN_HOST",
          "ADMIN_TOKENS",
          "REVEAL",
          "SAMPLE",
          "DENIALS",
          "ORIGIN_SECRET",
          "KEY",
          "JWT_KEY",
          "JWT_JWKS_URL",
          "JWT_ISSUER",
          "JWT_AUDIENCE",
          "ORIGIN_TIMEOUT",
          "CORS_ORIGINS",
          "LEGACY_HEADERS",
        ),
      ],
      (value, variable) => {
        const problems = problemsIn({ LIMITS: "1/s", KEY_SECRET: "s", [variable]: value });
        expect(problems.every((problem) => problem.variable === variable)).toBe(true);
        expect(problems.length).toBeLessThanOrEqual(1);
      },
    ),
  );

  it("reading a configuration does not change its variables", () => {
    const env = { POLICIES: [{ name: "a", limits: ["1/s"], match: { methods: ["get"] } }] };
    const before = structuredClone(env);
    configOf(env);
    expect(env).toEqual(before);
  });
});
