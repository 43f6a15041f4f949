import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  type ConfigurationSource,
  configurationSource,
  devVarsFile,
  devVarsFiles,
  ensureDevVars,
  readDevVars,
} from "../../src/cli/configuration-source.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "headgate-dev-vars-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const sourceIn = (env = ""): ConfigurationSource =>
  configurationSource({ config: join(folder, "wrangler.toml"), env }, {}, folder);
const file = (name = ".dev.vars"): string => join(folder, name);
const text = (name?: string): string => readFileSync(file(name), "utf8");

describe("npm start and .dev.vars", () => {
  it("without .dev.vars, npm start generates different secrets in a file that only its owner can read", () => {
    ensureDevVars(sourceIn());
    const made = parseEnv(text());
    expect(Object.keys(made).toSorted()).toEqual(["ADMIN_TOKENS", "CHECK_TOKENS", "KEY_SECRET"]);
    expect(Object.values(made)).toEqual(Array(3).fill(expect.stringMatching(/^[\w-]{32}$/)));
    expect(new Set(Object.values(made)).size).toBe(3);
    expect(statSync(file()).mode & 0o777).toBe(0o600);
    expect(text()).toMatch(
      /^# The key of the HMACs.*\nKEY_SECRET=".+"\n# .+\nCHECK_TOKENS=".+"\n# .+\nADMIN_TOKENS=".+"\n$/,
    );
  });

  it("npm start leaves a complete .dev.vars unchanged", () => {
    writeFileSync(file(), "KEY_SECRET=a\nCHECK_TOKENS=b\nADMIN_TOKENS=c");
    ensureDevVars(sourceIn());
    expect(text()).toBe("KEY_SECRET=a\nCHECK_TOKENS=b\nADMIN_TOKENS=c");
  });

  it.each([
    ["an unterminated line", 'JWT_KEY="a"', 'JWT_KEY="a"\n# '],
    ["a terminated line", 'JWT_KEY="a"\n', 'JWT_KEY="a"\n# '],
    ["nothing", "", "# "],
  ])("npm start appends missing secrets to .dev.vars on lines of their own after %s", (_, before, after) => {
    writeFileSync(file(), before);
    ensureDevVars(sourceIn());
    expect(text().slice(0, after.length)).toBe(after);
    const names = before === "" ? [] : ["JWT_KEY"];
    const expected = ["ADMIN_TOKENS", "CHECK_TOKENS", ...names, "KEY_SECRET"];
    expect(Object.keys(parseEnv(text())).toSorted()).toEqual(expected);
  });

  it("npm start generates only the missing secrets, and replaces an empty one", () => {
    writeFileSync(file(), "KEY_SECRET=a\nCHECK_TOKENS=\n");
    ensureDevVars(sourceIn());
    const { KEY_SECRET: key, CHECK_TOKENS: token } = parseEnv(text());
    expect(key).toBe("a");
    expect(token).toMatch(/^[\w-]{32}$/);
  });

  it("npm start writes secrets to the environment's own .dev.vars if this file exists, and otherwise to the common .dev.vars", () => {
    ensureDevVars(sourceIn("staging"));
    const common = text();
    expect(common).toContain("KEY_SECRET=");
    writeFileSync(file(".dev.vars.staging"), "KEY_SECRET=a\n");
    ensureDevVars(sourceIn("staging"));
    expect(text()).toBe(common);
    expect(readDevVars(sourceIn("staging"))["CHECK_TOKENS"]).toMatch(/^[\w-]{32}$/);
    expect(readDevVars(sourceIn("staging"))["KEY_SECRET"]).toBe("a");
    expect(readDevVars(sourceIn())["KEY_SECRET"]).not.toBe("a");
  });
});

it("for an environment, wrangler prefers the environment's own .dev.vars to the common one", () => {
  expect(devVarsFiles(sourceIn())).toEqual([file()]);
  expect(devVarsFiles(sourceIn("staging"))).toEqual([file(".dev.vars.staging"), file()]);
  expect(devVarsFile(sourceIn("staging"))).toBe(file());
  writeFileSync(file(".dev.vars.staging"), "");
  expect(devVarsFile(sourceIn("staging"))).toBe(file(".dev.vars.staging"));
  expect(devVarsFile(sourceIn())).toBe(file());
});

it("a folder without .dev.vars gives no local secrets", () => {
  expect(readDevVars(sourceIn())).toEqual({});
});
