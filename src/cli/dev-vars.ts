/** `.dev.vars`: the secrets of a local run, which git ignores. */
import { randomBytes } from "node:crypto";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseEnv } from "node:util";
import type { ConfigurationSource } from "./configuration-source.ts";

/** The generated secrets, each with the comment that explains it in `.dev.vars`. */
const secretPurposes = {
  KEY_SECRET: "The key of the HMACs that stand for client keys outside of the Worker.",
  CHECK_TOKENS: "The bearer token of /check.",
  ADMIN_TOKENS: "The bearer token of the admin API.",
};

export const randomSecret = (): string => randomBytes(24).toString("base64url");

/** The names of the secrets that `npm start` generates, and `npm run deploy` for a Worker that lacks them. */
export const generatedSecrets: readonly string[] = Object.keys(secretPurposes);

/** The files that wrangler may read secrets from. It reads the first that exists. */
export function devVarsFiles({ file, environment }: ConfigurationSource): string[] {
  const general = join(dirname(file), ".dev.vars");
  return environment === "" ? [general] : [`${general}.${environment}`, general];
}

/** The file that wrangler reads, or the one to create. */
export function devVarsFile(source: ConfigurationSource): string {
  const files = devVarsFiles(source);
  return files.find((file) => existsSync(file)) ?? files.at(-1) ?? ".dev.vars";
}

export function readDevVars(source: ConfigurationSource): Record<string, string | undefined> {
  const file = devVarsFile(source);
  return existsSync(file) ? parseEnv(readFileSync(file, "utf8")) : {};
}

/** Adds random values for missing secrets to `.dev.vars`, and changes nothing else in it. */
export function ensureDevVars(source: ConfigurationSource): void {
  const present = readDevVars(source);
  const missing = Object.entries(secretPurposes).filter(([name]) => !present[name]);
  if (missing.length === 0) return;
  const file = devVarsFile(source);
  const lines = missing.map(([name, purpose]) => `# ${purpose}\n${name}="${randomSecret()}"\n`);
  const isUnterminated = existsSync(file) && !/(?:^|\n)$/.test(readFileSync(file, "utf8"));
  appendFileSync(file, (isUnterminated ? "\n" : "") + lines.join(""), { mode: 0o600 });
}
