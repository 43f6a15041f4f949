/** Sends requests and reads responses as bytes: field lines stay separate and keep their order and case. */
import { connect } from "node:net";

export interface WireResponse {
  readonly status: number;
  /** The values of a field, one per line. */
  readonly lines: (name: string) => readonly string[];
  /** One character per byte. */
  readonly body: string;
}

/** The bytes of all requests, for the differential test. */
export const sentBytes: string[] = [];

/**
 * @param request the request line and the field lines, without `Host` and `Connection: close`
 * @param body the body that the fields describe
 */
export async function ask(
  url: URL,
  request: readonly string[],
  body = "",
  host = "headgate.example",
): Promise<WireResponse> {
  const [first = "", ...fields] = request;
  const head = [first, `Host: ${host}`, ...fields, "Connection: close", "", ""];
  sentBytes.push(head.join("\r\n") + body);
  const socket = connect({ host: url.hostname, port: Number(url.port) });
  const chunks: Buffer[] = [];
  const { promise: closed, resolve, reject } = Promise.withResolvers<void>();
  socket.on("data", (chunk) => chunks.push(chunk));
  socket.on("close", () => resolve()).on("error", reject);
  socket.setTimeout(20_000, () => socket.destroy(new Error(`no answer to ${first}`)));
  socket.write(head.join("\r\n") + body, "latin1");
  await closed;
  return parseResponse(Buffer.concat(chunks).toString("latin1"));
}

function parseResponse(bytes: string): WireResponse {
  const end = bytes.indexOf("\r\n\r\n");
  const [first = "", ...fields] = bytes.slice(0, end).split("\r\n");
  const pairs = fields.map((line) => [
    line.slice(0, line.indexOf(":")).toLowerCase(),
    line.slice(line.indexOf(":") + 1).trim(),
  ]);
  const lines = (name: string): string[] =>
    pairs.flatMap(([each, value = ""]) => (each === name.toLowerCase() ? value : []));
  const rest = bytes.slice(end + 4);
  const isChunked = lines("Transfer-Encoding").includes("chunked");
  return { status: Number(first.split(" ")[1]), lines, body: isChunked ? dechunk(rest) : rest };
}

/**
 * Decodes a chunked body.
 * @throws Error when anything, such as trailers, follows the last chunk
 */
function dechunk(rest: string): string {
  const [, size = "", after = ""] = /^([0-9a-f]+)\r\n([^]*)$/i.exec(rest) ?? [];
  const length = Number.parseInt(size, 16);
  if (length > 0) return after.slice(0, length) + dechunk(after.slice(length + 2));
  if (after !== "\r\n") throw new Error(`no end of chunks: ${JSON.stringify(after)}`);
  return "";
}
