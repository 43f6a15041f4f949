/**
 * `npm run bench -- mutation`: runs Stryker with the configuration in `mutation/`. Options are passed to `stryker run`.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { isHelp } from "../../src/cli/command.ts";

const words = process.argv.slice(2);
if (words.some(isHelp)) {
  console.log("Usage: npm run bench -- mutation [options]\n\nOptions of stryker run:\n");
}
const [bin, configuration] = [
  "test/tools/node_modules/@stryker-mutator/core/bin/stryker.js",
  "test/tools/mutation/stryker.config.json",
];
const stryker = spawn(process.execPath, [bin, "run", configuration, ...words], {
  stdio: "inherit",
});
await once(stryker, "exit");
process.exitCode = stryker.exitCode ?? 1;
