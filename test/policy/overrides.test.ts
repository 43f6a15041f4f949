import { describe, expect, it } from "vitest";
import type { Override } from "../../src/policy/lists.ts";
import type { Policy } from "../../src/policy/policy.ts";
import { partName } from "../../src/policy/key.ts";
import { configOf, problemsIn } from "./parsed.ts";

type Fields = Readonly<Record<string, unknown>>;

const JWT_KEY = "a secret of at least thirty-two bytes";
const limits = "2/s";
const key = "203.0.113.7";

const policyOf = (fields: Fields): Policy | undefined =>
  configOf({ JWT_KEY, POLICIES: [{ name: "a", limits: "1/s", ...fields }] }).policies[0];

/** The first override of a policy with these fields. */
const overrideOf = (override: unknown, fields: Fields = {}): Override | undefined =>
  policyOf({ ...fields, overrides: [override] })?.lists.overrides[0];

const problemsWith = (fields: Fields, variables: Fields = { JWT_KEY }) =>
  problemsIn({
    KEY_SECRET: "s",
    ...variables,
    POLICIES: [{ name: "a", limits: "1/s", ...fields }],
  });

/** The places in which a policy with these fields has problems. */
const placesWith = (fields: Fields, variables: Fields = { JWT_KEY }): string[] =>
  problemsWith(fields, variables).map(({ variable, field }) => `${variable} ${field}`.trim());

/**
 * The problems of an override that follows a valid one: the place within the override, the value, and what is accepted.
 */
const problemsAt = (override: unknown, fields: Fields = {}): unknown[] =>
  problemsWith({ ...fields, overrides: [{ key, limits }, override] }).map(({ field, value, accepted }) => [
    field.replace("[0].overrides[1]", ""),
    value,
    accepted,
  ]);

describe("the limits of an override", () => {
  it("the limits of an override inherit the strategy and the name of the policy", () => {
    expect(overrideOf({ key, limits: "100/minute" }, { strategy: "token-bucket" })).toMatchObject({
      limits: [{ name: "a", strategy: "token-bucket", limit: 100, windowMs: 60_000 }],
    });
    const several = ["5/s", { limit: 50, window: "1d", strategy: "sliding-log", name: "daily" }];
    expect(overrideOf({ key, limits: several })).toMatchObject({
      limits: [
        { name: "a.5-per-1s", strategy: "sliding-window-counter", limit: 5 },
        { name: "daily", strategy: "sliding-log", limit: 50 },
      ],
    });
  });

  it("the strategy of an override takes precedence over the policy's", () => {
    const own = { key, limits: ["5/s", { limit: 9, window: "1m", strategy: "sliding-log" }] };
    const strategy = "fixed-window";
    expect(overrideOf({ ...own, strategy }, { strategy: "token-bucket" })).toMatchObject({
      limits: [{ strategy }, { strategy: "sliding-log" }],
    });
  });

  it("limits of overrides may share names with each other and with their policy, but not with another policy", () => {
    const named = { limit: 1, window: "1s", name: "x" };
    const overrides = [
      { key, limits: named },
      { key, limits: named },
    ];
    expect(placesWith({ limits: named, overrides })).toEqual([]);
    const POLICIES = [
      { name: "x", limits: "1/s" },
      { name: "a", limits: "1/s", overrides },
    ];
    expect(problemsIn({ KEY_SECRET: "s", POLICIES })).toMatchObject([{ field: "[1].limits", value: "x" }]);
  });

  it("maxDelay applies to the limits of overrides", () => {
    const override = overrideOf({ key, limits, strategy: "leaky-bucket" }, { maxDelay: "2s" });
    expect(override).toMatchObject({ limits: [{ maxDelayMs: 2_000 }] });
  });

  it.for<[unknown, string]>([
    [undefined, "limits"],
    [null, "limits"],
    ["", "limits"],
    [[], "limits"],
    [5, "limits"],
    [true, "limits"],
    ["0/s", "limits.limit"],
    ["-1/s", "limits.limit"],
    ["1.5/s", "limits.limit"],
    ["NaN/s", "limits.limit"],
    ["5/fortnight", "limits.window"],
    ["5", "limits"],
    [["1/s", null], "limits[1]"],
    [["1/s", "1/s"], "limits[1]"],
    [[{ limit: 1, window: "1s", per: 1 }], "limits[0].per"],
    [{ limit: 1, window: "1s", strategy: "sliding-log", burst: 2 }, "limits.burst"],
    [{ limit: 100_001, window: "1s", strategy: "sliding-log" }, "limits.limit"],
    [Array.from({ length: 17 }, (_, index) => `1/${index + 1}s`), "limits"],
  ])("the limits of an override cannot be %j", ([wrong, place]) => {
    const override = wrong === undefined ? { key } : { key, limits: wrong };
    expect(placesWith({ overrides: [override] })).toEqual([`POLICIES [0].overrides[0].${place}`]);
  });
});

