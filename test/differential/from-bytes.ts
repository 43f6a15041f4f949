/** Reads a request from the bytes of a connection, for suites that send bytes. One character stands for one byte. */
import { provideWorkerdGlobals } from "./node-platform.ts";
import type { RecordedRequest } from "./replay.ts";
import { compare, type Comparison } from "./targets.ts";
import { outsideReplay } from "./virtual-time.ts";

const methodsWithoutBody = new Set(["GET", "HEAD"]);

/**
 * The request in these bytes, as the platform would pass it to the Worker.
 * The field `X-Cf` has the value of `request.cf`.
 * @returns null when no `Request` can have such a method, URL or field
 */
export function requestFrom(bytes: string): Pick<RecordedRequest, "url" | "init"> | null {
  const headEnd = bytes.indexOf("\r\n\r\n");
  const [first = "", ...lines] = bytes.slice(0, headEnd < 0 ? undefined : headEnd).split("\r\n");
  const [, method = "", target = ""] = /^(\S+) (\S+) HTTP\/1\.[01]$/.exec(first) ?? [];
  const fields = lines.map((line): [string, string] => {
    const at = line.indexOf(":");
    return [line.slice(0, at), line.slice(at + 1).trim()];
  });
  const named = fields.find(([name]) => name.toLowerCase() === "host")?.[1];
  if (named === undefined) return null;
  const url = target.startsWith("/") ? `https://${named}${target}` : target;
  try {
    const cf = fields.find(([name]) => name.toLowerCase() === "x-cf")?.[1];
    const headers = new Headers(fields.filter(([name]) => !ofConnection.has(name.toLowerCase())));
    const isChunked = fields.some(([name]) => name.toLowerCase() === "transfer-encoding");
    const text = headEnd < 0 ? "" : bytes.slice(headEnd + 4);
    const body = isChunked ? dechunked(text) : text;
    const init = {
      method,
      headers: [...headers] as [string, string][],
      ...(cf !== undefined && { cf: JSON.parse(cf) as IncomingRequestCfProperties }),
      ...(body !== "" && !methodsWithoutBody.has(method) && { body: bytesOf(body) }),
    };
    // The constructor throws for a request that cannot exist.
    return { url: new Request(url, init).url, init };
  } catch {
    return null;
  }
}

/** Fields that the platform consumes, so the `Request` does not have them. */
const ofConnection = new Set(["content-length", "transfer-encoding", "host", "x-cf"]);

const bytesOf = (text: string): Uint8Array<ArrayBuffer> => Uint8Array.from(text, (byte) => byte.charCodeAt(0));

function dechunked(text: string): string {
  const [, size = "", after = ""] = /^([0-9a-f]+)[^\r]*\r\n([^]*)$/i.exec(text) ?? [];
  const length = Number.parseInt(size, 16);
  return length > 0 ? after.slice(0, length) + dechunked(after.slice(length + 2)) : "";
}

/** Replays requests in a Worker with these variables and with a real server as `ORIGIN`. */
export function compareBytes(
  sent: readonly string[],
  variables: Readonly<Record<string, string>>,
): Promise<Comparison> {
  provideWorkerdGlobals();
  const deployment = { ...variables, KEY_SECRET: "a secret of more than thirty-two characters" };
  const atMs = Date.UTC(2100, 0, 1);
  const requests = sent.flatMap((bytes) => {
    const request = requestFrom(bytes);
    return request === null ? [] : { ...request, variables: deployment, atMs };
  });
  const { fetch } = globalThis;
  return compare(requests, (request) => outsideReplay(() => fetch(request)));
}
