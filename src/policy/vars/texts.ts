/** Variables that are a text or a list of texts. */
import type { KnownVariables, VariableName } from "./known-variables.ts";
import { isBrokenJson, isSet, jsonErrorNote, type ReportProblem, typedList } from "./variables.ts";

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
