import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { configurationSource, readDeployOptions } from "../../src/cli/configuration-source.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "headgate-source-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe("the environment of a command", () => {
  it("a command uses the top level of the configuration when neither --env nor CLOUDFLARE_ENV names an environment", () => {
    expect(configurationSource({}, {}, folder)).toEqual({
      file: "wrangler.toml",
      environment: "",
      environmentOption: "CLOUDFLARE_ENV",
      vars: {},
      secretsFile: null,
    });
  });

  it("--env takes precedence over CLOUDFLARE_ENV", () => {
    const processEnv = { CLOUDFLARE_ENV: "production" };
    const named = configurationSource({ env: "staging" }, processEnv, folder);
    expect([named.environment, named.environmentOption]).toEqual(["staging", "--env"]);
    const inherited = configurationSource({}, processEnv, folder);
    expect([inherited.environment, inherited.environmentOption]).toEqual(["production", "CLOUDFLARE_ENV"]);
  });

  it("an empty --env selects the top level, even if CLOUDFLARE_ENV names an environment", () => {
    expect(configurationSource({ env: "" }, { CLOUDFLARE_ENV: "production" }, folder).environment).toBe("");
  });

  it("CLOUDFLARE_ENV can be set in .env and .env.local, and .env.local takes precedence", () => {
    writeFileSync(join(folder, ".env"), "CLOUDFLARE_ENV=first\n");
    expect(configurationSource({}, {}, folder).environment).toBe("first");
    writeFileSync(join(folder, ".env.local"), "CLOUDFLARE_ENV=second\n");
    expect(configurationSource({}, {}, folder).environment).toBe("second");
    writeFileSync(join(folder, ".env.local"), "OTHER=1\n");
    expect(configurationSource({}, {}, folder).environment).toBe("first");
    expect(configurationSource({}, { CLOUDFLARE_ENV: "third" }, folder).environment).toBe("third");
  });
});

it("a command uses the configuration file that wrangler finds first, unless --config names another file", () => {
  for (const name of ["wrangler.toml", "wrangler.jsonc", "wrangler.json"]) {
    writeFileSync(join(folder, name), "");
    expect(configurationSource({}, {}, folder).file).toBe(name);
  }
  expect(configurationSource({ config: "other.toml" }, {}, folder).file).toBe("other.toml");
});

it("the value of a variable on the command line can contain colons and can be empty", () => {
  const pairs = ["ORIGIN:http://127.0.0.1:9", "LIMITS:", "KEY"];
  expect(configurationSource({ var: pairs }, {}, folder).vars).toEqual({
    ORIGIN: "http://127.0.0.1:9",
    LIMITS: "",
    KEY: "",
  });
});

describe("the options of npm run deploy", () => {
  it.each([
    [["--env", "staging"]],
    [["--env=staging"]],
    [["-e", "staging"]],
    [["-estaging"]],
    [["-e=staging"]],
    [["--dry-run", "--outdir", "dist", "-e", "staging"]],
  ])("npm run deploy reads the environment as wrangler does: %j", (words) => {
    expect(configurationSource(readDeployOptions(words), {}, folder).environment).toBe("staging");
  });

  it("npm run deploy accepts --config and --secrets-file in each spelling that wrangler accepts", () => {
    for (const words of [
      ["-c", "a.toml", "--secretsFile", "s.json"],
      ["--config=a.toml", "--secrets-file=s.json"],
      ["--secretsFile=s.json", "--no-bundle", "-c=a.toml"],
    ]) {
      const { file, secretsFile } = configurationSource(readDeployOptions(words), {}, folder);
      expect([file, secretsFile]).toEqual(["a.toml", "s.json"]);
    }
  });

  it("npm run deploy reads one or more variables after --var, and no variables after another option", () => {
    const words = ["--var", "A:1", "B:2", "--outdir", "D:4", "--var=C:3", "E:5", "--dry-run", "F:6"];
    expect(readDeployOptions(words).var).toEqual(["A:1", "B:2", "C:3", "E:5"]);
  });

  it("npm run deploy passes arguments after -- to wrangler without reading them", () => {
    expect(readDeployOptions(["--var", "A:1", "--", "--env", "staging"])).toEqual({ var: ["A:1"] });
  });

  it.each([[["--env"]], [["-e"]], [["--var", "A:1", "--var"]], [["--config"]]])(
    "npm run deploy rejects an option without a value: %j",
    (words) => {
      expect(() => readDeployOptions(words)).toThrow(`${words.at(-1) ?? ""} needs a value.`);
    },
  );

  it("npm run deploy rejects --cwd, because wrangler would then find other files than those that were checked", () => {
    expect(() => readDeployOptions(["--cwd", "elsewhere"])).toThrow("--cwd is not supported");
  });
});
