/**
 * Generates docs/reference/wrangler.schema.json: wrangler's own JSON schema, with Headgate's variables in `vars`. Run
 * it with `npx node test/docs/schema.ts`. Shapes come from `src/policy` and `src/strategies`, descriptions from the
 * tables of the documentation. With `--check`, it writes nothing and exits with 1 when the file is out of date.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { type JsonSchema, toJsonSchema } from "@valibot/to-json-schema";
import type * as v from "valibot";
import { rootFields } from "../../src/policy/within.ts";
import { strategies, writtenLimit, writtenLimits } from "../../src/strategies/index.ts";
import { writtenPolicy } from "./written-policy.ts";
import { writtenContinuation, writtenVariables } from "./written-variables.ts";
import { codesIn, readPage, rowsOf } from "./pages.ts";

export const schemaFile = "docs/reference/wrangler.schema.json";
const wranglerFolder = "node_modules/wrangler";
const variablesPage = "docs/reference/variables.md";
const policiesPage = "docs/reference/policies.md";

/** A JSON schema (draft 7) that the generator may change. */
type Schema = { [keyword: string]: unknown };

const isSchema = (value: unknown): value is Schema =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Checks that JSON schema cannot express. The Worker's reader of the value makes these checks. */
const unstated: ReadonlySet<string> = new Set(["check", "max_bytes", "transform"]);

/** The JSON schema of written values. Throws if a valibot schema has no JSON form. */
function converted(schema: v.GenericSchema): Schema {
  const { $schema: _, ...rest }: JsonSchema = toJsonSchema(schema, {
    typeMode: "input",
    overrideAction: ({ valibotAction, jsonSchema }) => (unstated.has(valibotAction.type) ? jsonSchema : undefined),
  });
  return simplified(rest) as Schema;
}

/** Reduces every `anyOf` to its shortest form, so that editors name the keyword that a value violates. */
function simplified(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(simplified);
  if (!isSchema(value)) return value;
  const entries = Object.entries(value).filter(
    ([name, each]) => !(name === "required" && Array.isArray(each) && each.length === 0),
  );
  const { anyOf, ...schema }: Schema = Object.fromEntries(entries.map(([name, each]) => [name, simplified(each)]));
  if (!Array.isArray(anyOf)) return schema;
  const branches = mergedBranches(anyOf.filter(isSchema));
  const [only = {}, ...others] = branches;
  return others.length === 0 ? { ...only, ...schema } : { anyOf: branches, ...schema };
}

/** Keywords that apply to values of every type, so that a schema with such a keyword cannot be merged with others. */
const generalKeywords = ["enum", "const", "anyOf", "allOf", "not", "$ref"];

function mergedBranches(branches: readonly Schema[]): Schema[] {
  const nested = branches.flatMap((each) =>
    Array.isArray(each["anyOf"]) && Object.keys(each).length === 1 ? (each["anyOf"] as Schema[]) : [each],
  );
  const kept: Schema[] = [];
  const merged: Schema = {};
  for (const branch of nested) {
    const { type } = branch;
    const isGeneral = generalKeywords.some((name) => name in branch);
    const types = [merged["type"] ?? []].flat() as string[];
    if (isGeneral || typeof type !== "string") addValues(kept, branch);
    else if (!types.includes(type)) Object.assign(merged, branch, { type: [...types, type] });
    else if (type === "string" && "pattern" in merged && "pattern" in branch) {
      merged["pattern"] = `${String(merged["pattern"])}|${String(branch["pattern"])}`;
    } else if (JSON.stringify(branch) !== JSON.stringify({ ...merged, type })) kept.push(branch);
  }
  const types = [merged["type"] ?? []].flat();
  if (types.length > 0) kept.push({ ...merged, type: types.length === 1 ? types[0] : types });
  return kept;
}

