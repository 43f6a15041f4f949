/**
 * One end of a WebSocket connection, frame by frame (RFC 6455), so that a test can end the connection in every possible
 * way.
 */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { type IncomingMessage, request as requestOf } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";

export const opcodes = { text: 1, binary: 2, close: 8 } as const;

/** An opcode that the RFC reserves. */
export const invalidOpcode = 3;

export interface Frame {
  readonly opcode: number;
  readonly data: Buffer;
}

/** A close frame. */
export function closing(code: number, reason: string): Frame {
  const data = Buffer.concat([Buffer.alloc(2), Buffer.from(reason)]);
  data.writeUInt16BE(code);
  return { opcode: opcodes.close, data };
}

export class Frames {
  readonly stream: Duplex;
  readonly #isClient: boolean;
  readonly #arrived: Frame[] = [];
  readonly #awaited: ((frame: Frame) => void)[] = [];
  #unread: Buffer;
  /** Resolves when the connection has ended in any way. */
  readonly gone: Promise<void>;

  /** @param unread bytes that arrived with the handshake */
  constructor(stream: Duplex, side: "client" | "server", unread: Buffer) {
    this.stream = stream;
    this.#isClient = side === "client";
    this.#unread = unread;
    this.gone = new Promise((resolve) => void stream.once("close", () => resolve()));
    stream.on("error", () => undefined);
    stream.on("data", (data: Buffer) => {
      this.#unread = Buffer.concat([this.#unread, data]);
      this.#read();
    });
    this.#read();
  }

  /** Resolves with the next frame received. */
  next(): Promise<Frame> {
    const arrived = this.#arrived.shift();
    if (arrived !== undefined) return Promise.resolve(arrived);
    return new Promise((resolve) => void this.#awaited.push(resolve));
  }

  /** Sends a whole message of less than 64 KiB, or a control frame. */
  send(opcode: number, data: Buffer | string): void {
    const payload = Buffer.from(data);
    const isLong = payload.length > 125;
    const head = Buffer.alloc(isLong ? 4 : 2);
    head[0] = 0x80 | opcode;
    head[1] = (this.#isClient ? 0x80 : 0) | (isLong ? 126 : payload.length);
    if (isLong) head.writeUInt16BE(payload.length, 2);
    // A mask of zero leaves the payload unchanged.
    const mask = Buffer.alloc(this.#isClient ? 4 : 0);
    this.stream.write(Buffer.concat([head, mask, payload]));
  }

  close(code: number, reason: string): void {
    this.send(opcodes.close, closing(code, reason).data);
  }

  #read(): void {
    for (let frame = this.#take(); frame !== null; frame = this.#take()) {
      const awaited = this.#awaited.shift();
      if (awaited === undefined) this.#arrived.push(frame);
      else awaited(frame);
    }
  }

  #take(): Frame | null {
    const [first, second] = this.#unread;
    if (first === undefined || second === undefined) return null;
    const short = second & 0x7f;
    const maskAt = short === 126 ? 4 : 2;
    const dataAt = maskAt + (second & 0x80 ? 4 : 0);
    if (this.#unread.length < dataAt) return null;
    const size = short === 126 ? this.#unread.readUInt16BE(2) : short;
    if (this.#unread.length < dataAt + size) return null;
    const mask = this.#unread.subarray(maskAt, dataAt);
    const data = Buffer.from(
      this.#unread.subarray(dataAt, dataAt + size).map((byte, index) => byte ^ (mask[index % 4] ?? 0)),
    );
    this.#unread = this.#unread.subarray(dataAt + size);
    return { opcode: first & 0x0f, data };
  }
}

/**
 * Accepts an upgrade as a server.
 * @param fields additional header lines of the response
 */
export function accepted(
  request: IncomingMessage,
  stream: Duplex,
  unread: Buffer,
  fields: readonly string[] = [],
): Frames {
  const key = `${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
  const protocol = request.headers["sec-websocket-protocol"];
  stream.write(
    [
      "HTTP/1.1 101 Switching Protocols",
      "Connection: Upgrade",
      "Upgrade: websocket",
      `Sec-WebSocket-Accept: ${createHash("sha1").update(key).digest("base64")}`,
      ...(protocol === undefined ? [] : [`Sec-WebSocket-Protocol: ${protocol}`]),
      ...fields,
      "\r\n",
    ].join("\r\n"),
  );
  return new Frames(stream, "server", unread);
}

/** Upgrades a connection as a client. */
export const upgraded = async (url: URL): Promise<Frames> => (await upgrade(url)).frames;

interface Upgrade {
  readonly answer: IncomingMessage;
  readonly frames: Frames;
}

/** Upgrades a connection as a client, and also returns the response. */
export async function upgrade(url: URL): Promise<Upgrade> {
  const request = requestOf(url.href, {
    agent: false,
    headers: {
      Connection: "Upgrade",
      Upgrade: "websocket",
      "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    },
  });
  request.end();
  const [answer, socket, unread] = (await once(request, "upgrade")) as [IncomingMessage, Socket, Buffer];
  return { answer, frames: new Frames(socket, "client", unread) };
}
