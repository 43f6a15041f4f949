/** What a gateway is told that asks whether to let a request in. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { forAll } from "../../for-all.ts";
import { from, headgate, statusOf } from "../harness.ts";

type Sent = Record<string, string>;

const bearer = { Authorization: "Bearer the-tests-token" };
const one = { LIMITS: "1/minute", STRATEGY: "fixed-window" };

const traefik = (uri: string, more: Sent = {}): Sent => ({
  ...bearer,
  "X-Forwarded-Method": "GET",
  "X-Forwarded-Proto": "https",
  "X-Forwarded-Host": "app.example",
  "X-Forwarded-Uri": uri,
  "X-Forwarded-For": "203.0.113.7",
  ...more,
});
const nginx = (uri: string, more: Sent = {}): Sent => ({
  ...bearer,
  "X-Original-Method": "GET",
  "X-Original-URI": uri,
  "X-Forwarded-For": "203.0.113.7",
  ...more,
});

const without = (sent: Sent, ...names: string[]): Sent =>
  Object.fromEntries(Object.entries(sent).filter(([name]) => !names.includes(name)));

describe("GET /check/forward", () => {
  it.for([
    ["Traefik or Caddy", traefik],
    ["nginx", nginx],
  ] as const)("lets in with 204, and denies with all that a denial has: %s", async ([, asking]) => {
    const { send } = headgate(one);
    const allowed = await send("/check/forward", { headers: asking("/a") });
    expect([allowed.status, await allowed.text()]).toEqual([204, ""]);
    expect(Object.fromEntries(allowed.headers)).toEqual({
      "cache-control": "no-store",
      ratelimit: '"default";r=0;t=60',
      "ratelimit-policy": '"default";q=1;w=60',
    });
    const denied = await send("/check/forward", { headers: asking("/a") });
    expect([denied.status, denied.headers.get("Retry-After")]).toEqual([429, "60"]);
    expect(denied.headers.get("RateLimit")).toBe('"default";r=0;t=60');
    expect(await denied.json()).toMatchObject({ "violated-policies": ["default"] });
    // An answer of its own, for the gateway alone.
    expect(denied.headers.has("Proxy-Status")).toBe(false);
  });

  it("charges the visitor whose address the gateway writes with a port, as /check does", async () => {
    const { send, check } = headgate({ LIMITS: "5/minute" });
    for (const hop of ["203.0.113.7:5678", '"203.0.113.7:80"', "[::ffff:203.0.113.7]:443"]) {
      const headers = nginx("/a", { "X-Forwarded-For": hop });
      // oxlint-disable-next-line no-await-in-loop
      expect(await statusOf(send("/check/forward", { headers }))).toBe(204);
    }
    for (const key of ["203.0.113.7", "203.0.113.7:9999", "[::ffff:203.0.113.7]:1"]) {
      const query = new URLSearchParams({ key });
      // oxlint-disable-next-line no-await-in-loop
      const look = await check("GET", `/check?${query.toString()}`);
      // oxlint-disable-next-line no-await-in-loop
      expect(await look.json()).toMatchObject({ limits: [{ remaining: 2 }] });
    }
  });

  it.for([
    ["403", 403],
    ["429", 429],
  ] as const)("denies with the status that the gateway understands: %s", async ([deny, status]) => {
    const onDeny = { status: 418, body: "slow down" };
    const { send } = headgate({ POLICIES: [{ name: "p", limits: "1/minute", onDeny }] });
    const headers = nginx("/a");
    expect(await statusOf(send(`/check/forward?deny=${deny}`, { headers }))).toBe(204);
    const denied = await send(`/check/forward?deny=${deny}`, { headers });
    expect([denied.status, await denied.text()]).toEqual([status, "slow down"]);
    expect(await statusOf(send("/check/forward", { headers }))).toBe(418);
    expect(await statusOf(send("/check/forward?deny=500", { headers }))).toBe(422);
  });

  it("counts with the proxy: whoever is described is the visitor", async () => {
    const { send, check } = headgate({ ...one, LIMITS: "3/minute" });
    expect(await statusOf(send("/", from("203.0.113.7")))).toBe(200);
    expect(await statusOf(send("/check/forward", { headers: traefik("/") }))).toBe(204);
    const look = await check("GET", "/check?key=203.0.113.7");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 1 }] });
  });

  it("asks no origin", async () => {
    const { send } = headgate({ ...one, ORIGIN: "" });
    expect(await statusOf(send("/check/forward", { headers: traefik("/unreachable") }))).toBe(204);
  });

  it("answers a HEAD alike, and no other method", async () => {
    const { send } = headgate(one);
    const headers = traefik("/");
    expect(await statusOf(send("/check/forward", { method: "HEAD", headers }))).toBe(204);
    const post = await send("/check/forward", { method: "POST", headers });
    expect([post.status, post.headers.get("Allow")]).toEqual([405, "GET, HEAD"]);
  });
});

describe("the request that is described", () => {
  const policies = [
    { name: "login", match: { path: "/login", methods: ["POST"] }, limits: "1/minute" },
    { name: "hosts", match: { host: "api.example" }, limits: "1/minute", key: "global" },
    { name: "keys", match: { path: "/keys" }, limits: "1/minute", key: "header:x-api-key" },
    { name: "paid", match: { path: "/q" }, limits: "9/minute", key: "query:who" },
  ];
  const met = async (sent: Sent): Promise<string | null> => {
    const { send } = headgate({ POLICIES: policies });
    const response = await send("/check/forward", { headers: sent });
    expect(response.status).toBe(204);
    return response.headers.get("RateLimit-Policy");
  };

  it("is matched by its own method, path and host, and not by those of the asking", async () => {
    const post = { "X-Forwarded-Method": "POST" };
    expect(await met(traefik("/login?next=/", post))).toBe('"login";q=1;w=60');
    expect(await met(traefik("/login"))).toBe(null);
    expect(await met(nginx("//login/", { "X-Original-Method": "POST" }))).toBe('"login";q=1;w=60');
    expect(await met(traefik("/a/../%6Cogin", post))).toBe('"login";q=1;w=60');
    expect(await met(traefik("/", { "X-Forwarded-Host": "API.example:8443" }))).toBe(
      '"hosts";q=1;w=60',
    );
    expect(await met(traefik("//api.example/"))).toBe(null);
  });

  it("is charged by its own headers and query", async () => {
    const { send } = headgate({ POLICIES: policies });
    const ask = (headers: Sent): Promise<number> => statusOf(send("/check/forward", { headers }));
    expect(await ask(traefik("/keys", { "X-Api-Key": "a" }))).toBe(204);
    expect(await ask(traefik("/keys", { "X-Api-Key": "a" }))).toBe(429);
    expect(await ask(traefik("/keys", { "X-Api-Key": "b" }))).toBe(204);
    const [first, other] = [traefik("/q?who=a"), traefik("/q?who=b")];
    const fields = [];
    for (const headers of [first, first, other]) {
      // oxlint-disable-next-line no-await-in-loop
      fields.push((await send("/check/forward", { headers })).headers.get("RateLimit"));
    }
    expect(fields.map((field) => /r=(\d)/.exec(field ?? "")?.[1])).toEqual(["8", "7", "8"]);
  });

  it("may have an Authorization of its own where the gateway's token has its own field", async () => {
    const policy = { name: "p", limits: "1/minute", key: "header:authorization" };
    const { send } = headgate({ POLICIES: [{ ...policy, onMissingKey: "deny" }] });
    const own = { "X-Headgate-Token": "the-tests-token", Authorization: "Bearer the-visitors" };
    expect(await statusOf(send("/check/forward", { headers: traefik("/", own) }))).toBe(204);
    expect(await statusOf(send("/check/forward", { headers: traefik("/", own) }))).toBe(429);
    // The token of the gateway is no part of what it describes.
    expect(await statusOf(send("/check/forward", { headers: traefik("/") }))).toBe(403);
  });
});

describe("what gateways send by their documentation, beside all that their client sent", () => {
  const client = {
    "User-Agent": "curl/8",
    Accept: "*/*",
    "Accept-Encoding": "gzip",
    Cookie: "session=of-ann",
    "Content-Type": "application/json",
    Range: "bytes=0-9",
    "If-None-Match": '"a"',
    "CF-Connecting-IP": "192.0.2.9",
    "X-Headgate-Token": "the-tests-token",
    Authorization: "Bearer the-visitors",
  };
  const told = {
    "X-Forwarded-Method": "POST",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "app.example",
    "X-Forwarded-Uri": "/orders?id=1",
    "X-Forwarded-For": "203.0.113.7",
  };

  it.for([
    ["Traefik", { ...told, "X-Forwarded-Port": "443", "X-Forwarded-Server": "traefik-1" }],
    ["Traefik, over HTTP", { ...told, "X-Forwarded-Proto": "http", "X-Real-Ip": "203.0.113.7" }],
    ["Caddy", { ...told, Via: "1.1 Caddy" }],
    ["Caddy, on a port", { ...told, "X-Forwarded-Host": "app.example:8443", Via: "2.0 Caddy" }],
  ] as const)("%s: it is the visitor's request that is charged", async ([, sent]) => {
    const match = { methods: ["POST"], path: "/orders", host: "app.example" };
    const key = ["ip", "cookie:session", "query:id"];
    const { send, check } = headgate({
      POLICIES: [{ name: "orders", match, key, limits: "1/minute" }],
    });
    const headers = { ...client, ...sent };
    expect(await statusOf(send("/check/forward", { headers }))).toBe(204);
    const look = await check("GET", "/check?key=203.0.113.7&key=of-ann&key=1&cost=0");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 0 }] });
    const denied = await send("/check/forward", { headers });
    expect([denied.status, denied.headers.get("Retry-After")]).toEqual([429, "60"]);
  });
});

