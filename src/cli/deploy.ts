/** `npm run deploy`: checks the configuration, and runs `wrangler deploy` if it has no problems. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";
import { checkConfiguration } from "./configuration-check.ts";
import { buildConsole } from "./console-build.ts";
import { CommandError, helpOf, isHelp, runCommand } from "./command.ts";
import { missingSecrets, removeSecrets, writeRandomSecrets } from "./first-secrets.ts";
import { deployedVariables, readSettings, type Settings } from "./settings.ts";
import { configurationSource, deployOptions, readDeployOptions } from "./configuration-source.ts";

const wranglerBin = fileURLToPath(new URL("../../node_modules/wrangler/bin/wrangler.js", import.meta.url));

await runCommand(async () => {
  const words = process.argv.slice(2);
  if (words.some(isHelp)) {
    console.log(`${helpOf(deployOptions)}\n\nAll other options are passed to wrangler deploy:\n`);
    process.exitCode = await runWrangler(["deploy", "--help"]);
    return;
  }
  const values = readDeployOptions(words);
  const source = configurationSource(values);
  const settings = readSettings(source);
  const { problems, warnings } = checkConfiguration(settings, deployedVariables(settings));
  for (const line of [...problems, ...warnings]) console.error(line);
  if (problems.length > 0) {
    throw new CommandError("Nothing was deployed: the configuration has problems.");
  }
  await buildConsole();
  // These options make wrangler deploy the configuration that was checked.
  const chosen = [
    ...(values.env === undefined ? [`--env=${source.environment}`] : []),
    ...(values.config === undefined ? [`--config=${source.file}`] : []),
  ];
  const secrets = await firstSecrets(settings, words);
  try {
    const added = secrets === null ? [] : [`--secrets-file=${secrets}`];
    process.exitCode = await runWrangler(["deploy", ...chosen, ...added, ...words]);
  } finally {
    if (secrets !== null) removeSecrets(secrets);
  }
});

/** The file with random values for secrets that the Worker lacks, or null. These options say where values come from. */
async function firstSecrets(settings: Settings, words: readonly string[]): Promise<string | null> {
  const hasOwn = words.some((word) => /^--(?:dry-?run|name|secrets-?file)(?:=|$)/i.test(word));
  const names = hasOwn ? [] : await missingSecrets(settings, wranglerBin);
  if (names.length === 0) return null;
  console.log(
    `${names.join(" and ")}: not set yet, so random values are set. To choose a value, run npx wrangler secret put <NAME>.`,
  );
  return writeRandomSecrets(names);
}

/** Runs wrangler in this terminal and forwards signals to it. Returns its exit code. */
async function runWrangler(words: readonly string[]): Promise<number> {
  const child = spawn(process.execPath, [wranglerBin, ...words], { stdio: "inherit" });
  const signals = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const;
  for (const signal of signals) process.on(signal, () => child.kill(signal));
  await once(child, "exit");
  // Shells report an exit by a signal as 128 + its number.
  return child.exitCode ?? 128 + constants.signals[child.signalCode ?? "SIGTERM"];
}
