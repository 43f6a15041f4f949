import { describe, expect, it } from "vitest";
import { usesDemoLimits } from "../../src/cli/settings.ts";

const settings = { vars: {}, secrets: {}, requiredSecrets: ["KEY_SECRET", "CHECK_TOKENS"] };
const policies = '[{"name":"a","limits":"5/minute"}]';

describe("the demo limits", () => {
  it.for([{}, { ORIGIN: "https://api.example.com" }, { PREFLIGHT_LIMITS: "5/minute" }, { LIMITS: "", POLICIES: "" }])(
    "the demo limits apply when no variable sets limits: %j",
    (vars) => {
      expect(usesDemoLimits({ ...settings, vars })).toBe(true);
    },
  );

  it.for(["LIMITS", "STRATEGY", "KEY", "POLICIES", "POLICIES_2", "POLICIES_12", "POLICIES2"])(
    "the demo limits do not apply when the variable %s is set",
    (name) => {
      expect(usesDemoLimits({ ...settings, vars: { [name]: "5/minute" } })).toBe(false);
    },
  );

  it.for(["POLICIES", "POLICIES_2", "LIMITS"])("the demo limits do not apply when the secret %s is set", (name) => {
    expect(usesDemoLimits({ ...settings, secrets: { [name]: policies } })).toBe(false);
  });

  it("the demo limits do not apply when POLICIES is a required secret that is not set", () => {
    expect(usesDemoLimits({ ...settings, requiredSecrets: [...settings.requiredSecrets, "POLICIES"] })).toBe(false);
  });
});
