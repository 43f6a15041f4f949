/**
 * Random values for required secrets that a deployed Worker does not have yet. wrangler refuses the first deployment of a
 * Worker without them, and `wrangler secret put` needs a Worker that exists.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { jsonOrNull } from "../validation/json.ts";
import { isRecord } from "../validation/problems.ts";
import { generatedSecrets, randomSecret } from "./dev-vars.ts";
import type { Settings } from "./settings.ts";

/** The names of the required secrets that are not set and that any random value suits. */
export async function missingSecrets(
  { requiredSecrets, source }: Settings,
  wranglerBin: string,
): Promise<readonly string[]> {
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
export function writeRandomSecrets(names: readonly string[]): string {
  const file = join(mkdtempSync(join(tmpdir(), "headgate-secrets-")), "secrets.json");
  const values = Object.fromEntries(names.map((name) => [name, randomSecret()]));
  writeFileSync(file, JSON.stringify(values), { mode: 0o600 });
  return file;
}

export const removeSecrets = (file: string): void => rmSync(dirname(file), { recursive: true, force: true });
