/** Compares requests and responses of an API with its OpenAPI document. */
import { type Schema, Validator } from "@cfworker/json-schema";
import { normalizedPath } from "../../src/http/attributes.ts";
import adminDocument from "../../src/http/wire/admin-openapi.json" with { type: "json" };
import checkDocument from "../../src/http/wire/openapi.json" with { type: "json" };

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

/** Headers that the document does not list, because every response, or every response with a body, has them. */
const usualHeaders = new Set(["date", "content-type", "content-length"]);

type Document = Contract["document"];
type Operations = Readonly<Record<string, Operation>>;

/** An OpenAPI document, and the paths in it. */
interface Contract {
  readonly document: { readonly components: object };
  readonly paths: readonly { readonly pattern: RegExp; readonly operations: Operations }[];
  /**
   * By status: the responses to any request, even if the document does not list it. Other statuses have the response to
   * a missing right.
   */
  readonly rejections: Readonly<Record<number, object>>;
}

function contractOf(
  document: {
    readonly paths: object;
    readonly components: { readonly responses: { readonly Forbidden: object } };
  },
  rejections: Contract["rejections"] = {},
): Contract {
  const { Forbidden } = document.components.responses;
  const paths = Object.entries(document.paths as Readonly<Record<string, Operations>>);
  return {
    document,
    // Fixed paths come before those with parameters.
    paths: paths
      .toSorted(([a], [b]) => Number(a.includes("{")) - Number(b.includes("{")))
      .map(([path, operations]) => ({
        pattern: new RegExp(`^${path.replaceAll(".", "\\.").replaceAll(/\{\w+\}/g, "[^/]+")}$`),
        operations,
      })),
    // With an invalid configuration, every path is answered with 500.
    rejections: { 404: Forbidden, 405: Forbidden, 500: Forbidden, ...rejections },
  };
}

export const checkContract = contractOf(checkDocument);
const { Unauthorized, Forbidden: NotPermitted, Silent } = adminDocument.components.responses;
/** The admin API answers unknown paths only to callers with valid credentials. */
export const adminContract = contractOf(adminDocument, {
  401: Unauthorized,
  403: NotPermitted,
  503: Silent,
});

/** @throws Error that lists every difference from the document; there is none for a path outside `basePath` */
export async function expectContract(
  basePath: string,
  { method, url, body }: { method: string; url: URL; body: unknown },
  response: Response,
  contract = checkContract,
): Promise<void> {
  const path = normalizedPath(url.pathname);
  if (path !== basePath && !path.startsWith(`${basePath}/`)) return;
  const { document } = contract;
  const within = path.slice(basePath.length) || "/";
  const operations = contract.paths.find(({ pattern }) => pattern.test(within))?.operations;
  const documentedMethod = method === "HEAD" ? "get" : method.toLowerCase();
  const operation = operations?.[documentedMethod];
  const differences = [
    ...(operation === undefined
      ? await differencesInRejection(contract, operations, method, response)
      : await differencesInResponse(document, operation, method, response)),
    ...(operation !== undefined && response.ok ? differencesInRequest(document, operation, url, body) : []),
  ];
  if (differences.length === 0) return;
  throw new Error(`${method} ${url.pathname} ${response.status}:\n${differences.join("\n")}`);
}

/** The differences of a response to a path or a method that the document does not list. */
async function differencesInRejection(
  { document, rejections }: Contract,
  operations: Operations | undefined,
  method: string,
  response: Response,
): Promise<string[]> {
  const { status, headers } = response;
  const usual = operations === undefined ? 404 : 405;
  const expected = status !== 404 && status !== 405 && status in rejections ? status : usual;
  const rejection = resolved(document, rejections[expected] ?? {}) as DocumentedResponse;
  const methods = Object.keys(operations ?? {}).flatMap((name) =>
    name === "get" ? ["GET", "HEAD"] : [name.toUpperCase()],
  );
  const allow = expected === 405 ? methods.join(", ") : null;
  return [
    ...(status === expected ? [] : [`status: ${expected} expected`]),
    ...(headers.get("Allow") === allow ? [] : [`Allow: ${allow} expected`]),
    ...differencesInHeaders(document, { ...rejection.headers, Allow: { schema: {} } }, headers),
    ...(await differencesInBody(document, rejection.content, method, response)),
  ];
}

