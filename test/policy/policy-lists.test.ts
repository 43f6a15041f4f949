import { describe, expect, it } from "vitest";
import { configOf, placesOf, problemsIn, type Variables } from "./parsed.ts";

const KEY_SECRET = "s";
const JWT_KEY = "a secret of at least thirty-two bytes";
const policy = { name: "api", key: "header:x-api-key", limits: "10/minute" };
const override = (key: string): object => ({ key, limits: "100/minute" });
const overrides = (count: number, prefix: string): object[] =>
  Array.from({ length: count }, (_, index) => override(`${prefix}-${index}`));

/** The entries of overrides, allow and deny of the first policy. */
function listsOf(variables: Variables): unknown {
  const { lists } = configOf(variables).policies[0] ?? {};
  const textOf = (entry: unknown): unknown => JSON.stringify(entry);
  return {
    overrides: lists?.overrides.map((each) => textOf(each.for)),
    allow: lists?.allow.map(textOf),
    deny: lists?.deny.map(textOf),
  };
}

describe("an entry that continues a policy", () => {
  it("a continuation adds to overrides, allow and deny in the order of the variables", () => {
    const parts = {
      POLICIES: [{ ...policy, overrides: overrides(2, "a"), deny: ["x"] }],
      POLICIES_2: [{ continues: "api", overrides: overrides(2, "b"), allow: ["10.0.0.0/8"] }],
      POLICIES_3: JSON.stringify([{ continues: "api", overrides: overrides(1, "c"), deny: ["y"] }]),
    };
    const all = {
      ...policy,
      overrides: [...overrides(2, "a"), ...overrides(2, "b"), ...overrides(1, "c")],
      allow: ["10.0.0.0/8"],
      deny: ["x", "y"],
    };
    expect(listsOf(parts)).toEqual(listsOf({ POLICIES: [all] }));
    expect(configOf(parts).policies).toHaveLength(1);
  });

  it("a continuation may stand before its policy, and in the same variable", () => {
    const first = { continues: "api", overrides: overrides(1, "b") };
    const last = { ...policy, overrides: overrides(1, "a") };
    const other = { name: "other", limits: "1/s" };
    expect(listsOf({ POLICIES: [first, last, other] })).toEqual(
      listsOf({ POLICIES: [{ ...last, overrides: [...overrides(1, "a"), ...overrides(1, "b")] }] }),
    );
    expect(configOf({ POLICIES: [first, last, other] }).policies[1]?.lists).toEqual({
      overrides: [],
      allow: [],
      deny: [],
    });
  });

  it("continuations may add up to 256 overrides, in variables of less than 5 KB each, and not 257", () => {
    const lists = [0, 1, 2, 3].map((part) => overrides(64, `partner-number-${part}`));
    const variables = {
      POLICIES: [{ ...policy, overrides: lists[0] }],
      POLICIES_2: [{ continues: "api", overrides: lists[1] }],
      POLICIES_3: [{ continues: "api", overrides: lists[2] }],
      POLICIES_4: [{ continues: "api", overrides: lists[3] }],
    };
    for (const variable of Object.values(variables)) {
      expect(JSON.stringify(variable).length).toBeLessThan(5_120);
    }
    expect(configOf(variables).policies[0]?.lists.overrides).toHaveLength(256);
    const POLICIES_5 = [{ continues: "api", overrides: overrides(1, "z") }];
    expect(problemsIn({ KEY_SECRET, ...variables, POLICIES_5 })).toEqual([
      {
        variable: "POLICIES",
        field: "[0].overrides",
        value: "(hidden)",
        accepted: expect.stringMatching(/^a list of up to 256 overrides/),
      },
    ]);
  });

  it("a problem of a continuation is reported at its place in the variable of the continuation", () => {
    const variables = {
      KEY_SECRET,
      POLICIES: [{ ...policy, limits: "0/s", overrides: [override("a"), { key: "b" }] }],
      POLICIES_2: [
        { name: "other", limits: "1/s" },
        { continues: "api", overrides: [override("c"), { key: "d", limits: ["1/s", "0/s"] }] },
        { continues: "api", deny: ["e", 5] },
      ],
    };
    expect(placesOf(variables)).toEqual([
      "POLICIES [0].limits.limit",
      "POLICIES [0].overrides[1].limits",
      "POLICIES_2 [1].overrides[1].limits[1].limit",
      "POLICIES_2 [2].deny[1]",
    ]);
  });

  it("claims in a continuation need a verification key", () => {
    const claimed = [{ when: "jwt:plan=pro", limits: "9/s" }];
    const POLICIES = [policy, { continues: "api", overrides: claimed }];
    expect(placesOf({ KEY_SECRET, POLICIES })).toEqual(["JWT_KEY"]);
    expect(placesOf({ KEY_SECRET, JWT_KEY, POLICIES })).toEqual([]);
  });

  it.for<[string, object, string, unknown]>([
    ["no policy's name", { continues: "apy", overrides: [] }, "continues", "apy"],
    ["no name at all", { continues: 5 }, "continues", 5],
    ["other fields", { continues: "api", limits: "9/s" }, "limits", "(hidden)"],
    ["a misspelt list", { continues: "api", overides: [override("a")] }, "overides", "(hidden)"],
    ["what is no list", { continues: "api", deny: "sk_live_1" }, "deny", "(hidden)"],
  ])("a continuation is rejected with %s", ([, entry, field, value]) => {
    expect(problemsIn({ KEY_SECRET, POLICIES: [policy, entry] })).toEqual([
      { variable: "POLICIES", field: `[1].${field}`, value, accepted: expect.any(String) },
    ]);
  });

  it("an unknown field of a continuation is reported with a suggestion", () => {
    const POLICIES = [policy, { continues: "api", overides: [] }];
    expect(problemsIn({ KEY_SECRET, POLICIES })).toMatchObject([
      { accepted: "one of the fields continues, overrides, allow, deny; did you mean overrides?" },
    ]);
  });

  it("when a field of a policy must be a list and is not, this is a problem even if a later entry continues the policy", () => {
    const POLICIES = [
      { ...policy, deny: 5 },
      { continues: "api", deny: ["x"] },
    ];
    expect(placesOf({ KEY_SECRET, POLICIES })).toEqual(["POLICIES [0].deny"]);
  });
});

describe("customers' keys in POLICIES", () => {
  const key = "sk_live_hunter2";

  it.for<[string, unknown]>([
    ["broken JSON", `[{"name":"a","overrides":[{"key":"${key}"}]]`],
    ["an object", { name: "a", overrides: [{ key }] }],
    ["overrides that are no list", [{ ...policy, overrides: { key } }]],
    ["an allow that is no list", [{ ...policy, allow: key }]],
    ["too many", [{ ...policy, deny: Array.from({ length: 257 }, () => key) }]],
    ["a misspelt list", [{ ...policy, overides: [{ key, limits: "1/s" }] }]],
    ["a misspelt text", [{ ...policy, allowed: key }]],
    ["an unknown list", [{ ...policy, blocklist: [key] }]],
    ["an override's misspelt key", [{ ...policy, overrides: [{ keys: key, limits: "1/s" }] }]],
    ["a key of two parts for one", [{ ...policy, overrides: [{ key: [key, key], limits: "1/s" }] }]],
    ["a continuation of other fields", [policy, { continues: "api", keys: [key] }]],
  ])("no problem quotes keys of customers in POLICIES: %s", ([, POLICIES]) => {
    const problems = problemsIn({ KEY_SECRET, POLICIES });
    expect(problems.length).toBeGreaterThan(0);
    expect(JSON.stringify(problems)).not.toContain("hunter2");
  });
});
