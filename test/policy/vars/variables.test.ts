import { describe, expect, it } from "vitest";
import { configOf, placesOf, plain, problemsIn, whole } from "../parsed.ts";

describe("the minimal configuration", () => {
  it("limits and KEY_SECRET alone are a valid configuration", () => {
    expect(plain(configOf(whole))).toEqual({
      origin: "none",
      originTimeoutMs: 100_000,
      preflights: expect.objectContaining({ name: "headgate.preflights" }),
      corsOrigins: { kind: "none" },
      hasLegacyHeaders: false,
      logsDenials: false,
      originSecret: null,
      checkPath: "/check",
      isLookOpen: false,
      admin: null,
      alerts: null,
      sampleOneKeyIn: 64,
      mostDenials: 10_000,
      checkTokens: [],
      keySecret: "the tests' secret",
      jwt: null,
      warnings: [],
      selfPolicies: [],
      policies: [
        {
          name: "default",
          methods: null,
          path: null,
          host: null,
          headers: null,
          ancestors: [],
          key: [{ kind: "ip" }],
          onMissingKey: "shared",
          addresses: { ipv6Prefix: 64, trustedProxies: null },
          limits: [
            {
              name: "default",
              strategy: "sliding-window-counter",
              limit: 10,
              windowMs: 60_000,
              align: "first-request",
            },
          ],
          lists: { overrides: [], allow: [], deny: [] },
          cost: { kind: "fixed", units: 1 },
          count: null,
          ban: null,
          share: null,
          weight: 1,
          weights: [],
          classes: [],
          upTo: 100,
          isDryRun: false,
          onDeny: null,
          onError: "local",
          timeoutMs: 1_000,
          objects: { shards: null, locationHint: null, jurisdiction: null },
          durability: "relaxed",
          isDenyCached: true,
          consistency: { kind: "strict" },
          written: { name: "default", limits: "10/minute" },
          rules: null,
          isOff: false,
          modeRule: null,
          limitsRule: null,
          ruleLists: { overrides: [], allow: [], deny: [] },
        },
      ],
    });
  });

  const names = (
    "ORIGIN ORIGIN_SECRET CHECK_PATH CHECK_TOKENS STRATEGY KEY " +
    "ADMIN_PATH ADMIN_HOST ADMIN_TOKENS ACCESS_TEAM ACCESS_AUDIENCE REVEAL SAMPLE DENIALS " +
    "ALERT_WEBHOOK ALERT_SECRET ALERT_DENIED_SHARE ALERT_KEYS " +
    "JWT_KEY JWT_JWKS_URL JWT_ISSUER JWT_AUDIENCE " +
    "ORIGIN_TIMEOUT CORS_ORIGINS PREFLIGHT_LIMITS LEGACY_HEADERS"
  ).split(" ");
  it.for(["", null, undefined])("every optional variable treats %j as not set", (value) => {
    const unset = Object.fromEntries([...names, "POLICIES", "POLICIES_2"].map((n) => [n, value]));
    expect(plain(configOf({ ...unset, LIMITS: whole["LIMITS"] }))).toEqual(plain(configOf(whole)));
  });

  it.for(["", null, undefined])("KEY_SECRET and limits are reported as missing when they are %j", (value) => {
    const unset = {
      ORIGIN: "https://api.example.com",
      LIMITS: value,
      POLICIES: value,
      KEY_SECRET: value,
    };
    expect(problemsIn(unset)).toEqual([
      {
        variable: "POLICIES",
        field: "",
        value: undefined,
        accepted: expect.stringMatching(/list of policies.* LIMITS/),
      },
      {
        variable: "KEY_SECRET",
        field: "",
        value: undefined,
        accepted: expect.stringContaining("wrangler secret put KEY_SECRET"),
      },
    ]);
  });

  it("unknown variables do not change the configuration", () => {
    const others = { RATE_LIMITER: {}, PATH: "/usr/bin", POLICY: 1, LIMITS_2: "junk", ORIGINS: 1 };
    expect(plain(configOf({ ...whole, ...others }))).toEqual(plain(configOf(whole)));
  });
});

