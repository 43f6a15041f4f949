/**
 * The beginning of every call of `/check`: first the bearer token (RFC 6750), before the body is read or an object is called,
 * then the query and the body.
 */
import { getQueryParams } from "hono/utils/url";
import type { CheckToken, Right } from "../../policy/vars/secrets.ts";
import { bearerOf } from "../../policy/request.ts";
import { isRecord, JsonTooDeep, parseJson, refuseDeepJson } from "../../validation/json.ts";
import type { Runtime } from "../runtime.ts";
import { type Failure, type FieldsInvalid, isFailure } from "../wire/problems.ts";
import type { Reader } from "./input.ts";

/** An authorized caller. */
export interface Caller {
  readonly holder: CheckToken;
  readonly credentialField: "Authorization" | typeof tokenField;
}

/** A gateway sends its token here when `Authorization` belongs to the request that it describes. */
export const tokenField = "X-Headgate-Token";

/** The holder for requests without a token, under `CHECK_AUTH = "none"`. */
const anonymous: CheckToken = { token: "", tenant: null, may: new Set(["look"]) };

/** Returns the caller of a request, or a failure if the token is missing or invalid, or lacks the right. */
export function authorizer({ checkTokens: tokens, isLookOpen }: Runtime) {
  const holderOf = tokenMatcher(tokens);
  return (headers: Headers, right: Right): Caller | Failure => {
    const fieldToken = headers.get(tokenField);
    const authorization = headers.get("Authorization");
    const isGiven = fieldToken !== null || authorization !== null;
    const token = fieldToken ?? bearerOf(authorization) ?? "";
    const holder = isLookOpen && !isGiven && right === "look" ? anonymous : holderOf(token);
    if (holder === undefined) {
      return { kind: "unauthorized", hasTokens: tokens.length > 0, isGiven };
    }
    if (!holder.may.has(right)) return { kind: "not-permitted", right };
    return { holder, credentialField: fieldToken === null ? "Authorization" : tokenField };
  };
}

/** Returns a function that finds the holder of a token. */
export function tokenMatcher<Holder extends { readonly token: string }>(holders: readonly Holder[]) {
  const lengths = holders.map(({ token }) => encoder.encode(token).length);
  const sizeBytes = Math.max(0, ...lengths) + longestCharacterBytes;
  const paddedTokens = holders.map(({ token }) => padded(token, new Uint8Array(sizeBytes)));
  const given = new Uint8Array(sizeBytes);
  return (token: string): Holder | undefined => holders[indexOf(paddedTokens, padded(token, given))];
}

/**
 * Compares with every token, and always the same number of bytes: the time reveals neither which token matched nor
 * how many characters did.
 */
function indexOf(paddedTokens: readonly Uint8Array[], given: Uint8Array): number {
  return paddedTokens.map((each) => crypto.subtle.timingSafeEqual(each, given)).indexOf(true);
}

/** `encodeInto` omits a character that does not fit completely. */
const longestCharacterBytes = 4;

const encoder = new TextEncoder();

/**
 * Pads with zeros, and truncates longer texts. A padded token ends with at least four zero bytes, because the bytes
 * leave room for one more character. A truncated text ends with at most three, so it never equals a token.
 */
function padded(text: string, bytes: Uint8Array): Uint8Array {
  const { written } = encoder.encodeInto(text, bytes);
  return bytes.fill(0, written);
}

/** Reads the query of a request without a body. */
export function readQuery<Output extends object>({ url }: Request, read: Reader<Output>): Output | Failure {
  if (!isDecodable(url)) return { kind: "query-malformed" };
  const query = queryOf(url);
  try {
    for (const text of [query["attributes"] ?? []].flat()) refuseDeepJson(text);
  } catch (error) {
    return tooDeepFailure("query", error) ?? { kind: "query-malformed" };
  }
  return read(query);
}

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

/** Reads the query and the body of a request, and reports all invalid fields of both. */
export async function readInput<Output extends object, Options extends object>(
  request: Request,
  { holder }: Caller,
  limitBytes: number,
  readOptions: Reader<Options>,
  readBody: Reader<Output>,
): Promise<(Partial<Options> & Output) | Failure> {
  const options = request.url.includes("?") ? readOptions(queryOf(request.url)) : {};
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
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });

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
    return { json: parseJson(decoder.decode(bytes)) };
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
