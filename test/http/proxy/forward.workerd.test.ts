import { describe, expect, it, vi } from "vitest";
import { from, headgate, statusOf } from "../harness.ts";

const visitor = from("203.0.113.7");
const three = { LIMITS: "3/minute", STRATEGY: "fixed-window" };
const unlimited = { LIMITS: "1000/minute" };

interface Received {
  method: string;
  url: string;
  headers: Record<string, string>;
  body: string;
}

describe("a request within the limits", () => {
  it("reaches the origin with method, path, query, headers and body as they were", async () => {
    const { send } = headgate(unlimited);
    const response = await send("/a%2Fb/%41?q=%20x&q=2", {
      method: "PUT",
      headers: { ...visitor.headers, "X-Mine": "kept", Authorization: "Bearer the-origins" },
      body: "a body",
    });
    const received = await response.json<Received>();
    expect(response.status).toBe(200);
    expect(received).toMatchObject({
      method: "PUT",
      url: "https://origin.example/a%2Fb/%41?q=%20x&q=2",
      headers: { "x-mine": "kept", authorization: "Bearer the-origins" },
      body: "a body",
    });
  });

  it("brings back the RateLimit fields, counting down", async () => {
    const { send } = headgate(three);
    const fields = [];
    for (let request = 0; request < 3; request++) {
      // oxlint-disable-next-line no-await-in-loop
      const { headers } = await send("/", visitor);
      fields.push([headers.get("RateLimit"), headers.get("RateLimit-Policy")]);
    }
    expect(fields).toEqual([
      ['"default";r=2;t=60', '"default";q=3;w=60'],
      ['"default";r=1;t=60', '"default";q=3;w=60'],
      ['"default";r=0;t=60', '"default";q=3;w=60'],
    ]);
  });

  it("streams the answer chunk by chunk", async () => {
    const { send } = headgate(unlimited);
    const response = await send("/ticks", visitor);
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    const chunks = [await reader?.read(), await reader?.read(), await reader?.read()];
    expect(chunks.map((chunk) => chunk?.value)).toEqual([
      "data: 1\n\n",
      "data: 2\n\n",
      "data: 3\n\n",
    ]);
  });

  it("streams the body up while the answer comes down", async () => {
    const { send } = headgate(unlimited);
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const answer = send("/upload", { ...visitor, method: "POST", body: readable });
    const writer = writable.getWriter();
    const utf8 = new TextEncoder();
    await writer.write(utf8.encode("first "));
    const response = await answer;
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    // The body is not complete, and yet its beginning has been there and back.
    expect((await reader?.read())?.value).toBe("first ");
    await Promise.all([writer.write(utf8.encode("second")), writer.close()]);
    expect((await reader?.read())?.value).toBe("second");
  });

  it("may be a WebSocket, which is passed through and counted once", async () => {
    const { send } = headgate(three);
    const response = await send("/websocket", {
      headers: { ...visitor.headers, Upgrade: "websocket" },
    });
    expect(response.status).toBe(101);
    const socket = response.webSocket;
    socket?.accept();
    const { promise: echoed, resolve } = Promise.withResolvers<unknown>();
    socket?.addEventListener("message", ({ data }) => resolve(data));
    socket?.send("hello");
    expect(await echoed).toBe("echo hello");
    socket?.close();
    expect((await send("/", visitor)).headers.get("RateLimit")).toBe('"default";r=1;t=60');
  });

  it("keeps its method where it asks for an upgrade that only a GET can have", async () => {
    const { send } = headgate(unlimited);
    const headers = { ...visitor.headers, Upgrade: "websocket" };
    const response = await send("/a", { method: "DELETE", headers });
    const received = await response.json<Received>();
    expect(received.method).toBe("DELETE");
    expect(received.headers).not.toHaveProperty("upgrade");
  });

  it("passes redirects on instead of following them, without RateLimit fields", async () => {
    const { send } = headgate(unlimited);
    const response = await send("/redirect", visitor);
    expect([response.status, response.headers.get("Location")]).toEqual([302, "/elsewhere"]);
    expect(response.headers.has("RateLimit")).toBe(false);
    expect((await send("/not-modified", visitor)).headers.has("RateLimit-Policy")).toBe(false);
  });

  it.for([
    [199, 502],
    [200, 200],
    [599, 599],
    [600, 502],
    [999, 502],
  ] as const)("answers an origin's status %i with %i", async ([status, expected]) => {
    const { send } = headgate(unlimited);
    // No Response of a test's own may have the other statuses.
    const answer =
      expected === status
        ? new Response("x", { status })
        : Object.defineProperty(new Response("x"), "status", { value: status });
    const origin = vi.spyOn(globalThis, "fetch").mockResolvedValueOnce(answer);
    expect(await statusOf(send("/", visitor))).toBe(expected);
    origin.mockRestore();
  });

  it("keeps every Set-Cookie", async () => {
    const { send } = headgate(unlimited);
    const response = await send("/cookies", visitor);
    expect(response.headers.getSetCookie()).toEqual(["a=1; Path=/", "b=2; Path=/"]);
  });

  it("loses the fields that are meant for one hop, in both directions", async () => {
    const { send } = headgate({ ...unlimited, ORIGIN_SECRET: "from-headgate" });
    const sent = await send("/", {
      headers: {
        ...visitor.headers,
        Connection: "X-Private, Keep-Alive",
        "X-Private": "1",
        "Proxy-Authorization": "Basic eA==",
        "X-Headgate-Secret": "forged",
        "X-Kept": "1",
      },
    });
    const { headers } = await sent.json<Received>();
    expect(headers).toMatchObject({ "x-kept": "1", "x-headgate-secret": "from-headgate" });
    expect(headers).not.toHaveProperty("x-private");
    expect(headers).not.toHaveProperty("proxy-authorization");
    const received = await send("/hops", visitor);
    expect(received.headers.get("X-Kept")).toBe("1");
    expect([received.headers.get("X-Private"), received.headers.get("Keep-Alive")]).toEqual([
      null,
      null,
    ]);
  });

  it("removes a forged X-Headgate-Secret where no ORIGIN_SECRET is set", async () => {
    const { send } = headgate(unlimited);
    const headers = { ...visitor.headers, "X-Headgate-Secret": "forged" };
    const received = await (await send("/", { headers })).json<Received>();
    expect(received.headers).toHaveProperty("via");
    expect(received.headers).not.toHaveProperty("x-headgate-secret");
  });

  it("adds its fields to those of an origin that speaks them, and leaves older forms alone", async () => {
    const { send } = headgate(three);
    const spoken = await send("/refusing", visitor);
    expect([spoken.status, await spoken.text()]).toEqual([429, "the origin's denial"]);
    expect(spoken.headers.get("RateLimit")).toBe('"origin";r=0;t=7, "default";r=2;t=60');
    const older = await send("/draft-6", visitor);
    expect(older.headers.get("RateLimit")).toBe("limit=10, remaining=5, reset=3");
  });

  it("counts a HEAD like a GET", async () => {
    const { send } = headgate(three);
    const response = await send("/", { ...visitor, method: "HEAD" });
    expect(response.headers.get("RateLimit")).toBe('"default";r=2;t=60');
    expect(await response.text()).toBe("");
  });
});

