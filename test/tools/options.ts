/** The options of the measurements. */
import { type CommandOptions, exitWithError, parseCommandLine } from "../../src/cli/command.ts";

/** Reads the options of `npm run bench -- <name>`. On `--help`, prints the help text and ends the process. */
// oxlint-disable-next-line typescript/explicit-function-return-type -- inferred from the options
export const readOptions = <const O extends CommandOptions>(name: string, options: O) =>
  parseCommandLine(options, `npm run bench -- ${name}`);

/** The option `--write` of a measurement that generates parts of pages. */
export const writeOption = (pages: string) => ({ type: "boolean", default: false, about: `Update ${pages}.` }) as const;

/** Reads an integer from 1 to `most`. Any other text ends the command with an error. */
export function positiveInteger(name: string, text: string, most = 999_999_999): number {
  const number = /^[1-9]\d{0,8}$/.test(text) ? Number(text) : 0;
  if (number < 1 || number > most) {
    exitWithError(`--${name}: expected an integer from 1 to ${most}, got "${text}"`);
  }
  return number;
}