describe("the subject of an override", () => {
  it("an override accepts the same keys and addresses as allow and deny", () => {
    expect(overrideOf({ key: "10.0.0.0/8", limits })?.for).toMatchObject({
      kind: "address",
      pattern: { kind: "network", network: { prefixBits: 8 } },
    });
    expect(overrideOf({ key: "partner-42", limits }, { key: "header:a" })?.for).toEqual({
      kind: "key",
      patterns: [{ kind: "text", text: "partner-42" }],
    });
    expect(overrideOf({ key: ["u", "/a"], limits }, { key: "jwt:sub, path" })?.for).toMatchObject({
      patterns: [{ text: "u" }, { text: "/a" }],
    });
  });

  it.for<[string, string, object]>([
    ["jwt:plan=pro", "jwt:plan", { kind: "text", text: "pro" }],
    [" JWT:plan = pro ", "jwt:plan", { kind: "text", text: "pro" }],
    ["jwt:plan=Pro", "jwt:plan", { kind: "text", text: "Pro" }],
    ["jwt:plan=a=b", "jwt:plan", { kind: "text", text: "a=b" }],
    ["jwt:plan=10.0.0.0/8", "jwt:plan", { kind: "text", text: "10.0.0.0/8" }],
    ["jwt:https://id.example/plan=pro", "jwt:https://id.example/plan", { text: "pro" }],
    ["jwt:sub=team-*", "jwt:sub", { kind: "wildcard", pieces: ["team-", ""] }],
    ["jwt:sub=*", "jwt:sub", { kind: "wildcard", pieces: ["", ""] }],
    ["ip=10.0.0.0/8", "ip", { kind: "network", network: { prefixBits: 8 } }],
    ["ip=203.0.113.*", "ip", { kind: "wildcard", pieces: ["203.0.113.", ""] }],
    ["ip=::ffff:203.0.113.7", "ip", { kind: "network", network: { prefixBits: 32 } }],
    ["country=DE", "country", { kind: "text", text: "DE" }],
    ["continent=EU", "continent", { kind: "text", text: "EU" }],
    ["asn=13335", "asn", { kind: "text", text: "13335" }],
    ["colo=FRA", "colo", { kind: "text", text: "FRA" }],
  ])("an override accepts the condition %s", ([when, part, pattern]) => {
    const target = overrideOf({ when, limits })?.for;
    expect(target).toMatchObject({ kind: "condition", condition: { pattern } });
    expect(target?.kind === "condition" && partName(target.condition.part)).toBe(part);
  });

  it.for([
    "",
    "jwt:plan",
    "=pro",
    "plan=pro",
    "jwt=pro",
    "jwt:=pro",
    "jwt:a b=pro",
    "header:x-plan=pro",
    "cookie:plan=pro",
    "query:plan=pro",
    "path=/a",
    "host=a.example",
    "method=GET",
    "global=x",
    "planet=earth",
    "Country=DE",
    5,
    null,
    true,
    [],
    ["jwt:plan=pro"],
    { "jwt:plan": "pro" },
  ])("an override rejects the condition %j", (when) => {
    expect(problemsAt({ when, limits })).toEqual([
      [".when", when, expect.stringMatching(/^"<part>=<value>" with a part that callers cannot invent/)],
    ]);
  });

  it.for([
    "jwt:plan=",
    "jwt:plan=  ",
    "jwt:plan=\ud800",
    `jwt:plan=${"x".repeat(1_025)}`,
    "ip=x",
    "ip=10.0.0.0/33",
    "ip=203.0.*",
    "ip=203.0.113.256",
    "country= ",
  ])("an override rejects the value of the condition %j", (when) => {
    expect(problemsAt({ when, limits })).toEqual([[".when", when, expect.any(String)]]);
  });

  it.for<[string, object, unknown]>([
    ["neither", { limits }, undefined],
    ["both", { key, when: "jwt:plan=pro", limits }, key],
    ["both, of which one is null", { key, when: null, limits }, key],
  ])("an override must have exactly one of key and when, not %s", ([, override, value]) => {
    const accepted = "either the field key with a key of the policy, or the field when with a condition";
    expect(problemsAt(override)).toEqual([[".key", value, accepted]]);
  });
});

