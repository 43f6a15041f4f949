import { describe, expect, it } from "vitest";
import { partName } from "../../src/policy/key.ts";
import { configOf, placesOf, plain, problemsIn } from "./parsed.ts";

const policy = { name: "a", limits: "1/s" };
const JWT_KEY = "a secret of at least thirty-two bytes";

const parsed = (fields: object): object =>
  configOf({ JWT_KEY, POLICIES: [{ ...policy, ...fields }] }).policies[0] ?? {};

const problemsWith = (fields: object): unknown[] => [
  ...problemsIn({ KEY_SECRET: "s", JWT_KEY, POLICIES: [{ ...policy, ...fields }] }),
];

describe("the field key", () => {
  it.for(["ip", "path", "method", "host", "country", "continent", "asn", "colo", "global"])(
    "the key accepts the part %s",
    (key) => {
      expect(parsed({ key })).toMatchObject({ key: [{ kind: key }] });
    },
  );

  it.for([
    ["header:X-Tenant", "header:x-tenant"],
    ["Header:x", "header:x"],
    ["cookie:Session_ID", "cookie:Session_ID"],
    ["COOKIE:__Host-sid", "cookie:__Host-sid"],
    ["query:api_key", "query:api_key"],
    ["query:filter[user]", "query:filter[user]"],
    ["query:a:b", "query:a:b"],
    ["jwt:sub", "jwt:sub"],
    ["jwt:https://id.example/tenant", "jwt:https://id.example/tenant"],
    ["jwt:Plan", "jwt:Plan"],
  ] as const)("the key accepts the list %s", ([key, expected]) => {
    const { policies } = configOf({ JWT_KEY, POLICIES: [{ ...policy, key }] });
    expect(policies[0]?.key.map(partName)).toEqual([expected]);
  });

  it("names of cookies, query parameters and claims are case-sensitive, and those of headers are not", () => {
    const key = ["cookie:a", "cookie:A", "query:a", "query:A", "jwt:a", "jwt:A", "header:a"];
    expect(parsed({ key })).toMatchObject({ key: { length: 7 } });
    expect(problemsWith({ key: ["header:a", "header:A"] })).toHaveLength(1);
  });

  it.for([
    "cookie",
    "cookie:",
    "cookie:a b",
    "cookie:a;b",
    "cookie:a=b",
    `cookie:${"a".repeat(65)}`,
    "query:",
    "query:a b",
    "query:ä",
    `query:${"a".repeat(129)}`,
    "jwt",
    "jwt:",
    "jwt: sub",
    "claim:sub",
    "header",
    "Path",
    "ip:4",
    "countries",
  ])("the key rejects %j", (key) => {
    expect(problemsWith({ key })).toEqual([
      {
        variable: "POLICIES",
        field: "[0].key",
        value: key,
        accepted: expect.stringMatching(/"country".*"cookie:<name>".*"jwt:<claim>"/),
      },
    ]);
  });
});

