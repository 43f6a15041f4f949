/** A WebSocket that tells when it is closed: one that is only passed on does not. */

/** RFC 6455, section 7.4.1. */
const withoutClosing = 1006;

/** So long an origin may take to answer a client that closes, and that nobody sees any more. */
const closingMs = 10_000;

/**
 * The same upgrade, whose messages are relayed; `over` is called once the origin has closed, or has nobody any more to
 * talk to. It does not wait for a client to answer the origin's closing.
 */
export function socketUntil(response: Response, over: () => void): Response {
  const origin = response.webSocket;
  if (origin === null) return response;
  const { 0: client, 1: server } = new WebSocketPair();
  relay(origin, server, over);
  relay(server, origin, (code) => {
    if (code === withoutClosing) over();
    else setTimeout(over, closingMs);
  });
  origin.accept({ allowHalfOpen: true });
  server.accept({ allowHalfOpen: true });
  const { status, statusText, headers } = response;
  return new Response(null, { status, statusText, headers, webSocket: client });
}

function relay(from: WebSocket, to: WebSocket, closed: (code: number) => void): void {
  from.binaryType = "arraybuffer";
  from.addEventListener("message", ({ data }) => {
    // Who has closed may still be told what the other had to say.
    if (to.readyState !== WebSocket.CLOSED) to.send(data);
  });
  let isClosed = false;
  const close = (code: number, reason: string): void => {
    if (isClosed) return;
    isClosed = true;
    closeAs(to, code, reason);
    closed(code);
  };
  from.addEventListener("close", ({ code, reason }) => close(code, reason));
  // After what is no WebSocket's message there is no other event.
  from.addEventListener("error", () => close(withoutClosing, ""));
}

/** As the other side has closed, or without a word: there are codes that may come, and must not be sent. */
function closeAs(socket: WebSocket, code: number, reason: string): void {
  try {
    socket.close(code, reason);
  } catch {
    socket.close();
  }
}
