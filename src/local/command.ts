/** What every command of this folder does with its words, and when it cannot go on. */
import { parseArgs, type ParseArgsOptionsConfig } from "node:util";

/** Ends the command with a message instead of a stack: what is wrong is not in our code. */
export function fail(message: string): never {
  console.error(message);
  process.exit(1);
}

/** The options of the command line. */
// oxlint-disable-next-line typescript/explicit-function-return-type -- inferred from the options
export function readOptions<const Options extends ParseArgsOptionsConfig>(options: Options) {
  try {
    return parseArgs({ options }).values;
  } catch (error) {
    const accepted = Object.keys(options).map((name) => `--${name}`);
    return fail(`${messageOf(error)}\nAccepted are ${accepted.join(", ")}.`);
  }
}

export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);
