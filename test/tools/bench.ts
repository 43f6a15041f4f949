/**
 * `npm run bench -- <name> [options]`: runs the measurement of that name with these options. Without a name, lists the
 * names.
 */
import { exitWithError, isHelp } from "../../src/cli/command.ts";
import { benchCommands } from "./bench-commands.ts";
import { installTools } from "./install.ts";

const [name] = process.argv.splice(2, 1);

const width = Math.max(...Object.keys(benchCommands).map((each) => each.length));
const list = [
  "Usage: npm run bench -- <name> [options]",
  "",
  "Names:",
  ...Object.entries(benchCommands).map(([each, about]) => `  ${each.padEnd(width)}  ${about}`),
  "",
  "npm run bench -- <name> --help prints the options of one of them.",
].join("\n");

if (name === undefined || isHelp(name)) {
  console.log(list);
} else if (Object.hasOwn(benchCommands, name)) {
  installTools();
  // Importing the module reads the command line and measures.
  await import(`./${name}.ts`);
} else {
  exitWithError(`expected one of the names below, got "${name}"\n\n${list}`);
}
