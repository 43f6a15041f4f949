/**
 * Reads the examples of `docs/examples`: Workers that start with one command, and the commands that their READMEs show.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { type Block, type Page, readPage } from "./pages.ts";

export const examplesFolder = "docs/examples";
export const examplesPage = join(examplesFolder, "README.md");

export const exampleNames = (): string[] =>
  readdirSync(examplesFolder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);

/** A block whose first command starts the example. The other commands show their output as a comment. */
export const isExample = ({ language, info }: Block): boolean => language === "bash" && info[0] === "example";

export interface ShownCommand {
  readonly command: string;
  /** The output of the command on one line, in which `…` stands for any text. */
  readonly shown: string;
  /** Whether the command prints this output only after something else has finished. */
  readonly isLater: boolean;
}

export interface WorkerExample {
  readonly start: string;
  readonly commands: readonly ShownCommand[];
}

/** @throws Error if the README does not show one block with a start command, and commands with their output */
export function readExample({ path, blocks }: Page): WorkerExample {
  const [block, ...others] = blocks.filter(isExample);
  if (block === undefined || others.length > 0) throw new Error(`${path}: expected one example`);
  const [start = "", ...lines] = block.text.trim().split("\n");
  const commands = lines.map((line) => {
    const [, command = "", later, shown = ""] = /^(.+) # (soon: )?(.+)$/.exec(line) ?? [];
    if (command === "") throw new Error(`${path}: expected "command # output", got "${line}"`);
    return { command, shown, isLater: later !== undefined };
  });
  return { start, commands };
}

export const exampleNamed = (name: string): WorkerExample =>
  readExample(readPage(join(examplesFolder, name, "README.md")));
