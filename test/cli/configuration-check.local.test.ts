import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { parseConfig } from "../../src/policy/vars/config.ts";
import { checkConfiguration, type Findings, summary } from "../../src/cli/configuration-check.ts";
import { helpOf } from "../../src/cli/command.ts";
import { configurationSource, deployOptions } from "../../src/cli/configuration-source.ts";
import { deployedVariables, localVariables, readSettings } from "../../src/cli/settings.ts";
import { wranglerToml } from "../system/wrangler-toml.ts";

const secret = "a-secret-of-thirty-two-characters-or-more";

const summed = (vars: Record<string, unknown>): string => summary(parseConfig({ KEY_SECRET: secret, ...vars }));

describe("the summary of a valid configuration", () => {
  it("the summary of a configuration has a line for each policy with its limits in the units of their notation, dry run and key rules", () => {
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
      { name: "e", limits: "100/month; 7/90s; 5 per 120 seconds" },
    ];
    expect(summed({ ORIGIN: "route", POLICIES: policies })).toBe(
      [
        "The configuration is valid.",
        "  a: 5 per 1m, sliding-window-counter; 9 per 1h, fixed-window",
        "  d: 6 per 1s, sliding-window-counter (dry run)",
        "  b: 7 per 1s, sliding-window-counter (dry run, allow: 2)",
        "  c: 8 per 1s, sliding-window-counter (overrides: 1, deny: 1)",
        "  e: 100 per 1mo, fixed-window; 7 per 90s, sliding-window-counter; 5 per 2m, sliding-window-counter",
      ].join("\n"),
    );
  });

  it("the summary of a configuration says that only /check is served when ORIGIN is not set", () => {
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
    edited = (toml: string): string => toml,
  ): Findings {
    writeFileSync(join(folder, "wrangler.toml"), edited(wranglerToml(vars, required)));
    const source = configurationSource({ config: join(folder, "wrangler.toml"), env: "" }, {}, folder);
    const settings = readSettings(source);
    return checkConfiguration(settings, variablesOf(settings));
  }

  it.each([["POLICIES"], ["POLICIES", "POLICIES_2"], ["POLICIES", "POLICIES_2", "POLICIES_3"], ["LIMITS"]])(
    "the check of a deployment accepts required secrets that set limits, without their values: %s %s %s",
    (...names) => {
      const { config, problems } = findingsOf([], ["KEY_SECRET", ...names]);
      expect(problems).toEqual([]);
      const lines = summary(config ?? parseConfig({}))
        .split("\n")
        .slice(1);
      const unread = names.map((name) => `  ${name}: a secret whose value is not available here`);
      expect(lines).toEqual(names[0] === "LIMITS" ? ["  default: 1 per 1s, sliding-window-counter"] : unread);
    },
  );

  it.each([
    ["2025-05-05", "", 0],
    ["2025-05-04", "", 1],
    ["2025-05-04", 'compatibility_flags = ["enable_weak_ref"]', 0],
  ])(
    "the check of a deployment with the compatibility date %s and the flags '%s' finds %i problems",
    (date, flags, count) => {
      const { problems } = findingsOf(['LIMITS = "5/s"'], ["KEY_SECRET"], deployedVariables, (toml) =>
        toml.replace('"2026-11-01"', `"${date}"\n${flags}`),
      );
      const line = /^compatibility_date in .*wrangler\.toml: expected "2025-05-05" or later, got "2025-05-04"$/;
      expect(problems).toEqual(Array(count).fill(expect.stringMatching(line)));
    },
  );

  it("the check of a deployment treats every required secret as set", () => {
    const names = ["KEY_SECRET", "CHECK_TOKENS", "ORIGIN_SECRET", "JWT_KEY"];
    const { config, problems } = findingsOf(['LIMITS = "5/s"', 'KEY = "jwt:sub"'], names);
    expect(problems).toEqual([]);
    expect(config).toMatchObject({ originSecret: expect.any(String), jwt: expect.anything() });
    expect(config?.checkTokens).toHaveLength(1);
  });

  it("the check of a deployment reports a JWT_KEY that the key needs and that is not a required secret", () => {
    expect(findingsOf(['LIMITS = "5/s"', 'KEY = "jwt:sub"'], ["KEY_SECRET"]).problems).toEqual([
      expect.stringMatching(/^JWT_KEY is missing: expected a key .* in KEY$/),
    ]);
  });

  it("the check of a deployment reports a variable that is larger than 5 KB, with its line", () => {
    const names = Array.from({ length: 150 }, (_, index) => `{ name = "policy-${index}", limits = "1/${index + 1}s" }`);
    expect(findingsOf([`POLICIES = [${names.join(", ")}]`], ["KEY_SECRET"]).lines).toEqual([
      expect.stringMatching(/wrangler\.toml:\d+: POLICIES: expected at most 5120 bytes, got \d+;/),
    ]);
  });

  it.each<[string, string[], string[], RegExp[]]>([
    ["is complete", ['ADMIN_HOST = "a.example"'], ["run_worker_first = true"], []],
    ["has no host", [], ["run_worker_first = true"], [/^ADMIN_HOST is not set, so the console/]],
    ["precedes the Worker", ['ADMIN_HOST = "a.example"'], [], [/run_worker_first = true/]],
    [
      "precedes the Worker for some paths",
      ['ADMIN_HOST = "a.example"'],
      ['run_worker_first = ["/a"]'],
      [/run_worker_first = true/],
    ],
  ])("a console that %s gets the expected warnings", (_, vars, assets, expected) => {
    const section = ["[assets]", 'directory = "."', 'html_handling = "none"', ...assets];
    const all = ['ORIGIN = "route"', 'LIMITS = "5/s"', ...vars, ...section];
    const secrets = ["KEY_SECRET", "ADMIN_TOKENS"];
    const aboutConsole = (lines: string[]): string[] =>
      findingsOf(lines, secrets).warnings.filter((line) => !line.startsWith("CONTROL_PLANE"));
    expect(aboutConsole([...all, 'binding = "ASSETS"'])).toEqual(
      expected.map((pattern) => expect.stringMatching(pattern)),
    );
    expect(aboutConsole([...all, 'binding = "OTHER"'])).toEqual([]);
  });

  it("a configuration of [assets] that does not serve files by their exact names causes a warning", () => {
    const assets = ["[assets]", 'directory = "."', 'binding = "ASSETS"', "run_worker_first = true"];
    const vars = ['ORIGIN = "route"', 'LIMITS = "5/s"', 'ADMIN_HOST = "a.example"', ...assets];
    expect(findingsOf(vars, ["KEY_SECRET", "ADMIN_TOKENS"]).warnings).toContainEqual(
      expect.stringContaining('expected html_handling = "none"'),
    );
  });

  it("admin tokens that stand only in .dev.vars cause no warning about the console", () => {
    writeFileSync(join(folder, ".dev.vars"), `KEY_SECRET="${secret}"\nADMIN_TOKENS="${secret}"\n`);
    const assets = ["[assets]", 'directory = "."', 'binding = "ASSETS"', "run_worker_first = true"];
    const vars = ['ORIGIN = "route"', 'LIMITS = "5/s"', ...assets, 'html_handling = "none"'];
    const { config, warnings } = findingsOf(vars, ["KEY_SECRET"], localVariables);
    expect(config?.admin?.tokens).toHaveLength(1);
    expect(warnings).toEqual([expect.stringMatching(/^CONTROL_PLANE/)]);
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
