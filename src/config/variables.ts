/** Wrangler vars as they arrive: typed from wrangler.toml, as JSON text from the dashboard or `--var`. */
import { mostJsonDepth, parseJson } from "../validation/json.ts";
import { jsonErrorAt } from "./json-error.ts";
import { asText, type ConfigProblem } from "../validation/problems.ts";

export type Variables = Readonly<Record<string, unknown>>;

/** Takes each problem as it is found: all are told at once. */
export type ReportProblem = (problem: ConfigProblem) => void;

/** What stands for a value that is, or may be, a secret: none is quoted in a problem. */
export const hidden = "(hidden)";

/** A variable that is absent or empty is not set. */
export function isSet(value: unknown): boolean {
  return value !== undefined && value !== null && value !== "";
}

const beginsLikeJson = (value: unknown): value is string =>
  typeof value === "string" && /^\s*[[{]/.test(value);

/** A value as it was meant: text that begins like a JSON list or object and is one, is read as such. */
export function typedValue(value: unknown): unknown {
  if (!beginsLikeJson(value)) return value;
  try {
    return parseJson(value);
  } catch {
    return value;
  }
}

/** A list as it was meant, or the one value that stands for a list of one. */
export function typedList(value: unknown): readonly unknown[] {
  const read = typedValue(value);
  return Array.isArray(read) ? read : [read];
}

/** Text that begins like JSON and is none. */
export function isBrokenJson(value: unknown): boolean {
  return beginsLikeJson(value) && typedValue(value) === value;
}

/** What is accepted in the place of broken JSON, and where it is broken. */
export const acceptedJson = (value: unknown): string => `valid JSON${jsonErrorNote(value)}`;

/** Where a text that begins like JSON is broken, as the end of a sentence; nothing for any other value. */
export function jsonErrorNote(value: unknown): string {
  if (!isBrokenJson(value)) return "";
  const position = jsonErrorAt(asText(value));
  return position === null
    ? `; the JSON is nested deeper than ${mostJsonDepth} levels`
    : `; the JSON is invalid at line ${position.line}, column ${position.column}`;
}

/** `POLICIES`, `POLICIES_2`, … in the order of their numbers: a variable holds 5 KB, policies may be more. */
export function numberedNames(env: Variables, name: string): string[] {
  const numberOf = (key: string): number => (key === name ? 1 : Number(key.slice(name.length + 1)));
  return Object.keys(env)
    .filter((key) => isNumbered(key, name) && isSet(env[key]))
    .toSorted((a, b) => numberOf(a) - numberOf(b));
}

/** Whether a key is `POLICIES` or `POLICIES_` with a number from 2. */
export function isNumbered(key: string, name: string): boolean {
  return (
    key === name ||
    (key.startsWith(`${name}_`) && /^(?:[2-9]|[1-9]\d+)$/.test(key.slice(name.length + 1)))
  );
}