describe("CHECK_PATH", () => {
  it.for(["/check", "/limits", "/a/b/c", "/v1.2/rate-limit_check", "/0"])("CHECK_PATH accepts %s", (value) => {
    expect(configOf({ CHECK_PATH: value }).checkPath).toBe(value);
  });

  it.for([
    "/",
    "check",
    "/check/",
    "//check",
    "/a//b",
    "/check?x",
    "/check#x",
    "/:check",
    "/*",
    "/ch%65ck",
    "/che ck",
    "/chéck",
    "/./check",
    "/../check",
    "/check\n",
    "https://h.example/check",
    ["/check"],
    7,
    true,
  ])("CHECK_PATH rejects %j", (value) => {
    const problems = problemsIn({ ...whole, CHECK_PATH: value });
    const accepted = expect.stringMatching(/a path .*"\/check"/);
    expect(problems).toEqual([{ variable: "CHECK_PATH", field: "", value, accepted }]);
  });
});

describe("CHECK_TOKENS", () => {
  const every = new Set(["check", "look", "forget", "adhoc"]);

  it("a token in CHECK_TOKENS may have a tenant and rights", () => {
    const value = [
      { token: "a", tenant: "acme" },
      { token: "b", may: ["look", "look"] },
      "c",
      { token: "d", tenant: "naïve one", may: ["check", "adhoc"] },
    ];
    const expected = [
      { token: "a", tenant: "acme", may: every },
      { token: "b", tenant: null, may: new Set(["look"]) },
      { token: "c", tenant: null, may: every },
      { token: "d", tenant: "naïve one", may: new Set(["check", "adhoc"]) },
    ];
    for (const written of [value, JSON.stringify(value)]) {
      expect(configOf({ CHECK_TOKENS: written }).checkTokens).toEqual(expected);
    }
  });

  it.for<[unknown, string[]]>([
    ["one-token", ["one-token"]],
    ["sk_live+/=~.", ["sk_live+/=~."]],
    ['["first","second"]', ["first", "second"]],
    [' [ "first" ] ', ["first"]],
    [
      ["first", "second"],
      ["first", "second"],
    ],
  ])("CHECK_TOKENS accepts %j", ([value, expected]) => {
    expect(configOf({ CHECK_TOKENS: value }).checkTokens).toEqual(
      expected.map((token) => ({ token, tenant: null, may: every })),
    );
  });

  it.for<[string, unknown]>([
    ["a space", "hunter2 hunter2"],
    ["a line's end", "hunter2\n"],
    ["more than ASCII", "hunter2é"],
    ["an empty list", []],
    ["an empty list in JSON", "[]"],
    ["an empty token", ["hunter2", ""]],
    ["a token that is no text", ["hunter2", 5]],
    ["a list in a list", [["hunter2"]]],
    ["one bad token of two", '["hunter2","hunter2 "]'],
    ["an object", { tokens: ["hunter2"] }],
    ["a holder outside of a list", { token: "hunter2" }],
    ["a token that stands twice", ["hunter2", { token: "hunter2" }]],
    ["an empty tenant", [{ token: "hunter2", tenant: "" }]],
    ["a tenant of spaces", [{ token: "hunter2", tenant: "  " }]],
    ["a tenant that is no text", [{ token: "hunter2", tenant: 5 }]],
    ["a tenant that is too long", [{ token: "hunter2", tenant: "t".repeat(129) }]],
    ["a right that there is not", [{ token: "hunter2", may: ["check", "write"] }]],
    ["no rights", [{ token: "hunter2", may: [] }]],
    ["rights that are a text", [{ token: "hunter2", may: "check" }]],
    ["an unknown field", [{ token: "hunter2", tennant: "acme" }]],
    ["a number", 12_345],
    ["a boolean", true],
  ])("CHECK_TOKENS is rejected and not quoted with %s", ([, value]) => {
    const problems = problemsIn({ ...whole, CHECK_TOKENS: value });
    expect(problems).toEqual([
      {
        variable: "CHECK_TOKENS",
        field: "",
        value: "(hidden)",
        accepted: expect.stringMatching(/bearer token .*JSON list/),
      },
    ]);
  });
});

