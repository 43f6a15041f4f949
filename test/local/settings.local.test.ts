import { describe, expect, it } from "vitest";
import { usesDemoLimits } from "../../src/local/settings.ts";

const settings = { vars: {}, secrets: {}, requiredSecrets: ["KEY_SECRET", "CHECK_TOKENS"] };
const policies = '[{"name":"a","limits":"5/minute"}]';

describe("the demo limits", () => {
  it.for([
    {},
    { ORIGIN: "https://api.example.com" },
    { PREFLIGHT_LIMITS: "5/minute" },
    { LIMITS: "", POLICIES: "" },
  ])("are in effect where no variable sets limits: %j", (vars) => {
    expect(usesDemoLimits({ ...settings, vars })).toBe(true);
  });

  it.for(["LIMITS", "STRATEGY", "KEY", "POLICIES", "POLICIES_2", "POLICIES_12", "POLICIES2"])(
    "are not in effect where the variable %s is set",
    (name) => {
      expect(usesDemoLimits({ ...settings, vars: { [name]: "5/minute" } })).toBe(false);
    },
  );

  it.for(["POLICIES", "POLICIES_2", "LIMITS"])(
    "are not in effect where the secret %s is set",
    (name) => {
      expect(usesDemoLimits({ ...settings, secrets: { [name]: policies } })).toBe(false);
    },
  );

  it("are not in effect where POLICIES is a required secret that is not set yet", () => {
    expect(
      usesDemoLimits({ ...settings, requiredSecrets: [...settings.requiredSecrets, "POLICIES"] }),
    ).toBe(false);
  });
});
