import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { describe, expect, it } from "vitest";
import { isRebuild } from "../../src/local/rebuild.ts";

describe("a failed build", () => {
  const wrangler = readFileSync(createRequire(import.meta.url).resolve("wrangler"), "utf8");

  it.for([
    ["Failed to rebuild the Worker", true],
    ["Failed to construct initial bundle", false],
  ] as const)("with wrangler's reason %j is a rebuild: %j", ([reason, expected]) => {
    expect(wrangler).toContain(`reason: "${reason}"`);
    expect(isRebuild({ reason })).toBe(expected);
  });
});
