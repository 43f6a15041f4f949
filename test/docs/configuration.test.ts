/** Every `toml` block contains a valid configuration, and every `toml invalid` block one that is rejected as shown. */
import { describe, expect, it } from "vitest";
import { isConfiguration, isInvalid, readConfiguration } from "./configuration-blocks.ts";
import { matches, outputsOf } from "./output.ts";
import { type Block, parsePage, readPages } from "./pages.ts";

const pages = readPages();
const place = ({ page, line }: { page: string; line: number }): string => `${page}:${line}`;
const blocks = pages.flatMap((page) =>
  page.blocks.filter(isConfiguration).map((block) => ({ place: place(block), page, block })),
);

describe("the configuration in the documentation", () => {
  it("every toml block is a valid configuration", () => {
    const problems = blocks
      .filter(({ block }) => !isInvalid(block))
      .flatMap(({ place: where, block }) => readConfiguration(block).problems.map((problem) => `${where}: ${problem}`));
    expect(problems).toEqual([]);
  });

  it("every toml block marked as invalid is rejected with the problems that the page shows", () => {
    const unexpected = blocks
      .filter(({ block }) => isInvalid(block))
      .flatMap(({ place: where, page, block }) =>
        rejectionProblems(block, outputsOf(page, block)).map((problem) => `${where}: ${problem}`),
      );
    expect(unexpected).toEqual([]);
  });
});

/** Every shown text is one of the configuration's problems, and at least one problem is shown. */
function rejectionProblems(block: Pick<Block, "text">, outputs: readonly Block[]): string[] {
  const { problems } = readConfiguration(block);
  const shown = outputs.flatMap(({ text }) => text.trim().split("\n"));
  if (problems.length === 0) return ["the configuration is valid"];
  if (shown.length === 0) return [`shows no problem; expected ${problems.join("\n")}`];
  return shown
    .filter((line) => !problems.some((problem) => matches(line.trim(), problem)))
    .map((line) => `${line}: not among the problems ${problems.join("\n")}`);
}

describe("the check of configuration blocks", () => {
  const problemsOf = (...lines: readonly string[]): readonly string[] =>
    readConfiguration({ text: lines.join("\n") }).problems;

  it.each([
    [["LEGACY_HEADERS = true"]],
    [['ORIGIN = "https://api.example.com"', 'LIMITS = "5/minute"']],
    [["[vars]", 'LIMITS = "5/minute"']],
    [["[[vars.POLICIES]]", 'name = "a"', 'limits = "5/minute"']],
    [["[env.staging.vars]", 'LIMITS = "5/minute"']],
    [["[secrets]", 'required = ["KEY_SECRET", "CHECK_TOKENS", "ORIGIN_SECRET"]']],
  ])("the check accepts the block %j", (lines) => {
    expect(problemsOf(...lines)).toEqual([]);
  });

  it.each([
    [['LIMITS = "5/fortnight"'], "LIMITS"],
    [['LIMIT = "5/minute"'], "unknown variable LIMIT"],
    [["[[vars.POLICIES]]", 'name = "a"'], "POLICIES[0] (a) limits is missing"],
    [["[env.staging.vars]", 'LIMITS = "5/fortnight"'], "LIMITS"],
    [["[env.staging.vars]", 'ORIGIN = "https://api.example.com"'], "LIMITS"],
    [["[env.staging]", 'LIMITS = "5/minute"'], "LIMITS"],
    [["LIMITS = 5/minute"], ""],
  ])("the check finds a problem in the block %j", (lines, problem) => {
    expect(problemsOf(...lines)).toContainEqual(expect.stringContaining(problem));
  });

  it("a block with an invalid configuration needs the text of one of its problems, and no other text", () => {
    const page = parsePage(
      "a.md",
      '```toml invalid\nLIMIT = "5/minute"\n```\n\n```text\nunknown variable LIMIT…\n```\n',
    );
    const [block = { text: "" }, ...outputs] = page.blocks;
    expect(rejectionProblems({ text: "LEGACY_HEADERS = true" }, outputs)).toHaveLength(1);
    expect(rejectionProblems(block, outputs)).toEqual([]);
    expect(rejectionProblems(block, [])).toHaveLength(1);
    expect(rejectionProblems({ text: 'LIMITS = "5/fortnight"' }, outputs)).toHaveLength(1);
  });
});
