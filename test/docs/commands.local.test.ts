/** The options of the project's own scripts that pages show are in the help text of the script. */
import { expect, it } from "vitest";
import { runNpm } from "../local/checkout.ts";
import { isCheckedCommand, ownUsages } from "./commands.ts";
import { readPages } from "./pages.ts";

const optionsByCommand = new Map<string, Set<string>>();
for (const { text } of readPages().flatMap(({ blocks }) => blocks.filter(isCheckedCommand))) {
  for (const { command, options } of ownUsages(text)) {
    const name = command.join(" ");
    optionsByCommand.set(name, new Set([...(optionsByCommand.get(name) ?? []), ...options]));
  }
}
const usages = [...optionsByCommand]
  .filter(([, options]) => options.size > 0)
  .map(([command, options]) => ({ command, options: [...options] }));

it.each(usages)(
  "npm run $command has the options that pages show",
  async ({ command, options }) => {
    const run = runNpm(".", "run", "--silent", ...command.split(" "), "--help");
    expect(await run.ended).toBe(0);
    const listed = new Set(run.output().match(/(?<![\w-])--?[a-z][a-z-]*/g));
    expect(options.filter((option) => !listed.has(option))).toEqual([]);
  },
);
