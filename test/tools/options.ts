/** Options of the benches: their texts as numbers. */
import { exitWithError } from "../../src/local/command.ts";

/** Ends the command when the text is not such an integer. */
export function positive(name: string, text: string, most = 999_999_999): number {
  const number = /^[1-9]\d{0,8}$/.test(text) ? Number(text) : 0;
  if (number < 1 || number > most) {
    exitWithError(`--${name}: expected an integer from 1 to ${most}, got "${text}"`);
  }
  return number;
}
