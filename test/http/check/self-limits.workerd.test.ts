import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { from, headgate, statusOf, token } from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) }));
afterEach(() => void vi.useRealTimers());

const strategy = "fixed-window";
const api = { name: "api", limits: "100/hour", strategy, key: "header:x-user" };
const calls = { name: "calls", match: { path: "/check/*" }, limits: "2/minute", strategy };
const asked = { policy: "api", key: "u1" };

describe("a policy whose path is one of the limiter's own", () => {
  it("limits who calls it, of whatever key they ask", async () => {
    const { check } = headgate({ POLICIES: [api, { ...calls, key: "header:authorization" }] });
    const first = await check("POST", "/check", asked);
    expect([first.status, first.headers.get("RateLimit")]).toEqual([200, '"calls";r=1;t=60']);
    expect(await statusOf(check("DELETE", "/check?policy=api&key=u1"))).toBe(204);
    const third = await check("GET", "/check?policy=api&key=u1");
    expect([third.status, third.headers.get("Retry-After")]).toEqual([429, "60"]);
    expect(await third.json()).toMatchObject({ "violated-policies": ["calls"] });
  });

  it("charges nobody without a token, nor what only tells of itself", async () => {
    const { send, check } = headgate({ POLICIES: [api, { ...calls, key: "global" }] });
    for (const path of ["/check/health", "/check/openapi.json", "/check?policy=api&key=u1"]) {
      // oxlint-disable-next-line no-await-in-loop
      await statusOf(send(path));
    }
    const response = await check("POST", "/check", asked);
    expect([response.status, response.headers.get("RateLimit")]).toEqual([200, '"calls";r=1;t=60']);
  });

  it("denies before anything is spent, and leaves the proxy alone", async () => {
    const { send, check } = headgate({ POLICIES: [api, { ...calls, key: "global" }] });
    const ask = (): Promise<number> => statusOf(check("POST", "/check", asked));
    expect([await ask(), await ask(), await ask(), await ask()]).toEqual([200, 200, 429, 429]);
    const user = { headers: { ...from("192.0.2.1").headers, "X-User": "u1" } };
    const response = await send("/", user);
    expect(response.headers.get("RateLimit-Policy")).toBe('"api";q=100;w=3600');
    expect(response.headers.get("RateLimit")).toBe('"api";r=97;t=3600');
  });

  it.each([
    ["POST", "/check", asked],
    ["GET", "/check?policy=api&key=u1", undefined],
    ["DELETE", "/check?policy=api&key=u1", undefined],
    ["POST", "/check/reserve", { ...asked, ttlMs: 1_000 }],
    ["POST", "/check/settle", { id: "unknown", cost: 1 }],
    ["POST", "/check/batch", { checks: [asked] }],
    ["GET", "/check/forward", undefined],
  ])("charges and denies a call: %s %s", async (method, path, body) => {
    const { check } = headgate({
      POLICIES: [api, { ...calls, key: "global", limits: "1/minute" }],
    });
    expect(await statusOf(check(method, path, body))).not.toBe(429);
    const denied = await check(method, path, body);
    expect(denied.status).toBe(429);
    expect(await denied.json()).toMatchObject({ "violated-policies": ["calls"] });
  });

  it("holds slots until the call is answered", async () => {
    const slots = { limit: 1, window: "1h", strategy: "concurrency" };
    const { check } = headgate({ POLICIES: [api, { ...calls, key: "global", limits: slots }] });
    for (let call = 0; call < 3; call++) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await check("POST", "/check/batch", { checks: [asked] });
      expect([response.status, response.headers.get("RateLimit")]).toEqual([200, '"calls";r=0']);
      // oxlint-disable-next-line no-await-in-loop
      expect(await response.json()).toMatchObject({ results: [{ allowed: true }] });
    }
  });

  it.each([
    ["a denial by its status", "POST", "/check?deny=429", {}],
    [
      "a gateway's question",
      "GET",
      "/check/forward",
      { "X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/" },
    ],
  ])("leaves the fields of what is asked about as they are: %s", async (_, method, path, sent) => {
    const one = { ...api, key: "global", limits: "1/hour" };
    const { send } = headgate({ POLICIES: [one, { ...calls, key: "global", limits: "9/day" }] });
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    const body = method === "POST" ? JSON.stringify({ policy: "api" }) : null;
    const ask = (): Promise<Response> =>
      send(path, { method, headers: { ...headers, ...sent }, body });
    await ask();
    const denied = await ask();
    expect([denied.status, denied.headers.get("Retry-After")]).toEqual([429, "3600"]);
    expect(denied.headers.get("RateLimit")).toBe('"api";r=0;t=3600');
    expect(denied.headers.get("RateLimit-Policy")).toBe('"api";q=1;w=3600');
  });

  it("may not have words of its own: calls are answered as the document says", async () => {
    vi.spyOn(console, "error").mockReturnValue(undefined);
    const onDeny = { status: 418 };
    const own = headgate({ POLICIES: [api, { ...calls, onDeny }] });
    const broken = await own.send("/check/health");
    expect(await broken.json()).toMatchObject({
      errors: [{ variable: "POLICIES", field: "[1].onDeny" }],
    });
    const others = { ...calls, match: { path: "/checkout/*" }, onDeny };
    expect(await statusOf(headgate({ POLICIES: [api, others] }).send("/check/health"))).toBe(200);
  });

  it("is none whose path holds for all, or that has none", async () => {
    const { check } = headgate({
      POLICIES: [
        api,
        { ...calls, name: "all", match: { path: "/*" } },
        { ...calls, name: "any", match: {} },
      ],
    });
    for (let call = 0; call < 4; call++) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await statusOf(check("POST", "/check", asked))).toBe(200);
    }
  });
});

describe('CHECK_AUTH = "none"', () => {
  it("opens looks to who brings no token, and nothing else", async () => {
    const { send } = headgate({ POLICIES: [api], CHECK_AUTH: "none" });
    const look = await send("/check?policy=api&key=u1");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 100 }] });
    const document = await (await send("/check/openapi.json")).json();
    const tokens = [{ bearer: [] }, { token: [] }];
    const root = { get: { security: [{}, ...tokens] } };
    expect(document).toMatchObject({ security: tokens, paths: { "/": root } });
    const headers = { "Content-Type": "application/json" };
    const post = send("/check", { method: "POST", headers, body: JSON.stringify(asked) });
    expect(await statusOf(post)).toBe(401);
    expect(await statusOf(send("/check?policy=api&key=u1", { method: "DELETE" }))).toBe(401);
    expect(await statusOf(send("/check/forward"))).toBe(401);
  });

  it("refuses a token that is wrong all the same", async () => {
    const { send } = headgate({ POLICIES: [api], CHECK_AUTH: "none" });
    for (const headers of [
      { Authorization: "Bearer of-nobody" },
      { "X-Headgate-Token": "of-nobody" },
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

  it("is closed without it, and refused when it is anything else", async () => {
    const closed = headgate({ POLICIES: [api] });
    expect(await statusOf(closed.send("/check?policy=api&key=u1"))).toBe(401);
    const wrong = await headgate({ POLICIES: [api], CHECK_AUTH: "off" }).send("/");
    expect([wrong.status, await wrong.text()]).toEqual([
      500,
      expect.stringContaining("CHECK_AUTH"),
    ]);
  });
});
