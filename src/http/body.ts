/** A response whose body tells when it has ended. */

/** Of what a client has not taken yet so much is kept for it: an origin that is done with less holds nothing more. */
const keptBytes = 65_536;

/** Every piece costs a turn of ours, however small it is: by default they are of 4 KiB. */
const pieceBytes = 65_536;

/**
 * The same response, byte for byte; `over` is called once its body has come to its end, has failed, or has been abandoned
 * by the client, which on workerd only a stream of our own tells.
 * @param response with the bytes that were received, whatever their encoding
 * @param left aborted when nobody waits for it any more
 */
export function bodyUntil(
  response: Response,
  body: ReadableStream,
  left: AbortSignal,
  over: () => void,
): Response {
  const { status, statusText, headers } = response;
  const source = { ...followed(body, left, over), ...lengthOf(headers) };
  // One more than is kept: that there is nothing more is only told to who asks for it.
  const strategy = new ByteLengthQueuingStrategy({ highWaterMark: keptBytes + 1 });
  return new Response(new ReadableStream<Uint8Array>(source, strategy), {
    status,
    statusText,
    headers,
    encodeBody: "manual",
  });
}

function followed(
  body: ReadableStream,
  left: AbortSignal,
  over: () => void,
): UnderlyingSource<Uint8Array> {
  const reader = body.getReader({ mode: "byob" });
  const cancel = (reason: unknown): Promise<void> => reader.cancel(reason).catch(() => undefined);
  left.addEventListener("abort", () => void cancel(left.reason), { once: true });
  let room = new Uint8Array(pieceBytes);
  return {
    async pull(controller) {
      try {
        const { value, done } = await reader.read(room);
        if (done) {
          controller.close();
          over();
        } else {
          // A copy, since a few bytes that wait for a client would keep all of the room that they came in.
          controller.enqueue(value.slice());
          room = new Uint8Array(value.buffer);
        }
      } catch (error) {
        over();
        throw error;
      }
    },
    cancel(reason) {
      over();
      return cancel(reason);
    },
  };
}

/** A length that is known is told: without one the platform sends chunks. */
function lengthOf(headers: Headers): { readonly expectedLength?: number } {
  const length = headers.get("Content-Length") ?? "";
  return /^\d{1,15}$/.test(length) ? { expectedLength: Number(length) } : {};
}