/** Adds a branch. The values of several `enum` and `const` branches are merged into one `enum`. */
function addValues(branches: Schema[], branch: Schema): void {
  const valuesOf = ({ enum: values, const: value }: Schema): unknown[] | null => {
    if (Array.isArray(values)) return values;
    return typeof value === "string" ? [value] : null;
  };
  const values = valuesOf(branch);
  const same = branches.find((each) => valuesOf(each) !== null);
  if (values === null || same === undefined) branches.push(branch);
  else {
    same["enum"] = [...new Set([...(valuesOf(same) ?? []), ...values])];
    delete same["const"];
  }
}

/** The schema of a variable, which may also be empty: an empty variable counts as not set. */
function orEmpty(schema: Schema): Schema {
  const { pattern, enum: values, type, anyOf } = schema;
  if (typeof pattern === "string") return { ...schema, pattern: `^$|${pattern}` };
  if (Array.isArray(values) && type === "string") return { ...schema, enum: [...values, ""] };
  if (Array.isArray(anyOf)) {
    const [first, ...others] = anyOf as Schema[];
    const last = others.at(-1);
    return last !== undefined && "pattern" in last
      ? { ...schema, anyOf: [first, ...others.slice(0, -1), orEmpty(last)] }
      : { ...schema, anyOf: [...anyOf, { const: "" }] };
  }
  return [type].flat().includes("string") ? schema : { anyOf: [schema, { const: "" }] };
}

/** The meanings in a table of the documentation, by the names in code font in its first column. */
function meaningsIn(page: string, header: string): ReadonlyMap<string, string> {
  return new Map(
    rowsOf(readPage(page), header).flatMap(([names, meaning = ""]) =>
      codesIn(names).map((name) => [name, plainText(meaning)] as const),
    ),
  );
}

/** Removes links, which lead nowhere in an editor, and adds a full stop. */
const plainText = (cell: string): string =>
  `${cell.replace(/\[([^\]]+)\]\([^)]*\)/g, "$1").replace(/^[a-z]/, (first) => first.toUpperCase())}.`;

/** Adds the meanings to the properties. Every property must have a meaning. */
function described(schema: Schema, meanings: ReadonlyMap<string, string>, place: string): Schema {
  const properties = Object.entries(isSchema(schema["properties"]) ? schema["properties"] : {});
  return {
    ...schema,
    properties: Object.fromEntries(
      properties.map(([name, each]) => {
        const description = meanings.get(name);
        if (description === undefined) throw new Error(`${place} has no row for ${name}`);
        return [name, { description, ...(each as Schema) }];
      }),
    ),
  };
}

const conditionKeywords = ["if", "then", "else"];

/** The keywords of a condition, of what applies if the condition holds, and of what applies otherwise. */
const conditional = (...schemas: readonly Schema[]): Schema =>
  Object.fromEntries(schemas.map((schema, index) => [conditionKeywords[index] ?? "", schema]));

/** For a limit that names its strategy, accepts only the options of that strategy. */
function strategyRules(fields: readonly string[]): Schema[] {
  const all = [...strategies.values()].flatMap(({ options }) => Object.keys(options));
  const common = fields.filter((name) => !all.includes(name));
  return [...strategies.values()].map(({ name, options }) =>
    conditional(
      { type: "object", properties: { strategy: { const: name } }, required: ["strategy"] },
      { propertyNames: { enum: [...common, ...Object.keys(options)] } },
    ),
  );
}

const reference = (name: string): Schema => ({ $ref: `#/definitions/${name}` });

/** The name of the definition for the JSON text of each schema. */
type Definitions = ReadonlyMap<string, string>;

