/** Requests and answers as they are on the wire: every line of a field by itself, in its order and its case. */
import { connect } from "node:net";

export interface Heard {
  readonly status: number;
  /** The values of a field, one for each line. */
  readonly lines: (name: string) => readonly string[];
  /** A character for each byte. */
  readonly body: string;
}

/**
 * @param request its lines: the first, and those of its fields but for `Host` and the closing of the connection
 * @param body of which the fields tell
 */
export async function ask(
  url: URL,
  request: readonly string[],
  body = "",
  host = "headgate.example",
): Promise<Heard> {
  const [first = "", ...fields] = request;
  const head = [first, `Host: ${host}`, ...fields, "Connection: close", "", ""];
  const socket = connect({ host: url.hostname, port: Number(url.port) });
  const chunks: Buffer[] = [];
  const { promise: closed, resolve, reject } = Promise.withResolvers<void>();
  socket.on("data", (chunk) => chunks.push(chunk));
  socket.on("close", () => resolve()).on("error", reject);
  socket.setTimeout(20_000, () => socket.destroy(new Error(`no answer to ${first}`)));
  socket.write(head.join("\r\n") + body, "latin1");
  await closed;
  return heard(Buffer.concat(chunks).toString("latin1"));
}

function heard(bytes: string): Heard {
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
  return { status: Number(first.split(" ")[1]), lines, body: isChunked ? joined(rest) : rest };
}

/**
 * The body that came in chunks.
 * @throws where anything but the end follows the last of them, as trailers would
 */
function joined(rest: string): string {
  const [, size = "", after = ""] = /^([0-9a-f]+)\r\n([^]*)$/i.exec(rest) ?? [];
  const length = Number.parseInt(size, 16);
  if (length > 0) return after.slice(0, length) + joined(after.slice(length + 2));
  if (after !== "\r\n") throw new Error(`no end of chunks: ${JSON.stringify(after)}`);
  return "";
}
