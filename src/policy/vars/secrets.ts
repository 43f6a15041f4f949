/** Reads and checks secrets. No problem quotes the value of a secret. */
import type { KnownVariables, VariableName } from "./known-variables.ts";
import { isVisible, tokenTexts } from "./tokens.ts";
import { hidden, isSet, type ReportProblem } from "./variables.ts";
import type { ConfigProblem } from "../../validation/problems.ts";

/** The values in an earlier `.dev.vars.example`, which are public and which deploy buttons have offered. */
const placeholders: ReadonlySet<string> = new Set([
  "at least 32 random characters",
  "at least 32 random characters without spaces",
]);

const secretNames = [
  "KEY_SECRET",
  "CHECK_TOKENS",
  "ADMIN_TOKENS",
  "ORIGIN_SECRET",
  "JWT_KEY",
] as const satisfies VariableName[];

/** Secrets with lists of tokens. */
const tokenVariables = ["CHECK_TOKENS", "ADMIN_TOKENS"] as const;

const leastKeySecretLength = 32;
const leastTokenLength = 16;

const isPlaceholder = (text: unknown): boolean => typeof text === "string" && placeholders.has(text.trim());

/** A problem for each secret that is a public placeholder. */
export function placeholderProblems(env: KnownVariables): ConfigProblem[] {
  const wrong = secretNames.filter((variable) =>
    tokenVariables.some((each) => each === variable)
      ? tokenTexts(env[variable]).some(isPlaceholder)
      : isPlaceholder(env[variable]),
  );
  const accepted = "a secret of your own instead of the placeholder of .dev.vars.example";
  return wrong.map((variable) => ({ variable, field: "", value: hidden, accepted }));
}

/** A line for each secret that is short enough to guess. The Worker runs with it. */
export function shortSecrets(env: KnownVariables): string[] {
  const { KEY_SECRET: secret } = env;
  const lines: string[] = [];
  if (typeof secret === "string" && secret !== "" && secret.length < leastKeySecretLength) {
    lines.push(`KEY_SECRET: expected at least ${leastKeySecretLength} random characters, got ${secret.length}`);
  }
  for (const variable of tokenVariables) {
    const lengths = tokenTexts(env[variable]).map(({ length }) => length);
    const shortest = Math.min(...lengths);
    if (shortest >= leastTokenLength) continue;
    lines.push(
      `${variable}: expected tokens of at least ${leastTokenLength} random characters, got one with ${shortest} characters`,
    );
  }
  return lines;
}

export function readOriginSecret(value: unknown, report: ReportProblem): string | null {
  if (!isSet(value)) return null;
  if (isVisible(value)) return value;
  report({
    variable: "ORIGIN_SECRET",
    field: "",
    value: hidden,
    accepted: "a text of visible ASCII characters",
  });
  return null;
}

export function readKeySecret(value: unknown, report: ReportProblem): string {
  if (typeof value === "string" && value !== "") return value;
  report({
    variable: "KEY_SECRET",
    field: "",
    value: isSet(value) ? hidden : undefined,
    accepted:
      "a secret text, the same in every deployment; set it with `wrangler secret put KEY_SECRET`, or in .dev.vars locally",
  });
  return "";
}