describe("a preflight that is described", () => {
  it("is charged to the cap of preflights alone, as one before the proxy is", async () => {
    const { send } = headgate({ ...one, PREFLIGHT_LIMITS: "2/minute" });
    const asks = { Origin: "https://app.example", "Access-Control-Request-Method": "PUT" };
    const ask = (sent: Sent): Promise<number> =>
      statusOf(send("/check/forward", { headers: sent }));
    const preflight = traefik("/", { ...asks, "X-Forwarded-Method": "OPTIONS" });
    expect([await ask(preflight), await ask(preflight), await ask(preflight)]).toEqual([
      204, 204, 429,
    ]);
    expect(await ask(traefik("/", asks))).toBe(204);
    expect(await ask(traefik("/", { "X-Forwarded-Method": "OPTIONS" }))).toBe(429);
  });
});

describe("the visitor", () => {
  const charged = async (sent: Sent, key: string): Promise<boolean> => {
    const { send, check } = headgate(one);
    const headers = { ...traefik("/"), ...sent };
    expect(await statusOf(send("/check/forward", { headers }))).toBe(204);
    const look = await check("GET", `/check?key=${key}&cost=0`);
    const { limits } = await look.json<{ limits: { remaining: number }[] }>();
    return limits[0]?.remaining === 0;
  };

  it.for([
    ["whoever the gateway was connected to", { "X-Forwarded-For": "192.0.2.9, 203.0.113.7" }],
    [
      "the one before the gateway, where Cloudflare has added that",
      { "X-Forwarded-For": "203.0.113.7, 198.51.100.1", "CF-Connecting-IP": "198.51.100.1" },
    ],
    [
      "the only one of the list, also where the gateway's connection has that address",
      { "X-Forwarded-For": "203.0.113.7", "CF-Connecting-IP": "203.0.113.7" },
    ],
    ["not who the client says it is", { "CF-Connecting-IP": "192.0.2.9" }],
  ] as const)("is %s", async ([, sent]) => {
    expect(await charged(sent, "203.0.113.7")).toBe(true);
    expect(await charged(sent, "192.0.2.9")).toBe(false);
  });

  it("is missing where the gateway does not tell, and is not the gateway", async () => {
    const denying = { name: "p", limits: "1/minute", onMissingKey: "deny" };
    const { send } = headgate({ POLICIES: [denying] });
    const headers = without(traefik("/"), "X-Forwarded-For");
    const told = { ...headers, "CF-Connecting-IP": "198.51.100.1" };
    expect(await statusOf(send("/check/forward", { headers: told }))).toBe(403);
  });
});

