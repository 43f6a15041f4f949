import { describe, expect, it } from "vitest";
import { from, headgate, statusOf, token } from "../harness.ts";

const visitor = from("203.0.113.7");

/** Exhausts a policy with this match by one request. Returns a function that sends further requests. */
async function exhausted(match: object, path: string, method = "GET") {
  const { send } = headgate({
    POLICIES: [{ name: "a", match, limits: "1/hour", strategy: "fixed-window" }],
  });
  const request = (target: string, init: RequestInit<IncomingRequestCfProperties> = {}) =>
    statusOf(send(target, { ...visitor, ...init }));
  expect(await request(path, { method })).toBe(200);
  return request;
}

/** The different statuses of these responses. */
const statusesOf = async (answers: readonly Promise<number>[]): Promise<number[]> => [
  ...new Set(await Promise.all(answers)),
];

describe("K09: a policy with a path", () => {
  it("K09: a policy with a path matches every spelling of it", async () => {
    const request = await exhausted({ path: "/api" }, "/api");
    const spellings = String.raw`/api/ //api ///api /api// /%61pi /%61%70%69 /a%70i/ /./api /a/../api
      /a/%2e%2e/api /a/%2E./api /api/. /api/x/.. /api?x=1 /api/? /api#x \api`
      .split(/\s+/)
      .map((path) => `https://headgate.example${path}`);
    expect(await statusesOf(spellings.map((path) => request(path)))).toEqual([429]);
    const encoded = ["/API", "/x/..%2fapi", "/api;x=1", "/x%5c..%5capi", "/%2e%2e%2fapi"];
    expect(await statusesOf(encoded.map((path) => request(path)))).toEqual([429]);
    const others = ["/apis", "/api/x", "/api%2Fx", "/%2561pi"];
    expect(await statusesOf(others.map((path) => request(path)))).toEqual([200]);
  });

  it("K09: a path with a wildcard matches itself without the wildcard, and everything below", async () => {
    const request = await exhausted({ path: "/api/*" }, "/api/users");
    const below = ["/api", "/api/", "/api//users", "/%61pi/x/y", "/api/a%2Fb", "/x/../api/1"];
    expect(await statusesOf(below.map((path) => request(path)))).toEqual([429]);
    expect(await statusesOf(["/", "/apis/1", "/x/api/1"].map((path) => request(path)))).toEqual([200]);
  });

  it("K09: pathMatching = exact matches only the path as received", async () => {
    const request = await exhausted({ path: "/api", pathMatching: "exact" }, "/api");
    expect(await statusesOf(["/api", "/x/../api"].map((path) => request(path)))).toEqual([429]);
    const others = ["/API", "/api/", "//api", "/%61pi", "/api;x=1", "/x/..%2fapi"];
    expect(await statusesOf(others.map((path) => request(path)))).toEqual([200]);
  });

  it("K09: matching does not change the path that the origin receives", async () => {
    const { send } = headgate({
      POLICIES: [{ name: "a", match: { path: "/api" }, limits: "9/s" }],
    });
    const response = await send("/x/..%2fAPI;a=%41", visitor);
    expect(response.headers.get("RateLimit-Policy")).toBe('"a";q=9;w=1');
    expect(await response.json()).toMatchObject({
      url: "https://origin.example/x/..%2fAPI;a=%41",
    });
  });
});

describe("a path key", () => {
  const policy = { name: "a", match: { path: "/api/*" }, key: ["ip", "path"], limits: "9/hour" };

  it("the proxy, /check and /check/forward share one counter for all spellings of a path key", async () => {
    const { send, check } = headgate({ POLICIES: [policy] });
    expect(await statusOf(send("/x/..%2fAPI/Users;a=1", visitor))).toBe(200);
    const key = ["203.0.113.7", "//api/%55sers/"];
    const checked = await check("POST", "/check", { key });
    expect(await checked.json()).toMatchObject({ limits: [{ remaining: 7 }] });
    const forwarded = await send("/check/forward", {
      headers: {
        "X-Headgate-Token": token,
        "X-Forwarded-Method": "GET",
        "X-Forwarded-Uri": "/x/..%2fapi/%55sers",
        "X-Forwarded-For": "203.0.113.7",
      },
    });
    expect(forwarded.status).toBe(204);
    expect(forwarded.headers.get("RateLimit")).toMatch(/^"a";r=6;/);
  });

  it("in a path key, only the text that the wildcard matches is case-sensitive", async () => {
    const { send } = headgate({ POLICIES: [policy] });
    const remainingAfter = async (path: string): Promise<string | null> => {
      const response = await send(path, visitor);
      await response.body?.cancel();
      return response.headers.get("RateLimit")?.split(";")[1] ?? null;
    };
    expect(await remainingAfter("/api/users")).toBe("r=8");
    expect(await remainingAfter("/API/users")).toBe("r=7");
    expect(await remainingAfter("/api/Users")).toBe("r=8");
  });
});

describe("a path that a gateway describes", () => {
  // The gateway passes on the path as received, while URL parsing resolves its dot segments.
  it("/check/forward matches the path before and after URL parsing", async () => {
    const match = { path: "/files/:name" };
    const { send } = headgate({ POLICIES: [{ name: "a", match, limits: "9/hour" }] });
    const policyOf = async (uri: string): Promise<string | null> => {
      const headers = { "X-Headgate-Token": token, "X-Original-Method": "GET" };
      const init = { headers: { ...headers, "X-Original-URI": uri, "X-Forwarded-For": "1.2.3.4" } };
      return (await send("/check/forward", init)).headers.get("RateLimit-Policy");
    };
    expect(await policyOf("/files/..")).toBe('"a";q=9;w=3600');
    expect(await policyOf("/files/a\\..\\b?x=/y/z")).toBe('"a";q=9;w=3600');
    expect(await policyOf("/other/files/a")).toBeNull();
  });
});

