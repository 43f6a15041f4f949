/** Compares the log lines in `json event` blocks with the declared events. */
import { isRecord } from "../../src/validation/json.ts";
import { declaredEvents, type DeclaredField } from "../observability/declared-events.ts";
import { documentsOf } from "./output.ts";
import { type Block, infoOf } from "./pages.ts";

export const isEvent = (block: Block): boolean => infoOf(block) === "json event";

/** Returns one text for each unknown event, field or value. A block shows one event, or one event on each line. */
export function eventProblems(text: string): string[] {
  const events = documentsOf(text) ?? [text.trim()];
  return events.length === 0 ? ["expected an event"] : events.flatMap(problemsOf);
}

function problemsOf(value: unknown): string[] {
  if (!isRecord(value)) return [`expected an event in JSON, got ${JSON.stringify(value)}`];
  const { event: name, ...fields } = value;
  const declared = declaredEvents.get(String(name));
  if (declared === undefined) return [`unknown event ${String(name)}`];
  const missing = declared.filter(({ name: each, isOptional }) => !isOptional && !(each in fields));
  const unknown = Object.keys(fields).filter((field) => !declared.some((each) => each.name === field));
  const wrong = declared.filter((field) => field.name in fields && !isOfType(fields[field.name], field));
  return [
    ...missing.map((field) => `${String(name)}: the field ${field.name} is missing`),
    ...unknown.map((field) => `${String(name)}: unknown field ${field}`),
    ...wrong.map((field) => `${String(name)}: ${field.name} is no ${field.type}`),
  ];
}

const isOfType = (value: unknown, { type }: DeclaredField): boolean =>
  type.split("|").some((each) => isOfSimpleType(value, each.trim()));

function isOfSimpleType(value: unknown, type: string): boolean {
  if (type === "readonly string[]") {
    return Array.isArray(value) && value.every((each) => typeof each === "string");
  }
  if (type === "null") return value === null;
  return type.startsWith('"') ? JSON.stringify(value) === type : typeof value === type;
}