/** Replaces schemas that equal a definition, and the fields of limits, by references to the definitions. */
function withReferences(value: unknown, definitions: Definitions): unknown {
  if (Array.isArray(value)) return value.map((each) => withReferences(each, definitions));
  if (!isSchema(value)) return value;
  const { default: fallback, ...schema } = value;
  const name = definitions.get(JSON.stringify(schema));
  if (name !== undefined) {
    // In draft 7, all keywords next to `$ref` are ignored.
    const $ref = reference(name);
    return fallback === undefined ? $ref : { default: fallback, allOf: [$ref] };
  }
  const inner = Object.entries(value).map(([key, each]) => [key, withReferences(each, definitions)]);
  const fields = definitions.get(JSON.stringify(value["properties"] ?? null));
  const replaced = Object.fromEntries(inner) as Schema;
  return fields === undefined ? replaced : { ...withoutFields(replaced), allOf: [reference(fields)] };
}

/** Keywords that concern only objects, so that they may also stand where values of other types are accepted. */
const objectKeywords = ["properties", "required", "additionalProperties"];

const withoutFields = (schema: Schema): Schema =>
  Object.fromEntries(Object.entries(schema).filter(([key]) => !objectKeywords.includes(key)));

/** A policy, or an entry that continues the lists of another policy. */
function policyOrContinuation(policy: Schema): Schema {
  const { required, properties, ...rest } = policy;
  const continuation = Object.keys(propertiesOf(converted(writtenContinuation())));
  const continues = {
    type: "string",
    description: "The name of the policy to whose lists this entry adds items.",
  };
  return {
    ...rest,
    properties: { ...(properties as Schema), continues },
    ...conditional({ required: ["continues"] }, { propertyNames: { enum: continuation } }, { required }),
  };
}

/** A schema of objects with a field that takes effect only together with this value of another field. */
const beside = (name: string, value: string): Schema => ({
  properties: { [name]: { const: value } },
  required: [name],
});

/** The rules between fields of a policy. */
const policyRules: Schema = {
  dependencies: {
    shards: beside("objects", "sharded"),
    syncEvery: beside("consistency", "eventual"),
    within: { properties: Object.fromEntries(rootFields.map((name) => [name, false])) },
  },
};

/** The rules between fields of an override. */
const overrideRules: Schema = { oneOf: [{ required: ["key"] }, { required: ["when"] }] };

const propertiesOf = (schema: Schema): Record<string, Schema> => (schema["properties"] ?? {}) as Record<string, Schema>;

/** Fields of a policy whose value is an object with its own table of fields. */
const fieldsWithTable = ["match", "ban", "onDeny"];

/** The definitions of Headgate's variables. */
function headgateDefinitions(): Schema {
  const limit = converted(writtenLimit());
  const limits = converted(writtenLimits());
  const policy = converted(writtenPolicy());
  const shared: Definitions = new Map([
    [JSON.stringify(policy), "HeadgatePolicy"],
    [JSON.stringify(limits), "HeadgateLimits"],
    [JSON.stringify(limits["items"]), "HeadgateLimit"],
    [JSON.stringify(limit["properties"]), "HeadgateLimitFields"],
  ]);
  const describedPolicy = described(policy, meaningsIn(policiesPage, "field"), policiesPage);
  for (const name of fieldsWithTable) {
    const field = propertiesOf(describedPolicy)[name] ?? {};
    const meanings = meaningsIn(policiesPage, `field of \`${name}\``);
    Object.assign(field, described(field, meanings, policiesPage));
  }
  Object.assign(propertiesOf(describedPolicy)["overrides"]?.["items"] ?? {}, overrideRules);
  const { type: _, ...limitFields } = described(limit, meaningsIn(policiesPage, "field of a limit"), policiesPage);
  const fields = reference("HeadgateLimitFields");
  return {
    HeadgateVariables: withReferences(variablesSchema(), shared),
    HeadgatePolicy: {
      ...(withReferences(policyOrContinuation(describedPolicy), shared) as Schema),
      ...policyRules,
    },
    HeadgateLimits: {
      ...withoutFields(limits),
      allOf: [fields],
      items: reference("HeadgateLimit"),
    },
    HeadgateLimit: { ...withoutFields(limits["items"] as Schema), allOf: [fields] },
    HeadgateLimitFields: {
      ...limitFields,
      allOf: strategyRules(Object.keys(propertiesOf(limit))),
    },
  };
}

