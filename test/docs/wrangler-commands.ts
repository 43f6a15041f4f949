/** wrangler's own list of commands and options, from which wrangler prints `--help`. */
import { experimental_getWranglerCommands } from "wrangler";

interface Option {
  readonly alias?: string | readonly string[];
  readonly choices?: readonly unknown[];
  readonly type?: string;
  /** Whether the option or argument can be repeated. */
  readonly array?: boolean;
}

interface Command {
  readonly words: readonly string[];
  readonly positionals: readonly string[];
  readonly options: Readonly<Record<string, Option>>;
}

interface Tree {
  readonly definition?: {
    readonly type: string;
    readonly args?: Readonly<Record<string, Option>>;
    readonly positionalArgs?: readonly string[];
  };
  readonly subtree: ReadonlyMap<string, Tree>;
}

const { registry, globalFlags } = experimental_getWranglerCommands() as unknown as {
  registry: Tree;
  globalFlags: Readonly<Record<string, Option>>;
};

/** Returns one text for each unknown subcommand, option and argument of wrangler. */
export function wranglerProblems(words: readonly string[]): string[] {
  const command = commandOf(words);
  if (command === null) return ["wrangler has no such command"];
  const problems: string[] = [];
  let positionals = 0;
  const rest = words.slice(command.words.length);
  for (let index = 0; index < rest.length; index++) {
    const word = rest[index] ?? "";
    if (!word.startsWith("-")) {
      positionals += 1;
      continue;
    }
    const [name = "", joined] = word.split(/=(.*)/s);
    const option = optionOf(command, name);
    if (option === undefined) {
      problems.push(`${command.words.join(" ")} has no option ${name}`);
      continue;
    }
    const value = joined ?? (option.type === "boolean" ? undefined : rest[++index]);
    if (option.type !== "boolean" && value === undefined) problems.push(`${name} needs a value`);
    if (option.choices !== undefined && !option.choices.includes(value)) {
      problems.push(`${name} does not accept ${value ?? "no value"}`);
    }
  }
  const most = mostPositionals(command);
  return positionals <= most ? problems : [...problems, `expected at most ${most} arguments, got ${positionals}`];
}

const mostPositionals = ({ positionals, options }: Command): number =>
  positionals.some((name) => options[name]?.array === true) ? Infinity : positionals.length;

function commandOf(words: readonly string[]): Command | null {
  const path: string[] = [];
  let tree = registry;
  for (const word of words) {
    const next = tree.subtree.get(word);
    if (next === undefined) break;
    tree = next;
    path.push(word);
  }
  const { definition } = tree;
  if (definition?.type !== "command") return null;
  const { args = {}, positionalArgs = [] } = definition;
  return { words: path, positionals: positionalArgs, options: { ...globalFlags, ...args } };
}

/** yargs accepts `--no-<name>` for booleans. */
function optionOf({ options }: Command, word: string): Option | undefined {
  const name = word.replace(/^--?/, "");
  const found = Object.entries(options).find(
    ([each, { alias = [] }]) => each === name || [alias].flat().includes(name),
  );
  const positive = name.startsWith("no-") ? options[name.slice(3)] : undefined;
  return found?.[1] ?? (positive?.type === "boolean" ? positive : undefined);
}
