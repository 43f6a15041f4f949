import { describe, expect, it } from "vitest";
import { placesOf, problemsIn, whole } from "./parsed.ts";
import { describeProblem } from "../../src/validation/problems.ts";

/** Common mistakes that would otherwise go unnoticed and leave requests unlimited, or get unclear errors. */
describe("an easily made mistake", () => {
  it("broken JSON text is reported as invalid JSON, not as a wrong value", () => {
    const broken = '["10/minute", "5/second"';
    expect(problemsIn({ ...whole, LIMITS: broken })).toEqual([
      { variable: "LIMITS", field: "", value: broken, accepted: expect.stringContaining("JSON") },
    ]);
    expect(problemsIn({ KEY_SECRET: "s", POLICIES: '[{"name": "a",}]' })).toMatchObject([
      { variable: "POLICIES", field: "", accepted: expect.stringContaining("JSON") },
    ]);
    expect(placesOf({ ...whole, CHECK_TOKENS: '["a", "b"' })).toEqual(["CHECK_TOKENS"]);
  });

  it.for<[string, string]>([
    ["LIMITS", '["10/minute" "5/second"]'],
    ["STRATEGY", '["10/minute" "5/second"]'],
    ["KEY", '["10/minute" "5/second"]'],
    ["POLICIES_2", '["10/minute" "5/second"]'],
    ["PREFLIGHT_LIMITS", '["10/minute" "5/second"]'],
    ["CORS_ORIGINS", '["10/minute" "5/second"]'],
    ["CHECK_TOKENS", '["10/minute" "5/second"]'],
    ["JWT_KEY", '["10/minute" "5/second"]'],
    ["JWT_ISSUER", '["10/minute" "5/second"]'],
    ["JWT_AUDIENCE", '["10/minute" "5/second"]'],
  ])("broken JSON text in %s is reported once, with the platform's reason", ([variable, text]) => {
    const [problem, ...others] = problemsIn({
      ...whole,
      ...(variable === "POLICIES_2" && { LIMITS: "" }),
      [variable]: text,
    });
    expect(others).toEqual([]);
    expect(problem).toMatchObject({
      variable,
      field: "",
      accepted: expect.stringMatching(/; the JSON is invalid: Expected ',' or ']' after array element .*$/),
    });
  });

  it("the reason why JSON is invalid does not quote the text, which may be secret", () => {
    const [problem] = problemsIn({ ...whole, CHECK_TOKENS: '["a-token", secret-token]' });
    expect(problem).toMatchObject({ variable: "CHECK_TOKENS", value: "(hidden)" });
    expect(problem?.accepted).toMatch(/; the JSON is invalid: Unexpected character$/);
  });

  it("JSON text that is nested too deep is reported with the maximum depth", () => {
    const deep = `${"[".repeat(65)}${"]".repeat(65)}`;
    expect(problemsIn({ ...whole, LIMITS: deep })).toMatchObject([
      {
        variable: "LIMITS",
        accepted: "valid JSON; the JSON is invalid: JSON is nested deeper than 64 levels at character 65",
      },
    ]);
  });

  it("a misnamed list of policies is a problem", () => {
    const list = [{ name: "a", limits: "1/s" }];
    for (const name of ["POLICIES2", "POLICIES_02", "POLICIES_1", "POLICIES_B"]) {
      expect(placesOf({ ...whole, [name]: list })).toEqual([name]);
    }
  });

  it("all unknown fields are reported, even if there are several", () => {
    const POLICIES = [{ name: "a", limits: "1/s", foo: 1, bar: null, match: { x: 1, y: 2 } }];
    expect(placesOf({ KEY_SECRET: "s", POLICIES })).toEqual([
      "POLICIES [0].match.x",
      "POLICIES [0].match.y",
      "POLICIES [0].foo",
      "POLICIES [0].bar",
    ]);
  });

  it("a limit text with several mistakes is reported as one problem", () => {
    expect(problemsIn({ ...whole, LIMITS: ";".repeat(5_000) })).toHaveLength(1);
    expect(problemsIn({ ...whole, LIMITS: "-1.5/s" })).toHaveLength(1);
  });

  it("a value that JSON cannot represent is reported by its type", () => {
    const POLICIES = [{ name: "a", limits: [{ limit: 1, window: "1s", strategy: { toString: null } }] }];
    expect(placesOf({ KEY_SECRET: "s", POLICIES })).toEqual(["POLICIES [0].limits[0].strategy"]);
    expect(problemsIn({ ...whole, ORIGIN: 1n }).map(describeProblem)).toEqual([
      expect.stringMatching(/^ORIGIN: expected an http or https URL .*, got bigint$/),
    ]);
  });

  it("an invalid name of a limit is reported at the place of the limit", () => {
    const POLICIES = [
      { name: "a", limits: [{ limit: 1, window: "1s", name: "x" }] },
      { name: "b", limits: [{ limit: 1, window: "1s", name: "x" }] },
    ];
    expect(placesOf({ KEY_SECRET: "s", POLICIES })).toEqual(["POLICIES [1].limits"]);
  });
});
