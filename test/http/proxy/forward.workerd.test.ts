import { afterEach, describe, expect, it, vi } from "vitest";
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

describe("an allowed request", () => {
  it("an allowed request reaches the origin with unchanged method, path, query, headers and body", async () => {
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

  it("the RateLimit fields of successive responses count down", async () => {
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

  it("the origin's response body is streamed chunk by chunk", async () => {
    const { send } = headgate(unlimited);
    const response = await send("/ticks", visitor);
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    const chunks = [await reader?.read(), await reader?.read(), await reader?.read()];
    expect(chunks.map((chunk) => chunk?.value)).toEqual(["data: 1\n\n", "data: 2\n\n", "data: 3\n\n"]);
  });

  it("a request body is still being streamed when its response arrives", async () => {
    const { send } = headgate(unlimited);
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const answer = send("/upload", { ...visitor, method: "POST", body: readable });
    const writer = writable.getWriter();
    const utf8 = new TextEncoder();
    await writer.write(utf8.encode("first "));
    const response = await answer;
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    // The origin echoes the first chunk before the request's body is complete.
    expect((await reader?.read())?.value).toBe("first ");
    await Promise.all([writer.write(utf8.encode("second")), writer.close()]);
    expect((await reader?.read())?.value).toBe("second");
  });

  it("a WebSocket is forwarded and charged once", async () => {
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

  it("a DELETE with Upgrade is forwarded as DELETE without the upgrade", async () => {
    const { send } = headgate(unlimited);
    const headers = { ...visitor.headers, Upgrade: "websocket" };
    const response = await send("/a", { method: "DELETE", headers });
    const received = await response.json<Received>();
    expect(received.method).toBe("DELETE");
    expect(received.headers).not.toHaveProperty("upgrade");
  });

  it("redirects and 304 responses are passed on without RateLimit fields", async () => {
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
  ] as const)("the origin's status %i is answered with %i", async ([status, expected]) => {
    const { send } = headgate(unlimited);
    // The constructor of Response accepts only statuses from 200 to 599.
    const answer =
      expected === status
        ? new Response("x", { status })
        : Object.defineProperty(new Response("x"), "status", { value: status });
    const origin = vi.spyOn(globalThis, "fetch").mockResolvedValueOnce(answer);
    expect(await statusOf(send("/", visitor))).toBe(expected);
    origin.mockRestore();
  });

  it("every Set-Cookie field of the origin is kept", async () => {
    const { send } = headgate(unlimited);
    const response = await send("/cookies", visitor);
    expect(response.headers.getSetCookie()).toEqual(["a=1; Path=/", "b=2; Path=/"]);
  });

  it("hop-by-hop fields are removed in both directions", async () => {
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
    expect([received.headers.get("X-Private"), received.headers.get("Keep-Alive")]).toEqual([null, null]);
  });

  it("a X-Headgate-Secret field from the client is removed, even without ORIGIN_SECRET", async () => {
    const { send } = headgate(unlimited);
    const headers = { ...visitor.headers, "X-Headgate-Secret": "forged" };
    const received = await (await send("/", { headers })).json<Received>();
    expect(received.headers).toHaveProperty("via");
    expect(received.headers).not.toHaveProperty("x-headgate-secret");
  });

  it("RateLimit fields are appended to those of the origin, unless the origin's have an older format", async () => {
    const { send } = headgate(three);
    const current = await send("/refusing", visitor);
    expect([current.status, await current.text()]).toEqual([429, "the origin's denial"]);
    expect(current.headers.get("RateLimit")).toBe('"origin";r=0;t=7, "default";r=2;t=60');
    const older = await send("/draft-6", visitor);
    expect(older.headers.get("RateLimit")).toBe("limit=10, remaining=5, reset=3");
  });
});

describe("a denied request", () => {
  it("a denial is a 429 with problem details that state the wait and the violated limits", async () => {
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

  it("a denied request does not reach the origin, and its body is not read", async () => {
    const { send } = headgate({ LIMITS: "1/minute" });
    await send("/", visitor);
    let pulls = 0;
    const body = new ReadableStream({ pull: () => void (pulls += 1) }, { highWaterMark: 0 });
    expect(await statusOf(send("/upload", { ...visitor, method: "POST", body }))).toBe(429);
    expect(pulls).toBe(0);
  });

  it("a denial does not affect other visitors", async () => {
    const { send } = headgate({ LIMITS: "1/minute" });
    expect(await statusOf(send("/", visitor))).toBe(200);
    expect(await statusOf(send("/", visitor))).toBe(429);
    expect(await statusOf(send("/", from("203.0.113.8")))).toBe(200);
  });
});

describe("ORIGIN", () => {
  it("an unreachable origin is answered with 502", async () => {
    const { send } = headgate(unlimited);
    const response = await send("/unreachable", visitor);
    expect(await response.json()).toMatchObject({ status: 502, title: "Bad Gateway" });
  });

  it("without ORIGIN every request is answered with a 404 that names the variable", async () => {
    const { send } = headgate({ ...unlimited, ORIGIN: "" });
    const response = await send("/", visitor);
    const { status, detail } = await response.json<{ status: number; detail: string }>();
    expect(status).toBe(404);
    expect(detail).toContain("ORIGIN is not set");
  });

  it("an ORIGIN on the request's own host gets 508 and no charge", async () => {
    const { send, check } = headgate({ ...three, ORIGIN: "http://headgate.example" });
    expect(await statusOf(send("/", visitor))).toBe(508);
    const look = await check("GET", "/check?key=203.0.113.7");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 3 }] });
  });

  it("an ORIGIN on another port of the request's host does not count as a loop", async () => {
    const { send } = headgate({ ...unlimited, ORIGIN: "https://headgate.example:8443" });
    const response = await send("/x", visitor);
    expect(await response.json()).toMatchObject({ url: "https://headgate.example:8443/x" });
    expect(await statusOf(send("https://headgate.example:8443/x", visitor))).toBe(508);
  });

  it('with ORIGIN = "route" the request\'s own URL is fetched', async () => {
    const { send } = headgate({ ...unlimited, ORIGIN: "route" });
    const response = await send("/path?q=1", visitor);
    expect(await response.json()).toMatchObject({ url: "https://headgate.example/path?q=1" });
  });

  it("the port of ORIGIN replaces the port of the request", async () => {
    const { send } = headgate({ ...unlimited, ORIGIN: "http://origin.example:8080" });
    const response = await send("https://headgate.example:8443/x", visitor);
    expect(await response.json()).toMatchObject({ url: "http://origin.example:8080/x" });
    const plain = headgate({ ...unlimited, ORIGIN: "https://origin.example" });
    const other = await plain.send("https://headgate.example:8443/x", visitor);
    expect(await other.json()).toMatchObject({ url: "https://origin.example/x" });
  });
});

describe("forwarding fields", () => {
  const receivedFields = async (headers: Record<string, string>): Promise<Record<string, string>> =>
    (await (await headgate(unlimited).send("/echo", { headers })).json<Received>()).headers;

  it("the origin receives X-Forwarded-*, Forwarded and Via", async () => {
    const headers = { ...visitor.headers, "X-Forwarded-For": "192.0.2.1", Forwarded: "for=a" };
    expect(await receivedFields(headers)).toMatchObject({
      "x-forwarded-for": "192.0.2.1, 203.0.113.7",
      "x-forwarded-proto": "https",
      "x-forwarded-host": "headgate.example",
      forwarded: 'for=a, for=203.0.113.7;host="headgate.example";proto=https',
      via: expect.stringMatching(/^1\.1 headgate-[\w-]{8}$/),
    });
  });

  it("Via differs between deployments, so that one deployment may forward to another", async () => {
    const first = await receivedFields(visitor.headers);
    const second = await receivedFields({ ...visitor.headers, Via: first["via"] ?? "" });
    const [before, added] = (second["via"] ?? "").split(", ");
    expect(before).toBe(first["via"]);
    expect(added).not.toBe(before);
  });
});

describe("ORIGIN_TIMEOUT", () => {
  afterEach(() => void vi.useRealTimers());

  it("an origin that has not responded within ORIGIN_TIMEOUT is answered with 504", async () => {
    const { send } = headgate({ ...unlimited, ORIGIN_TIMEOUT: "100ms" });
    const response = await send("/slow", visitor);
    expect(response.status).toBe(504);
    expect(response.headers.get("Proxy-Status")).toMatch(/;error=http_response_timeout$/);
    expect(await response.json()).toMatchObject({ type: "about:blank", title: "Gateway Timeout" });
  });

  it("ORIGIN_TIMEOUT does not bound the duration of a response body", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const { send } = headgate({ ...unlimited, ORIGIN_TIMEOUT: "30s" });
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const answer = send("/upload", { ...visitor, method: "POST", body: readable });
    const writer = writable.getWriter();
    await writer.write(new TextEncoder().encode("first "));
    const response = await answer;
    const text = response.text();
    vi.advanceTimersByTime(60_000);
    await writer.write(new TextEncoder().encode("second"));
    await writer.close();
    expect(await text).toBe("first second");
  });
});
