/** The callers of `/check`: tenants, the rights of tokens, limits on calls, and `CHECK_AUTH`. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { from, headgate, type Headgate, statusOf, token } from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) }));
afterEach(() => void vi.useRealTimers());

const strategy = "fixed-window";
const api = { name: "api", limits: "100/hour", strategy, key: "header:x-user" };
const calls = { name: "calls", match: { path: "/check/*" }, limits: "2/minute", strategy };
const apiCheck = { policy: "api", key: "u1" };

describe("self limits: policies for the paths of /check", () => {
  it("self limits charge the caller of /check, not the key that is checked", async () => {
    const { check } = headgate({ POLICIES: [api, { ...calls, key: "header:authorization" }] });
    const first = await check("POST", "/check", apiCheck);
    expect([first.status, first.headers.get("RateLimit")]).toEqual([200, '"calls";r=1;t=60']);
    expect(await statusOf(check("DELETE", "/check?policy=api&key=u1"))).toBe(204);
    const third = await check("GET", "/check?policy=api&key=u1");
    expect([third.status, third.headers.get("Retry-After")]).toEqual([429, "60"]);
    expect(await third.json()).toMatchObject({ "violated-policies": ["calls"] });
  });

  it("self limits charge neither calls without a token nor calls of /check/health and /check/openapi.json", async () => {
    const { send, check } = headgate({ POLICIES: [api, { ...calls, key: "global" }] });
    for (const path of ["/check/health", "/check/openapi.json", "/check?policy=api&key=u1"]) {
      // oxlint-disable-next-line no-await-in-loop
      await statusOf(send(path));
    }
    const response = await check("POST", "/check", apiCheck);
    expect([response.status, response.headers.get("RateLimit")]).toEqual([200, '"calls";r=1;t=60']);
  });

  it("self limits deny a call before it charges its key, and do not apply to the proxy", async () => {
    const { send, check } = headgate({ POLICIES: [api, { ...calls, key: "global" }] });
    const ask = (): Promise<number> => statusOf(check("POST", "/check", apiCheck));
    expect([await ask(), await ask(), await ask(), await ask()]).toEqual([200, 200, 429, 429]);
    const user = { headers: { ...from("192.0.2.1").headers, "X-User": "u1" } };
    const response = await send("/", user);
    expect(response.headers.get("RateLimit-Policy")).toBe('"api";q=100;w=3600');
    expect(response.headers.get("RateLimit")).toBe('"api";r=97;t=3600');
  });

  it.each([
    ["POST", "/check", apiCheck],
    ["GET", "/check?policy=api&key=u1", undefined],
    ["DELETE", "/check?policy=api&key=u1", undefined],
    ["POST", "/check/reserve", { ...apiCheck, ttlMs: 1_000 }],
    ["POST", "/check/settle", { id: "unknown", cost: 1 }],
    ["POST", "/check/batch", { checks: [apiCheck] }],
    ["GET", "/check/forward", undefined],
  ])("self limits charge and deny %s %s", async (method, path, body) => {
    const { check } = headgate({
      POLICIES: [api, { ...calls, key: "global", limits: "1/minute" }],
    });
    expect(await statusOf(check(method, path, body))).not.toBe(429);
    const denied = await check(method, path, body);
    expect(denied.status).toBe(429);
    expect(await denied.json()).toMatchObject({ "violated-policies": ["calls"] });
  });

  it("a concurrency limit among the self limits holds a slot until the call is answered", async () => {
    const slots = { limit: 1, window: "1h", strategy: "concurrency" };
    const { check } = headgate({ POLICIES: [api, { ...calls, key: "global", limits: slots }] });
    for (let call = 0; call < 3; call++) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await check("POST", "/check/batch", { checks: [apiCheck] });
      expect([response.status, response.headers.get("RateLimit")]).toEqual([200, '"calls";r=0']);
      // oxlint-disable-next-line no-await-in-loop
      expect(await response.json()).toMatchObject({ results: [{ allowed: true }] });
    }
  });

  it.each([
    ["a denial with the status of deny", "POST", "/check?deny=429", {}],
    ["a denial by /check/forward", "GET", "/check/forward", { "X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/" }],
  ])("self limits leave the RateLimit fields of the checked policy unchanged: %s", async (_, method, path, fields) => {
    const one = { ...api, key: "global", limits: "1/hour" };
    const { send } = headgate({ POLICIES: [one, { ...calls, key: "global", limits: "9/day" }] });
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    const body = method === "POST" ? JSON.stringify({ policy: "api" }) : null;
    const ask = (): Promise<Response> => send(path, { method, headers: { ...headers, ...fields }, body });
    await ask();
    const denied = await ask();
    expect([denied.status, denied.headers.get("Retry-After")]).toEqual([429, "3600"]);
    expect(denied.headers.get("RateLimit")).toBe('"api";r=0;t=3600');
    expect(denied.headers.get("RateLimit-Policy")).toBe('"api";q=1;w=3600');
  });

  it("self limits with onDeny are a configuration problem", async () => {
    vi.spyOn(console, "error").mockReturnValue(undefined);
    const onDeny = { status: 418 };
    const invalid = headgate({ POLICIES: [api, { ...calls, onDeny }] });
    const broken = await invalid.send("/check/health");
    expect(await broken.json()).toMatchObject({
      errors: [{ variable: "POLICIES", field: "[1].onDeny" }],
    });
    const elsewhere = { ...calls, match: { path: "/checkout/*" }, onDeny };
    expect(await statusOf(headgate({ POLICIES: [api, elsewhere] }).send("/check/health"))).toBe(200);
  });

  it("a policy for all paths does not limit the calls of /check", async () => {
    const { check } = headgate({
      POLICIES: [api, { ...calls, name: "all", match: { path: "/*" } }, { ...calls, name: "any", match: {} }],
    });
    for (let call = 0; call < 4; call++) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await statusOf(check("POST", "/check", apiCheck))).toBe(200);
    }
  });
});

describe('CHECK_AUTH = "none"', () => {
  it("CHECK_AUTH = none allows looks without a token, and no other calls", async () => {
    const { send } = headgate({ POLICIES: [api], CHECK_AUTH: "none" });
    const look = await send("/check?policy=api&key=u1");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 100 }] });
    const document = await (await send("/check/openapi.json")).json();
    const tokens = [{ bearer: [] }, { token: [] }];
    const root = { get: { security: [{}, ...tokens] } };
    expect(document).toMatchObject({ security: tokens, paths: { "/": root } });
    const headers = { "Content-Type": "application/json" };
    const post = send("/check", { method: "POST", headers, body: JSON.stringify(apiCheck) });
    expect(await statusOf(post)).toBe(401);
    expect(await statusOf(send("/check?policy=api&key=u1", { method: "DELETE" }))).toBe(401);
    expect(await statusOf(send("/check/forward"))).toBe(401);
  });

  it("CHECK_AUTH = none still rejects unknown tokens", async () => {
    const { send } = headgate({ POLICIES: [api], CHECK_AUTH: "none" });
    for (const headers of [
      { Authorization: "Bearer unknown" },
      { "X-Headgate-Token": "unknown" },
      { "X-Headgate-Token": "" },
    ]) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await send("/check?policy=api&key=u1", { headers });
      expect([response.status, response.headers.get("WWW-Authenticate")]).toEqual([
        401,
        'Bearer realm="headgate", error="invalid_token"',
      ]);
    }
  });

  it(`without CHECK_AUTH, looks require a token; any value of CHECK_AUTH other than "none" is a configuration problem`, async () => {
    const closed = headgate({ POLICIES: [api] });
    expect(await statusOf(closed.send("/check?policy=api&key=u1"))).toBe(401);
    const invalid = await headgate({ POLICIES: [api], CHECK_AUTH: "off" }).send("/");
    expect([invalid.status, await invalid.text()]).toEqual([500, expect.stringContaining("CHECK_AUTH")]);
  });
});

const policy = { name: "p", limits: "9/hour", strategy: "fixed-window" };
const CHECK_TOKENS = [
  "open",
  { token: "token-a", tenant: "a" },
  { token: "second-token-a", tenant: "a" },
  { token: "token-b", tenant: "b" },
  { token: "reader", may: ["look"] },
  { token: "spender", may: ["check"] },
  { token: "cleaner", may: ["forget"] },
];

const gate = (): Headgate => headgate({ POLICIES: [policy], CHECK_TOKENS });

const call = (
  { send }: Headgate,
  holderToken: string,
  method: string,
  path: string,
  body?: unknown,
): Promise<Response> =>
  send(path, {
    method,
    headers: { Authorization: `Bearer ${holderToken}`, "Content-Type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });

const key = "203.0.113.7";

async function remaining(own: Headgate, holderToken: string): Promise<unknown> {
  const response = await call(own, holderToken, "GET", `/check?key=${key}`);
  return (await response.json<{ limits: { remaining: number }[] }>()).limits[0]?.remaining;
}

describe("S07: keys of tenants", () => {
  it("S07: each tenant reads, spends and forgets its own keys, even if other tenants use the same names", async () => {
    const own = gate();
    await statusOf(own.send("/", from(key)));
    await statusOf(call(own, "token-a", "POST", "/check", { key, cost: 3 }));
    await statusOf(call(own, "token-b", "POST", "/check", { key, cost: 5 }));
    const all = async (): Promise<unknown[]> => [
      await remaining(own, "open"),
      await remaining(own, "token-a"),
      await remaining(own, "second-token-a"),
      await remaining(own, "token-b"),
    ];
    expect(await all()).toEqual([8, 6, 6, 4]);
    expect(await statusOf(call(own, "token-a", "DELETE", `/check?key=${key}`))).toBe(204);
    expect(await all()).toEqual([8, 9, 9, 4]);
  });

  it("S07: keys of ad hoc limits are separate for each tenant", async () => {
    const own = gate();
    const adhoc = { key: "k", limits: "5/hour" };
    const left = async (holderToken: string): Promise<unknown> => {
      const response = await call(own, holderToken, "POST", "/check", adhoc);
      return (await response.json<{ limits: { remaining: number }[] }>()).limits[0]?.remaining;
    };
    expect([await left("open"), await left("token-a"), await left("token-b"), await left("token-a")]).toEqual([
      4, 4, 4, 3,
    ]);
  });

  it("S07: a reservation can be settled only by its tenant", async () => {
    const own = gate();
    const reserved = await call(own, "token-a", "POST", "/check/reserve", {
      key,
      cost: 4,
      ttlMs: 9_000,
    });
    const { id } = await reserved.json<{ id: string }>();
    const settled = async (holderToken: string): Promise<unknown> =>
      (await call(own, holderToken, "POST", "/check/settle", { id, cost: 0 })).json();
    expect(await settled("token-b")).toEqual({ settled: false });
    expect(await settled("open")).toEqual({ settled: false });
    expect(await settled("second-token-a")).toEqual({ settled: true });
    expect(await remaining(own, "token-a")).toBe(9);
  });
});

describe("the rights of a token", () => {
  const body = { key, cost: 1 };
  const rightOfCalls: [string, string, string, unknown][] = [
    ["check", "POST", "/check", body],
    ["check", "POST", "/check/reserve", { ...body, ttlMs: 1_000 }],
    ["check", "POST", "/check/settle", { id: "x", cost: 1 }],
    ["look", "GET", `/check?key=${key}`, undefined],
    ["forget", "DELETE", `/check?key=${key}`, undefined],
  ];

  it.each(rightOfCalls)("only a token with the right %s may send %s %s", async (right, method, path, payload) => {
    const own = gate();
    const holders = { check: "spender", look: "reader", forget: "cleaner" };
    for (const [may, holderToken] of Object.entries(holders)) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await call(own, holderToken, method, path, payload);
      expect([may, response.status]).toEqual([may, may === right ? (right === "forget" ? 204 : 200) : 403]);
    }
  });

  it("a token that lacks a right gets a problem that names the missing right, and spends nothing", async () => {
    const own = gate();
    const response = await call(own, "reader", "POST", "/check", body);
    expect(response.headers.get("Content-Type")).toBe("application/problem+json");
    expect(await response.json()).toEqual({
      type: "about:blank",
      title: "Forbidden",
      status: 403,
      detail: 'The token lacks the right "check": its "may" in CHECK_TOKENS does not list it.',
    });
    expect(await remaining(own, "open")).toBe(9);
  });

  it("ad hoc limits require a token with the right called adhoc", async () => {
    const own = gate();
    const adhoc = { key: "k", limits: "5/hour" };
    expect(await statusOf(call(own, "spender", "POST", "/check", adhoc))).toBe(403);
    const reserving = { ...adhoc, ttlMs: 1_000 };
    expect(await statusOf(call(own, "spender", "POST", "/check/reserve", reserving))).toBe(403);
    expect(await statusOf(call(own, "open", "POST", "/check", adhoc))).toBe(200);
  });
});
