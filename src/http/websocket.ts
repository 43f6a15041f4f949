/** A WebSocket that tells when it is closed: one that is only passed on does not. */

/** These say that there was no code, or no closing at all, and cannot be sent (RFC 6455, section 7.4.1). */
const unsendable: ReadonlySet<number> = new Set([1005, 1006, 1015]);

/** The same upgrade, whose messages are relayed; `over` is called once both sides are closed. */
export function socketUntil(response: Response, over: () => void): Response {
  const origin = response.webSocket;
  if (origin === null) return response;
  const { 0: client, 1: server } = new WebSocketPair();
  let closed = 0;
  const close = (): void => {
    closed += 1;
    if (closed === 2) over();
  };
  relay(origin, server, close);
  relay(server, origin, close);
  origin.accept({ allowHalfOpen: true });
  server.accept({ allowHalfOpen: true });
  const { status, statusText, headers } = response;
  return new Response(null, { status, statusText, headers, webSocket: client });
}

function relay(from: WebSocket, to: WebSocket, closed: () => void): void {
  from.binaryType = "arraybuffer";
  from.addEventListener("message", ({ data }) => {
    if (to.readyState === WebSocket.OPEN) to.send(data);
  });
  from.addEventListener(
    "close",
    ({ code, reason }) => {
      if (unsendable.has(code)) to.close();
      else to.close(code, reason);
      closed();
    },
    { once: true },
  );
}