describe("a request beyond the limits", () => {
  it("is refused with 429, the wait and what was violated, in problem details", async () => {
    const { send } = headgate({ LIMITS: "1/minute; 100/hour", STRATEGY: "fixed-window" });
    await send("/", visitor);
    const response = await send("/", visitor);
    expect(response.status).toBe(429);
    expect(Object.fromEntries(response.headers)).toEqual({
      "content-type": "application/problem+json",
      "cache-control": "no-store",
      "proxy-status": expect.stringMatching(/^headgate-[\w-]{8};error=http_request_error$/),
      "retry-after": "60",
      ratelimit: '"default.1-per-1m";r=0;t=60',
      "ratelimit-policy": '"default.1-per-1m";q=1;w=60, "default.100-per-1h";q=100;w=3600',
    });
    expect(await response.json()).toEqual({
      type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
      reason: "limit",
      title: "Quota Exceeded",
      status: 429,
      detail: 'The request exceeds the quota of "default.1-per-1m". Retry in 60 seconds.',
      "violated-policies": ["default.1-per-1m"],
    });
  });

  it("does not reach the origin, and its body is not read", async () => {
    const { send } = headgate({ LIMITS: "1/minute" });
    await send("/", visitor);
    let pulls = 0;
    const body = new ReadableStream({ pull: () => void (pulls += 1) }, { highWaterMark: 0 });
    expect(await statusOf(send("/upload", { ...visitor, method: "POST", body }))).toBe(429);
    expect(pulls).toBe(0);
  });

  it("leaves other visitors alone", async () => {
    const { send } = headgate({ LIMITS: "1/minute" });
    expect(await statusOf(send("/", visitor))).toBe(200);
    expect(await statusOf(send("/", visitor))).toBe(429);
    expect(await statusOf(send("/", from("203.0.113.8")))).toBe(200);
  });
});

describe("an origin", () => {
  it("that cannot be reached is a 502", async () => {
    const { send } = headgate(unlimited);
    const response = await send("/unreachable", visitor);
    expect(await response.json()).toMatchObject({ status: 502, title: "Bad Gateway" });
  });

  it("that is not set is a 404 that says so", async () => {
    const { send } = headgate({ ...unlimited, ORIGIN: "" });
    const response = await send("/", visitor);
    const { status, detail } = await response.json<{ status: number; detail: string }>();
    expect(status).toBe(404);
    expect(detail).toContain("ORIGIN is not set");
  });

  it("on the request's own host is a loop, and refused without being charged", async () => {
    const { send, check } = headgate({ ...three, ORIGIN: "http://headgate.example" });
    expect(await statusOf(send("/", visitor))).toBe(508);
    const look = await check("GET", "/check?key=203.0.113.7");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 3 }] });
  });

  it("on another port of the request's own host is no loop", async () => {
    const { send } = headgate({ ...unlimited, ORIGIN: "https://headgate.example:8443" });
    const response = await send("/x", visitor);
    expect(await response.json()).toMatchObject({ url: "https://headgate.example:8443/x" });
    expect(await statusOf(send("https://headgate.example:8443/x", visitor))).toBe(508);
  });

  it('behind a route is fetched under the request\'s own URL: ORIGIN = "route"', async () => {
    const { send } = headgate({ ...unlimited, ORIGIN: "route" });
    const response = await send("/path?q=1", visitor);
    expect(await response.json()).toMatchObject({ url: "https://headgate.example/path?q=1" });
  });

  it("with a port of its own is asked at that port, whatever the request's was", async () => {
    const { send } = headgate({ ...unlimited, ORIGIN: "http://origin.example:8080" });
    const response = await send("https://headgate.example:8443/x", visitor);
    expect(await response.json()).toMatchObject({ url: "http://origin.example:8080/x" });
    const plain = headgate({ ...unlimited, ORIGIN: "https://origin.example" });
    const other = await plain.send("https://headgate.example:8443/x", visitor);
    expect(await other.json()).toMatchObject({ url: "https://origin.example/x" });
  });
});
