import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runsSameWorker, type LocalSetup, localSetup } from "../../src/local/local-setup.ts";
import { readSettings } from "../../src/local/settings.ts";
import { configurationSource } from "../../src/local/configuration-source.ts";

const demoOrigin = "http://127.0.0.1:9999";
const secrets = `KEY_SECRET="${"k".repeat(32)}"\nCHECK_TOKENS="${"t".repeat(32)}"\n`;
let folder = "";

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "headgate-setup-"));
  writeFileSync(join(folder, "index.ts"), "");
  writeFileSync(join(folder, ".dev.vars"), secrets);
});
afterEach(() => rmSync(folder, { recursive: true }));

function setupWith(...vars: string[]): LocalSetup {
  const lines = [
    'name = "headgate"',
    'main = "index.ts"',
    'compatibility_date = "2026-11-01"',
    "[vars]",
    ...vars,
    "[secrets]",
    'required = ["KEY_SECRET", "CHECK_TOKENS"]',
    "[[durable_objects.bindings]]",
    'name = "RATE_LIMITER"',
    'class_name = "RateLimiter"',
    "[[migrations]]",
    'tag = "v1"',
    'new_sqlite_classes = ["RateLimiter"]',
  ];
  writeFileSync(join(folder, "wrangler.toml"), lines.join("\n"));
  const config = join(folder, "wrangler.toml");
  return localSetup(readSettings(configurationSource({ config, env: "" }, {}, folder)), demoOrigin);
}

const origin = 'ORIGIN = "https://api.example.com"';
const limits = 'LIMITS = "7/minute"';

describe("the setup of npm start", () => {
  it("has a demo origin and demo limits where there are none", () => {
    const setup = setupWith();
    expect(setup).toMatchObject({
      hasDemoOrigin: true,
      hasDemoLimits: true,
      problems: [],
      warnings: [],
    });
    expect(setup.variables).toMatchObject({
      ORIGIN: demoOrigin,
      LIMITS: "5/10s",
      STRATEGY: "fixed-window",
      KEY: "ip",
    });
    expect(setup.config?.policies.map(({ name }) => name)).toEqual(["default"]);
  });

  it("has each of them apart from the other", () => {
    const ownOrigin = setupWith(origin);
    expect(ownOrigin).toMatchObject({ hasDemoOrigin: false, hasDemoLimits: true });
    expect(ownOrigin.variables["ORIGIN"]).toBe("https://api.example.com");
    const ownLimits = setupWith(limits);
    expect(ownLimits).toMatchObject({ hasDemoOrigin: true, hasDemoLimits: false });
    expect(ownLimits.variables).toMatchObject({ ORIGIN: demoOrigin, LIMITS: "7/minute" });
    expect(ownLimits.variables).not.toHaveProperty("KEY");
    expect(setupWith('ORIGIN = ""', limits).hasDemoOrigin).toBe(true);
  });

  it("names the variables that are secrets", () => {
    expect(setupWith(origin, limits).secretNames.toSorted()).toEqual([
      "CHECK_TOKENS",
      "KEY_SECRET",
    ]);
  });

  it("warns of jurisdictions, which local workerd does not know", () => {
    const policy =
      'POLICIES = [{ name = "a", limits = "1/s", jurisdiction = "eu", onError = "closed" }]';
    expect(setupWith(origin, policy).warnings).toEqual([
      expect.stringMatching(
        /^Local workerd does not support jurisdictions.*: a \(onError = "closed"\)\.$/,
      ),
    ]);
  });

  it("has the problems of the variables, and no configuration", () => {
    const setup = setupWith(origin, 'LIMITS = "0/minute"');
    expect([setup.config, setup.problems]).toEqual([null, [expect.stringMatching(/^LIMITS/)]]);
  });

  it("is the same after an edit that changes no setting, and another after one that does", () => {
    const setup = setupWith(origin, limits);
    expect(runsSameWorker(setup, setupWith(origin, "# a comment", limits))).toBe(true);
    expect(runsSameWorker(setup, setupWith(origin, 'LIMITS = "8/minute"'))).toBe(false);
    writeFileSync(join(folder, ".dev.vars"), secrets.replace("kkk", "lll"));
    expect(runsSameWorker(setup, setupWith(origin, limits))).toBe(false);
    writeFileSync(join(folder, ".dev.vars"), secrets);
    expect(runsSameWorker(setup, setupWith(origin, limits))).toBe(true);
    const wrangler = { ...setup.wrangler, compatibility_date: "2026-10-01" };
    expect(runsSameWorker(setup, { ...setup, wrangler })).toBe(false);
    expect(runsSameWorker(setup, { ...setup, secretNames: [] })).toBe(false);
  });
});
