/** The end of a response body that a handler made: any stream, in any runtime. */

/** The most bytes that may wait for a slow client. A body that fits ends when its handler has written it. */
const bufferBytes = 65_536;

/**
 * Returns the same response, byte for byte.
 * @param clientGone aborts when the client has gone away. Copies of the body then fail: they would be incomplete
 * @param onEnd is called when the body ends, fails, or is abandoned by the client; possibly more than once
 */
export function withStreamEnd(
  response: Response,
  body: ReadableStream<Uint8Array>,
  clientGone: AbortSignal,
  onEnd: () => void,
): Response {
  const reader = body.getReader();
  const abandon = async (reason: unknown): Promise<void> => {
    await reader.cancel(reason).catch(() => undefined);
    onEnd();
  };
  const observed = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const leave = (): void => {
          controller.error(clientGone.reason);
          void abandon(clientGone.reason);
        };
        clientGone.addEventListener("abort", leave, { once: true });
      },
      async pull(controller) {
        try {
          const { value, done } = await reader.read();
          if (!done) {
            controller.enqueue(value);
            return;
          }
          onEnd();
          controller.close();
        } catch (error) {
          onEnd();
          controller.error(error);
        }
      },
      cancel: abandon,
    },
    new ByteLengthQueuingStrategy({ highWaterMark: bufferBytes }),
  );
  // The response as `init` keeps `encodeBody`: a body that is compressed already must not be compressed again.
  return new Response(observed, response);
}