async function differencesInResponse(
  document: Document,
  { responses }: Operation,
  method: string,
  response: Response,
): Promise<string[]> {
  const { status, headers } = response;
  const documented = responses[status] ?? responses[`${String(status)[0]}XX`];
  if (documented === undefined) return ["status: not in the document"];
  const expected = resolved(document, documented) as DocumentedResponse;
  return [
    ...differencesInHeaders(document, expected.headers ?? {}, headers),
    ...(await differencesInBody(document, expected.content, method, response)),
  ];
}

function differencesInHeaders(
  document: Document,
  fields: Readonly<Record<string, object>>,
  headers: Headers,
): string[] {
  const known = new Set(Object.keys(fields).map((name) => name.toLowerCase()));
  const others = [...headers.keys()].filter((name) => !known.has(name) && !usualHeaders.has(name));
  return [
    ...others.map((name) => `${name}: not in the document`),
    ...Object.entries(fields).flatMap(([name, field]) => {
      const { required, schema } = resolved(document, field) as Field;
      const text = headers.get(name);
      if (text === null) return required === true ? [`${name}: missing`] : [];
      return differencesInValue(document, schema, valueOf(document, schema, text)).map((each) => `${name}: ${each}`);
    }),
  ];
}

async function differencesInBody(
  document: Document,
  content: Content | undefined,
  method: string,
  response: Response,
): Promise<string[]> {
  const type = response.headers.get("Content-Type")?.split(";")[0] ?? null;
  // The response to a WebSocket handshake cannot be cloned.
  if (response.status === 101) return [];
  const text = new TextDecoder().decode(await response.clone().arrayBuffer());
  if (content === undefined || type === null) {
    return content === undefined && type === null && text === "" ? [] : [`body: ${type} and ${text.length} characters`];
  }
  const schema = (content[type] ?? content["*/*"])?.schema;
  if (schema === undefined) return [`Content-Type: ${type} is not in the document`];
  if (method === "HEAD") return text === "" ? [] : ["body: not empty for HEAD"];
  const value = valueOfBody(type, text);
  const hasStatus = type !== "application/problem+json" || statusIn(value) === response.status;
  return [...differencesInValue(document, schema, value), ...(hasStatus ? [] : ["status: differs in the body"])];
}

/** The value of a body: for lines of JSON, the list of their values. */
function valueOfBody(type: string, text: string): unknown {
  if (type !== "application/x-ndjson") return /[/+]json$/.test(type) ? JSON.parse(text) : text;
  const lines = text.split("\n");
  if (lines.pop() !== "") throw new Error("the last line has no line break");
  return lines.map((line): unknown => JSON.parse(line));
}

const statusIn = (value: unknown): unknown =>
  typeof value === "object" && value !== null && "status" in value ? value.status : undefined;

/** A request that the server accepts must match the document. */
function differencesInRequest(document: Document, operation: Operation, url: URL, body: unknown): string[] {
  const parameters = (operation.parameters ?? []).map((each) => resolved(document, each) as Parameter);
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
      const isList = (resolved(document, parameter) as Schema).type === "array";
      const value = isList ? texts : valueOf(document, parameter, texts[0] ?? "");
      return differencesInValue(document, parameter, value).map((each) => `query ${name}: ${each}`);
    }),
    ...(schema === undefined || typeof body !== "string"
      ? []
      : differencesInValue(document, schema, JSON.parse(body)).map((each) => `request body: ${each}`)),
  ];
}

/** Converts a text to an integer where the schema expects one. */
const valueOf = (document: Document, schema: Schema, text: string): unknown =>
  (resolved(document, schema) as Schema).type === "integer" && /^\d+$/.test(text) ? Number(text) : text;

/** Adds `components` to the schema, since schemas refer to each other by `$ref`. */
function differencesInValue(document: Document, schema: Schema, value: unknown): string[] {
  const withComponents = { ...schema, components: document.components };
  const { valid, errors } = new Validator(withComponents, "2020-12", false).validate(value);
  return valid ? [] : errors.map(({ instanceLocation, error }) => `${instanceLocation} ${error}`);
}

/** The object to which a `$ref` points. */
function resolved(document: Document, node: object): unknown {
  if (!("$ref" in node)) return node;
  const names = String(node.$ref).split("/").slice(1);
  return names.reduce<unknown>((value, name) => Reflect.get(Object(value), name), document);
}
