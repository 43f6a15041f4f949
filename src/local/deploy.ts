/** `npm run deploy`: checks the configuration that `wrangler deploy` is about to deploy, and deploys it. */
import { check } from "./check.ts";
import { CommandError, helpOf, isHelp, runCommand } from "./command.ts";
import { deployedVariables, readSettings } from "./settings.ts";
import { deployOptions, readDeployWords } from "./deploy-words.ts";
import { sourceOf } from "./source.ts";
import { runWrangler } from "./wrangler.ts";

await runCommand(async () => {
  const words = process.argv.slice(2);
  if (words.some(isHelp)) {
    console.log(`${helpOf(deployOptions)}\n\nAll other options go to wrangler deploy:\n`);
    process.exitCode = await runWrangler(["deploy", "--help"]);
    return;
  }
  const values = readDeployWords(words);
  const source = sourceOf(values);
  const settings = readSettings(source);
  const { problems, warnings } = check(settings, deployedVariables(settings));
  for (const line of [...problems, ...warnings]) console.error(line);
  if (problems.length > 0) {
    throw new CommandError("Nothing was deployed: the configuration has problems.");
  }
  // Named for wrangler too, so that it cannot choose another configuration than the one that was checked.
  const chosen = [
    ...(values.env === undefined ? [`--env=${source.environment}`] : []),
    ...(values.config === undefined ? [`--config=${source.file}`] : []),
  ];
  process.exitCode = await runWrangler(["deploy", ...chosen, ...words]);
});
