import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
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
    expect([exitCode, output]).toEqual([1, expect.stringMatching(/^LIMITS\S*: expected .*, got "5\/soon"/m)]);
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
    expect([exitCode, topLevel]).toEqual([1, expect.stringMatching(/^STRATEGY: expected .*, got 1/m)]);
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
  const options = ["--secrets-deployed"];
  const limits = /default: (\d+) per/;
  expect(limits.exec((await run("check-config", ...options))[1])?.[1]).toBe("100");
  const [, named] = await run("check-config", ...options, "-e", "staging");
  expect(limits.exec(named)?.[1]).toBe("5");
  vi.stubEnv("CLOUDFLARE_ENV", "staging");
  expect(limits.exec((await run("check-config", ...options))[1])?.[1]).toBe("5");
  const [exitCode, output] = await run("check-config", "--env", "nowhere");
  expect([exitCode, output]).toEqual([
    1,
    '--env: expected an environment of wrangler.toml ("staging"), got "nowhere"\n',
  ]);
});
