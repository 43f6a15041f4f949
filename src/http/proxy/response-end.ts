/** Responses whose end is observed: the end of a body, or of a WebSocket, for which workerd reports no close event. */
import { errorText, report } from "../../observability/events.ts";

/**
 * The most bytes that may wait for a slow client. Up to that number, the slot is released as soon as the origin has
 * sent its body. Beyond it, the platform pipes the rest, which saves CPU time and memory.
 */
const bufferBytes = 65_536;

/**
 * Returns the same response, byte for byte.
 * @param response with the body as received, whatever its encoding
 * @param clientGone aborts when the client has gone away
 * @param onEnd is called when the body ends, fails, or is abandoned by the client; possibly more than once
 */
export function withBodyEnd(
  response: Response,
  body: ReadableStream<Uint8Array>,
  clientGone: AbortSignal,
  onEnd: () => void,
): Response {
  const { status, statusText, headers } = response;
  const { readable, writable } = bodyPipe(headers);
  // The streams themselves pass the error on to both sides.
  void pipe(body, writable, clientGone, onEnd).catch(onEnd);
  return new Response(readable, { status, statusText, headers, encodeBody: "manual" });
}

async function pipe(
  body: ReadableStream<Uint8Array>,
  writable: WritableStream<Uint8Array>,
  clientGone: AbortSignal,
  onEnd: () => void,
): Promise<void> {
  const reader = body.getReader({ mode: "byob" });
  const hasEnded = await pipeUntilBufferFull(reader, writable, clientGone, onEnd);
  if (hasEnded) return;
  await body.pipeTo(writable, { signal: clientGone });
  onEnd();
}

/** @returns whether the body has ended; false when more than `bufferBytes` wait for the client */
async function pipeUntilBufferFull(
  reader: ReadableStreamBYOBReader,
  writable: WritableStream<Uint8Array>,
  clientGone: AbortSignal,
  onEnd: () => void,
): Promise<boolean> {
  const writer = writable.getWriter();
  const isDone = new AbortController();
  const abandon = (reason: unknown): void => {
    if (isDone.signal.aborted) return;
    onEnd();
    reader.cancel(reason).catch(() => undefined);
  };
  writer.closed.catch(abandon);
  clientGone.addEventListener("abort", () => abandon(clientGone.reason), { signal: isDone.signal });
  const breakOff = async (error: unknown): Promise<never> => {
    if (!isDone.signal.aborted && !clientGone.aborted) {
      report({ event: "origin-response-broken", error: errorText(error) });
    }
    await writer.abort(error);
    throw error;
  };
  let buffer = new Uint8Array(bufferBytes);
  let waitingBytes = 0;
  let lastWrite: Promise<void> = Promise.resolve();
  while (waitingBytes <= bufferBytes) {
    const { value, done } = await reader.read(buffer).catch(breakOff);
    if (done) {
      onEnd();
      await writer.close();
      return true;
    }
    // Copies the bytes, since a short chunk that waits for the client would keep the whole buffer alive.
    const chunk = value.slice();
    buffer = new Uint8Array(value.buffer);
    waitingBytes += chunk.length;
    const onWritten = (): void => void (waitingBytes -= chunk.length);
    // `writer.closed` reports a failed write.
    lastWrite = writer.write(chunk).then(onWritten, () => undefined);
  }
  await lastWrite;
  isDone.abort();
  reader.releaseLock();
  writer.releaseLock();
  return false;
}

/** Keeps a known `Content-Length`; without it, the platform sends a chunked body. */
function bodyPipe(headers: Headers): TransformStream<Uint8Array, Uint8Array> {
  const length = headers.get("Content-Length") ?? "";
  return /^\d{1,15}$/.test(length) ? new FixedLengthStream(Number(length)) : new IdentityTransformStream();
}

/** RFC 6455, section 7.4.1: the connection ended without a close frame. */
const abnormalClosure = 1006;

/** How long an origin may take to answer the close frame of a client. */
const closeTimeoutMs = 10_000;

/**
 * Returns the same upgrade and relays its messages.
 * @param onEnd is called when the origin has closed, when the client is gone without a close frame, or when the origin has
 * not answered the client's close frame in time; possibly more than once
 */
export function withSocketEnd(response: Response, onEnd: () => void): Response {
  const origin = response.webSocket;
  if (origin === null) return response;
  const { 0: client, 1: server } = new WebSocketPair();
  relay(origin, server, onEnd);
  relay(server, origin, (code) => {
    if (code === abnormalClosure) onEnd();
    else setTimeout(onEnd, closeTimeoutMs);
  });
  origin.accept({ allowHalfOpen: true });
  server.accept({ allowHalfOpen: true });
  const { status, statusText, headers } = response;
  return new Response(null, { status, statusText, headers, webSocket: client });
}

function relay(from: WebSocket, to: WebSocket, onClose: (code: number) => void): void {
  from.binaryType = "arraybuffer";
  from.addEventListener("message", ({ data }) => {
    // A side that has sent its close frame still receives messages until the other side closes.
    if (to.readyState !== WebSocket.CLOSED) to.send(data);
  });
  let isClosed = false;
  const close = (code: number, reason: string): void => {
    if (isClosed) return;
    isClosed = true;
    closeAs(to, code, reason);
    onClose(code);
  };
  from.addEventListener("close", ({ code, reason }) => close(code, reason));
  // workerd sends no close event after a protocol error.
  from.addEventListener("error", () => close(abnormalClosure, ""));
}

/** Closes with the same code where a close frame may carry it, else without a code. */
function closeAs(socket: WebSocket, code: number, reason: string): void {
  try {
    socket.close(code, reason);
  } catch {
    socket.close();
  }
}
