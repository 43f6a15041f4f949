/** Reads the query and the JSON body of a call, and answers with a problem when either is invalid. */
import type { MiddlewareHandler } from "hono";
import { getQueryParams } from "hono/utils/url";
import type { CheckToken } from "../../policy/vars/secrets.ts";
import { refuseDeepJson, JsonTooDeep, parseJson } from "../../validation/json.ts";
import type { Authorized } from "./auth.ts";
import type { Reader } from "./input.ts";
import { type Failure, type FieldsInvalid, isFailure, problemResponse } from "../wire/problems.ts";
import { isRecord } from "../../validation/problems.ts";

/** Validates a query, for `c.req.valid("query")`. */
export const validateQuery = <Output extends object>(
  read: Reader<Output>,
): MiddlewareHandler<Authorized, string, { out: { query: Output } }> =>
  async function queryValidated(c, next) {
    if (!isDecodable(c.req.url)) return problemResponse({ kind: "query-malformed" });
    const tooDeep = depthProblem(c.req.queries("attributes"));
    if (tooDeep !== null) return problemResponse(tooDeep);
    const output = read(queryOf(c.req.url));
    if (isFailure(output)) return problemResponse(output);
    c.req.addValidatedData("query", output);
    return next();
  };

/** Hono leaves invalid percent-encoding undecoded: two different queries would name the same key. */
export function isDecodable(url: string): boolean {
  try {
    decodeURIComponent(url);
    return true;
  } catch {
    return false;
  }
}

/** Parameters by name. A repeated one is a list, which only `key` accepts. */
function queryOf(url: string): Record<string, string | string[] | undefined> {
  // Without a name, Hono returns all parameters; its type includes the results for one name.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const entries = Object.entries(getQueryParams(url) as Record<string, string[]>);
  return Object.fromEntries(entries.map(([name, values]) => [name, values.length === 1 ? values[0] : values]));
}

/** @returns the problem if a text is JSON that is nested too deep, otherwise null */
function depthProblem(texts: readonly string[] = []): Failure | null {
  try {
    for (const text of texts) refuseDeepJson(text);
    return null;
  } catch (error) {
    return tooDeepFailure("query", error);
  }
}

/** Validates a body, and the query beside it, for `c.req.valid("json")`. */
export const validateBody = <Output extends object, Options extends object>(
  limitBytes: number,
  readQuery: Reader<Options>,
  readBody: Reader<Output>,
): MiddlewareHandler<Authorized, string, { out: { json: Options & Output } }> =>
  async function bodyValidated(c, next) {
    const { holder } = c.var;
    const output = await readInput(c.req.raw, holder, limitBytes, readQuery, readBody);
    if (isFailure(output)) return problemResponse(output);
    c.req.addValidatedData("json", output);
    return next();
  };

/** Reads the query and the body of a request, and reports all invalid fields of both. */
export async function readInput<Output extends object, Options extends object>(
  request: Request,
  holder: Pick<CheckToken, "may">,
  limitBytes: number,
  readQuery: Reader<Options>,
  readBody: Reader<Output>,
): Promise<(Options & Output) | Failure> {
  const options = readQuery(queryOf(request.url));
  const body = await readJson(request, limitBytes);
  if (isFailure(body)) return body;
  // The right is checked first, because parsing limits is expensive.
  if (hasLimits(body.json) && !holder.may.has("adhoc")) {
    return { kind: "not-permitted", right: "adhoc" };
  }
  const output = readBody(body.json);
  if (!isFailure(output) && !isFailure(options)) return { ...options, ...output };
  const errors = [output, options].flatMap((each) => (isFailure<FieldsInvalid>(each) ? each.errors : []));
  return { kind: "fields-invalid", errors };
}

function hasLimits(json: unknown): boolean {
  if (!isRecord(json)) return false;
  const { limits, checks } = json;
  return limits !== undefined || (Array.isArray(checks) && checks.some(hasLimits));
}

/** @returns null for any error other than `JsonTooDeep` */
const tooDeepFailure = (place: string, error: unknown): Failure | null =>
  error instanceof JsonTooDeep ? { kind: "json-too-deep", place, position: error.position } : null;

/** Fatal: replacement characters would make different keys equal. */
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });

/** @param types the accepted media types */
export async function readJson(
  request: Request,
  limitBytes: number,
  types: readonly string[] = ["application/json"],
): Promise<{ readonly json: unknown } | Failure> {
  const tooLarge = { kind: "body-too-large", limitBytes } as const;
  const statedBytes = request.headers.get("Content-Length");
  if (Number(statedBytes) > limitBytes) return tooLarge;
  const type = request.headers.get("Content-Type") ?? "";
  if (!types.includes(type) && !types.includes(mediaTypeIn(type))) {
    return { kind: "body-of-other-type", types };
  }
  try {
    // The size is checked again below: Content-Length may be wrong.
    const bytes =
      statedBytes !== null || request.body === null
        ? await request.arrayBuffer()
        : await readBytes(request.body, limitBytes);
    if (bytes === null || bytes.byteLength > limitBytes) return tooLarge;
    return { json: parseJson(utf8.decode(bytes)) };
  } catch (error) {
    // Any other error: invalid JSON, invalid UTF-8 or a closed connection.
    return tooDeepFailure("body", error) ?? { kind: "body-malformed" };
  }
}

/** The media type without its parameters, in lower case. */
function mediaTypeIn(contentType: string): string {
  const [type = ""] = contentType.split(";");
  return type.trim().toLowerCase();
}

/** Stops reading at the limit. @returns null when the body is larger */
async function readBytes(body: AsyncIterable<Uint8Array>, limitBytes: number): Promise<BufferSource | null> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of body) {
    sizeBytes += chunk.length;
    if (sizeBytes > limitBytes) return null;
    chunks.push(chunk);
  }
  return new Blob(chunks).arrayBuffer();
}
