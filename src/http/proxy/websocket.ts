/** A WebSocket whose end is observed: workerd reports no close event for a socket that it only passes on. */

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
