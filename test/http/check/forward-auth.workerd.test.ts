/** `GET /check/forward`, which decides for a request that a gateway describes. */
import * as fc from "fast-check";
import { SignJWT } from "jose";
import { describe, expect, it } from "vitest";
import { forAll } from "../../for-all.ts";
import { from, headgate, statusOf, token } from "../harness.ts";

type Fields = Record<string, string>;

const bearer = { Authorization: "Bearer the-tests-token" };
const one = { LIMITS: "1/minute", STRATEGY: "fixed-window" };

const traefik = (uri: string, more: Fields = {}): Fields => ({
  ...bearer,
  "X-Forwarded-Method": "GET",
  "X-Forwarded-Proto": "https",
  "X-Forwarded-Host": "app.example",
  "X-Forwarded-Uri": uri,
  "X-Forwarded-For": "203.0.113.7",
  ...more,
});
const nginx = (uri: string, more: Fields = {}): Fields => ({
  ...bearer,
  "X-Original-Method": "GET",
  "X-Original-URI": uri,
  "X-Forwarded-For": "203.0.113.7",
  ...more,
});

const without = (fields: Fields, ...names: string[]): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name)));

describe("GET /check/forward", () => {
  it.for([
    ["Traefik or Caddy", traefik],
    ["nginx", nginx],
  ] as const)(
    "GET /check/forward allows with 204 and denies with the fields of a denial: %s",
    async ([, fieldsFor]) => {
      const { send } = headgate(one);
      const allowed = await send("/check/forward", { headers: fieldsFor("/a") });
      expect([allowed.status, await allowed.text()]).toEqual([204, ""]);
      expect(Object.fromEntries(allowed.headers)).toEqual({
        "cache-control": "no-store",
        ratelimit: '"default";r=0;t=60',
        "ratelimit-policy": '"default";q=1;w=60',
      });
      const denied = await send("/check/forward", { headers: fieldsFor("/a") });
      expect([denied.status, denied.headers.get("Retry-After")]).toEqual([429, "60"]);
      expect(denied.headers.get("RateLimit")).toBe('"default";r=0;t=60');
      expect(await denied.json()).toMatchObject({ "violated-policies": ["default"] });
      // Proxy-Status is only for responses of the proxy.
      expect(denied.headers.has("Proxy-Status")).toBe(false);
    },
  );

  it("GET /check/forward reads a visitor address with a port, as /check does", async () => {
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
  ] as const)("GET /check/forward denies with the status of deny: %s", async ([deny, status]) => {
    const onDeny = { status: 418, body: "slow down" };
    const { send } = headgate({ POLICIES: [{ name: "p", limits: "1/minute", onDeny }] });
    const headers = nginx("/a");
    expect(await statusOf(send(`/check/forward?deny=${deny}`, { headers }))).toBe(204);
    const denied = await send(`/check/forward?deny=${deny}`, { headers });
    expect([denied.status, await denied.text()]).toEqual([status, "slow down"]);
    expect(await statusOf(send("/check/forward", { headers }))).toBe(418);
    expect(await statusOf(send("/check/forward?deny=500", { headers }))).toBe(422);
  });

  it("GET /check/forward charges the same state as the proxy", async () => {
    const { send, check } = headgate({ ...one, LIMITS: "3/minute" });
    expect(await statusOf(send("/", from("203.0.113.7")))).toBe(200);
    expect(await statusOf(send("/check/forward", { headers: traefik("/") }))).toBe(204);
    const look = await check("GET", "/check?key=203.0.113.7");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 1 }] });
  });

  it("GET /check/forward sends nothing to the origin", async () => {
    const { send } = headgate({ ...one, ORIGIN: "" });
    expect(await statusOf(send("/check/forward", { headers: traefik("/unreachable") }))).toBe(204);
  });

  it("/check/forward accepts only GET and HEAD", async () => {
    const { send } = headgate(one);
    const headers = traefik("/");
    expect(await statusOf(send("/check/forward", { method: "HEAD", headers }))).toBe(204);
    const post = await send("/check/forward", { method: "POST", headers });
    expect([post.status, post.headers.get("Allow")]).toEqual([405, "GET, HEAD"]);
  });
});