describe("K12: a policy with methods", () => {
  it("K12: a policy for GET matches HEAD too, and both methods in lower case", async () => {
    const request = await exhausted({ methods: ["get"] }, "/");
    const methods = ["GET", "HEAD", "get", "head"].map((method) => request("/", { method }));
    expect(await statusesOf(methods)).toEqual([429]);
    const others = ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"].map((method) => request("/", { method }));
    expect(await statusesOf(others)).toEqual([200]);
  });

  it("K12: a policy for POST matches every spelling of POST, with any body and in spite of X-HTTP-Method-Override", async () => {
    const request = await exhausted({ methods: ["POST"] }, "/", "POST");
    const override = { ...visitor.headers, "X-HTTP-Method-Override": "GET" };
    expect(
      await statusesOf([
        request("/", { method: "post" }),
        request("/", { method: "POST", body: "x" }),
        request("/", { method: "POST", headers: override }),
      ]),
    ).toEqual([429]);
  });

  it("K12: a policy for PATCH matches patch, which fetch does not change to upper case", async () => {
    const request = await exhausted({ methods: ["PATCH"] }, "/", "PATCH");
    expect(await request("/", { method: "patch" })).toBe(429);
  });

  it("K12: a policy may match a rare method such as PROPFIND", async () => {
    const request = await exhausted({ methods: ["propfind"] }, "/", "PROPFIND");
    expect(await request("/", { method: "PROPFIND" })).toBe(429);
    expect(await request("/", { method: "GET" })).toBe(200);
  });

  it("K12: a policy without methods matches all methods", async () => {
    const request = await exhausted({ path: "/a" }, "/a");
    const methods = ["HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"];
    expect(await statusesOf(methods.map((method) => request("/a", { method })))).toEqual([429]);
  });

  it("K12: the platform rejects invalid methods before any policy", () => {
    for (const method of ["patchy", "G ET", "GET\r\n", "FOO"]) {
      expect(() => new Request("https://h.example/", { method })).toThrow(TypeError);
    }
  });
});

describe("a policy with headers", () => {
  it("a policy matches headers by presence or exact value, with names in any case", async () => {
    const { send } = headgate({
      POLICIES: [
        { name: "free", match: { header: { "X-Plan": "free" } }, limits: "1/hour" },
        { name: "beta", match: { header: { "x-beta": true } }, limits: "2/hour" },
      ],
    });
    const policiesOf = async (headers: Record<string, string>): Promise<string | null> => {
      const response = await send("/", { headers: { ...visitor.headers, ...headers } });
      await response.body?.cancel();
      return response.headers.get("RateLimit-Policy");
    };
    expect(await policiesOf({})).toBeNull();
    expect(await policiesOf({ "X-Plan": "Free" })).toBeNull();
    expect(await policiesOf({ "x-plan": "free" })).toBe('"free";q=1;w=3600');
    expect(await policiesOf({ "X-Beta": "" })).toBe('"beta";q=2;w=3600');
    const both = await policiesOf({ "X-PLAN": "free", "X-BETA": "1" });
    expect(both).toBe('"free";q=1;w=3600, "beta";q=2;w=3600');
  });
});

const strategy = "fixed-window";

describe("several policies", () => {
  it("only policies that match the path, method and host of a request charge it", async () => {
    const { send } = headgate({
      POLICIES: [
        { name: "writes", match: { methods: ["POST"], path: "/items/*" }, limits: "1/minute" },
        { name: "other-host", match: { host: "*.other.example" }, limits: "1/minute" },
      ],
    });
    const reading = await send("/items/1", visitor);
    expect(reading.headers.has("RateLimit")).toBe(false);
    const write = { ...visitor, method: "POST" };
    expect(await statusOf(send("/items/1", write))).toBe(200);
    expect(await statusOf(send("/%69tems//1/", write))).toBe(429);
    const there = await send("https://a.other.example/", visitor);
    expect(there.headers.get("RateLimit-Policy")).toBe('"other-host";q=1;w=60');
  });

  it("policies on one key are decided together, and none is charged when one of them denies", async () => {
    const { send, check } = headgate({
      POLICIES: [
        { name: "short", limits: "1/minute", strategy },
        { name: "long", limits: "10/hour", strategy },
      ],
    });
    const admitted = await send("/", visitor);
    expect(admitted.headers.get("RateLimit")).toBe('"short";r=0;t=60, "long";r=9;t=3600');
    const denied = await send("/", visitor);
    expect(denied.headers.get("RateLimit")).toBe('"short";r=0;t=60');
    expect(await denied.json()).toMatchObject({ "violated-policies": ["short"] });
    const long = await check("GET", "/check?policy=long&key=203.0.113.7");
    expect(await long.json()).toMatchObject({ limits: [{ remaining: 9 }] });
  });

  it("when a policy denies, policies with other keys refund what they have spent", async () => {
    const { send, check } = headgate({
      POLICIES: [
        { name: "each", key: "ip", limits: "5/minute", strategy },
        { name: "everyone", key: "global", limits: "1/minute", strategy },
      ],
    });
    expect(await statusOf(send("/", visitor))).toBe(200);
    const denied = await send("/", from("203.0.113.8"));
    expect(denied.headers.get("RateLimit-Policy")).toBe('"each";q=5;w=60, "everyone";q=1;w=60');
    expect(await denied.json()).toMatchObject({ "violated-policies": ["everyone"] });
    const each = await check("GET", "/check?policy=each&key=203.0.113.8");
    expect(await each.json()).toMatchObject({ limits: [{ remaining: 5, resetAfterMs: 0 }] });
  });
});
