import { appendFileSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { checkout, runNpm } from "../system/checkout.ts";

const { folder, configure, remove } = checkout();
afterAll(remove);
afterEach(() => vi.unstubAllEnvs());

const staging = (...vars: string[]): string => `
[env.staging.vars]
${vars.join("\n")}
[[env.staging.durable_objects.bindings]]
name = "RATE_LIMITER"
class_name = "RateLimiter"
[env.staging.secrets]
required = ["KEY_SECRET", "CHECK_TOKENS"]
`;
const write = (production: string[], ...other: string[]): void => {
  configure(production);
  appendFileSync(join(folder, "wrangler.toml"), staging(...other));
};

const run = async (script: string, ...options: string[]): Promise<[number | null, string]> => {
  const npm = runNpm(folder, "run", "--silent", script, "--", ...options);
  return [await npm.ended, npm.output()];
};
const deploy = (...options: string[]): ReturnType<typeof run> => run("deploy", "--dry-run", ...options);

const sound = ['ORIGIN = "https://production.example.com"', 'LIMITS = "100/minute"'];
const isUploaded = "--dry-run: exiting now.";

describe("npm run deploy", () => {
  beforeEach(() => vi.stubEnv("CLOUDFLARE_ENV", undefined));

  it("npm run deploy --env checks and deploys that environment, even if the top level has problems", async () => {
    write(["STRATEGY = 1"], 'ORIGIN = "https://staging.example.com"', 'LIMITS = "5/minute"');
    const [exitCode, output] = await deploy("--env", "staging");
    expect([exitCode, output]).toEqual([0, expect.stringContaining("https://staging.example.com")]);
    expect(output).toContain(isUploaded);
  });

  it("npm run deploy -e=staging deploys nothing if that environment has problems that the top level does not have", async () => {
    write(sound, 'LIMITS = "5/soon"');
    const [exitCode, output] = await deploy("-e=staging");
    expect([exitCode, output]).toEqual([
      1,
      expect.stringMatching(/^wrangler\.toml:\d+: LIMITS\S*: expected .*, got "5\/soon"/m),
    ]);
    expect(output).toContain("Nothing was deployed: the configuration has problems.");
    expect(output).not.toContain(isUploaded);
  });

  it("npm run deploy uses the environment of CLOUDFLARE_ENV and forwards variables and options to wrangler", async () => {
    write(["STRATEGY = 1"], 'LIMITS = "5/soon"', 'KEY = "global"');
    vi.stubEnv("CLOUDFLARE_ENV", "staging");
    const [exitCode, output] = await deploy("--var", "LIMITS:7/minute", "--outdir", "built");
    expect([exitCode, output]).toEqual([0, expect.stringContaining('env.KEY ("global")')]);
    expect(output).toContain("env.LIMITS");
    expect(readFileSync(join(folder, "built/index.js"), "utf8")).toContain("RateLimiter");
  });

  it("npm run deploy checks and deploys the environment that .env names", async () => {
    write(["STRATEGY = 1"], 'ORIGIN = "https://staging.example.com"', 'LIMITS = "5/minute"');
    writeFileSync(join(folder, ".env"), "CLOUDFLARE_ENV=staging\n");
    const [, named] = await deploy();
    expect(named).toContain("https://staging.example.com");
    const [exitCode, topLevel] = await deploy("--env=");
    writeFileSync(join(folder, ".env"), "");
    expect([exitCode, topLevel]).toEqual([
      1,
      expect.stringMatching(/^wrangler\.toml:17: STRATEGY: expected .*, got 1/m),
    ]);
  });

  it("npm run deploy checks the file of --config and exits with wrangler's exit code", async () => {
    write(["STRATEGY = 1"]);
    const shipped = readFileSync(join(folder, "wrangler.toml"), "utf8");
    const other = shipped.replace("STRATEGY = 1", 'LIMITS = "9/minute"');
    writeFileSync(join(folder, "other.toml"), other);
    const [exitCode, output] = await deploy("--config", "other.toml", "--nonsense");
    expect([exitCode, output]).toEqual([1, expect.stringContaining("Unknown argument: nonsense")]);
  });

  it("npm run deploy -- --help prints its own options and those of wrangler, and checks nothing", async () => {
    write(["STRATEGY = 1"]);
    const [exitCode, output] = await run("deploy", "--help");
    expect([exitCode, output]).toEqual([
      0,
      expect.stringMatching(/^Usage: npm run deploy -- \[options\]\n[^]+--secrets-file[^]+--outfile/),
    ]);
    expect(output).not.toContain("STRATEGY");
  });
});

it("npm run check-config checks the environment of --env, and without --env that of CLOUDFLARE_ENV", async () => {
  write(sound, 'LIMITS = "5/minute"');
  const limits = /default: (\d+) per/;
  expect(limits.exec((await run("check-config"))[1])?.[1]).toBe("100");
  const [, named] = await run("check-config", "-e", "staging");
  expect(limits.exec(named)?.[1]).toBe("5");
  vi.stubEnv("CLOUDFLARE_ENV", "staging");
  expect(limits.exec((await run("check-config"))[1])?.[1]).toBe("5");
  const [exitCode, output] = await run("check-config", "--env", "nowhere");
  expect([exitCode, output]).toEqual([
    1,
    '--env: expected an environment of wrangler.toml ("staging"), got "nowhere"\n',
  ]);
});

describe("npm run check-config and npm run deploy", () => {
  const devVars = join(folder, ".dev.vars");
  beforeEach(() => vi.stubEnv("CLOUDFLARE_ENV", undefined));
  afterEach(() => rmSync(devVars, { force: true }));

  interface Case {
    readonly vars?: readonly string[];
    readonly local?: string;
    readonly options?: readonly string[];
    readonly exitCode: number;
  }

  /** The lines without those of the policies. */
  const findingsIn = (output: string): string[] =>
    output.split("\n").filter((line) => line !== "" && !/^(?:The configuration is| {2})/.test(line));

  it.each<[string, Case]>([
    ["the shipped configuration", { exitCode: 0 }],
    ["an ORIGIN without limits", { vars: ['ORIGIN = "route"'], exitCode: 1 }],
    ["limits without local secrets", { vars: sound, exitCode: 0 }],
    ["a limit that never denies", { vars: ['LIMITS = "10/second; 1000000000/minute"'], exitCode: 0 }],
    ["an unknown variable", { vars: [...sound, 'LIMITZ = "5/s"'], exitCode: 1 }],
    ["LIMITS beside POLICIES", { vars: [...sound, 'POLICIES = [{ name = "a", limits = "5/s" }]'], exitCode: 1 }],
    ["a secret that only .dev.vars has", { vars: [...sound, 'KEY = "jwt:sub"'], local: "JWT_KEY=k", exitCode: 1 }],
    ["a short secret in .dev.vars", { vars: sound, local: "KEY_SECRET=short", exitCode: 1 }],
    ["an invalid --var", { vars: sound, options: ["--var", "LIMITS:5/soon"], exitCode: 1 }],
    ["a --var that corrects the file", { vars: ['LIMITS = "0/s"'], options: ["--var", "LIMITS:5/s"], exitCode: 0 }],
    ["a short secret in --secrets-file", { vars: sound, options: ["--secrets-file", "secrets.json"], exitCode: 1 }],
    ["an environment without limits", { vars: sound, options: ["--env", "staging"], exitCode: 1 }],
  ])("agree on %s", async (_, { vars = [], local, options = [], exitCode }) => {
    write([...vars]);
    writeFileSync(join(folder, "secrets.json"), JSON.stringify({ KEY_SECRET: "short" }));
    if (local !== undefined) writeFileSync(devVars, `${local}\n`);
    const [checked, report] = await run("check-config", ...options);
    const [deployed, output] = await deploy(...options);
    expect([checked, deployed, output.includes(isUploaded)]).toEqual([exitCode, exitCode, exitCode === 0]);
    const findings = findingsIn(report);
    expect(findingsIn(output).slice(0, findings.length)).toEqual(findings);
    expect(output.includes("Nothing was deployed")).toBe(exitCode === 1 && findings.length > 0);
  });
});
