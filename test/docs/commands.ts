/** Checks the commands of `bash account` and `bash repository` blocks, which no test can run. */
import { readFileSync } from "node:fs";
import { benchCommands } from "../tools/bench-commands.ts";
import { wranglerProblems } from "./wrangler-commands.ts";
import { type Block, readPage, type Table } from "./pages.ts";

/** Whether a block's commands need an account, or take long. */
export const isCheckedCommand = ({ language, info }: Block): boolean =>
  language === "bash" && (info[0] === "account" || info[0] === "repository");

const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as {
  scripts: Readonly<Record<string, string>>;
};

/** The tables of the pages about commands. */
export const commandTables: readonly Table[] = [
  "docs/reference/command-line.md",
  "docs/reference/advise-and-what-if.md",
  "docs/reference/deploy-and-smoke.md",
  "docs/reference/development-commands.md",
].flatMap((path) => readPage(path).tables);

/** The rows of the tables of options whose heading names the command. Two commands share a table. */
export const optionRows = (command: string): (readonly string[])[] =>
  commandTables
    .filter(({ heading, columns }) => columns.includes("option") && isNamedIn(heading, command))
    .flatMap(({ rows }) => rows);

const isNamedIn = (heading: string, command: string): boolean => heading.split(/ of | and /).includes(command);

/** Programs that every reader has, or that another program on the page installs. */
const otherPrograms = new Set(
  "awk cat cd cp curl dig echo export git grep head jq ls mkdir node openssl printf rm sort tail uniq wc".split(" "),
);

/** Programs of this project, run by `npx`. */
const projectPrograms = new Set(["oxfmt", "vitest", "tsc"]);

/** Returns one text for each command that does not exist. */
export const commandProblems = (text: string): string[] =>
  commandsIn(text).flatMap((words) => problemsOf(words).map((problem) => `${words.join(" ")}: ${problem}`));

function problemsOf([program = "", ...words]: readonly string[]): readonly string[] {
  switch (program) {
    case "npm":
      return npmProblems(words);
    case "npx": {
      const [name = "", ...rest] = words;
      if (name === "wrangler") return wranglerProblems(rest);
      return projectPrograms.has(name) ? [] : [`unknown program ${name}`];
    }
    default:
      return otherPrograms.has(program) ? [] : [`unknown program ${program}`];
  }
}

function npmProblems(words: readonly string[]): string[] {
  const [command = ""] = words;
  if (command === "ci" || command === "install") return [];
  if (command === "create" && words[1] === "cloudflare@latest") return [];
  const script = scriptOf(words);
  if (scripts[script] === undefined) return [`package.json has no script ${script}`];
  if (command !== "run" && command !== "start" && command !== "test") return [`expected npm run ${script}`];
  const own = words.indexOf("--") < 0 ? [] : words.slice(words.indexOf("--") + 1);
  if (script === "deploy") return wranglerProblems(["deploy", ...own]);
  const [name = ""] = own;
  if (script === "bench" && !Object.hasOwn(benchCommands, name)) return [`unknown name ${name}`];
  const listed = listedOptions(script, name);
  return own
    .filter((word) => word.startsWith("-"))
    .map((word) => word.replace(/=.*/s, ""))
    .filter((option) => !listed.has(option) && option !== "--help")
    .map((option) => `no option ${option}`);
}

function scriptOf(words: readonly string[]): string {
  const named = words.filter((word) => !word.startsWith("-"));
  return (named[0] === "run" ? named[1] : named[0]) ?? "";
}

/** The options of `npm run <script> -- <name>`, all of which the pages about commands list. */
function listedOptions(script: string, name: string): Set<string> {
  const heading = script === "start" ? "npm start" : `npm run ${script}`;
  const rows = optionRows(heading);
  const own = script === "bench" ? rows.filter((row) => row.includes(`\`${name}\``)) : rows;
  const text = own.flat().join("\n");
  return new Set(text.match(/(?<=[`,] ?)--?[a-z][a-z-]*/g));
}

/** The words of each simple command, without comments, assignments, redirections and quotation marks. */
export function commandsIn(text: string): string[][] {
  const commands: string[][] = [[]];
  for (const [token] of text.replaceAll("\\\n", " ").matchAll(tokens)) {
    if (/^(?:\n|;|&&?|\|\|?)$/.test(token)) commands.push([]);
    else if (!token.startsWith("#")) commands.at(-1)?.push(token.replace(/(["'])([^]*?)\1/g, "$2"));
  }
  return commands.map(withoutShellSyntax).filter(({ length }) => length > 0);
}

/** Separators, comments, and words, which may contain quoted parts. */
const tokens = /\n|&&|\|\||[;&|]|#[^\n]*|(?:"[^"]*"|'[^']*'|[^\s;&|"'])+/g;

function withoutShellSyntax(words: readonly string[]): string[] {
  const start = words.findIndex((word) => !/^[A-Z_]+=/.test(word));
  return words
    .slice(start < 0 ? words.length : start)
    .filter((word, index, all) => !/^\d?[<>]/.test(word) && !/^\d?[<>]+$/.test(all[index - 1] ?? ""));
}
