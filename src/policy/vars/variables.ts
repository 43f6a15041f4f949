/** Wrangler vars: typed values from wrangler.toml, or JSON text from the dashboard and `--var`. */
import { parseJson } from "../../validation/json.ts";
import { hidden, type ReportProblem } from "../../validation/problems.ts";
import type { KnownVariables, VariableName } from "./known-variables.ts";

export type Variables = Readonly<Record<string, unknown>>;

/** Whether a variable is present and not empty. */
export const isSet = (value: unknown): boolean => value !== undefined && value !== null && value !== "";

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
export const isBrokenJson = (value: unknown): boolean => beginsLikeJson(value) && typedValue(value) === value;

export const acceptedJson = (value: unknown): string => `valid JSON${jsonErrorNote(value)}`;

/** A hint with the platform's reason why a text is not valid JSON; empty for other values. */
export function jsonErrorNote(value: unknown): string {
  if (!beginsLikeJson(value)) return "";
  try {
    parseJson(value);
    return "";
  } catch (error) {
    const message = error instanceof Error ? error.message : "";
    // The reason quotes the text, which may be a secret, after a quotation mark and in the unexpected token.
    const [reason = ""] = message.startsWith("Unexpected token") ? ["Unexpected character"] : message.split(/[\s,.]*"/);
    return `; the JSON is invalid: ${reason}`;
  }
}

/** Whether a name is `POLICIES`, `POLICIES_2`, `POLICIES_3`, … */
export const isPolicyList = (name: string): boolean => /^POLICIES(?:_(?:[2-9]|[1-9]\d+))?$/.test(name);

/** How the value of a variable is read. */
export interface VariableForm<Setting> {
  /** The setting; undefined for an invalid value. */
  readonly read: (value: unknown) => Setting | undefined;
  /** The values that are accepted. */
  readonly accepted: string;
  /** Whether problems must not quote the value, which is or may contain a secret. Default: they quote it. */
  readonly isSecret?: (value: unknown) => boolean;
}

/** Reads variables, and reports each problem. */
export class VariableReader {
  readonly env: KnownVariables;
  readonly report: ReportProblem;

  constructor(env: KnownVariables, report: ReportProblem) {
    this.env = env;
    this.report = report;
  }

  /** The setting in a variable; `fallback` when it is not set, or invalid. */
  setting<Setting, Fallback>(
    variable: VariableName,
    fallback: Fallback,
    { read, accepted, isSecret = () => false }: VariableForm<Setting>,
  ): Setting | Fallback {
    const value = this.env[variable];
    if (!isSet(value)) return fallback;
    const setting = read(value);
    if (setting !== undefined) return setting;
    this.problem(variable, isSecret(value) ? hidden : value, accepted + jsonErrorNote(value));
    return fallback;
  }

  /** A text or a list of texts; null when the variable is not set, or invalid. */
  texts(variable: VariableName, accepted: string): readonly string[] | null {
    return this.setting(variable, null, { read: textsIn, accepted });
  }

  /** Reports a value as a whole. */
  problem(variable: VariableName, value: unknown, accepted: string): void {
    this.report({ variable, field: "", value, accepted });
  }
}

const isText = (value: unknown): value is string => typeof value === "string" && value.trim() !== "";

function textsIn(value: unknown): readonly string[] | undefined {
  const texts = typedList(value);
  return texts.length > 0 && texts.every(isText) && !isBrokenJson(value) ? texts : undefined;
}

/** The URL in a value; undefined for anything else, and for a URL with credentials. */
export function urlIn(value: unknown): URL | undefined {
  const url = typeof value === "string" && URL.canParse(value) ? new URL(value) : undefined;
  return url === undefined || `${url.username}${url.password}` === "" ? url : undefined;
}

/** Whether a value that should be a URL may contain credentials. */
export const mayHoldCredentials = (value: unknown): boolean => typeof value === "string" && /[@?#]/.test(value);
