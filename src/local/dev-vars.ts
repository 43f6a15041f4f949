/** `.dev.vars`: the secrets of a local run, which git ignores. */
import { randomBytes } from "node:crypto";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { parseEnv } from "node:util";

const file = ".dev.vars";

/** What must be there for a local run, and how it is made up. */
const secrets = {
  KEY_SECRET: "hides who is charged: keys leave the Worker only as HMACs made with it",
  CHECK_TOKENS: "the bearer token of /check",
};

export function readDevVars(): Record<string, string | undefined> {
  return existsSync(file) ? parseEnv(readFileSync(file, "utf8")) : {};
}

/** Adds to `.dev.vars` the secrets that it has not; what is there stays. */
export function ensureDevVars(): void {
  const present = readDevVars();
  const missing = Object.entries(secrets).filter(([name]) => !present[name]);
  const lines = missing.map(
    ([name, purpose]) => `# ${purpose}\n${name}="${randomBytes(24).toString("base64url")}"\n`,
  );
  if (lines.length > 0) {
    const isUnterminated = existsSync(file) && !/(?:^|\n)$/.test(readFileSync(file, "utf8"));
    appendFileSync(file, (isUnterminated ? "\n" : "") + lines.join(""), { mode: 0o600 });
  }
}
