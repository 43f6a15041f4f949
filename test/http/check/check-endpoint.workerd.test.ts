/** `POST`, `GET` and `DELETE /check`: decisions, looks, invalid requests and tokens. */
import { createExecutionContext, listDurableObjectIds } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import worker from "../../../src/index.ts";
import { from, headgate, statusOf, token } from "../harness.ts";

const one = { LIMITS: "3/minute", STRATEGY: "fixed-window" };
const several = {
  POLICIES: [
    { name: "login", match: { path: "/login" }, key: "ip", limits: "5/minute" },
    {
      name: "api",
      match: { path: "/api/*" },
      key: ["header:X-Api-Key", "path"],
      limits: ["2/minute", { limit: 50, window: "1d", strategy: "sliding-log", name: "daily" }],
      strategy: "fixed-window",
    },
    { name: "all", match: { path: "/all" }, key: "global", limits: "10/minute" },
  ],
};

describe("POST /check", () => {
  it("POST /check spends, and answers with the decision and the header fields to pass on", async () => {
    const { check } = headgate(one);
    const response = await check("POST", "/check", { key: "203.0.113.7", cost: 2 });
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({
      allowed: true,
      cost: 2,
      delayMs: 0,
      retryAfterMs: 0,
      bannedForMs: 0,
      limits: [
        {
          name: "default",
          strategy: "fixed-window",
          limit: 3,
          capacity: 3,
          windowMs: 60_000,
          allowed: true,
          remaining: 1,
          retryAfterMs: 0,
          replenishAfterMs: 60_000,
          resetAfterMs: 60_000,
        },
      ],
      policy: "default",
      reason: "limit",
      violated: [],
      headers: { "RateLimit-Policy": '"default";q=3;w=60', RateLimit: '"default";r=1;t=60' },
    });
  });

  it("POST /check answers a denial with status 200, and a denied check spends nothing", async () => {
    const { check } = headgate(one);
    await check("POST", "/check", { key: "203.0.113.7", cost: 2 });
    const denied = await check("POST", "/check", { key: "203.0.113.7", cost: 2 });
    expect(denied.status).toBe(200);
    expect(await denied.json()).toMatchObject({
      allowed: false,
      violated: ["default"],
      limits: [{ remaining: 1 }],
      headers: { "Retry-After": "60" },
    });
    const allowed = await check("POST", "/check", { key: "203.0.113.7" });
    expect(await allowed.json()).toMatchObject({ allowed: true, limits: [{ remaining: 0 }] });
  });

  it("POST and GET /check answer a denial with the status in the parameter deny", async () => {
    const { check } = headgate(one);
    const spend = { key: "203.0.113.7", cost: 3 };
    expect(await statusOf(check("POST", "/check?deny=429", spend))).toBe(200);
    const denied = await check("POST", "/check?deny=429", spend);
    expect([denied.status, denied.headers.get("Retry-After")]).toEqual([429, "60"]);
    expect(await statusOf(check("GET", "/check?deny=403&key=203.0.113.7"))).toBe(403);
  });

  it("POST /check denies a cost above the capacity with retryAfterMs: null and without Retry-After", async () => {
    const { check } = headgate(one);
    const response = await check("POST", "/check", { key: "203.0.113.7", cost: 4 });
    const body = await response.json<{ retryAfterMs: null; headers: object }>();
    expect(body.retryAfterMs).toBeNull();
    expect(Object.keys(body.headers)).toEqual(["RateLimit-Policy", "RateLimit"]);
  });

  it("POST /check charges all limits, or none if one denies", async () => {
    const { check } = headgate(several);
    const spend = { policy: "api", key: ["k", "/api/x"], cost: 2 };
    await check("POST", "/check", spend);
    const denied = await check("POST", "/check", { ...spend, cost: 1 });
    expect(await denied.json()).toMatchObject({
      allowed: false,
      violated: ["api.2-per-1m"],
      limits: [
        { name: "api.2-per-1m", allowed: false, remaining: 0 },
        { name: "daily", allowed: true, remaining: 48 },
      ],
    });
  });
});

