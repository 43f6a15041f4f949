/** The end of a response body that a handler made: any stream, in any runtime. */

/**
 * Returns the same response, byte for byte.
 * @param clientGone aborts when the client has gone away
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
  clientGone.addEventListener("abort", () => void abandon(clientGone.reason), { once: true });
  const observed = new ReadableStream<Uint8Array>(
    {
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
    // Nothing is read before the client asks for it.
    { highWaterMark: 0 },
  );
  const { status, statusText, headers } = response;
  return new Response(observed, { status, statusText, headers });
}
