import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isSame, type Plan, planOf } from "../../src/local/plan.ts";
import { readSettings } from "../../src/local/settings.ts";
import { sourceOf } from "../../src/local/source.ts";

const demoOrigin = "http://127.0.0.1:9999";
const secrets = `KEY_SECRET="${"k".repeat(32)}"\nCHECK_TOKENS="${"t".repeat(32)}"\n`;
let folder = "";

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "headgate-plan-"));
  writeFileSync(join(folder, "index.ts"), "");
  writeFileSync(join(folder, ".dev.vars"), secrets);
});
afterEach(() => rmSync(folder, { recursive: true }));

function planWith(...vars: string[]): Plan {
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
  return planOf(readSettings(sourceOf({ config, env: "" }, {}, folder)), demoOrigin);
}

const origin = 'ORIGIN = "https://api.example.com"';
const limits = 'LIMITS = "7/minute"';

describe("the plan of npm start", () => {
  it("has a demo origin and demo limits where there are none", () => {
    const plan = planWith();
    expect(plan).toMatchObject({
      isDemoOrigin: true,
      isDemoPolicy: true,
      problems: [],
      warnings: [],
    });
    expect(plan.variables).toMatchObject({
      ORIGIN: demoOrigin,
      LIMITS: "5/10s",
      STRATEGY: "fixed-window",
      KEY: "ip",
    });
    expect(plan.config?.policies.map(({ name }) => name)).toEqual(["default"]);
  });

  it("has each of them apart from the other", () => {
    const ownOrigin = planWith(origin);
    expect(ownOrigin).toMatchObject({ isDemoOrigin: false, isDemoPolicy: true });
    expect(ownOrigin.variables["ORIGIN"]).toBe("https://api.example.com");
    const ownLimits = planWith(limits);
    expect(ownLimits).toMatchObject({ isDemoOrigin: true, isDemoPolicy: false });
    expect(ownLimits.variables).toMatchObject({ ORIGIN: demoOrigin, LIMITS: "7/minute" });
    expect(ownLimits.variables).not.toHaveProperty("KEY");
    expect(planWith('ORIGIN = ""', limits).isDemoOrigin).toBe(true);
  });

  it("names the variables that are secrets", () => {
    expect(planWith(origin, limits).secretNames.toSorted()).toEqual(["CHECK_TOKENS", "KEY_SECRET"]);
  });

  it("warns of jurisdictions, which local workerd does not know", () => {
    const policy =
      'POLICIES = [{ name = "a", limits = "1/s", jurisdiction = "eu", onError = "closed" }]';
    expect(planWith(origin, policy).warnings).toEqual([
      expect.stringMatching(
        /^Local workerd knows no jurisdictions: decisions of a \(onError = "closed"\) /,
      ),
    ]);
  });

  it("has the problems of the variables, and no configuration", () => {
    const plan = planWith(origin, 'LIMITS = "0/minute"');
    expect([plan.config, plan.problems]).toEqual([null, [expect.stringMatching(/^LIMITS/)]]);
  });

  it("is the same after an edit that changes no setting, and another after one that does", () => {
    const plan = planWith(origin, limits);
    expect(isSame(plan, planWith(origin, "# a comment", limits))).toBe(true);
    expect(isSame(plan, planWith(origin, 'LIMITS = "8/minute"'))).toBe(false);
    writeFileSync(join(folder, ".dev.vars"), secrets.replace("kkk", "lll"));
    expect(isSame(plan, planWith(origin, limits))).toBe(false);
    writeFileSync(join(folder, ".dev.vars"), secrets);
    expect(isSame(plan, planWith(origin, limits))).toBe(true);
    const wrangler = { ...plan.wrangler, compatibility_date: "2026-10-01" };
    expect(isSame(plan, { ...plan, wrangler })).toBe(false);
    expect(isSame(plan, { ...plan, secretNames: [] })).toBe(false);
  });
});
