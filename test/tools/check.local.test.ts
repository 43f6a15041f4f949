/** The files of this folder compile and follow the rules of the linter, which `npm run check` cannot know without its packages. */
import { spawnSync } from "node:child_process";
import { expect, it } from "vitest";

const outputOf = (...words: readonly string[]): string => {
  const { status, stdout, stderr } = spawnSync(process.execPath, words, { encoding: "utf8" });
  return status === 0 ? "" : stdout + stderr;
};

it("the tools compile", () => {
  expect(outputOf("node_modules/typescript/bin/tsc", "-p", "test/tools")).toBe("");
});

it("the linter finds nothing in the tools", () => {
  expect(outputOf("node_modules/oxlint/bin/oxlint", "--type-aware", "test/tools")).toBe("");
});
