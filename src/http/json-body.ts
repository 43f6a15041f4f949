/** Reads JSON from the body of a request, bounded in size and depth. */
import { JsonTooDeep, parseJson } from "../validation/json.ts";
import type { Failure } from "./wire/problems.ts";

/** @returns null for any error other than `JsonTooDeep` */
export const tooDeepFailure = (place: string, error: unknown): Failure | null =>
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
