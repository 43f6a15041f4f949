/** Validates variables with the JSON schema of wrangler.toml, which editors use. */
import { readFileSync } from "node:fs";
import { type Schema, Validator } from "@cfworker/json-schema";
import { isKnownVariable } from "../../src/policy/vars/known-variables.ts";

const schema = JSON.parse(readFileSync("docs/reference/wrangler.schema.json", "utf8")) as Schema;

/** The whole schema, for a file in JSON. */
export const fileValidator = new Validator(schema, "7", false);

const variablesValidator = new Validator(
  {
    $schema: "http://json-schema.org/draft-07/schema#",
    definitions: Object.fromEntries(
      Object.entries(schema["definitions"] ?? {}).filter(([name]) => name.startsWith("Headgate")),
    ),
    $ref: "#/definitions/HeadgateVariables",
  },
  "7",
  false,
);

/** The errors of variables as they would stand in wrangler.toml. There are none for values that TOML cannot express. */
export function schemaErrors(variables: Readonly<Record<string, unknown>>): string[] {
  const known = Object.fromEntries(
    Object.entries(variables).filter(([name, value]) => isKnownVariable(name) && value !== undefined),
  );
  if (!isToml(known)) return [];
  return variablesValidator
    .validate(JSON.parse(JSON.stringify(known)))
    .errors.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`);
}

/** Whether TOML can express a value: TOML has neither null nor holes, and its objects are only lists and tables. */
function isToml(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value !== "object") return typeof value === "boolean";
  if (value === null) return false;
  if (Array.isArray(value)) return Array.from(value as unknown[]).every(isToml);
  return Object.values(value).every(isToml);
}
