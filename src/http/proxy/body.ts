/** A response body whose end is observed. */
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
