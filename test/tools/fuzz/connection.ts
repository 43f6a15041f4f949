/** HTTP/1.1 by hand: what is sent is sent byte for byte, however malformed; what comes back is read as answers. */
import { connect, type Socket } from "node:net";

/** Where a request goes, byte for byte. */
export interface TargetAddress {
  readonly hostname: string;
  readonly port: number;
}

export interface Answer {
  readonly status: number;
  /** By names in lower case; the lines of one name joined by commas. */
  readonly headers: ReadonlyMap<string, string>;
  /** A character for each byte. */
  readonly body: string;
}

export class NoAnswer extends Error {
  override readonly name = "NoAnswer";
}

/** One after the other; a new socket where the one before is closed. */
export class Connection {
  readonly #place: TargetAddress;
  #socket: Socket | null = null;

  constructor(place: TargetAddress) {
    this.#place = place;
  }

  /**
   * Sends a request, and reads its answer.
   * @throws NoAnswer when the connection is closed before, or nothing comes for too long
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
    const timer = setTimeout(
      () => reject(new NoAnswer(`none within ${patienceMs} ms`)),
      patienceMs,
    );
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
 * All answers to what may be no request, or several, or part of one: until the other side closes, or says no more for so
 * long.
 */
export async function answersTo(
  place: TargetAddress,
  bytes: string,
  quietMs: number,
): Promise<Answer[]> {
  const socket = opened(place);
  const received = new ResponseParser();
  const answers: Answer[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  let timer = setTimeout(resolve, quietMs);
  // Of what follows nobody knows what it is.
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
    // What follows an answer follows at once.
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
 * Sends a request and goes away, whatever has come of it by then.
 * @param isReset whether the other side learns of it at once: what is only closed might be half open
 */
export async function abandon(
  place: TargetAddress,
  bytes: string,
  afterMs: number,
  isReset: boolean,
): Promise<void> {
  const socket = opened(place);
  const { promise, resolve } = Promise.withResolvers<void>();
  const leave = (): unknown => (isReset ? socket.resetAndDestroy() : socket.destroy());
  socket.resume().on("close", () => resolve());
  socket.write(bytes, "latin1", () => setTimeout(leave, afterMs));
  await promise;
}

function opened({ hostname, port }: TargetAddress): Socket {
  const socket = connect({ host: hostname, port, noDelay: true });
  // What is an error here is told by the close that follows.
  socket.on("error", () => undefined);
  return socket;
}

/** What has come and is not read yet. */
class ResponseParser {
  rest = "";

  add(chunk: Buffer): void {
    this.rest += chunk.toString("latin1");
  }

  /** The next answer, once it is whole; those of 1xx but 101 only announce it. */
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

  #body(
    headers: ReadonlyMap<string, string>,
    start: number,
    isOver: boolean,
  ): { text: string; end: number } | null {
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
