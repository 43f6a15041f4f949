/** A response whose body tells when it has ended. */
import { errorText, report } from "../../observability/events.ts";

/**
 * Of what a client has not taken yet so much is kept for it: an origin that is done with less holds nothing more. When
 * there is more the platform passes on the rest, since every piece costs us a turn and its room.
 */
const keptBytes = 65_536;

/**
 * The same response, byte for byte; `over` is called once its body has come to its end, has failed, or has been abandoned
 * by the client.
 * @param response with the bytes that were received, whatever their encoding
 * @param left aborted when nobody waits for it any more
 */
export function bodyUntil(
  response: Response,
  body: ReadableStream<Uint8Array>,
  left: AbortSignal,
  over: () => void,
): Response {
  const { status, statusText, headers } = response;
  const { readable, writable } = passageOf(headers);
  // Why it has failed is told to both sides by the streams themselves.
  void passOn(body, writable, left, over).catch(over);
  return new Response(readable, { status, statusText, headers, encodeBody: "manual" });
}

async function passOn(
  body: ReadableStream<Uint8Array>,
  writable: WritableStream<Uint8Array>,
  left: AbortSignal,
  over: () => void,
): Promise<void> {
  const hasMore = await passOnPieces(body.getReader({ mode: "byob" }), writable, left, over);
  if (!hasMore) return;
  await body.pipeTo(writable, { signal: left });
  over();
}

/** @returns whether there is more, and more than is kept was waiting for the client */
async function passOnPieces(
  reader: ReadableStreamBYOBReader,
  writable: WritableStream<Uint8Array>,
  left: AbortSignal,
  over: () => void,
): Promise<boolean> {
  const writer = writable.getWriter();
  const passing = new AbortController();
  const abandon = (reason: unknown): void => {
    if (passing.signal.aborted) return;
    over();
    reader.cancel(reason).catch(() => undefined);
  };
  writer.closed.catch(abandon);
  left.addEventListener("abort", () => abandon(left.reason), { signal: passing.signal });
  const cutOff = async (error: unknown): Promise<never> => {
    if (!passing.signal.aborted && !left.aborted) {
      report({ event: "origin-response-broken", error: errorText(error) });
    }
    await writer.abort(error);
    throw error;
  };
  let room = new Uint8Array(keptBytes);
  let waitingBytes = 0;
  let taken: Promise<void> = Promise.resolve();
  while (waitingBytes <= keptBytes) {
    const { value, done } = await reader.read(room).catch(cutOff);
    if (done) {
      over();
      await writer.close();
      return false;
    }
    // A copy, since a few bytes that wait for a client would keep all of the room that they came in.
    const piece = value.slice();
    room = new Uint8Array(value.buffer);
    waitingBytes += piece.length;
    const took = (): void => void (waitingBytes -= piece.length);
    // That nobody takes it any more is told by `closed`.
    taken = writer.write(piece).then(took, () => undefined);
  }
  await taken;
  passing.abort();
  reader.releaseLock();
  writer.releaseLock();
  return true;
}

/** A length that is known is told: without one the platform sends chunks. */
function passageOf(headers: Headers): TransformStream<Uint8Array, Uint8Array> {
  const length = headers.get("Content-Length") ?? "";
  return /^\d{1,15}$/.test(length)
    ? new FixedLengthStream(Number(length))
    : new IdentityTransformStream();
}
