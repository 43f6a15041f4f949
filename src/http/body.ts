/** A response whose body tells when it has ended. */

/** Of what a client has not taken yet so much is kept for it: an origin that is done with less holds nothing more. */
const keptBytes = 65_536;

/**
 * The same response, byte for byte; `over` is called once its body has come to its end, has failed, or has been abandoned
 * by the client, which on workerd only a stream of our own tells.
 * @param response with the bytes that were received, whatever their encoding
 */
export function bodyUntil(
  response: Response,
  body: ReadableStream,
  signal: AbortSignal,
  over: () => void,
): Response {
  const kept = new TransformStream(
    {},
    undefined,
    new ByteLengthQueuingStrategy({ highWaterMark: keptBytes }),
  );
  body.pipeTo(kept.writable, { signal }).then(over, over);
  const { status, statusText, headers } = response;
  return new Response(ofLength(kept.readable, headers.get("Content-Length")), {
    status,
    statusText,
    headers,
    encodeBody: "manual",
  });
}

/** A length that is known is told: without one the platform sends chunks. */
function ofLength(body: ReadableStream, length: string | null): ReadableStream {
  if (length === null || !/^\d{1,15}$/.test(length)) return body;
  return body.pipeThrough(new FixedLengthStream(Number(length)));
}
