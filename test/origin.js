/** The origin of the workerd tests: a second Worker, which answers every outbound request of the Worker under test. */
export default {
  async fetch(request) {
    const url = new URL(request.url);
    switch (url.pathname) {
      case "/redirect":
        return new Response(null, { status: 302, headers: { Location: "/elsewhere" } });
      case "/not-modified":
        return new Response(null, { status: 304, headers: { ETag: '"1"' } });
      case "/cookies":
        return new Response("baked", {
          headers: [
            ["Set-Cookie", "a=1; Path=/"],
            ["Set-Cookie", "b=2; Path=/"],
          ],
        });
      case "/upload":
        return new Response(request.body, { headers: { "Content-Type": "text/plain" } });
      case "/ticks":
        return new Response(ticks(), { headers: { "Content-Type": "text/event-stream" } });
      case "/websocket":
        return echoSocket();
      case "/refusing":
        return new Response("the origin's denial", {
          status: 429,
          headers: { RateLimit: '"origin";r=0;t=7', "RateLimit-Policy": '"origin";q=1;w=7' },
        });
      case "/draft-6":
        return new Response("old", { headers: { RateLimit: "limit=10, remaining=5, reset=3" } });
      case "/hops":
        return new Response("hops", {
          headers: {
            Connection: "X-Private",
            "X-Private": "secret",
            "Keep-Alive": "timeout=5",
            "X-Kept": "1",
          },
        });
      // The query sets the status and the headers.
      case "/answer": {
        const { status = 200, ...headers } = Object.fromEntries(url.searchParams);
        const body = ["204", "205", "304"].includes(status) ? null : "answered";
        return new Response(body, { status: Number(status), headers });
      }
      // The key set of a token issuer; the query sets its JSON and its status.
      case "/jwks":
        return new Response(url.searchParams.get("set"), {
          status: Number(url.searchParams.get("status") ?? 200),
        });
      // Responds after every timeout of the tests.
      case "/slow":
        await scheduler.wait(60_000);
        return new Response("late");
      case "/unreachable":
        throw new Error("the origin is down");
      default:
        return Response.json({
          method: request.method,
          url: request.url,
          headers: Object.fromEntries(request.headers),
          body: await request.text(),
        });
    }
  },
};

/** Three chunks, each written only when the previous one has been read. */
function ticks() {
  let tick = 0;
  return new ReadableStream({
    pull(controller) {
      tick += 1;
      controller.enqueue(new TextEncoder().encode(`data: ${tick}\n\n`));
      if (tick === 3) controller.close();
    },
  });
}

function echoSocket() {
  const [client, server] = Object.values(new WebSocketPair());
  server.accept();
  server.addEventListener("message", ({ data }) => server.send(`echo ${data}`));
  return new Response(null, { status: 101, webSocket: client });
}
