import { describe, expect, it } from "vitest";
import { from, headgate, statusOf, token } from "../harness.ts";

const visitor = from("203.0.113.7");

/** A visitor who has spent a policy of this match by a request, and may send others. */
async function spent(match: object, path: string, method = "GET") {
  const { send } = headgate({
    POLICIES: [{ name: "a", match, limits: "1/hour", strategy: "fixed-window" }],
  });
  const ask = (target: string, init: RequestInit<IncomingRequestCfProperties> = {}) =>
    statusOf(send(target, { ...visitor, ...init }));
  expect(await ask(path, { method })).toBe(200);
  return ask;
}

const statusesOf = async (answers: readonly Promise<number>[]): Promise<number[]> => [
  ...new Set(await Promise.all(answers)),
];

describe("K09: a policy of a path", () => {
  it("is met by every spelling of it", async () => {
    const ask = await spent({ path: "/api" }, "/api");
    const spellings =
      String.raw`/api/ //api ///api /api// /%61pi /%61%70%69 /a%70i/ /./api /a/../api
      /a/%2e%2e/api /a/%2E./api /api/. /api/x/.. /api?x=1 /api/? /api#x \api`
        .split(/\s+/)
        .map((path) => `https://headgate.example${path}`);
    expect(await statusesOf(spellings.map((path) => ask(path)))).toEqual([429]);
    const encoded = ["/API", "/x/..%2fapi", "/api;x=1", "/x%5c..%5capi", "/%2e%2e%2fapi"];
    expect(await statusesOf(encoded.map((path) => ask(path)))).toEqual([429]);
    const others = ["/apis", "/api/x", "/api%2Fx", "/%2561pi"];
    expect(await statusesOf(others.map((path) => ask(path)))).toEqual([200]);
  });

  it("with a wildcard is met by all that is below it, and the path itself", async () => {
    const ask = await spent({ path: "/api/*" }, "/api/users");
    const below = ["/api", "/api/", "/api//users", "/%61pi/x/y", "/api/a%2Fb", "/x/../api/1"];
    expect(await statusesOf(below.map((path) => ask(path)))).toEqual([429]);
    expect(await statusesOf(["/", "/apis/1", "/x/api/1"].map((path) => ask(path)))).toEqual([200]);
  });

  it("with pathMatching = exact is met by the path as it is received, and by no other", async () => {
    const ask = await spent({ path: "/api", pathMatching: "exact" }, "/api");
    expect(await statusesOf(["/api", "/x/../api"].map((path) => ask(path)))).toEqual([429]);
    const others = ["/API", "/api/", "//api", "/%61pi", "/api;x=1", "/x/..%2fapi"];
    expect(await statusesOf(others.map((path) => ask(path)))).toEqual([200]);
  });

  it("leaves the path that is sent to the origin as it is", async () => {
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

describe("a key by path", () => {
  const policy = { name: "a", match: { path: "/api/*" }, key: ["ip", "path"], limits: "9/hour" };

  it("is charged alike by the proxy, by /check and by /check/forward", async () => {
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

  it("is told from another by the case of what the wildcard stands for", async () => {
    const { send } = headgate({ POLICIES: [policy] });
    const left = async (path: string): Promise<string | null> => {
      const response = await send(path, visitor);
      await response.body?.cancel();
      return response.headers.get("RateLimit")?.split(";")[1] ?? null;
    };
    expect(await left("/api/users")).toBe("r=8");
    expect(await left("/API/users")).toBe("r=7");
    expect(await left("/api/Users")).toBe("r=8");
  });
});

describe("a path that a gateway describes", () => {
  // The gateway sends it on as it is; the URL parser has resolved it in the URL.
  it("is matched before URL parsing too", async () => {
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

describe("K12: a policy of methods", () => {
  it("for GET is met by HEAD, and by either in lower case", async () => {
    const ask = await spent({ methods: ["get"] }, "/");
    const methods = ["GET", "HEAD", "get", "head"].map((method) => ask("/", { method }));
    expect(await statusesOf(methods)).toEqual([429]);
    const others = ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"].map((method) =>
      ask("/", { method }),
    );
    expect(await statusesOf(others)).toEqual([200]);
  });

  it("for POST is not dodged by its spelling, by a body or by a claim of another method", async () => {
    const ask = await spent({ methods: ["POST"] }, "/", "POST");
    const override = { ...visitor.headers, "X-HTTP-Method-Override": "GET" };
    expect(
      await statusesOf([
        ask("/", { method: "post" }),
        ask("/", { method: "POST", body: "x" }),
        ask("/", { method: "POST", headers: override }),
      ]),
    ).toEqual([429]);
  });

  it("for PATCH is met by patch, which fetch sends as it is written", async () => {
    const ask = await spent({ methods: ["PATCH"] }, "/", "PATCH");
    expect(await ask("/", { method: "patch" })).toBe(429);
  });

  it("may be for one that only few servers know", async () => {
    const ask = await spent({ methods: ["propfind"] }, "/", "PROPFIND");
    expect(await ask("/", { method: "PROPFIND" })).toBe(429);
    expect(await ask("/", { method: "GET" })).toBe(200);
  });

  it("without methods is met by all of them", async () => {
    const ask = await spent({ path: "/a" }, "/a");
    const methods = ["HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"];
    expect(await statusesOf(methods.map((method) => ask("/a", { method })))).toEqual([429]);
  });

  it("cannot be met by a method that is none: the platform refuses it", () => {
    for (const method of ["patchy", "G ET", "GET\r\n", "FOO"]) {
      expect(() => new Request("https://h.example/", { method })).toThrow(TypeError);
    }
  });
});

describe("a policy of headers", () => {
  it("is met by their presence or their exact value, by names in any case", async () => {
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
