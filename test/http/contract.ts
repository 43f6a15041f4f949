/** Compares requests and responses at and below `CHECK_PATH` with the OpenAPI document. */
import { type Schema, Validator } from "@cfworker/json-schema";
import { normalizedPath } from "../../src/config/index.ts";
import document from "../../src/http/wire/openapi.json" with { type: "json" };

interface Field {
  readonly required?: boolean;
  readonly schema: Schema;
}

interface Parameter extends Field {
  readonly name: string;
  readonly in: string;
}

interface DocumentedResponse {
  readonly headers?: Readonly<Record<string, Field>>;
  readonly content?: Content;
}

type Content = Readonly<Record<string, { readonly schema: Schema }>>;

interface Operation {
  readonly parameters?: readonly object[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, object>>;
}

/** Headers that every response with a body has, and the document does not list. */
const bodyHeaders = new Set(["content-type", "content-length"]);

const paths = document.paths as Readonly<Record<string, Readonly<Record<string, Operation>>>>;

const problem: DocumentedResponse = {
  headers: (resolved(document.components.responses.Forbidden) as DocumentedResponse).headers ?? {},
  content: document.components.responses.Forbidden.content,
};

/** @throws Error that lists every difference from the document; nothing for a path outside `checkPath` */
export async function expectContract(
  checkPath: string,
  { method, url, body }: { method: string; url: URL; body: unknown },
  response: Response,
): Promise<void> {
  const path = normalizedPath(url.pathname);
  if (path !== checkPath && !path.startsWith(`${checkPath}/`)) return;
  const operations = paths[path.slice(checkPath.length) || "/"];
  const documentedMethod = method === "HEAD" ? "get" : method.toLowerCase();
  const operation = operations?.[documentedMethod];
  const differences = [
    ...(operation === undefined
      ? await differencesInRejection(operations, method, response)
      : await differencesInResponse(operation, method, response)),
    ...(operation !== undefined && response.ok ? differencesInRequest(operation, url, body) : []),
  ];
  if (differences.length === 0) return;
  throw new Error(`${method} ${url.pathname} ${response.status}:\n${differences.join("\n")}`);
}

/** For a path or a method that the document does not list. */
async function differencesInRejection(
  operations: Readonly<Record<string, Operation>> | undefined,
  method: string,
  response: Response,
): Promise<string[]> {
  const { status, headers } = response;
  // With an invalid configuration, every path is answered with 500.
  const expected = status === 500 ? 500 : operations === undefined ? 404 : 405;
  const methods = Object.keys(operations ?? {}).flatMap((name) =>
    name === "get" ? ["GET", "HEAD"] : [name.toUpperCase()],
  );
  const allow = expected === 405 ? methods.join(", ") : null;
  return [
    ...(status === expected ? [] : [`status: ${expected} expected`]),
    ...(headers.get("Allow") === allow ? [] : [`Allow: ${allow} expected`]),
    ...differencesInHeaders({ ...problem.headers, Allow: { schema: {} } }, headers),
    ...(await differencesInBody(problem.content, method, response)),
  ];
}

async function differencesInResponse(
  { responses }: Operation,
  method: string,
  response: Response,
): Promise<string[]> {
  const { status, headers } = response;
  const documented = responses[status] ?? responses[`${String(status)[0]}XX`];
  if (documented === undefined) return ["status: not in the document"];
  const expected = resolved(documented) as DocumentedResponse;
  return [
    ...differencesInHeaders(expected.headers ?? {}, headers),
    ...(await differencesInBody(expected.content, method, response)),
  ];
}

function differencesInHeaders(
  fields: Readonly<Record<string, object>>,
  headers: Headers,
): string[] {
  const known = new Set(Object.keys(fields).map((name) => name.toLowerCase()));
  const others = [...headers.keys()].filter((name) => !known.has(name) && !bodyHeaders.has(name));
  return [
    ...others.map((name) => `${name}: not in the document`),
    ...Object.entries(fields).flatMap(([name, field]) => {
      const { required, schema } = resolved(field) as Field;
      const text = headers.get(name);
      if (text === null) return required === true ? [`${name}: missing`] : [];
      return differencesInValue(schema, valueOf(schema, text)).map((each) => `${name}: ${each}`);
    }),
  ];
}

async function differencesInBody(
  content: Content | undefined,
  method: string,
  response: Response,
): Promise<string[]> {
  const type = response.headers.get("Content-Type")?.split(";")[0] ?? null;
  const text = await response.clone().text();
  if (content === undefined || type === null) {
    return content === undefined && type === null && text === ""
      ? []
      : [`body: ${type} and ${text.length} characters`];
  }
  const schema = (content[type] ?? content["*/*"])?.schema;
  if (schema === undefined) return [`Content-Type: ${type} is not in the document`];
  if (method === "HEAD") return text === "" ? [] : ["body: not empty for HEAD"];
  const value: unknown = /[/+]json$/.test(type) ? JSON.parse(text) : text;
  const hasStatus = type !== "application/problem+json" || statusIn(value) === response.status;
  return [
    ...differencesInValue(schema, value),
    ...(hasStatus ? [] : ["status: differs in the body"]),
  ];
}

const statusIn = (value: unknown): unknown =>
  typeof value === "object" && value !== null && "status" in value ? value.status : undefined;

/** An accepted request must match the document. */
function differencesInRequest(operation: Operation, url: URL, body: unknown): string[] {
  const parameters = (operation.parameters ?? []).map((each) => resolved(each) as Parameter);
  const queryParameters = parameters.filter((each) => each.in === "query");
  const names = new Set(queryParameters.map(({ name }) => name));
  const schema = operation.requestBody?.content["application/json"]?.schema;
  return [
    ...[...new Set(url.searchParams.keys())].flatMap((name) =>
      names.has(name) ? [] : [`query ${name}: not in the document`],
    ),
    ...queryParameters.flatMap(({ name, schema: parameter }) => {
      const texts = url.searchParams.getAll(name);
      if (texts.length === 0) return [];
      const isList = (resolved(parameter) as Schema).type === "array";
      const value = isList ? texts : valueOf(parameter, texts[0] ?? "");
      return differencesInValue(parameter, value).map((each) => `query ${name}: ${each}`);
    }),
    ...(schema === undefined || typeof body !== "string"
      ? []
      : differencesInValue(schema, JSON.parse(body)).map((each) => `request body: ${each}`)),
  ];
}

/** Converts a text to an integer where the schema expects one. */
const valueOf = (schema: Schema, text: string): unknown =>
  (resolved(schema) as Schema).type === "integer" && /^\d+$/.test(text) ? Number(text) : text;

/** Passes `components` along, since schemas refer to each other by `$ref`. */
function differencesInValue(schema: Schema, value: unknown): string[] {
  const withComponents = { ...schema, components: document.components };
  const { valid, errors } = new Validator(withComponents, "2020-12", false).validate(value);
  return valid ? [] : errors.map(({ instanceLocation, error }) => `${instanceLocation} ${error}`);
}

/** Follows a `$ref`. */
function resolved(node: object): unknown {
  if (!("$ref" in node)) return node;
  const names = String(node.$ref).split("/").slice(1);
  return names.reduce<unknown>((value, name) => Reflect.get(Object(value), name), document);
}
