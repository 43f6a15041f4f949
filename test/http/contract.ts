/** Whether what comes and goes below `CHECK_PATH` is as the OpenAPI document says. */
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

interface Answer {
  readonly headers?: Readonly<Record<string, Field>>;
  readonly content?: Content;
}

type Content = Readonly<Record<string, { readonly schema: Schema }>>;

interface Operation {
  readonly parameters?: readonly object[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, object>>;
}

/** What is always there, of the body as such. */
const ofBody = new Set(["content-type", "content-length"]);

const paths = document.paths as Readonly<Record<string, Readonly<Record<string, Operation>>>>;

const problem: Answer = {
  headers: (resolved(document.components.responses.Forbidden) as Answer).headers ?? {},
  content: document.components.responses.Forbidden.content,
};

/**
 * @param checkPath where the document is served
 * @throws with all that is not as the document says
 */
export async function keepsContract(
  checkPath: string,
  { method, url, body }: { method: string; url: URL; body: unknown },
  response: Response,
): Promise<void> {
  const path = normalizedPath(url.pathname);
  if (path !== checkPath && !path.startsWith(`${checkPath}/`)) return;
  const operations = paths[path.slice(checkPath.length) || "/"];
  const spoken = method === "HEAD" ? "get" : method.toLowerCase();
  const operation = operations?.[spoken];
  const wrong = [
    ...(operation === undefined
      ? await wrongInRefusal(operations, method, response)
      : await wrongInAnswer(operation, method, response)),
    ...(operation !== undefined && response.ok ? wrongInRequest(operation, url, body) : []),
  ];
  if (wrong.length === 0) return;
  throw new Error(`${method} ${url.pathname} ${response.status}:\n${wrong.join("\n")}`);
}

/** Of what the document does not tell of: there is no such path, or no such method there. */
async function wrongInRefusal(
  operations: Readonly<Record<string, Operation>> | undefined,
  method: string,
  response: Response,
): Promise<string[]> {
  const { status, headers } = response;
  // A broken configuration answers everything.
  const expected = status === 500 ? 500 : operations === undefined ? 404 : 405;
  const methods = Object.keys(operations ?? {}).flatMap((name) =>
    name === "get" ? ["GET", "HEAD"] : [name.toUpperCase()],
  );
  const allow = expected === 405 ? methods.join(", ") : null;
  return [
    ...(status === expected ? [] : [`status: ${expected} expected`]),
    ...(headers.get("Allow") === allow ? [] : [`Allow: ${allow} expected`]),
    ...wrongInHeaders({ ...problem.headers, Allow: { schema: {} } }, headers),
    ...(await wrongInBody(problem.content, method, response)),
  ];
}

async function wrongInAnswer(
  { responses }: Operation,
  method: string,
  response: Response,
): Promise<string[]> {
  const { status, headers } = response;
  const written = responses[status] ?? responses[`${String(status)[0]}XX`];
  if (written === undefined) return ["status: not in the document"];
  const answer = resolved(written) as Answer;
  return [
    ...wrongInHeaders(answer.headers ?? {}, headers),
    ...(await wrongInBody(answer.content, method, response)),
  ];
}

function wrongInHeaders(fields: Readonly<Record<string, object>>, headers: Headers): string[] {
  const known = new Set(Object.keys(fields).map((name) => name.toLowerCase()));
  const others = [...headers.keys()].filter((name) => !known.has(name) && !ofBody.has(name));
  return [
    ...others.map((name) => `${name}: not in the document`),
    ...Object.entries(fields).flatMap(([name, written]) => {
      const { required, schema } = resolved(written) as Field;
      const text = headers.get(name);
      if (text === null) return required === true ? [`${name}: missing`] : [];
      return wrongInValue(schema, valueOf(schema, text)).map((each) => `${name}: ${each}`);
    }),
  ];
}

async function wrongInBody(
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
  if (method === "HEAD") return text === "" ? [] : ["body: one for HEAD"];
  const value: unknown = /[/+]json$/.test(type) ? JSON.parse(text) : text;
  const isOfStatus = type !== "application/problem+json" || statusIn(value) === response.status;
  return [...wrongInValue(schema, value), ...(isOfStatus ? [] : ["status: another in the body"])];
}

const statusIn = (value: unknown): unknown =>
  typeof value === "object" && value !== null && "status" in value ? value.status : undefined;

/** Of a request that was accepted: the document would have said so. */
function wrongInRequest(operation: Operation, url: URL, body: unknown): string[] {
  const parameters = (operation.parameters ?? []).map((each) => resolved(each) as Parameter);
  const ofQuery = parameters.filter((each) => each.in === "query");
  const names = new Set(ofQuery.map(({ name }) => name));
  const schema = operation.requestBody?.content["application/json"]?.schema;
  return [
    ...[...new Set(url.searchParams.keys())].flatMap((name) =>
      names.has(name) ? [] : [`asked ${name}: not in the document`],
    ),
    ...ofQuery.flatMap(({ name, schema: asked }) => {
      const texts = url.searchParams.getAll(name);
      if (texts.length === 0) return [];
      const isList = (resolved(asked) as Schema).type === "array";
      const value = isList ? texts : valueOf(asked, texts[0] ?? "");
      return wrongInValue(asked, value).map((each) => `asked ${name}: ${each}`);
    }),
    ...(schema === undefined || typeof body !== "string"
      ? []
      : wrongInValue(schema, JSON.parse(body)).map((each) => `asked: ${each}`)),
  ];
}

/** A text as the value that a schema is for. */
const valueOf = (schema: Schema, text: string): unknown =>
  (resolved(schema) as Schema).type === "integer" && /^\d+$/.test(text) ? Number(text) : text;

/** Schemas refer to one another by their place in the document. */
function wrongInValue(schema: Schema, value: unknown): string[] {
  const whole = { ...schema, components: document.components };
  const { valid, errors } = new Validator(whole, "2020-12", false).validate(value);
  return valid ? [] : errors.map(({ instanceLocation, error }) => `${instanceLocation} ${error}`);
}

/** What is written, or what it refers to. */
function resolved(written: object): unknown {
  if (!("$ref" in written)) return written;
  const places = String(written.$ref).split("/").slice(1);
  return places.reduce<unknown>((value, place) => Reflect.get(Object(value), place), document);
}