describe("the described request", () => {
  const policies = [
    { name: "login", match: { path: "/login", methods: ["POST"] }, limits: "1/minute" },
    { name: "hosts", match: { host: "api.example" }, limits: "1/minute", key: "global" },
    { name: "keys", match: { path: "/keys" }, limits: "1/minute", key: "header:x-api-key" },
    { name: "paid", match: { path: "/q" }, limits: "9/minute", key: "query:who" },
  ];
  const policiesFor = async (headers: Fields): Promise<string | null> => {
    const { send } = headgate({ POLICIES: policies });
    const response = await send("/check/forward", { headers });
    expect(response.status).toBe(204);
    return response.headers.get("RateLimit-Policy");
  };

  it("policies match the method, path and host of the described request, not those of the gateway's call", async () => {
    const post = { "X-Forwarded-Method": "POST" };
    expect(await policiesFor(traefik("/login?next=/", post))).toBe('"login";q=1;w=60');
    expect(await policiesFor(traefik("/login"))).toBe(null);
    expect(await policiesFor(nginx("//login/", { "X-Original-Method": "POST" }))).toBe('"login";q=1;w=60');
    expect(await policiesFor(traefik("/a/../%6Cogin", post))).toBe('"login";q=1;w=60');
    expect(await policiesFor(traefik("/", { "X-Forwarded-Host": "API.example:8443" }))).toBe('"hosts";q=1;w=60');
    expect(await policiesFor(traefik("//api.example/"))).toBe(null);
  });

  it("the key of a described request comes from its own headers and query", async () => {
    const { send } = headgate({ POLICIES: policies });
    const ask = (headers: Fields): Promise<number> => statusOf(send("/check/forward", { headers }));
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

  it("when the gateway sends X-Headgate-Token, Authorization belongs to the described request", async () => {
    const policy = { name: "p", limits: "1/minute", key: "header:authorization" };
    const { send } = headgate({ POLICIES: [{ ...policy, onMissingKey: "deny" }] });
    const own = { "X-Headgate-Token": "the-tests-token", Authorization: "Bearer the-visitors" };
    expect(await statusOf(send("/check/forward", { headers: traefik("/", own) }))).toBe(204);
    expect(await statusOf(send("/check/forward", { headers: traefik("/", own) }))).toBe(429);
    // The gateway's token does not belong to the described request.
    expect(await statusOf(send("/check/forward", { headers: traefik("/") }))).toBe(403);
  });
});

describe("the fields that gateways send according to their documentation, with those of the client", () => {
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
  const forwarded = {
    "X-Forwarded-Method": "POST",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "app.example",
    "X-Forwarded-Uri": "/orders?id=1",
    "X-Forwarded-For": "203.0.113.7",
  };

  it.for([
    ["Traefik", { ...forwarded, "X-Forwarded-Port": "443", "X-Forwarded-Server": "traefik-1" }],
    ["Traefik, over HTTP", { ...forwarded, "X-Forwarded-Proto": "http", "X-Real-Ip": "203.0.113.7" }],
    ["Caddy", { ...forwarded, Via: "1.1 Caddy" }],
    ["Caddy, on a port", { ...forwarded, "X-Forwarded-Host": "app.example:8443", Via: "2.0 Caddy" }],
  ] as const)("the fields of %s charge the visitor's request", async ([, fields]) => {
    const match = { methods: ["POST"], path: "/orders", host: "app.example" };
    const key = ["ip", "cookie:session", "query:id"];
    const { send, check } = headgate({
      POLICIES: [{ name: "orders", match, key, limits: "1/minute" }],
    });
    const headers = { ...client, ...fields };
    expect(await statusOf(send("/check/forward", { headers }))).toBe(204);
    const look = await check("GET", "/check?key=203.0.113.7&key=of-ann&key=1&cost=0");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 0 }] });
    const denied = await send("/check/forward", { headers });
    expect([denied.status, denied.headers.get("Retry-After")]).toEqual([429, "60"]);
  });
});

