/** A minimal HTTP/1.1 client: sends any bytes, however malformed, and parses the received bytes as responses. */
import { connect, type Socket } from "node:net";

/** The server and port that receive the bytes. */
export interface TargetAddress {
  readonly hostname: string;
  readonly port: number;
}

export interface Answer {
  readonly status: number;
  /** Names in lower case. The lines of one field are joined by commas. */
  readonly headers: ReadonlyMap<string, string>;
  /** One character for each byte. */
  readonly body: string;
}

export class NoAnswer extends Error {
  override readonly name = "NoAnswer";
}

/** Sends one request after the other, and opens a new socket when the previous socket is closed. */
export class Connection {
  readonly #place: TargetAddress;
  #socket: Socket | null = null;

  constructor(place: TargetAddress) {
    this.#place = place;
  }

  /**
   * Sends a request and returns its response.
   * @throws NoAnswer when the connection is closed first, or when no response arrives in time
   */
  async exchange(request: string, isHead: boolean, patienceMs: number): Promise<Answer> {
    const socket = this.#open();
    const received = new ResponseParser();
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const read = (isOver: boolean): void => {
      const answer = received.next(isHead, isOver);
      if (answer !== null) resolve(answer);
      else if (isOver) reject(new NoAnswer(`closed after ${JSON.stringify(received.rest)}`));
    };
    const take = (chunk: Buffer): void => {
      received.add(chunk);
      read(false);
    };
    const end = (): void => read(true);
    socket.on("data", take).on("close", end);
    const timer = setTimeout(() => reject(new NoAnswer(`none within ${patienceMs} ms`)), patienceMs);
    try {
      socket.write(request, "latin1");
      const answer = await promise;
      if (answer.status === 101 || answer.headers.get("connection") === "close") this.close();
      return answer;
    } catch (error) {
      this.close();
      throw error;
    } finally {
      clearTimeout(timer);
      socket.off("data", take).off("close", end);
    }
  }

  close(): void {
    this.#socket?.destroy();
    this.#socket = null;
  }

  #open(): Socket {
    if (this.#socket !== null && !this.#socket.destroyed) return this.#socket;
    this.#socket = opened(this.#place);
    return this.#socket;
  }
}

/**
 * Returns all responses to bytes that may be no request, a part of a request, or several requests. Ends when the server
 * closes the connection or sends nothing for `quietMs`.
 */
export async function answersTo(place: TargetAddress, bytes: string, quietMs: number): Promise<Answer[]> {
  const socket = opened(place);
  const received = new ResponseParser();
  const answers: Answer[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  let timer = setTimeout(resolve, quietMs);
  // The methods of later requests in the bytes are unknown, so only the first response can be parsed as a response to
  // HEAD.
  let isHead = /^\s*HEAD /.test(bytes);
  const read = (isOver: boolean): void => {
    for (let answer = received.next(isHead, isOver); answer !== null;) {
      answers.push(answer);
      isHead = false;
      answer = received.next(isHead, isOver);
    }
  };
  socket.on("data", (chunk) => {
    received.add(chunk);
    read(false);
    clearTimeout(timer);
    // Further responses arrive soon after the first.
    timer = setTimeout(resolve, answers.length > 0 ? quietMs / 4 : quietMs);
  });
  socket.on("close", () => {
    read(true);
    resolve();
  });
  socket.write(bytes, "latin1");
  await promise;
  clearTimeout(timer);
  socket.destroy();
  return answers;
}

/**
 * Sends a request and disconnects after a time, even if no response has arrived.
 * @param isReset whether the server notices immediately; after a plain close, the connection could be half open
 */
export async function abandon(place: TargetAddress, bytes: string, afterMs: number, isReset: boolean): Promise<void> {
  const socket = opened(place);
  const { promise, resolve } = Promise.withResolvers<void>();
  const leave = (): unknown => (isReset ? socket.resetAndDestroy() : socket.destroy());
  socket.resume().on("close", () => resolve());
  socket.write(bytes, "latin1", () => setTimeout(leave, afterMs));
  await promise;
}

function opened({ hostname, port }: TargetAddress): Socket {
  const socket = connect({ host: hostname, port, noDelay: true });
  // A close event follows every error event.
  socket.on("error", () => undefined);
  return socket;
}

/** Received bytes that have not yet been parsed. */
class ResponseParser {
  rest = "";

  add(chunk: Buffer): void {
    this.rest += chunk.toString("latin1");
  }

  /** The next complete response, without interim 1xx responses other than 101. */
  next(isHead: boolean, isOver: boolean): Answer | null {
    const headEnd = this.rest.indexOf("\r\n\r\n");
    if (headEnd < 0) return null;
    const [first = "", ...lines] = this.rest.slice(0, headEnd).split("\r\n");
    const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(first)?.[1] ?? "0");
    const bodyStart = headEnd + 4;
    if (status >= 100 && status < 200 && status !== 101) {
      this.rest = this.rest.slice(bodyStart);
      return this.next(isHead, isOver);
    }
    const headers = headersOf(lines);
    const hasNone = isHead || [101, 204, 304].includes(status);
    const body = hasNone ? { text: "", end: bodyStart } : this.#body(headers, bodyStart, isOver);
    if (body === null) return null;
    this.rest = this.rest.slice(body.end);
    return { status, headers, body: body.text };
  }

  #body(headers: ReadonlyMap<string, string>, start: number, isOver: boolean): { text: string; end: number } | null {
    if (headers.get("transfer-encoding") === "chunked") return chunks(this.rest, start);
    const length = headers.get("content-length");
    if (length === undefined) {
      return isOver ? { text: this.rest.slice(start), end: this.rest.length } : null;
    }
    const end = start + Number(length);
    return this.rest.length < end ? null : { text: this.rest.slice(start, end), end };
  }
}

function headersOf(lines: readonly string[]): Map<string, string> {
  const headers = new Map<string, string>();
  for (const line of lines) {
    const at = line.indexOf(":");
    const name = line.slice(0, at).toLowerCase();
    const value = line.slice(at + 1).trim();
    const before = headers.get(name);
    headers.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  return headers;
}

function chunks(received: string, start: number): { text: string; end: number } | null {
  let text = "";
  let at = start;
  for (;;) {
    const lineEnd = received.indexOf("\r\n", at);
    if (lineEnd < 0) return null;
    const size = Number.parseInt(received.slice(at, lineEnd), 16);
    const end = lineEnd + 2 + size + 2;
    if (received.length < end) return null;
    if (size === 0) return { text, end };
    text += received.slice(lineEnd + 2, lineEnd + 2 + size);
    at = end;
  }
}
