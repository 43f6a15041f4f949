/** Number options of the tools. */
import { exitWithError } from "../../src/local/command.ts";

/** Reads an integer from 1 to `most`. Any other text ends the command with an error. */
export function positiveInteger(name: string, text: string, most = 999_999_999): number {
  const number = /^[1-9]\d{0,8}$/.test(text) ? Number(text) : 0;
  if (number < 1 || number > most) {
    exitWithError(`--${name}: expected an integer from 1 to ${most}, got "${text}"`);
  }
  return number;
}
