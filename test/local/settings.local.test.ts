import { describe, expect, it } from "vitest";
import { isDemo } from "../../src/local/settings.ts";

const settings = { vars: {}, secrets: {}, listed: ["KEY_SECRET", "CHECK_TOKENS"], unlisted: [] };
const policies = '[{"name":"a","limits":"5/minute"}]';

describe("the demo limits", () => {
  it.for([
    {},
    { ORIGIN: "https://api.example.com" },
    { PREFLIGHT_LIMITS: "5/minute" },
    { LIMITS: "", POLICIES: "" },
  ])("are in effect where no variable sets limits: %j", (vars) => {
    expect(isDemo({ ...settings, vars })).toBe(true);
  });

  it.for(["LIMITS", "STRATEGY", "KEY", "POLICIES", "POLICIES_2", "POLICIES_12", "POLICIES2"])(
    "are not in effect where the variable %s is set",
    (name) => {
      expect(isDemo({ ...settings, vars: { [name]: "5/minute" } })).toBe(false);
    },
  );

  it.for(["POLICIES", "POLICIES_2", "LIMITS"])(
    "are not in effect where the secret %s is set",
    (name) => {
      expect(isDemo({ ...settings, secrets: { [name]: policies } })).toBe(false);
    },
  );

  it("are not in effect where POLICIES is a required secret that is not set yet", () => {
    expect(isDemo({ ...settings, listed: [...settings.listed, "POLICIES"] })).toBe(false);
  });
});