describe("a described preflight", () => {
  it("a described preflight is charged to PREFLIGHT_LIMITS only, as in the proxy", async () => {
    const { send } = headgate({ ...one, PREFLIGHT_LIMITS: "2/minute" });
    const asks = { Origin: "https://app.example", "Access-Control-Request-Method": "PUT" };
    const ask = (headers: Fields): Promise<number> => statusOf(send("/check/forward", { headers }));
    const preflight = traefik("/", { ...asks, "X-Forwarded-Method": "OPTIONS" });
    expect([await ask(preflight), await ask(preflight), await ask(preflight)]).toEqual([204, 204, 429]);
    expect(await ask(traefik("/", asks))).toBe(204);
    expect(await ask(traefik("/", { "X-Forwarded-Method": "OPTIONS" }))).toBe(429);
  });
});

describe("the visitor of a described request", () => {
  const isCharged = async (fields: Fields, key: string): Promise<boolean> => {
    const { send, check } = headgate(one);
    const headers = { ...traefik("/"), ...fields };
    expect(await statusOf(send("/check/forward", { headers }))).toBe(204);
    const look = await check("GET", `/check?key=${key}&cost=0`);
    const { limits } = await look.json<{ limits: { remaining: number }[] }>();
    return limits[0]?.remaining === 0;
  };

  it.for([
    ["the last address of X-Forwarded-For", { "X-Forwarded-For": "192.0.2.9, 203.0.113.7" }],
    [
      "the last address before the gateway's own, which Cloudflare has appended",
      { "X-Forwarded-For": "203.0.113.7, 198.51.100.1", "CF-Connecting-IP": "198.51.100.1" },
    ],
    [
      "the only address of X-Forwarded-For, even if the gateway has the same address",
      { "X-Forwarded-For": "203.0.113.7", "CF-Connecting-IP": "203.0.113.7" },
    ],
    ["not the address in the client's own CF-Connecting-IP", { "CF-Connecting-IP": "192.0.2.9" }],
  ] as const)("the visitor of a described request is %s", async ([, fields]) => {
    expect(await isCharged(fields, "203.0.113.7")).toBe(true);
    expect(await isCharged(fields, "192.0.2.9")).toBe(false);
  });

  it("without X-Forwarded-For, the visitor's address is a missing key part; the gateway's address is not used", async () => {
    const denying = { name: "p", limits: "1/minute", onMissingKey: "deny" };
    const { send } = headgate({ POLICIES: [denying] });
    const headers = without(traefik("/"), "X-Forwarded-For");
    const fields = { ...headers, "CF-Connecting-IP": "198.51.100.1" };
    expect(await statusOf(send("/check/forward", { headers: fields }))).toBe(403);
  });
});

describe("an invalid description", () => {
  it("an invalid description is answered with 422 and a list of all invalid fields", async () => {
    const { send } = headgate(one);
    const response = await send("/check/forward", { headers: bearer });
    const { errors } = await response.json<{ errors: { field: string }[] }>();
    expect([response.status, ...errors.map(({ field }) => field)]).toEqual([
      422,
      "X-Forwarded-Method",
      "X-Forwarded-Uri",
    ]);
  });

  const text = fc.oneof(
    fc.string({ unit: "binary-ascii" }).map((each) => each.replaceAll(/[^\t\x20-\x7e]/g, "")),
    fc.webUrl(),
    fc.ipV6(),
    fc.constantFrom("/", "GET", "https", "a.example", "/%zz%ff?a=%", "/\\..//", "[::1]:0", "a:65536"),
  );
  const policies = ["ip", "path", "host", "method", "query:a", "cookie:a", "header:x-a"].map((key, index) => ({
    name: `p${index}`,
    key,
    limits: "100000/minute",
    match: { path: "/*" },
  }));
  const { send: fuzzed } = headgate({ POLICIES: policies });

  it(
    "a description of any text is allowed or answered with 422, and never causes an internal error",
    forAll(
      [fc.dictionary(fc.constantFrom(...Object.keys({ ...traefik("/"), ...nginx("/") }), "Cookie"), text)],
      async (fields) => {
        const status = await statusOf(fuzzed("/check/forward", { headers: { ...traefik("/"), ...fields, ...bearer } }));
        expect([204, 422]).toContain(status);
      },
      500,
      25,
    ),
  );

  it("an invalid description spends nothing", async () => {
    const { send, check } = headgate(one);
    await statusOf(send("/check/forward", { headers: traefik("a") }));
    const look = await check("GET", "/check?key=203.0.113.7&cost=0");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 1 }] });
  });
});

