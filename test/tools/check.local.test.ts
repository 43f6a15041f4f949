/**
 * The files of test/tools compile and follow the linter's rules. `npm run check` cannot check this without the packages
 * of test/tools.
 */
import { spawnSync } from "node:child_process";
import { expect, it } from "vitest";

const outputOf = (...words: readonly string[]): string => {
  const { status, stdout, stderr } = spawnSync(process.execPath, words, { encoding: "utf8" });
  return status === 0 ? "" : stdout + stderr;
};

it("the files of test/tools compile", () => {
  expect(outputOf("node_modules/typescript/bin/tsc", "-p", "test/tools")).toBe("");
});

it("the linter finds no problem in test/tools", () => {
  expect(outputOf("node_modules/oxlint/bin/oxlint", "--type-aware", "test/tools")).toBe("");
});
