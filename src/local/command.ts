/** What the commands of this folder share: options, `--help`, and an end without a stack trace. */
import { parseArgs, type ParseArgsOptionDescriptor, type ParseArgsOptionsConfig } from "node:util";

/** An option and its lines in the help text. */
export interface Option extends ParseArgsOptionDescriptor {
  /** The name of its value, such as `port`. */
  readonly value?: string;
  readonly about?: string;
}

export type Options = ParseArgsOptionsConfig & Readonly<Record<string, Option>>;

/** A problem that the user can fix: commands print its message and no stack trace. */
export class CommandError extends Error {}

/** Prints the message and ends the command with exit code 1. */
export function fail(message: string): never {
  console.error(message);
  process.exit(1);
}

/** Runs a command; a `CommandError` ends it with exit code 1. */
export async function runCommand(run: () => void | Promise<void>): Promise<void> {
  try {
    await run();
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    fail(error.message);
  }
}

/** Parses the command line. `--help` prints the options and ends the command. */
// oxlint-disable-next-line typescript/explicit-function-return-type -- inferred from the options
export function readOptions<const O extends Options>(options: O) {
  if (process.argv.slice(2).some(isHelp)) {
    console.log(helpOf(options));
    process.exit(0);
  }
  try {
    return parseArgs({ options }).values;
  } catch (error) {
    const accepted = Object.keys(options).map((name) => `--${name}`);
    return fail(`${messageOf(error)}\nAccepted are ${accepted.join(", ")}.`);
  }
}

export const isHelp = (word: string): boolean => word === "--help" || word === "-h";

/** The help text: how to call the command, and one line for each option. */
export function helpOf(options: Options, command = commandLine(process.env)): string {
  const rows = [
    ...Object.entries(options).map(([name, option]) => [usageOf(name, option), aboutOf(option)]),
    ["-h, --help", "Show this help."],
  ];
  const width = Math.max(...rows.map(([usage = ""]) => usage.length));
  const lines = rows.map(([usage = "", about = ""]) =>
    `  ${usage.padEnd(width)}  ${about}`.trimEnd(),
  );
  return [`Usage: ${command} [options]`, "", "Options:", ...lines].join("\n");
}

function usageOf(name: string, { type, short, value = "value" }: Option): string {
  const names = short === undefined ? `--${name}` : `-${short}, --${name}`;
  return type === "string" ? `${names} <${value}>` : names;
}

function aboutOf({ about = "", default: fallback, multiple }: Option): string {
  const notes = [
    ...(fallback === undefined || typeof fallback === "boolean"
      ? []
      : [`default: ${fallback.toString()}`]),
    ...(multiple === true ? ["repeatable"] : []),
  ];
  return notes.length > 0 ? `${about} (${notes.join(", ")})`.trimStart() : about;
}

/** How npm runs the current script with options. npm provides its name. */
export function commandLine(env: Readonly<Record<string, string | undefined>>): string {
  const script = env["npm_lifecycle_event"];
  if (script === undefined) return "node <script>";
  return script === "start" ? "npm start --" : `npm run ${script} --`;
}

export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);
