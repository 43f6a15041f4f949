/** Reads a request from the bytes of a connection, for suites that send bytes. One character stands for one byte. */
import type { RecordedRequest } from "./replay.ts";

const methodsWithoutBody = new Set(["GET", "HEAD"]);

/**
 * The request in these bytes, as the platform would pass it to the Worker.
 * @param cfField a field with the value of `request.cf`
 * @returns null when no `Request` can have such a method, URL or field
 */
export function requestFrom(
  bytes: string,
  { host = "fuzz.example" } = {},
): Pick<RecordedRequest, "url" | "init"> | null {
  const headEnd = bytes.indexOf("\r\n\r\n");
  const [first = "", ...lines] = bytes.slice(0, headEnd < 0 ? undefined : headEnd).split("\r\n");
  const [, method = "", target = ""] = /^(\S+) (\S+) HTTP\/1\.[01]$/.exec(first) ?? [];
  const fields = lines.map((line): [string, string] => {
    const at = line.indexOf(":");
    return [line.slice(0, at), line.slice(at + 1).trim()];
  });
  const named = fields.find(([name]) => name.toLowerCase() === "host")?.[1];
  const url = target.startsWith("/") ? `https://${named ?? host}${target}` : target;
  try {
    const headers = new Headers(fields.filter(([name]) => !ofConnection.has(name.toLowerCase())));
    const isChunked = fields.some(([name]) => name.toLowerCase() === "transfer-encoding");
    const text = headEnd < 0 ? "" : bytes.slice(headEnd + 4);
    const body = isChunked ? dechunked(text) : text;
    const init = {
      method,
      headers: [...headers] as [string, string][],
      ...(body !== "" && !methodsWithoutBody.has(method) && { body: bytesOf(body) }),
    };
    // Throws when there is no such request.
    return { url: new Request(url, init).url, init };
  } catch {
    return null;
  }
}

/** The platform removes these fields, or has used them up. */
const ofConnection = new Set(["content-length", "transfer-encoding", "host"]);

const bytesOf = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(text, (byte) => byte.charCodeAt(0));

function dechunked(text: string): string {
  const [, size = "", after = ""] = /^([0-9a-f]+)[^\r]*\r\n([^]*)$/i.exec(text) ?? [];
  const length = Number.parseInt(size, 16);
  return length > 0 ? after.slice(0, length) + dechunked(after.slice(length + 2)) : "";
}