describe("the token of a gateway", () => {
  const tokens = [{ token: "looks", may: ["look"] }, { token: "theirs", tenant: "acme" }, { token: "ours" }];
  const ask = (send: ReturnType<typeof headgate>["send"], fields: Fields): Promise<number> =>
    statusOf(send("/check/forward", { headers: { ...without(traefik("/"), "Authorization"), ...fields } }));

  it("GET /check/forward requires a token with the right called check", async () => {
    const { send } = headgate({ ...one, CHECK_TOKENS: tokens });
    expect(await ask(send, {})).toBe(401);
    expect(await ask(send, { "X-Headgate-Token": "wrong", Authorization: "Bearer ours" })).toBe(401);
    expect(await ask(send, { Authorization: "Bearer looks" })).toBe(403);
    expect(await ask(send, { "X-Headgate-Token": "ours" })).toBe(204);
  });

  it("a gateway with a tenant's token charges the tenant's own keys", async () => {
    const { send } = headgate({ ...one, CHECK_TOKENS: tokens });
    expect(await ask(send, { Authorization: "Bearer theirs" })).toBe(204);
    expect(await ask(send, { Authorization: "Bearer theirs" })).toBe(429);
    expect(await ask(send, { Authorization: "Bearer ours" })).toBe(204);
  });
});

const describing: Fields = {
  "X-Headgate-Token": token,
  "X-Forwarded-Method": "GET",
  "X-Forwarded-Uri": "/",
  "X-Forwarded-For": "203.0.113.7",
};

describe("X-Forwarded-For of a described request", () => {
  it("trustedProxies applies to X-Forwarded-For without its last address, the gateway's, which Cloudflare appends", async () => {
    const { send, check } = headgate({
      POLICIES: [{ name: "p", limits: "5/minute", trustedProxies: 1 }],
    });
    const headers = {
      ...describing,
      "X-Forwarded-For": "192.0.2.1, 203.0.113.7, 198.51.100.9",
      "CF-Connecting-IP": "198.51.100.9",
    };
    expect(await statusOf(send("/check/forward", { headers }))).toBe(204);
    const left = async (key: string): Promise<unknown> => {
      const look = await check("GET", `/check?key=${key}`);
      return (await look.json<{ limits: { remaining: number }[] }>()).limits[0]?.remaining;
    };
    expect([await left("203.0.113.7"), await left("198.51.100.9"), await left("192.0.2.1")]).toEqual([4, 5, 5]);
  });
});

describe("the claims of a described request", () => {
  const JWT_KEY = "a secret of the tests, thirty-two bytes or more";
  const policy = { name: "users", key: "jwt:sub", onMissingKey: "deny", limits: "5/hour" };

  it("a claim comes from the gateway's attributes, or else from the token of the described request", async () => {
    const { send, check } = headgate({ JWT_KEY, POLICIES: [policy] });
    const jwt = await new SignJWT({ sub: "forwarded" })
      .setProtectedHeader({ alg: "HS256" })
      .setExpirationTime("10y")
      .sign(new TextEncoder().encode(JWT_KEY));
    const headers = { ...describing, Authorization: `Bearer ${jwt}` };
    const query = new URLSearchParams({ attributes: JSON.stringify({ "jwt:sub": "stated" }) });
    expect(await statusOf(send(`/check/forward?${query.toString()}`, { headers }))).toBe(204);
    expect(await statusOf(send("/check/forward", { headers }))).toBe(204);
    expect(await statusOf(send("/check/forward", { headers }))).toBe(204);
    const left = async (key: string): Promise<unknown> => {
      const look = await check("GET", `/check?key=${key}`);
      return (await look.json<{ limits: { remaining: number }[] }>()).limits[0]?.remaining;
    };
    expect([await left("stated"), await left("forwarded")]).toEqual([4, 3]);
  });
});