describe("the fields about keys and addresses", () => {
  it.for(["shared", "ip", "deny", "skip"])("onMissingKey may be %s", (onMissingKey) => {
    expect(parsed({ onMissingKey })).toMatchObject({ onMissingKey });
  });

  it.for([32, 33, 48, 56, 64, 127, 128])("ipv6Prefix may be %i", (ipv6Prefix) => {
    expect(parsed({ ipv6Prefix })).toMatchObject({ addresses: { ipv6Prefix } });
  });

  it.for([1, 2, 10])("trustedProxies may be %i", (trustedProxies) => {
    expect(parsed({ trustedProxies })).toMatchObject({ addresses: { trustedProxies } });
  });

  it("onMissingKey, ipv6Prefix and trustedProxies have defaults", () => {
    expect(parsed({})).toMatchObject({
      onMissingKey: "shared",
      addresses: { ipv6Prefix: 64, trustedProxies: null },
      match: { headers: null },
    });
  });

  it("match.header accepts the name of one header, with any value", () => {
    const policyOf = (header: unknown): unknown =>
      configOf({ POLICIES: [{ ...policy, match: { header } }] }).policies[0]?.match.headers;
    expect(policyOf("X-Beta")).toEqual(new Map([["x-beta", true]]));
    expect(policyOf("X-Beta")).toEqual(policyOf({ "X-Beta": true }));
  });

  it("a key may have eight parts", () => {
    const key = Array.from("abcdefgh", (name) => `header:${name}`);
    expect(configOf({ POLICIES: [{ ...policy, key }] }).policies[0]?.key).toHaveLength(8);
    expect(problemsIn({ KEY_SECRET: "s", POLICIES: [{ ...policy, key: [...key, "ip"] }] })).toMatchObject([
      { field: "[0].key" },
    ]);
  });

  it("match.methods accepts one method", () => {
    const policyOf = (methods: unknown): unknown =>
      configOf({ POLICIES: [{ ...policy, match: { methods } }] }).policies[0]?.match.methods;
    expect(policyOf("post")).toEqual(new Set(["POST"]));
    expect(policyOf("post")).toEqual(policyOf(["POST"]));
  });

  it("names in match.header are case-insensitive", () => {
    const POLICIES = [{ ...policy, match: { header: { "X-Plan": "free", "X-BETA": true } } }];
    expect(plain(configOf({ POLICIES }))).toMatchObject({
      policies: [{ headers: { "x-plan": "free", "x-beta": true } }],
    });
  });

  const modes = 'one of "shared", "ip", "deny", "skip"';
  const prefixes = "an integer from 32 to 128";
  const proxies = "an integer from 1 to 10";

  it.for<[string, unknown, string]>([
    ["onMissingKey", "allow", modes],
    ["onMissingKey", "Deny", modes],
    ["onMissingKey", null, modes],
    ["onMissingKey", true, modes],
    ["ipv6Prefix", 31, prefixes],
    ["ipv6Prefix", 129, prefixes],
    ["ipv6Prefix", 56.5, prefixes],
    ["ipv6Prefix", "64", prefixes],
    ["ipv6Prefix", null, prefixes],
    ["trustedProxies", 0, proxies],
    ["trustedProxies", 11, proxies],
    ["trustedProxies", -1, proxies],
    ["trustedProxies", 1.5, proxies],
    ["trustedProxies", "1", proxies],
    ["trustedProxies", true, proxies],
    ["trustedProxies", ["10.0.0.0/8"], proxies],
  ])("the field %s rejects %j", ([field, value, accepted]) => {
    expect(problemsWith({ [field]: value })).toEqual([
      { variable: "POLICIES", field: `[0].${field}`, value, accepted },
    ]);
  });

  it.for<[string, unknown]>([
    ["a text that is no name", "X Plan"],
    ["an empty text", ""],
    ["a list", ["X-Plan"]],
    ["nothing", {}],
    ["null", null],
    ["absence", { "X-Plan": false }],
    ["a number", { "X-Plan": 1 }],
    ["an empty value", { "X-Plan": "" }],
    ["a value in spaces", { "X-Plan": " free" }],
    ["a value of two lines", { "X-Plan": "a\nb" }],
    ["a list of values", { "X-Plan": ["free", "pro"] }],
    ["a name that is none", { "X Plan": "free" }],
    ["an empty name", { "": "free" }],
    ["one name twice", { "X-Plan": "free", "x-plan": "pro" }],
    ["one bad header of two", { "X-Plan": "free", "X-Beta": 1 }],
  ])("match.header rejects %s", ([, header]) => {
    expect(problemsWith({ match: { header } })).toEqual([
      {
        variable: "POLICIES",
        field: "[0].match.header",
        value: header,
        accepted: expect.stringContaining('{ "X-Plan" = "free", "X-Beta" = true }'),
      },
    ]);
  });

  it("problems of several fields about keys are reported together", () => {
    const wrong = { onMissingKey: 1, ipv6Prefix: 0, trustedProxies: 0, key: "x" };
    const places = placesOf({ KEY_SECRET: "s", POLICIES: [{ ...policy, ...wrong }] });
    expect(places.toSorted()).toEqual(
      Object.keys(wrong)
        .map((field) => `POLICIES [0].${field}`)
        .toSorted(),
    );
  });
});

describe("a key that callers can invent", () => {
  const warningsOf = (fields: object): readonly string[] =>
    configOf({ JWT_KEY, POLICIES: [{ ...policy, ...fields }] }).warnings;

  it.for<[unknown, string]>([
    ["header:X-Api-Key", '"header:x-api-key"'],
    ["cookie:sid", '"cookie:sid"'],
    ["query:key", '"query:key"'],
    ["path", '"path"'],
    ["host", '"host"'],
    [["path", "method"], '"path", "method"'],
    [["global", "header:a", "cookie:b"], '"global", "header:a", "cookie:b"'],
  ])("a key that callers can invent gives a warning with reason and advice: %j", ([key, names]) => {
    expect(warningsOf({ key })).toEqual([
      expect.stringMatching(
        /^POLICIES\[0\]\.key: the policy "a": callers can invent the values .*creates an object.*"ip".*objects = "sharded"/,
      ),
    ]);
    expect(warningsOf({ key })[0]).toContain(names);
  });

  it.for(["ip", "global", "method", "jwt:sub", ["ip", "path"], ["jwt:sub", "path"], "asn"])(
    "a key that callers cannot invent gives no warning: %j",
    (key) => {
      expect(warningsOf({ key })).toEqual([]);
    },
  );

  it("a key that callers can invent gives no warning if its objects are sharded", () => {
    expect(warningsOf({ key: "path", objects: "sharded" })).toEqual([]);
  });

  it("with LIMITS, STRATEGY and KEY, the warning about an inventable key names the variable KEY", () => {
    const LIMITS = { limit: 5, window: "1m", strategy: "fixed-window", elastic: true };
    expect(configOf({ LIMITS, KEY: "path" }).warnings).toEqual([
      expect.stringMatching(/^LIMITS: .*elastic/),
      expect.stringMatching(/^KEY: the policy "default": .*"path"/),
    ]);
  });
});
