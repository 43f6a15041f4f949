/** Wrangler vars: typed values from wrangler.toml, or JSON text from the dashboard and `--var`. */
import { mostJsonDepth, parseJson } from "../../validation/json.ts";
import { asText, type ReportProblem } from "../../validation/problems.ts";
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

/** A hint with the position of a JSON error; empty for other values. */
export function jsonErrorNote(value: unknown): string {
  if (!isBrokenJson(value)) return "";
  const position = jsonErrorAt(asText(value));
  return position === null
    ? `; the JSON is nested deeper than ${mostJsonDepth} levels`
    : `; the JSON is invalid at line ${position.line}, column ${position.column}`;
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

export interface Position {
  /** Counted from 1. */
  readonly line: number;
  /** In UTF-16 units, counted from 1. */
  readonly column: number;
}

/** The position of the first invalid character, or of the end of a truncated text; null for valid JSON. */
export function jsonErrorAt(text: string): Position | null {
  const index = errorIndex(text);
  if (index === null) return null;
  const lines = text.slice(0, index).split("\n");
  return { line: lines.length, column: (lines.at(-1) ?? "").length + 1 };
}

/**
 * The next expected character. "more": a comma or a closing bracket. "first-…": the first item after an opening bracket, or
 * the closing bracket.
 */
type Expected = "value" | "first-value" | "key" | "first-key" | "colon" | "more";

const space = /[\t\n\r ]*/y;
const scalar = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
/** A string without its closing quotation mark. */
const beginningOfString = /"(?:[ !#-[\]-\u{10ffff}]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*/uy;

function errorIndex(text: string): number | null {
  const open: string[] = [];
  let expected: Expected = "value";
  let index = 0;
  for (;;) {
    index = endOf(space, text, index);
    const character = text[index];
    const opened = open.at(-1);
    if (expected === "more" && opened === undefined) {
      return character === undefined ? null : index;
    }
    const isFirst = expected === "first-value" || expected === "first-key";
    const isKey: boolean = expected === "key" || expected === "first-key";
    if ((isFirst || expected === "more") && character === (opened === "[" ? "]" : "}")) {
      open.pop();
      index++;
      expected = "more";
    } else if (expected === "more" || expected === "colon") {
      if (character !== (expected === "more" ? "," : ":")) return index;
      index++;
      expected = expected === "more" && opened === "{" ? "key" : "value";
    } else if (character === '"') {
      index = endOf(beginningOfString, text, index);
      if (text[index] !== '"') return index;
      index++;
      expected = isKey ? "colon" : "more";
    } else if (!isKey && (character === "[" || character === "{")) {
      open.push(character);
      index++;
      expected = character === "[" ? "first-value" : "first-key";
    } else {
      const end = isKey ? index : endOf(scalar, text, index);
      if (end === index) return index;
      index = end;
      expected = "more";
    }
  }
}

/** The end of a match that begins at `index`; `index` itself without a match. */
function endOf(pattern: RegExp, text: string, index: number): number {
  pattern.lastIndex = index;
  return pattern.test(text) ? pattern.lastIndex : index;
}