describe("a description that is wrong", () => {
  const wrong = async (sent: Sent): Promise<unknown> => {
    const { send } = headgate(one);
    const response = await send("/check/forward", { headers: sent });
    const { errors } = await response.json<{ errors?: { field: string }[] }>();
    return [response.status, ...(errors ?? []).map(({ field }) => field)];
  };

  it("names each of its fields", async () => {
    expect(await wrong(bearer)).toEqual([422, "X-Forwarded-Method", "X-Forwarded-Uri"]);
    expect(await wrong(without(nginx("/"), "X-Original-Method"))).toEqual([
      422,
      "X-Original-Method",
    ]);
  });

  it.for([
    ["X-Forwarded-Method", "G ET"],
    ["X-Forwarded-Method", "GET, POST"],
    ["X-Forwarded-Method", "X".repeat(33)],
    ["X-Forwarded-Uri", "a"],
    ["X-Forwarded-Uri", "https://app.example/a"],
    ["X-Forwarded-Uri", ""],
    ["X-Forwarded-Proto", "gopher"],
    ["X-Forwarded-Proto", "https, http"],
    ["X-Forwarded-Host", "a b"],
    ["X-Forwarded-Host", "a/b"],
    ["X-Forwarded-Host", "user@a"],
    ["X-Forwarded-Host", "a, b"],
    ["X-Forwarded-Host", "a:99999"],
    ["X-Forwarded-Host", "1.2.3.4.5"],
    ["X-Forwarded-Host", "[1:2]"],
  ] as const)("is the gateway's fault, never Headgate's: %s: %s", async ([name, value]) => {
    expect(await wrong(traefik("/", { [name]: value }))).toEqual([422, name]);
  });

  it.for([
    ["X-Forwarded-Method", "X".repeat(32)],
    ["X-Forwarded-Uri", "/"],
    ["X-Forwarded-Proto", "HTTPS"],
    ["X-Forwarded-Proto", "ws"],
    ["X-Forwarded-Host", "a:65535"],
    ["X-Forwarded-Host", "A_b.example:0"],
    ["X-Forwarded-Host", "[2001:db8::1]:8443"],
  ] as const)("is accepted: %s: %s", async ([name, value]) => {
    const { send } = headgate(one);
    expect(
      await statusOf(send("/check/forward", { headers: traefik("/", { [name]: value }) })),
    ).toBe(204);
  });

  it("may not be in both ways that differ: one of them would be the client's", async () => {
    expect(await wrong(nginx("/login", { "X-Forwarded-Uri": "/harmless" }))).toEqual([
      422,
      "X-Original-URI",
    ]);
    expect(await wrong(traefik("/login", { "X-Original-Method": "OPTIONS" }))).toEqual([
      422,
      "X-Original-Method",
    ]);
  });

  const text = fc.oneof(
    fc.string({ unit: "binary-ascii" }).map((each) => each.replaceAll(/[^\t\x20-\x7e]/g, "")),
    fc.webUrl(),
    fc.ipV6(),
    fc.constantFrom(
      "/",
      "GET",
      "https",
      "a.example",
      "/%zz%ff?a=%",
      "/\\..//",
      "[::1]:0",
      "a:65536",
    ),
  );
  const policies = ["ip", "path", "host", "method", "query:a", "cookie:a", "header:x-a"].map(
    (key, index) => ({ name: `p${index}`, key, limits: "100000/minute", match: { path: "/*" } }),
  );
  const { send: fuzzed } = headgate({ POLICIES: policies });

  it(
    "of whatever text is let in, or told what is wrong, and never a fault of Headgate's",
    forAll(
      [
        fc.dictionary(
          fc.constantFrom(...Object.keys({ ...traefik("/"), ...nginx("/") }), "Cookie"),
          text,
        ),
      ],
      async (sent) => {
        const status = await statusOf(
          fuzzed("/check/forward", { headers: { ...traefik("/"), ...sent, ...bearer } }),
        );
        expect([204, 422]).toContain(status);
      },
      500,
    ),
  );

  it("spends nothing", async () => {
    const { send, check } = headgate(one);
    await statusOf(send("/check/forward", { headers: traefik("a") }));
    const look = await check("GET", "/check?key=203.0.113.7&cost=0");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 1 }] });
  });
});

