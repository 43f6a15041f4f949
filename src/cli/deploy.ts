/** `npm run deploy`: checks the configuration, and runs `wrangler deploy` if it has no problems. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { CommandError, helpOf, isHelp, runCommand } from "./command.ts";
import { checkDeployment } from "./configuration-check.ts";
import {
  configurationSource,
  deployOptions,
  generatedSecrets,
  randomSecret,
  readDeployOptions,
} from "./configuration-source.ts";
import { buildConsole } from "./console-build.ts";
import { readSettings, type Settings } from "./settings.ts";
import { isRecord, jsonOrNull } from "../validation/json.ts";

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
  const { lines, warnings } = checkDeployment(settings);
  for (const line of [...lines, ...warnings]) console.error(line);
  if (lines.length > 0) {
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
    if (secrets !== null) rmSync(dirname(secrets), { recursive: true, force: true });
  }
});

/**
 * Writes a file with random values for the secrets that the Worker lacks. Returns its path, or null if none are
 * lacking. With `--dry-run`, `--name` or `--secrets-file`, no file is written.
 */
async function firstSecrets(settings: Settings, words: readonly string[]): Promise<string | null> {
  const hasOwn = words.some((word) => /^--(?:dry-?run|name|secrets-?file)(?:=|$)/i.test(word));
  const names = hasOwn ? [] : await missingSecrets(settings);
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

/**
 * The names of the required secrets that are not set and that any random value suits. wrangler refuses the first
 * deployment of a Worker without them, and `wrangler secret put` needs a Worker that exists.
 */
async function missingSecrets({ requiredSecrets, source }: Settings): Promise<readonly string[]> {
  const needed = generatedSecrets.filter((name) => requiredSecrets.includes(name));
  if (needed.length === 0) return [];
  const words = [`--config=${source.file}`, `--env=${source.environment}`];
  const set = await deployedSecrets([wranglerBin, "secret", "list", "--format=json", ...words]);
  return set === null ? [] : needed.filter((name) => !set.has(name));
}

/** Null when the list cannot be read, for a reason that `wrangler deploy` reports, too. */
async function deployedSecrets(words: readonly string[]): Promise<ReadonlySet<string> | null> {
  const child = spawn(process.execPath, words, { stdio: ["inherit", "pipe", "pipe"] });
  const [output, errors] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    child.exitCode ?? once(child, "exit"),
  ]);
  if (child.exitCode !== 0) return /Worker ".*".* not found\./.test(errors) ? new Set() : null;
  const list = jsonOrNull(output);
  if (!Array.isArray(list)) return null;
  return new Set(list.flatMap((each) => (isRecord(each) ? [String(each["name"])] : [])));
}

/** Writes a file for `--secrets-file` that only its owner can read. */
function writeRandomSecrets(names: readonly string[]): string {
  const file = join(mkdtempSync(join(tmpdir(), "headgate-secrets-")), "secrets.json");
  const values = Object.fromEntries(names.map((name) => [name, randomSecret()]));
  writeFileSync(file, JSON.stringify(values), { mode: 0o600 });
  return file;
}
