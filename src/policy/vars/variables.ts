/** Wrangler vars: typed values from wrangler.toml, or JSON text from the dashboard and `--var`. */
import { parseJson } from "../../validation/json.ts";
import type { ReportProblem } from "../../validation/problems.ts";
import type { KnownVariables, VariableName } from "./known-variables.ts";

export type Variables = Readonly<Record<string, unknown>>;

/** Whether a variable is present and not empty. */
export function isSet(value: unknown): boolean {
  return value !== undefined && value !== null && value !== "";
}

const beginsLikeJson = (value: unknown): value is string => typeof value === "string" && /^\s*[[{]/.test(value);

/** The parsed list or object of a JSON text; any other value unchanged. */
export function typedValue(value: unknown): unknown {
  if (!beginsLikeJson(value)) return value;
  try {
    return parseJson(value);
  } catch {
    return value;
  }
}

/** The list in a value, or the value as a list of one. */
export function typedList(value: unknown): readonly unknown[] {
  const read = typedValue(value);
  return Array.isArray(read) ? read : [read];
}

/** Whether a text begins like a JSON list or object and is not valid JSON. */
export function isBrokenJson(value: unknown): boolean {
  return beginsLikeJson(value) && typedValue(value) === value;
}

export const acceptedJson = (value: unknown): string => `valid JSON${jsonErrorNote(value)}`;

/** A hint with the platform's reason why a text is not valid JSON; empty for other values. */
export function jsonErrorNote(value: unknown): string {
  if (!beginsLikeJson(value)) return "";
  try {
    parseJson(value);
    return "";
  } catch (error) {
    // From the first quotation mark on, the reason quotes the text, which may be a secret.
    const [reason = ""] = (error instanceof Error ? error.message : "").split(/[\s,.]*"/);
    return `; the JSON is invalid: ${reason}`;
  }
}

/** Those names among `POLICIES`, `POLICIES_2`, … that are set, in the order of their numbers. */
export function numberedNames(env: Variables, name: string): string[] {
  const numberOf = (key: string): number => (key === name ? 1 : Number(key.slice(name.length + 1)));
  return Object.keys(env)
    .filter((key) => isNumbered(key, name) && isSet(env[key]))
    .toSorted((a, b) => numberOf(a) - numberOf(b));
}

/** Whether a key is `name`, or `name` with `_2`, `_3`, … */
export function isNumbered(key: string, name: string): boolean {
  return key === name || (key.startsWith(`${name}_`) && /^(?:[2-9]|[1-9]\d+)$/.test(key.slice(name.length + 1)));
}

const isText = (value: unknown): value is string => typeof value === "string" && value.trim() !== "";

/** Null when the variable is not set, or invalid. */
export function readTexts(
  variable: VariableName,
  env: KnownVariables,
  accepted: string,
  report: ReportProblem,
): readonly string[] | null {
  const value = env[variable];
  if (!isSet(value)) return null;
  const texts = typedList(value);
  if (texts.length > 0 && texts.every(isText) && !isBrokenJson(value)) return texts;
  report({ variable, field: "", value, accepted: accepted + jsonErrorNote(value) });
  return null;
}
