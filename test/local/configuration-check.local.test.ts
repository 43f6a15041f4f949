import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { parseConfig } from "../../src/config/index.ts";
import { checkConfiguration, type Findings, summary } from "../../src/local/configuration-check.ts";
import { helpOf } from "../../src/local/command.ts";
import { deployOptions } from "../../src/local/configuration-source.ts";
import { deployedVariables, localVariables, readSettings } from "../../src/local/settings.ts";
import { configurationSource } from "../../src/local/configuration-source.ts";
import { wranglerToml } from "./wrangler-toml.ts";

const secret = "a-secret-of-thirty-two-characters-or-more";

const summed = (vars: Record<string, unknown>): string =>
  summary(parseConfig({ KEY_SECRET: secret, ...vars }));

describe("the summary of a valid configuration", () => {
  it("the summary of a configuration has a line for each policy with its limits, dry run and key rules", () => {
    const policies = [
      { name: "a", limits: ["5/minute", { limit: 9, window: "1h", strategy: "fixed-window" }] },
      { name: "d", limits: "6/s", dryRun: true },
      { name: "b", limits: "7/s", dryRun: true, allow: ["10.0.0.0/8", "192.0.2.1"] },
      {
        name: "c",
        limits: "8/s",
        deny: ["10.0.0.0/8"],
        overrides: [{ key: "192.0.2.1", limits: "9/s" }],
      },
    ];
    expect(summed({ ORIGIN: "route", POLICIES: policies })).toBe(
      [
        "The configuration is valid.",
        "  a: 5 per 1m, sliding-window-counter; 9 per 1h, fixed-window",
        "  d: 6 per 1s, sliding-window-counter (dry run)",
        "  b: 7 per 1s, sliding-window-counter (dry run, allow: 2)",
        "  c: 8 per 1s, sliding-window-counter (overrides: 1, deny: 1)",
      ].join("\n"),
    );
  });

  it("the summary says that only /check is served when ORIGIN is not set", () => {
    const [first] = summed({ LIMITS: "5/s" }).split("\n");
    expect(first).toBe("The configuration is valid. ORIGIN is not set, so only /check is served.");
    const [other] = summed({ LIMITS: "5/s", ORIGIN: "https://api.example.com" }).split("\n");
    expect(other).toBe("The configuration is valid.");
  });
});

describe("the check of a deployment", () => {
  let folder = "";
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "headgate-check-"));
    writeFileSync(join(folder, "index.ts"), "");
    vi.stubEnv("KEY_SECRET", undefined);
    vi.stubEnv("CHECK_TOKENS", undefined);
  });
  afterEach(() => {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  });

  function findingsOf(
    vars: string[],
    required: string[],
    variablesOf = deployedVariables,
  ): Findings {
    writeFileSync(join(folder, "wrangler.toml"), wranglerToml(vars, required));
    const source = configurationSource(
      { config: join(folder, "wrangler.toml"), env: "" },
      {},
      folder,
    );
    const settings = readSettings(source);
    return checkConfiguration(settings, variablesOf(settings));
  }

  it.each([
    ["POLICIES"],
    ["POLICIES", "POLICIES_2"],
    ["POLICIES", "POLICIES_2", "POLICIES_3"],
    ["LIMITS"],
  ])(
    "the check of a deployment accepts required secrets that set limits, without their values: %s %s %s",
    (...names) => {
      const { config, problems } = findingsOf([], ["KEY_SECRET", ...names]);
      expect(problems).toEqual([]);
      const lines = summary(config ?? parseConfig({}))
        .split("\n")
        .slice(1);
      const unread = names.map((name) => `  ${name}: a secret whose value is not available here`);
      expect(lines).toEqual(
        names[0] === "LIMITS" ? ["  default: 1 per 1s, sliding-window-counter"] : unread,
      );
    },
  );

  it("the check of a deployment treats every required secret as set", () => {
    const names = ["KEY_SECRET", "CHECK_TOKENS", "ORIGIN_SECRET", "JWT_KEY"];
    const { config, problems } = findingsOf(['LIMITS = "5/s"', 'KEY = "jwt:sub"'], names);
    expect(problems).toEqual([]);
    expect(config).toMatchObject({ originSecret: expect.any(String), jwt: expect.anything() });
    expect(config?.checkTokens).toHaveLength(1);
  });

  it("the check of a local run reports each missing secret once", () => {
    const vars = ['ORIGIN = "route"', 'LIMITS = "5/s"'];
    const { problems } = findingsOf(vars, ["KEY_SECRET", "CHECK_TOKENS"], localVariables);
    expect(problems).toEqual([
      expect.stringMatching(/^KEY_SECRET is missing: expected a secret text/),
      expect.stringMatching(/^CHECK_TOKENS is missing: .*wrangler\.toml requires this secret/),
    ]);
  });
});

it("the help text of npm run deploy shows each option with its value", () => {
  expect(helpOf(deployOptions, "npm run deploy --")).toBe(
    `Usage: npm run deploy -- [options]

Options:
  -c, --config <file>    The wrangler configuration file.
  -e, --env <name>       An environment of the configuration; defaults to CLOUDFLARE_ENV.
  --var <NAME:value>     Set a variable, in place of the one in the file. (repeatable)
  --secrets-file <file>  A file of secrets to upload with the deployment.
  --dry-run              Check and build without deploying.
  -h, --help             Show this help.`,
  );
});
