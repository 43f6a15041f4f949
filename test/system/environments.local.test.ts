import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { checkConfiguration, sizeProblems } from "../../src/cli/configuration-check.ts";
import { deployedVariables, localVariables, readSettings, type Settings } from "../../src/cli/settings.ts";
import { configurationSource, type SourceValues } from "../../src/cli/configuration-source.ts";
import { wranglerToml } from "./wrangler-toml.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "headgate-environments-"));
  writeFileSync(join(folder, "index.ts"), "");
  // Without .dev.vars, wrangler reads secrets from the process environment.
  vi.stubEnv("KEY_SECRET", undefined);
  vi.stubEnv("CHECK_TOKENS", undefined);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

const topLevel = wranglerToml(['ORIGIN = "https://api.example.com"', 'LIMITS = "100/minute"']);
const staging = `
[env.staging.vars]
ORIGIN = "https://staging.example.com"
LIMITS = "5/minute"
[env.staging.secrets]
required = ["KEY_SECRET", "JWT_KEY"]
[[env.staging.durable_objects.bindings]]
name = "RATE_LIMITER"
class_name = "RateLimiter"
`;
const secret = "a secret of thirty-two characters or more";

const file = (name: string): string => join(folder, name);

const settingsOf = (values: SourceValues = {}): Settings =>
  readSettings(configurationSource({ config: file("wrangler.toml"), ...values }, {}, folder));

/** The limit of the first policy, and all problems. */
const found = (settings: Settings): [number | undefined, readonly string[]] => {
  const { config, problems } = checkConfiguration(settings, deployedVariables(settings));
  return [config?.policies[0]?.limits[0]?.limit, problems];
};

describe("an environment of wrangler.toml", () => {
  it("a configuration environment is checked with its own variables", () => {
    writeFileSync(file("wrangler.toml"), topLevel + staging);
    expect(found(settingsOf())).toEqual([100, []]);
    expect(found(settingsOf({ env: "staging" }))).toEqual([5, []]);
  });

  it("an unknown environment is an error that lists the environments in wrangler.toml", () => {
    writeFileSync(file("wrangler.toml"), `${topLevel}${staging}[env.production]\n`);
    expect(() => settingsOf({ env: "stagin" })).toThrow(
      `--env: expected an environment of ${file("wrangler.toml")} ("staging", "production"), got "stagin"`,
    );
    const named = configurationSource({ config: file("wrangler.toml") }, { CLOUDFLARE_ENV: "test" }, folder);
    expect(() => readSettings(named)).toThrow(/^CLOUDFLARE_ENV: expected an environment of .*, got "test"$/);
  });

  it("naming an environment is an error if wrangler.toml defines none", () => {
    writeFileSync(file("wrangler.toml"), topLevel);
    expect(() => settingsOf({ env: "staging" })).toThrow(
      /^--env: expected no environment, because .*wrangler\.toml defines none, got "staging"$/,
    );
  });

  it("an environment needs its own variables, secrets and binding, because it inherits none", () => {
    writeFileSync(file("wrangler.toml"), `${topLevel}[env.bare]\nroutes = []\n`);
    const settings = settingsOf({ env: "bare" });
    const { problems, warnings } = checkConfiguration(settings, deployedVariables(settings));
    expect(problems).toEqual([
      `RATE_LIMITER is missing in the environment "bare" of ${file("wrangler.toml")}: expected ` +
        '[[env.bare.durable_objects.bindings]] with name = "RATE_LIMITER" and class_name = "RateLimiter". ' +
        "Environments do not inherit bindings.",
      `POLICIES is missing in the environment "bare" of ${file("wrangler.toml")}: expected ` +
        "[[env.bare.vars.POLICIES]], or LIMITS in [env.bare.vars]. Environments do not inherit variables.",
    ]);
    expect(warnings).toEqual([
      `[env.bare.secrets] is missing in ${file("wrangler.toml")}: without it, wrangler deploys even if KEY_SECRET is not set.`,
      expect.stringMatching(/^LIMITS and ORIGIN are not set: the demo limits are in effect/),
    ]);
  });
});

it("a top level of wrangler.toml without the binding of the Durable Objects is a problem", () => {
  const other = topLevel.replace('name = "RATE_LIMITER"', 'name = "LIMITER"');
  writeFileSync(file("wrangler.toml"), other);
  const { problems } = checkConfiguration(settingsOf(), deployedVariables(settingsOf()));
  expect(problems).toEqual([
    `RATE_LIMITER is missing in ${file("wrangler.toml")}: expected [[durable_objects.bindings]] with ` +
      'name = "RATE_LIMITER" and class_name = "RateLimiter".',
  ]);
});

it("a missing configuration file and invalid TOML are errors that name the file", () => {
  expect(() => settingsOf()).toThrow(`${file("wrangler.toml")} does not exist.`);
  writeFileSync(file("wrangler.toml"), "broken");
  expect(() => settingsOf()).toThrow(/wrangler\.toml:1: Invalid TOML/);
});