describe("GET and DELETE /check", () => {
  it("GET /check looks without spending, and DELETE /check forgets the key", async () => {
    const { check } = headgate(one);
    await check("POST", "/check", { key: "203.0.113.7", cost: 3 });
    const look = await check("GET", "/check?key=203.0.113.7&cost=2");
    expect(await look.json()).toMatchObject({
      allowed: false,
      cost: 2,
      limits: [{ remaining: 0 }],
    });
    const forgotten = await check("DELETE", "/check?key=203.0.113.7");
    expect([forgotten.status, await forgotten.text()]).toEqual([204, ""]);
    const after = await check("GET", "/check?key=203.0.113.7&cost=0");
    expect(await after.json()).toMatchObject({ allowed: true, limits: [{ remaining: 3 }] });
  });

  it("GET /check reads the counters that the proxy charges", async () => {
    const { send, check } = headgate(several);
    await send("/login", from("203.0.113.7"));
    const visitor = await check("GET", "/check?policy=login&key=203.0.113.7");
    expect(await visitor.json()).toMatchObject({ limits: [{ remaining: 4 }] });
    await send("/api/x", { headers: { "X-Api-Key": "k" } });
    const client = await check("GET", "/check?policy=api&key=k&key=/api/x");
    expect(await client.json()).toMatchObject({ limits: [{ remaining: 1 }, { remaining: 49 }] });
    await send("/all");
    const everyone = await check("GET", "/check?policy=all");
    expect(await everyone.json()).toMatchObject({ limits: [{ remaining: 9 }] });
  });

  it("/check reads the key part ip as an address, in any spelling", async () => {
    const { check } = headgate(one);
    await check("POST", "/check", { key: "2001:DB8::1" });
    await check("POST", "/check", { key: "::ffff:203.0.113.7" });
    const network = await check("GET", "/check?key=2001:db8:0:0:ffff::2");
    expect(await network.json()).toMatchObject({ limits: [{ remaining: 2 }] });
    const mapped = await check("GET", "/check?key=203.0.113.7");
    expect(await mapped.json()).toMatchObject({ limits: [{ remaining: 2 }] });
  });
});

/** The status and the names of the invalid fields. */
const errorsOf = async (answer: Promise<Response>): Promise<unknown> => {
  const response = await answer;
  if (response.status === 200) return [200];
  expect(response.headers.get("Content-Type")).toBe("application/problem+json");
  const { status, errors } = await response.json<{
    status: number;
    errors: { field: string }[];
  }>();
  expect(status).toBe(response.status);
  return [status, ...(errors ?? []).map(({ field }) => field)];
};

describe("an invalid check", () => {
  it("an invalid check is answered with 422 and a list of all invalid fields", async () => {
    const { check } = headgate(several);
    const post = (body: unknown): Promise<unknown> => errorsOf(check("POST", "/check", body));
    expect(await post({ policy: 1, key: "", cost: -1, extra: true })).toEqual([422, "policy", "key", "cost", "extra"]);
    expect(await post({ key: "203.0.113.7" })).toEqual([422, "policy"]);
    expect(await post({ policy: "login" })).toEqual([422, "key"]);
    expect(await post({ policy: "login", key: "not an address" })).toEqual([422, "key"]);
    expect(await post({ policy: "api", key: "one of two" })).toEqual([422, "key"]);
    expect(await post([])).toEqual([422, "body"]);
    expect(await errorsOf(check("GET", "/check?policy=login&key=203.0.113.7&cost=1.5"))).toEqual([422, "cost"]);
    expect(await errorsOf(check("GET", "/check?policy=a&policy=b&key=k&x=1&deny=500"))).toEqual([
      422,
      "policy",
      "deny",
      "x",
    ]);
  });

  it.for([
    ...["-1", "0.5", "null", '"1"', "1000001", "1e309", "-1e309", String(2 ** 53), "[1]", "true"].map(
      (cost) => [cost, 422, "cost"] as const,
    ),
    ["NaN", 400] as const,
    ["Infinity", 400] as const,
  ])("S04: a cost of %s is rejected and spends nothing", async ([cost, ...expected]) => {
    const { send, check } = headgate(one);
    await check("POST", "/check", { key: "203.0.113.7", cost: 2 });
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    const body = `{"key":"203.0.113.7","cost":${cost}}`;
    const response = send("/check", { method: "POST", headers, body });
    expect(await errorsOf(response)).toEqual(expected);
    const look = await check("GET", "/check?key=203.0.113.7");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 1 }] });
  });

  it("K07: keys that are empty, too long or not encodable as UTF-8 are answered with 422", async () => {
    const { send } = headgate({ ...one, KEY: "header:x" });
    const post = (key: string): Promise<unknown> =>
      errorsOf(
        send("/check", {
          method: "POST",
          headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
          body: `{"key": "${key}"}`,
        }),
      );
    for (const key of [String.raw`\ud800`, String.raw`a\udfff`, String.raw`\udfff\ud800`, ""]) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await post(key)).toEqual([422, "key"]);
    }
    expect(await post("é".repeat(513))).toEqual([422, "key"]);
    expect(await post("k".repeat(1_025))).toEqual([422, "key"]);
    expect(await post("k".repeat(1_024))).toEqual([200]);
    expect(await post("é".repeat(512))).toEqual([200]);
  });

  it("a malformed check is answered with the status for its mistake: 400, 404, 405, 413 or 415", async () => {
    const { send, check } = headgate(several);
    const post = (type: string, body: BodyInit): Promise<Response> =>
      send("/check", {
        method: "POST",
        headers: { Authorization: `Bearer ${token}`, "Content-Type": type },
        body,
      });
    expect(await statusOf(post("application/json", "{"))).toBe(400);
    expect(await statusOf(post("application/json; charset=utf-8", ""))).toBe(400);
    // A key that consists of one byte, which is not valid UTF-8.
    const key = Uint8Array.of(...new TextEncoder().encode('{"key": "'), 0xff, ...new TextEncoder().encode('"}'));
    expect(await statusOf(post("application/json", key))).toBe(400);
    expect(await statusOf(check("GET", "/check?policy=login&key=%ff"))).toBe(400);
    expect(await statusOf(post("text/plain", "{}"))).toBe(415);
    expect(await statusOf(post("application/json", `"${"x".repeat(16_385)}"`))).toBe(413);
    expect(await statusOf(check("GET", "/check?policy=unknown&key=k"))).toBe(404);
    expect(await statusOf(check("GET", "/check/unknown"))).toBe(404);
    const put = await check("PUT", "/check", {});
    expect([put.status, put.headers.get("Allow")]).toEqual([405, "GET, HEAD, POST, DELETE"]);
  });

  it("the read of a body without Content-Length ends at the maximum size", async () => {
    const { send } = headgate(one);
    let chunks = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        chunks += 1;
        controller.enqueue(new Uint8Array(1024).fill(32));
        if (chunks === 1000) controller.close();
      },
    });
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    expect(await statusOf(send("/check", { method: "POST", headers, body }))).toBe(413);
    expect(chunks).toBeLessThan(100);
  });
});

