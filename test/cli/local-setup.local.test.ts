import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runsSameWorker, type LocalSetup, localSetup } from "../../src/cli/local-setup.ts";
import { readSettings } from "../../src/cli/settings.ts";
import { configurationSource } from "../../src/cli/configuration-source.ts";
import { wranglerToml } from "../system/wrangler-toml.ts";

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
  const config = join(folder, "wrangler.toml");
  writeFileSync(config, wranglerToml(vars));
  return localSetup(readSettings(configurationSource({ config, env: "" }, {}, folder)), demoOrigin);
}

const origin = 'ORIGIN = "https://api.example.com"';
const limits = 'LIMITS = "7/minute"';

describe("the setup of npm start", () => {
  it("npm start uses a demo origin and demo limits when neither ORIGIN nor limits are set", () => {
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

  it("npm start uses the demo origin and the demo limits independently of each other", () => {
    const ownOrigin = setupWith(origin);
    expect(ownOrigin).toMatchObject({ hasDemoOrigin: false, hasDemoLimits: true });
    expect(ownOrigin.variables["ORIGIN"]).toBe("https://api.example.com");
    const ownLimits = setupWith(limits);
    expect(ownLimits).toMatchObject({ hasDemoOrigin: true, hasDemoLimits: false });
    expect(ownLimits.variables).toMatchObject({ ORIGIN: demoOrigin, LIMITS: "7/minute" });
    expect(ownLimits.variables).not.toHaveProperty("KEY");
    expect(setupWith('ORIGIN = ""', limits).hasDemoOrigin).toBe(true);
  });

  it("the setup of npm start lists the variables that are secrets", () => {
    expect(setupWith(origin, limits).secretNames.toSorted()).toEqual(["CHECK_TOKENS", "KEY_SECRET"]);
  });

  it("npm start passes ADMIN_TOKENS of .dev.vars to the Worker, although [secrets] does not list ADMIN_TOKENS", () => {
    writeFileSync(join(folder, ".dev.vars"), `${secrets}ADMIN_TOKENS="${"a".repeat(32)}"\n`);
    const setup = setupWith(origin, limits);
    expect(setup).toMatchObject({
      problems: [],
      warnings: [expect.stringMatching(/^CONTROL_PLANE is missing in .*ControlPlane.* 503\.$/)],
    });
    expect(setup.secretNames).toContain("ADMIN_TOKENS");
    expect(setup.config?.admin?.tokens).toHaveLength(1);
  });

  const withTokens = (): void =>
    writeFileSync(join(folder, ".dev.vars"), `${secrets}ADMIN_TOKENS="${"a".repeat(32)}"\n`);

  it.each([
    [[], "admin.localhost"],
    [['ADMIN_HOST = "admin.example.com"'], "admin.localhost"],
    [['ADMIN_HOST = "Ops.Localhost."'], "ops.localhost"],
  ])("with %j, the console of npm start is on %s", (vars, host) => {
    withTokens();
    expect(setupWith(origin, limits, ...vars).config?.admin?.host).toBe(host);
  });

  it("npm start reports an invalid ADMIN_HOST, and a missing ADMIN_HOST that ACCESS_TEAM needs", () => {
    withTokens();
    const problemsOf = (line: string): readonly string[] => setupWith(origin, limits, line).problems;
    expect(problemsOf('ADMIN_HOST = "https://a.example"')).toEqual([expect.stringMatching(/^ADMIN_HOST/)]);
    expect(problemsOf('ACCESS_TEAM = "acme"\nACCESS_AUDIENCE = "tag"')).toEqual([expect.stringMatching(/^ADMIN_HOST/)]);
  });

  it("npm start sets no ADMIN_HOST when the admin API has no tokens", () => {
    expect(setupWith(origin, limits).variables).not.toHaveProperty("ADMIN_HOST");
  });

  it("keys can be revealed with any limits, unless REVEAL is set", () => {
    withTokens();
    expect(setupWith().config?.admin?.reveal).toBe(true);
    expect(setupWith('REVEAL = "off"').config?.admin?.reveal).toBe(false);
    expect(setupWith(limits).config?.admin?.reveal).toBe(true);
  });

  it("npm start samples the traffic of every key, unless SAMPLE is set", () => {
    withTokens();
    expect(setupWith(limits).config?.sampleOneKeyIn).toBe(1);
    expect(setupWith(limits, 'SAMPLE = "1/8"').config?.sampleOneKeyIn).toBe(8);
    expect(setupWith(limits, 'SAMPLE = "off"').config?.sampleOneKeyIn).toBe(null);
    expect(setupWith(limits, 'SAMPLE = "all"').problems).toEqual([expect.stringMatching(/^SAMPLE: .*"all"/)]);
  });

  it("npm start serves the console if the binding ASSETS exists and requests keep their host", () => {
    withTokens();
    const assets = ["[assets]", 'directory = "."', 'binding = "ASSETS"'];
    const route = ["[[routes]]", 'pattern = "a.example/*"', 'zone_name = "a.example"'];
    const has = (...lines: string[]): boolean => setupWith(limits, ...lines).hasConsole;
    expect(has()).toBe(false);
    expect(has(...assets)).toBe(true);
    expect(has(...assets, ...route)).toBe(true);
    expect(has('ORIGIN = "route"', ...assets)).toBe(true);
    expect(has('ORIGIN = "route"', ...assets, ...route)).toBe(false);
    expect(has(...assets, "[dev]", 'host = "a.example"')).toBe(false);
  });

  it("npm start warns that local workerd does not support jurisdictions", () => {
    const policy = 'POLICIES = [{ name = "a", limits = "1/s", jurisdiction = "eu", onError = "closed" }]';
    expect(setupWith(origin, policy).warnings).toEqual([
      expect.stringMatching(/^Local workerd does not support jurisdictions.*: a \(onError = "closed"\)\.$/),
    ]);
  });

  it("the setup of invalid variables contains their problems and no configuration", () => {
    const setup = setupWith(origin, 'LIMITS = "0/minute"');
    expect([setup.config, setup.problems]).toEqual([null, [expect.stringMatching(/^LIMITS/)]]);
  });

  it("an edit that changes no setting leaves the setup the same, and any other edit changes it", () => {
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
