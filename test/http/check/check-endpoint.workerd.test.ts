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
  it("spends, and answers the decision with ready-made headers", async () => {
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

  it("answers a denial with 200 too, and spends nothing for it", async () => {
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

  it("answers a denial with the status that the caller asks for", async () => {
    const { check } = headgate(one);
    const spend = { key: "203.0.113.7", cost: 3 };
    expect(await statusOf(check("POST", "/check?deny=429", spend))).toBe(200);
    const denied = await check("POST", "/check?deny=429", spend);
    expect([denied.status, denied.headers.get("Retry-After")]).toEqual([429, "60"]);
    expect(await statusOf(check("GET", "/check?deny=403&key=203.0.113.7"))).toBe(403);
  });

  it("says that a cost above the capacity never fits, and promises no time", async () => {
    const { check } = headgate(one);
    const response = await check("POST", "/check", { key: "203.0.113.7", cost: 4 });
    const body = await response.json<{ retryAfterMs: null; headers: object }>();
    expect(body.retryAfterMs).toBeNull();
    expect(Object.keys(body.headers)).toEqual(["RateLimit-Policy", "RateLimit"]);
  });

  it("charges several limits all or nothing", async () => {
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
  it("look without spending, and forget", async () => {
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

  it("speak of the same state as the proxy", async () => {
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

  it("read an address as an address, in whatever spelling", async () => {
    const { check } = headgate(one);
    await check("POST", "/check", { key: "2001:DB8::1" });
    await check("POST", "/check", { key: "::ffff:203.0.113.7" });
    const network = await check("GET", "/check?key=2001:db8:0:0:ffff::2");
    expect(await network.json()).toMatchObject({ limits: [{ remaining: 2 }] });
    const mapped = await check("GET", "/check?key=203.0.113.7");
    expect(await mapped.json()).toMatchObject({ limits: [{ remaining: 2 }] });
  });
});

/** The status, and the fields that are told to be wrong. */
const fields = async (answer: Promise<Response>): Promise<unknown> => {
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

describe("a check that is wrong", () => {
  it("names every wrong field with 422", async () => {
    const { check } = headgate(several);
    const post = (body: unknown): Promise<unknown> => fields(check("POST", "/check", body));
    expect(await post({ policy: 1, key: "", cost: -1, extra: true })).toEqual([
      422,
      "policy",
      "key",
      "cost",
      "extra",
    ]);
    expect(await post({ key: "203.0.113.7" })).toEqual([422, "policy"]);
    expect(await post({ policy: "login" })).toEqual([422, "key"]);
    expect(await post({ policy: "login", key: "not an address" })).toEqual([422, "key"]);
    expect(await post({ policy: "api", key: "one of two" })).toEqual([422, "key"]);
    expect(await post([])).toEqual([422, "body"]);
    expect(await fields(check("GET", "/check?policy=login&key=203.0.113.7&cost=1.5"))).toEqual([
      422,
      "cost",
    ]);
    expect(await fields(check("GET", "/check?policy=a&policy=b&key=k&x=1&deny=500"))).toEqual([
      422,
      "policy",
      "deny",
      "x",
    ]);
  });

  it.for([
    ...[
      "-1",
      "0.5",
      "null",
      '"1"',
      "1000001",
      "1e309",
      "-1e309",
      String(2 ** 53),
      "[1]",
      "true",
    ].map((cost) => [cost, 422, "cost"] as const),
    ["NaN", 400] as const,
    ["Infinity", 400] as const,
  ])("S04: refuses a cost of %s and gives no quota for it", async ([cost, ...expected]) => {
    const { send, check } = headgate(one);
    await check("POST", "/check", { key: "203.0.113.7", cost: 2 });
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    const body = `{"key":"203.0.113.7","cost":${cost}}`;
    const refused = send("/check", { method: "POST", headers, body });
    expect(await fields(refused)).toEqual(expected);
    const look = await check("GET", "/check?key=203.0.113.7");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 1 }] });
  });

  it("K07: refuses keys without a UTF-8 of their own, empty ones, and ones that are too long", async () => {
    const { send } = headgate({ ...one, KEY: "header:x" });
    const post = (key: string): Promise<unknown> =>
      fields(
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

  it("is told apart by status: 400, 404, 405, 413, 415", async () => {
    const { send, check } = headgate(several);
    const post = (type: string, body: BodyInit): Promise<Response> =>
      send("/check", {
        method: "POST",
        headers: { Authorization: `Bearer ${token}`, "Content-Type": type },
        body,
      });
    expect(await statusOf(post("application/json", "{"))).toBe(400);
    expect(await statusOf(post("application/json; charset=utf-8", ""))).toBe(400);
    // A key of one byte that is no UTF-8.
    const key = Uint8Array.of(
      ...new TextEncoder().encode('{"key": "'),
      0xff,
      ...new TextEncoder().encode('"}'),
    );
    expect(await statusOf(post("application/json", key))).toBe(400);
    expect(await statusOf(check("GET", "/check?policy=login&key=%ff"))).toBe(400);
    expect(await statusOf(post("text/plain", "{}"))).toBe(415);
    expect(await statusOf(post("application/json", `"${"x".repeat(16_385)}"`))).toBe(413);
    expect(await statusOf(check("GET", "/check?policy=nobody&key=k"))).toBe(404);
    expect(await statusOf(check("GET", "/check/nothing"))).toBe(404);
    const put = await check("PUT", "/check", {});
    expect([put.status, put.headers.get("Allow")]).toEqual([405, "GET, HEAD, POST, DELETE"]);
  });

  it("counts the bytes of a body without a length as they come", async () => {
    const { send } = headgate(one);
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        sent += 1;
        controller.enqueue(new Uint8Array(1024).fill(32));
        if (sent === 1000) controller.close();
      },
    });
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    expect(await statusOf(send("/check", { method: "POST", headers, body }))).toBe(413);
    expect(sent).toBeLessThan(100);
  });
});

describe("a check without a token", () => {
  it.for(["Bearer wrong-token", `Bearer ${token}x`, `Basic ${token}`, "Bearer", "", token])(
    "is refused: %j",
    async (authorization) => {
      const { send } = headgate(one);
      const response = await send("/check?key=203.0.113.7", {
        headers: { Authorization: authorization },
      });
      expect(response.status).toBe(401);
      expect(response.headers.get("WWW-Authenticate")).toMatch(/^Bearer/);
    },
  );

  it("touches no object, and its body is not read", async () => {
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

  it("is told what to set while there are no tokens", async () => {
    const { send } = headgate({ ...one, CHECK_TOKENS: undefined });
    const response = await send("/check?key=203.0.113.7");
    const { status, detail } = await response.json<{ status: number; detail: string }>();
    expect(status).toBe(401);
    expect(detail).toContain("CHECK_TOKENS");
  });

  it("passes with any of several tokens, so that they can be changed one after the other", async () => {
    const { send } = headgate({ ...one, CHECK_TOKENS: '["old-token", "new-token"]' });
    const look = (bearer: string): Promise<number> =>
      statusOf(send("/check?key=203.0.113.7", { headers: { Authorization: `Bearer ${bearer}` } }));
    expect([await look("old-token"), await look("new-token"), await look("other")]).toEqual([
      200, 200, 401,
    ]);
  });

  it("still learns whether the Worker is up", async () => {
    const { send } = headgate(one);
    const response = await send("/check/health");
    expect([response.status, await response.json()]).toEqual([200, { status: "ok" }]);
  });
});

describe("CHECK_PATH", () => {
  it("moves everything of the limiter's own, and leaves /check to the origin", async () => {
    const { send, check } = headgate({ ...one, CHECK_PATH: "/_limits" });
    expect(await statusOf(send("/_limits/health"))).toBe(200);
    expect(await statusOf(check("GET", "/_limits?key=203.0.113.7"))).toBe(200);
    const origins = await send("/check", from("203.0.113.7"));
    expect(await origins.json()).toMatchObject({ url: "https://origin.example/check" });
    const beside = await headgate(one).send("/checkout", from("203.0.113.7"));
    expect(await beside.json()).toMatchObject({ url: "https://origin.example/checkout" });
  });
});