describe("the secrets", () => {
  it("secrets are kept unchanged", () => {
    const config = configOf({ KEY_SECRET: " spaces and ünïcode ", ORIGIN_SECRET: "sk_1~!" });
    expect(config.keySecret).toBe(" spaces and ünïcode ");
    expect(config.originSecret).toBe("sk_1~!");
  });

  it.for<[string, unknown]>([
    ["KEY_SECRET", 12_345],
    ["KEY_SECRET", ["hunter2"]],
    ["KEY_SECRET", { secret: "hunter2" }],
    ["KEY_SECRET", true],
    ["ORIGIN_SECRET", "hunter2 hunter2"],
    ["ORIGIN_SECRET", "hunter2\r\nX-Other: 1"],
    ["ORIGIN_SECRET", "hünter2"],
    ["ORIGIN_SECRET", 12_345],
    ["ORIGIN_SECRET", ["hunter2"]],
  ])("an invalid secret is not quoted: %s with the value %j", ([variable, value]) => {
    const problems = problemsIn({ ...whole, [variable]: value });
    expect(problems).toMatchObject([{ variable, field: "", value: "(hidden)" }]);
  });

  it("missing secrets are reported together with the other problems", () => {
    const wrong = {
      ORIGIN: "x",
      ORIGIN_SECRET: " ",
      CHECK_PATH: "x",
      CHECK_TOKENS: " ",
      LIMITS: "x",
    };
    expect(placesOf(wrong)).toEqual(["ORIGIN", "ORIGIN_SECRET", "CHECK_PATH", "LIMITS", "CHECK_TOKENS", "KEY_SECRET"]);
  });
});

describe("LIMITS, STRATEGY and KEY", () => {
  it("LIMITS, STRATEGY and KEY make one policy named default", () => {
    const { policies } = configOf({
      LIMITS: "100/minute; 10/second",
      STRATEGY: "fixed-window",
      KEY: "ip, header:X-Api-Key",
    });
    expect(policies).toMatchObject([
      {
        name: "default",
        key: [{ kind: "ip" }, { kind: "header", name: "x-api-key" }],
        limits: [
          { name: "default.100-per-1m", strategy: "fixed-window" },
          { name: "default.10-per-1s", strategy: "fixed-window" },
        ],
      },
    ]);
  });

  it.for<unknown>([
    [{ limit: 5, window: "1m" }, "50/hour"],
    '[{"limit":5,"window":"1m"},"50/hour"]',
    ' ["5/minute; 50/hour"]',
    "5/minute|50/hour",
  ])("LIMITS may be a list, JSON text or notation: %j", (value) => {
    const [policy] = configOf({ LIMITS: value }).policies;
    const [expected] = configOf({ LIMITS: "5/minute; 50/hour" }).policies;
    expect({ ...policy, written: null }).toEqual({ ...expected, written: null });
  });

  it.for<[string, Record<string, unknown>, unknown[]]>([
    ["bad text", { LIMITS: "ten" }, [{ variable: "LIMITS", field: "", value: "ten" }]],
    ["bad number", { LIMITS: "0/s" }, [{ variable: "LIMITS", field: "limit", value: "0/s" }]],
    ["a number alone", { LIMITS: 5 }, [{ variable: "LIMITS", field: "", value: 5 }]],
    [
      "bad field of a list",
      { LIMITS: ["1/s", { limit: 1, window: "soon" }] },
      [{ variable: "LIMITS", field: "[1].window", value: "soon" }],
    ],
    [
      "bad strategy of one limit",
      { LIMITS: '{"limit":1,"window":"1s","strategy":"x"}' },
      [{ variable: "LIMITS", field: "strategy", value: "x" }],
    ],
    ["unknown strategy", { LIMITS: "1/s", STRATEGY: "magic" }, [{ variable: "STRATEGY", field: "", value: "magic" }]],
    ["bad key", { LIMITS: "1/s", KEY: "ip;path" }, [{ variable: "KEY", field: "", value: "ip;path" }]],
    [
      "too many units for the strategy",
      { LIMITS: "100001/s", STRATEGY: "sliding-log" },
      [{ variable: "LIMITS", field: "limit", value: "100001/s" }],
    ],
    ["no limits for a key", { KEY: "path" }, [{ variable: "LIMITS", field: "", value: undefined }]],
  ])("a problem of LIMITS, STRATEGY or KEY names that variable: %s", ([, variables, expected]) => {
    const problems = problemsIn({ KEY_SECRET: "s", ...variables });
    expect(problems).toMatchObject(expected);
    expect(problems).toHaveLength(expected.length);
  });
});