/**
 * Beside a list of policies, the variables of the short form must be empty.
 * @param further a pattern of the names POLICIES_2, …
 */
function withoutShortForm(further: string): Schema {
  const empty: Schema = { const: "" };
  const noList: Schema = { patternProperties: { [`^(?:POLICIES|${further})$`]: empty } };
  return conditional(noList, {}, { properties: { LIMITS: empty, STRATEGY: empty, KEY: empty } });
}

function variablesSchema(): Schema {
  const properties = Object.fromEntries(
    Object.entries(writtenVariables()).map(([name, schema]) => [name, orEmpty(converted(schema))]),
  );
  const known = described({ properties }, meaningsIn(variablesPage, "variable"), variablesPage);
  const further = "POLICIES_(?:[2-9]|[1-9][0-9]+)";
  const names = [...Object.keys(properties), further, "__.*"].join("|");
  return {
    type: "object",
    description: "The variables of Headgate: docs/reference/variables.md",
    ...known,
    patternProperties: { [`^${further}$`]: properties["POLICIES"] },
    allOf: [withoutShortForm(further)],
    // With EXTRA_VARS, variables that Headgate does not know are accepted.
    ...conditional({ not: { required: ["EXTRA_VARS"] } }, { propertyNames: { pattern: `^(?:${names})$` } }),
  };
}

/** wrangler's schema without `markdownDescription`, which repeats each description. */
function wranglerDefinitions(): Record<string, Schema> {
  const text = readFileSync(`${wranglerFolder}/config-schema.json`, "utf8");
  const { definitions } = JSON.parse(text, (key, value: unknown) =>
    key === "markdownDescription" && typeof value === "string" ? undefined : value,
  ) as { definitions: Record<string, Schema> };
  for (const name of ["RawConfig", "RawEnvironment"]) {
    const properties = definitions[name]?.["properties"];
    if (!isSchema(properties) || !("vars" in properties)) {
      throw new Error(`wrangler's ${name} has no property vars`);
    }
    properties["vars"] = { $ref: "#/definitions/HeadgateVariables" };
  }
  return definitions;
}

export function wranglerSchema(): Schema {
  const { version, license } = JSON.parse(readFileSync(`${wranglerFolder}/package.json`, "utf8")) as {
    version: string;
    license: string;
  };
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    $comment: `Generated by: npx node test/docs/schema.ts. All definitions without "Headgate" in their names are those of wrangler ${version} (${license}).`,
    title: "wrangler.toml of Headgate",
    allOf: [{ $ref: "#/definitions/RawConfig" }],
    definitions: { ...headgateDefinitions(), ...wranglerDefinitions() },
  };
}

/** Writes Headgate's definitions over many lines, and each definition of wrangler in one line. */
export function schemaText(): string {
  const { definitions, ...head } = wranglerSchema();
  const entries = Object.entries(definitions as Schema).map(([name, schema]) => {
    const text = name.startsWith("Headgate")
      ? JSON.stringify(schema, null, 2).replaceAll("\n", "\n    ")
      : JSON.stringify(schema);
    return `    ${JSON.stringify(name)}: ${text}`;
  });
  const start = JSON.stringify(head, null, 2).replace(/\n\}$/, "");
  return `${start},\n  "definitions": {\n${entries.join(",\n")}\n  }\n}\n`;
}

if (import.meta.main) {
  const text = schemaText();
  if (!process.argv.includes("--check")) writeFileSync(schemaFile, text);
  else if (readFileSync(schemaFile, "utf8") !== text) {
    console.error(`${schemaFile} is out of date. Run: npx node test/docs/schema.ts`);
    process.exitCode = 1;
  }
}