describe("a check without a token", () => {
  it.for(["Bearer wrong-token", `Bearer ${token}x`, `Basic ${token}`, "Bearer", "", token])(
    "a check with an invalid Authorization is answered with 401: %j",
    async (authorization) => {
      const { send } = headgate(one);
      const response = await send("/check?key=203.0.113.7", {
        headers: { Authorization: authorization },
      });
      expect(response.status).toBe(401);
      expect(response.headers.get("WWW-Authenticate")).toMatch(/^Bearer/);
    },
  );

  it("a check without a token calls no object, and its body is not read", async () => {
    const before = await listDurableObjectIds(env.RATE_LIMITER);
    const request = new Request<unknown, IncomingRequestCfProperties>("https://h.example/check", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: '{"key": "203.0.113.7"}',
    });
    const own = { ...env, ...one, KEY_SECRET: crypto.randomUUID() };
    const response = await worker.fetch(request, own, createExecutionContext());
    expect([response.status, request.bodyUsed]).toEqual([401, false]);
    expect(await listDurableObjectIds(env.RATE_LIMITER)).toEqual(before);
  });

  it("when CHECK_TOKENS is not set, the problem of a 401 names it", async () => {
    const { send } = headgate({ ...one, CHECK_TOKENS: undefined });
    const response = await send("/check?key=203.0.113.7");
    const { status, detail } = await response.json<{ status: number; detail: string }>();
    expect(status).toBe(401);
    expect(detail).toContain("CHECK_TOKENS");
  });

  it("all of several tokens are accepted, so that tokens can be rotated", async () => {
    const { send } = headgate({ ...one, CHECK_TOKENS: '["old-token", "new-token"]' });
    const look = (bearer: string): Promise<number> =>
      statusOf(send("/check?key=203.0.113.7", { headers: { Authorization: `Bearer ${bearer}` } }));
    expect([await look("old-token"), await look("new-token"), await look("other")]).toEqual([200, 200, 401]);
  });

  it("GET /check/health requires no token", async () => {
    const { send } = headgate(one);
    const response = await send("/check/health");
    expect([response.status, await response.json()]).toEqual([200, { status: "ok" }]);
  });
});

describe("CHECK_PATH", () => {
  it("CHECK_PATH moves all endpoints of /check, and requests to the path /check then go to the origin", async () => {
    const { send, check } = headgate({ ...one, CHECK_PATH: "/_limits" });
    expect(await statusOf(send("/_limits/health"))).toBe(200);
    expect(await statusOf(check("GET", "/_limits?key=203.0.113.7"))).toBe(200);
    const forwarded = await send("/check", from("203.0.113.7"));
    expect(await forwarded.json()).toMatchObject({ url: "https://origin.example/check" });
    const similar = await headgate(one).send("/checkout", from("203.0.113.7"));
    expect(await similar.json()).toMatchObject({ url: "https://origin.example/checkout" });
  });
});
