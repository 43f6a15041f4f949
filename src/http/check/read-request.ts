/** Reads what a caller of `/check` asks for, from the query and the body; what is wrong with them is told at once. */
import type { Context, MiddlewareHandler } from "hono";
import { JsonTooDeep, parseJson, refuseDeepJson } from "../../validation/json.ts";
import type { Authorized } from "./auth.ts";
import { type Failure, type FieldsInvalid, isFailure, problemResponse } from "../wire/problems.ts";
import { isRecord } from "../../validation/problems.ts";

type Queries = Record<string, string[]>;

/** `c.req.valid("query")` is what is asked for; the type of what is sent is for typed clients. */
// Clients are told by it what to send; nothing here is.
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters
export const queried = <Sent extends object, Asked extends object>(
  read: (queries: Queries) => Asked | FieldsInvalid,
): MiddlewareHandler<Authorized, string, { in: { query: Sent }; out: { query: Asked } }> =>
  async function queryRead(c, next) {
    if (!isDecodable(c.req.url)) return problemResponse({ kind: "query-malformed" });
    const deep = deepAttributes(c.req.queries("attributes"));
    if (deep !== null) return problemResponse(deep);
    const asked = read(c.req.queries());
    if (isFailure(asked)) return problemResponse(asked);
    c.req.addValidatedData("query", asked);
    return next();
  };

/** What stands for no text is left as it is by the query's reader: different queries would name one key. */
function isDecodable(url: string): boolean {
  try {
    decodeURIComponent(url);
    return true;
  } catch {
    return false;
  }
}

/** The problem of a query whose JSON is nested too deep; null when there is none. */
function deepAttributes(texts: readonly string[] = []): Failure | null {
  try {
    for (const text of texts) refuseDeepJson(text);
    return null;
  } catch (error) {
    return deepJson("query", error);
  }
}

/** The problem of JSON that is nested too deep; null for any other error. */
const deepJson = (place: string, error: unknown): Failure | null =>
  error instanceof JsonTooDeep ? { kind: "json-too-deep", place, position: error.position } : null;

/** The same of `c.req.valid("json")`, of a request with a body of at most so many bytes. */
// Clients are told by it what to send; nothing here is.
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters
export const posted = <Sent extends object, Asked extends object, Options extends object>(
  limitBytes: number,
  readQuery: (queries: Queries) => Options | FieldsInvalid,
  read: (json: unknown) => Asked | FieldsInvalid,
): MiddlewareHandler<
  Authorized,
  string,
  { in: { json: Sent }; out: { json: Options & Asked } }
> => {
  return async function bodyRead(c, next) {
    const asked = await askedFor(c, limitBytes, readQuery, read);
    if (isFailure(asked)) return problemResponse(asked);
    c.req.addValidatedData("json", asked);
    return next();
  };
};

async function askedFor<Asked extends object, Options extends object>(
  c: Context<Authorized>,
  limitBytes: number,
  readQuery: (queries: Queries) => Options | FieldsInvalid,
  read: (json: unknown) => Asked | FieldsInvalid,
): Promise<(Options & Asked) | Failure> {
  const options = readQuery(c.req.queries());
  const body = await readBody(c.req.raw, limitBytes);
  if (isFailure(body)) return body;
  // Before any of them is read, which is work.
  if (bringsLimits(body.json) && !c.var.holder.may.has("adhoc")) {
    return { kind: "not-permitted", right: "adhoc" };
  }
  const asked = read(body.json);
  if (!isFailure(asked) && !isFailure(options)) return { ...options, ...asked };
  const errors = [asked, options].flatMap((each) =>
    isFailure<FieldsInvalid>(each) ? each.errors : [],
  );
  return { kind: "fields-invalid", errors };
}

function bringsLimits(json: unknown): boolean {
  if (!isRecord(json)) return false;
  const { limits, checks } = json;
  return limits !== undefined || (Array.isArray(checks) && checks.some(bringsLimits));
}

/** Bytes that are no UTF-8 must not be read as replacement characters: different keys would be charged as one. */
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });

/** The JSON that a request carries. */
async function readBody(
  request: Request,
  limitBytes: number,
): Promise<{ readonly json: unknown } | Failure> {
  const tooLarge = { kind: "body-too-large", limitBytes } as const;
  if (Number(request.headers.get("Content-Length")) > limitBytes) return tooLarge;
  const type = request.headers.get("Content-Type") ?? "";
  if (!/^application\/json\s*(?:;|$)/i.test(type)) return { kind: "body-of-other-type" };
  try {
    // What has told its length comes at once, and is counted all the same.
    const bytes =
      request.headers.has("Content-Length") || request.body === null
        ? await request.arrayBuffer()
        : await bytesOf(request.body, limitBytes);
    if (bytes === null || bytes.byteLength > limitBytes) return tooLarge;
    return { json: parseJson(utf8.decode(bytes)) };
  } catch (error) {
    // Or it has broken off.
    return deepJson("body", error) ?? { kind: "body-malformed" };
  }
}

/** Counted as they come, where nothing tells how many there are; null if there are too many. */
async function bytesOf(
  body: AsyncIterable<Uint8Array>,
  limitBytes: number,
): Promise<BufferSource | null> {
  const pieces: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const piece of body) {
    sizeBytes += piece.length;
    if (sizeBytes > limitBytes) return null;
    pieces.push(piece);
  }
  return new Blob(pieces).arrayBuffer();
}