describe("variables and secrets", () => {
  it("a local run reads secrets from the environment's own .dev.vars, or otherwise from the common one", () => {
    writeFileSync(file("wrangler.toml"), topLevel + staging);
    writeFileSync(file(".dev.vars"), `KEY_SECRET="${secret}"\n`);
    expect(localVariables(settingsOf({ env: "staging" }))["KEY_SECRET"]).toBe(secret);
    writeFileSync(file(".dev.vars.staging"), `KEY_SECRET="${secret}, of staging"\nEXTRA="1"\n`);
    const settings = settingsOf({ env: "staging" });
    expect(localVariables(settings)["KEY_SECRET"]).toBe(`${secret}, of staging`);
    expect(localVariables(settingsOf())["KEY_SECRET"]).toBe(secret);
    expect(checkConfiguration(settings, localVariables(settings)).warnings).toContain(
      `EXTRA is set in .dev.vars, but the Worker does not get it: list it under [env.staging.secrets] in ${file("wrangler.toml")}.`,
    );
  });

  it(".dev.vars replaces variables in a local run only", () => {
    writeFileSync(file("wrangler.toml"), topLevel);
    writeFileSync(file(".dev.vars"), `KEY_SECRET="${secret}"\nLIMITS="7/minute"\nORIGIN=""\n`);
    const settings = settingsOf();
    expect(localVariables(settings)).toEqual({
      ORIGIN: "",
      LIMITS: "7/minute",
      KEY_SECRET: secret,
    });
    expect(settings.ignoredDevVars).toEqual([]);
    expect(deployedVariables(settings)).toMatchObject({
      ORIGIN: "https://api.example.com",
      LIMITS: "100/minute",
    });
  });

  it("in a deployment, variables on the command line replace those of wrangler.toml and are checked as text", () => {
    writeFileSync(file("wrangler.toml"), topLevel);
    expect(found(settingsOf({ var: ["LIMITS:9/minute"] }))).toEqual([9, []]);
    const [, problems] = found(settingsOf({ var: ["LIMITS:soon"] }));
    expect(problems).toEqual([expect.stringMatching(/^LIMITS: expected .*, got "soon"/)]);
    const [, long] = found(settingsOf({ var: [`JWT_ISSUER:${"x".repeat(5_121)}`] }));
    expect(long).toEqual([expect.stringMatching(/^JWT_ISSUER: expected at most 5120 bytes, got 5121/)]);
  });

  it("a deployment includes the secrets of --secrets-file, in JSON or in the format of .dev.vars", () => {
    writeFileSync(file("wrangler.toml"), topLevel + staging);
    const texts = [
      JSON.stringify({ KEY_SECRET: secret, JWT_KEY: secret }),
      `KEY_SECRET="${secret}"\nJWT_KEY="${secret}"\n`,
    ];
    for (const text of texts) {
      writeFileSync(file("secrets"), text);
      const settings = settingsOf({ env: "staging", "secrets-file": file("secrets") });
      expect(deployedVariables(settings)).toMatchObject({ KEY_SECRET: secret, JWT_KEY: secret });
    }
    const missing = settingsOf({ "secrets-file": file("nothing") });
    expect(Object.keys(missing.uploadedSecrets)).toEqual([]);
  });

  it("the check of a deployment treats required secrets without a local value as set", () => {
    writeFileSync(file("wrangler.toml"), topLevel + staging);
    expect(Object.keys(deployedVariables(settingsOf({ env: "staging" }))).toSorted()).toEqual([
      "JWT_KEY",
      "KEY_SECRET",
      "LIMITS",
      "ORIGIN",
    ]);
    expect(Object.keys(deployedVariables(settingsOf())).toSorted()).toEqual([
      "CHECK_TOKENS",
      "KEY_SECRET",
      "LIMITS",
      "ORIGIN",
    ]);
  });
});

describe("the size limit of a variable", () => {
  const textsOf = (vars: Readonly<Record<string, unknown>>): string[] => sizeProblems(vars).map(({ text }) => text);

  it("a variable may have exactly 5 KB, counted in bytes and not in characters", () => {
    expect(textsOf({ A: "x".repeat(5_120), B: "é".repeat(2_560) })).toEqual([]);
    expect(textsOf({ A: "x".repeat(5_121), B: `${"é".repeat(2_560)}x` })).toEqual([
      expect.stringMatching(/^A: expected at most 5120 bytes, got 5121;/),
      expect.stringMatching(/^B: expected at most 5120 bytes, got 5121;/),
    ]);
  });

  it("the size of a list variable is that of its JSON text", () => {
    const list = [{ name: "x".repeat(5_120 - '[{"name":""}]'.length) }];
    expect(textsOf({ POLICIES: list })).toEqual([]);
    expect(textsOf({ POLICIES: [...list, 1] })).toEqual([
      expect.stringMatching(/^POLICIES: expected at most 5120 bytes, got 5122;/),
    ]);
  });
});