describe("an override", () => {
  it.for([[null], ["203.0.113.7"], [5], [true], [[]], [[key, limits]]])("an override cannot be %j", ([all]) => {
    expect(problemsAt(all)).toEqual([["", all, expect.stringContaining('{ key = "partner-42"')]]);
  });

  it("all problems of all overrides are reported together", () => {
    const wrong = { key: "x", limits: ["0/s", "1/soon"], strategy: "magic", cost: 5, toString: 1 };
    const fields = ["cost", "toString", "key", "strategy", "limits[0].limit", "limits[1].window"];
    const places = fields.map((field) => `POLICIES [0].overrides[0].${field}`);
    const empty = ["key", "limits"].map((field) => `POLICIES [0].overrides[1].${field}`);
    expect(placesWith({ overrides: [wrong, {}] }).toSorted()).toEqual([...places, ...empty].toSorted());
  });
});

describe("a condition on a claim without a verification key", () => {
  const nothing = { JWT_KEY: undefined };
  const when = "jwt:plan=pro";

  it("when an override has an unverifiable claim, its limits are still read with the policy's strategy, so the claim is its only problem", () => {
    const most = { when, limits: "999999999999989/day" };
    expect(placesWith({ strategy: "fixed-window", overrides: [most] }, nothing)).toEqual(["JWT_KEY"]);
  });

  it("an unverifiable claim is reported together with the other problems of its override", () => {
    expect(placesWith({ overrides: [{ when, limits: "0/s" }] }, nothing)).toEqual([
      "POLICIES [0].overrides[0].limits.limit",
      "JWT_KEY",
    ]);
    expect(placesWith({ overrides: [{ when }] }, nothing)).toEqual(["POLICIES [0].overrides[0].limits", "JWT_KEY"]);
  });
});

describe("an unknown strategy", () => {
  const strategy = "magic";

  it("an unknown strategy is reported where it was written, in the override or in the limits of the override", () => {
    const inThem = { limit: 1, window: "1s", strategy };
    expect(placesWith({ overrides: [{ key, limits: "1/s", strategy }] })).toEqual([
      "POLICIES [0].overrides[0].strategy",
    ]);
    expect(placesWith({ overrides: [{ key, limits: inThem }] })).toEqual(["POLICIES [0].overrides[0].limits.strategy"]);
    expect(placesWith({ overrides: [{ key, limits: [inThem], strategy }] })).toEqual([
      "POLICIES [0].overrides[0].strategy",
      "POLICIES [0].overrides[0].limits[0].strategy",
    ]);
  });
});
