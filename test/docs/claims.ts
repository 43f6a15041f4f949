/**
 * Finds the test that runs a fenced block: a runner in this folder, or a test file that reads the block from the page.
 */
import { readFileSync } from "node:fs";
import { filesOfTests } from "../files.ts";
import { isCheckedCommand } from "./commands.ts";
import { isConfiguration } from "./configuration-blocks.ts";
import { isEvent } from "./event-blocks.ts";
import { isExample } from "./worker-examples.ts";
import { isOutput } from "./output.ts";
import { type Block, infoOf, type Page } from "./pages.ts";
import { isCommand, orphanedOutputs } from "./session.ts";

/** A call in a test file that reads blocks of one page. */
export interface Claim {
  /** The path of the page. */
  readonly page: string;
  /** The language, and the words after it. */
  readonly info: string;
  /** Words in the text of the block; empty matches any block. */
  readonly words: string;
}

/** The blocks that neither a runner nor a claim covers. */
export function unclaimedBlocks(page: Page, claims: readonly Claim[]): Block[] {
  const orphaned = new Set(orphanedOutputs(page));
  return page.blocks.filter(
    (block) =>
      !(isRun(block) || isFigure(block) || (isOutput(block) && !orphaned.has(block))) &&
      !claims.some((claim) => covers(claim, block)),
  );
}

const isRun = (block: Block): boolean =>
  isConfiguration(block) || isCommand(block) || isCheckedCommand(block) || isExample(block) || isEvent(block);

/** Whether a block is an ASCII picture, a formula or a diagram, which no reader types or sees printed. */
const isFigure = (block: Block): boolean => block.language === "mermaid" || infoOf(block) === "text figure";

const covers = ({ page, info, words }: Claim, block: Block): boolean =>
  page === block.page && info === infoOf(block) && block.text.includes(words);

/** The claims of all tests. */
export const readClaims = (): Claim[] =>
  filesOfTests(".ts")
    .filter((path) => !/docs\/(?:claims|output|pages)[.\w]*\.ts$/.test(path))
    .flatMap((path) => claimsIn(readFileSync(path, "utf8")));

/**
 * The calls `pageBlock(page, info, words)` of a test file. Where `page` is a variable, its value is one of the texts in
 * the file. A file that names the path of a page and searches for "```info", or filters blocks by `language`,
 * claims all such blocks of the page.
 */
export function claimsIn(code: string): Claim[] {
  const calls = code.matchAll(
    /pageBlock\(\s*("[^"]*"|\w+),\s*"([^"]*)"(?:,\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'))?,?\s*\)/g,
  );
  const claims = [...calls].flatMap(([, page = "", info = "", words, quoted]) =>
    pagesIn(page, code).map((path) => ({
      page: path,
      info,
      words: (words ?? quoted ?? "").replaceAll("\\", ""),
    })),
  );
  const paths = code.match(/\b(?:docs\/[\w/-]+|README)\.md(?=["'])/g) ?? [];
  const infos = [
    ...(code.match(/(?<=```)\w+(?: \w+)*(?=\\n|\n)/g) ?? []),
    ...[...code.matchAll(/\blanguage === "(\w+)"(?: && info\[0\] === "(\w+)")?/g)].map(([, language = "", word]) =>
      word === undefined ? language : `${language} ${word}`,
    ),
  ];
  return [...claims, ...paths.flatMap((page) => infos.map((info) => ({ page, info, words: "" })))];
}

/** The path of a page in quotation marks, or the paths that a variable can stand for. */
function pagesIn(argument: string, code: string): string[] {
  const names = argument.startsWith('"') ? [argument.slice(1, -1)] : (code.match(/(?<=")[\w-]+\/[\w-]+(?=")/g) ?? []);
  return names.map((name) => `docs/${name}.md`);
}
