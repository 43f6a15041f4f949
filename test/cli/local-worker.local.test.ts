import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { devRegistryPath, isRebuildFailure } from "../../src/cli/local-worker.ts";

const home = mkdtempSync(join(tmpdir(), "headgate-home-"));
afterAll(() => rmSync(home, { recursive: true }));

it.each<[NodeJS.Platform, Record<string, string>, string[]]>([
  ["linux", {}, [".config", ".wrangler", "registry"]],
  ["darwin", {}, ["Library", "Preferences", ".wrangler", "registry"]],
  ["win32", {}, ["AppData", "Roaming", "xdg.config", ".wrangler", "registry"]],
  ["win32", { APPDATA: join(home, "data") }, ["data", "xdg.config", ".wrangler", "registry"]],
  ["linux", { XDG_CONFIG_HOME: join(home, "chosen") }, ["chosen", ".wrangler", "registry"]],
  ["linux", { WRANGLER_REGISTRY_PATH: join(home, "other") }, ["other"]],
])("local Workers register in the same folder as wrangler dev on %s with %j", (platform, env, path) => {
  expect(devRegistryPath(env, home, platform)).toBe(join(home, ...path));
});

it("local Workers register in ~/.wrangler if that folder exists", () => {
  const legacy = join(home, "old");
  mkdirSync(join(legacy, ".wrangler"), { recursive: true });
  const path = devRegistryPath({ XDG_CONFIG_HOME: home }, legacy, "linux");
  expect(path).toBe(join(legacy, ".wrangler", "registry"));
});

it.for([
  ["Failed to rebuild the Worker", true],
  ["Failed to construct initial bundle", false],
] as const)("wrangler's reason %j means that a later build failed, not the first build: %j", ([reason, expected]) => {
  const wrangler = readFileSync(createRequire(import.meta.url).resolve("wrangler"), "utf8");
  expect(wrangler).toContain(`reason: "${reason}"`);
  expect(isRebuildFailure({ reason })).toBe(expected);
});
