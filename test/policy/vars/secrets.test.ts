import { describe, expect, it } from "vitest";
import { deploymentProblems, parseConfig } from "../../../src/policy/vars/config.ts";
import { placesOf, problemsIn, type Variables, whole } from "../parsed.ts";

const sound = { ...whole, KEY_SECRET: "a secret of the tests with 41 characters." };
const linesOf = (variables: Variables): string[] =>
  deploymentProblems({ ...sound, ...variables }).map(({ text }) => text);

describe("a short secret", () => {
  it.for([1, 17, 31])("a KEY_SECRET of %i characters is reported, and the configuration is valid", (length) => {
    const KEY_SECRET = "é".repeat(length);
    expect(linesOf({ KEY_SECRET })).toEqual([`KEY_SECRET: expected at least 32 random characters, got ${length}`]);
    expect(() => parseConfig({ ...whole, KEY_SECRET })).not.toThrow();
  });

  it.for<[unknown, number]>([
    ["t".repeat(15), 15],
    [["t".repeat(16), "t".repeat(9)], 9],
    [[{ token: "t".repeat(14), tenant: "acme" }, "u".repeat(15)], 14],
    [JSON.stringify([{ token: "t".repeat(3) }]), 3],
  ])("CHECK_TOKENS of %j are reported as short, and the configuration is valid", ([CHECK_TOKENS, length]) => {
    expect(linesOf({ CHECK_TOKENS })).toEqual([
      `CHECK_TOKENS: expected tokens of at least 16 random characters, got one with ${length} characters`,
    ]);
    expect(() => parseConfig({ ...whole, CHECK_TOKENS })).not.toThrow();
  });

  it("short ADMIN_TOKENS are reported together with short CHECK_TOKENS", () => {
    const lines = linesOf({ CHECK_TOKENS: "c".repeat(15), ADMIN_TOKENS: ["a".repeat(14)] });
    expect(lines.map((line) => line.split(":")[0])).toEqual(["CHECK_TOKENS", "ADMIN_TOKENS"]);
  });

  it.for<Variables>([
    { KEY_SECRET: "k".repeat(32) },
    { CHECK_TOKENS: "t".repeat(16) },
    { CHECK_TOKENS: ["t".repeat(16), { token: "u".repeat(16) }] },
    { CHECK_TOKENS: "" },
    { CHECK_TOKENS: undefined },
    { ORIGIN_SECRET: "short" },
  ])("no short secret is reported for %j", (variables) => {
    expect(linesOf(variables)).toEqual([]);
  });

  it("a missing KEY_SECRET, or one of another type, is a configuration problem", () => {
    for (const KEY_SECRET of ["", undefined, 5]) {
      expect(linesOf({ KEY_SECRET })).toEqual([]);
      expect(placesOf({ ...whole, KEY_SECRET })).toEqual(["KEY_SECRET"]);
    }
  });
});

describe("a placeholder", () => {
  const first = "at least 32 random characters";
  const second = "at least 32 random characters without spaces";

  it.for<[string, unknown]>([
    ["KEY_SECRET", first],
    ["KEY_SECRET", ` ${second}\n`],
    ["CHECK_TOKENS", second],
    ["CHECK_TOKENS", ["a-token-of-24-characters", first]],
    ["CHECK_TOKENS", [{ token: second }]],
    ["ADMIN_TOKENS", [{ token: second, name: "alice" }]],
    ["ORIGIN_SECRET", first],
    ["JWT_KEY", first],
  ])("a placeholder for %s, written as %j, is rejected in one problem that does not quote it", ([variable, value]) => {
    expect(problemsIn({ ...sound, [variable]: value })).toEqual([
      {
        variable,
        field: "",
        value: "(hidden)",
        accepted: "a secret of your own instead of the placeholder of .dev.vars.example",
      },
    ]);
  });
});