describe("the token", () => {
  const tokens = [
    { token: "looks", may: ["look"] },
    { token: "theirs", tenant: "acme" },
    { token: "ours" },
  ];
  const ask = (send: ReturnType<typeof headgate>["send"], sent: Sent): Promise<number> =>
    statusOf(
      send("/check/forward", { headers: { ...without(traefik("/"), "Authorization"), ...sent } }),
    );

  it("is needed, and must be for checks", async () => {
    const { send } = headgate({ ...one, CHECK_TOKENS: tokens });
    expect(await ask(send, {})).toBe(401);
    expect(await ask(send, { "X-Headgate-Token": "wrong", Authorization: "Bearer ours" })).toBe(
      401,
    );
    expect(await ask(send, { Authorization: "Bearer looks" })).toBe(403);
    expect(await ask(send, { "X-Headgate-Token": "ours" })).toBe(204);
  });

  it("of a tenant charges the tenant's own visitors", async () => {
    const { send } = headgate({ ...one, CHECK_TOKENS: tokens });
    expect(await ask(send, { Authorization: "Bearer theirs" })).toBe(204);
    expect(await ask(send, { Authorization: "Bearer theirs" })).toBe(429);
    expect(await ask(send, { Authorization: "Bearer ours" })).toBe(204);
  });
});
