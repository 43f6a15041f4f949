/** `.dev.vars`: the secrets of a local run, which git ignores. */
import { randomBytes } from "node:crypto";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseEnv } from "node:util";
import type { Source } from "./source.ts";

/** The secrets of a local run, with their purpose. */
const secrets = {
  KEY_SECRET: "hides who is charged: keys leave the Worker only as HMACs made with it",
  CHECK_TOKENS: "the bearer token of /check",
};

/** The names of the secrets that `npm start` makes. */
export const madeSecrets: readonly string[] = Object.keys(secrets);

/** Every file that wrangler may read secrets from: the environment's own comes first and replaces the other. */
export function devVarsFiles({ file, environment }: Source): string[] {
  const general = join(dirname(file), ".dev.vars");
  return environment === "" ? [general] : [`${general}.${environment}`, general];
}

/** The file that wrangler reads. */
export function devVarsFile(source: Source): string {
  const files = devVarsFiles(source);
  return files.find((file) => existsSync(file)) ?? files.at(-1) ?? ".dev.vars";
}

export function readDevVars(source: Source): Record<string, string | undefined> {
  const file = devVarsFile(source);
  return existsSync(file) ? parseEnv(readFileSync(file, "utf8")) : {};
}

/** Adds random values for missing secrets to `.dev.vars` and keeps everything else in it. */
export function ensureDevVars(source: Source): void {
  const present = readDevVars(source);
  const missing = Object.entries(secrets).filter(([name]) => !present[name]);
  if (missing.length === 0) return;
  const file = devVarsFile(source);
  const lines = missing.map(
    ([name, purpose]) => `# ${purpose}\n${name}="${randomBytes(24).toString("base64url")}"\n`,
  );
  const isUnterminated = existsSync(file) && !/(?:^|\n)$/.test(readFileSync(file, "utf8"));
  appendFileSync(file, (isUnterminated ? "\n" : "") + lines.join(""), { mode: 0o600 });
}
