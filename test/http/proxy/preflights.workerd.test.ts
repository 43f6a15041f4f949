/** CORS preflights: their own limits, and the blocklists and bans that apply to the announced request. */
import { afterEach, describe, expect, it, vi } from "vitest";
import { from, headgate, statusOf, token } from "../harness.ts";

afterEach(() => void vi.restoreAllMocks());

const app = "https://app.example.com";
const visitor = from("203.0.113.7");

/** A preflight that announces a request with this method. Its address is the visitor's unless `headers` has another. */
const preflightFor = (method: string, headers: Record<string, string> = {}) => ({
  method: "OPTIONS",
  headers: {
    ...visitor.headers,
    Origin: app,
    "Access-Control-Request-Method": method,
    ...headers,
  },
});

describe("a preflight without blocklist or ban", () => {
  const preflight = preflightFor("PUT");

  it("a preflight is forwarded and charged only to PREFLIGHT_LIMITS", async () => {
    const { send, check } = headgate({ LIMITS: "1/minute", PREFLIGHT_LIMITS: "2/minute" });
    const answers = [await send("/", preflight), await send("/", preflight)];
    expect(await answers[0]?.json()).toMatchObject({ method: "OPTIONS" });
    expect(await statusOf(send("/", preflight))).toBe(429);
    const look = await check("GET", "/check?key=203.0.113.7");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 1 }] });
    expect(await statusOf(send("/", { ...preflight, ...from("203.0.113.8") }))).toBe(200);
  });

  it.for([
    ["an OPTIONS request without Origin", { "Access-Control-Request-Method": "PUT" }, "OPTIONS"],
    ["an OPTIONS request without Access-Control-Request-Method", { Origin: app }, "OPTIONS"],
    ["a GET request with the fields of a preflight", { Origin: app, "Access-Control-Request-Method": "PUT" }, "GET"],
  ] as const)("%s is no preflight and is charged to the policies", async ([, headers, method]) => {
    const { send } = headgate({ LIMITS: "1/minute", PREFLIGHT_LIMITS: "9/minute" });
    const init = { method, headers: { ...visitor.headers, ...headers } };
    expect(await statusOf(send("/", init))).toBe(200);
    expect(await statusOf(send("/", init))).toBe(429);
  });
});

describe("a preflight of a client on a blocklist", () => {
  const blocking = { limits: "9/s", deny: ["203.0.113.0/24"] };

  it("a preflight of a client on a blocklist is denied with 403, every time", async () => {
    const { send } = headgate({ POLICIES: [{ name: "a", ...blocking }] });
    for (let sent = 0; sent < 5; sent++) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await send("/", preflightFor("POST"));
      expect(response.status).toBe(403);
      // oxlint-disable-next-line no-await-in-loop
      expect(await response.json()).toMatchObject({ title: "Forbidden" });
    }
    expect(await statusOf(send("/", preflightFor("POST", from("198.51.100.7").headers)))).toBe(200);
  });

  it("a blocklist denies preflights even when PREFLIGHT_LIMITS is off", async () => {
    const { send } = headgate({ PREFLIGHT_LIMITS: "off", POLICIES: [{ name: "a", ...blocking }] });
    expect(await statusOf(send("/", preflightFor("POST")))).toBe(403);
    const other = await send("/", preflightFor("POST", from("198.51.100.7").headers));
    expect([other.status, other.headers.has("RateLimit")]).toEqual([200, false]);
  });

  it("a blocklist denies a preflight only if its policy matches the announced request", async () => {
    const match = { path: "/api/*", methods: ["POST"], host: "headgate.example" };
    const { send } = headgate({ POLICIES: [{ name: "a", match, ...blocking }] });
    const denied: [string, string][] = [
      ["/api/x", "POST"],
      ["/x/..%2fAPI/x", "POST"],
      ["/api;a/x", "post"],
    ];
    for (const [path, method] of denied) {
      // oxlint-disable-next-line no-await-in-loop
      expect([path, await statusOf(send(path, preflightFor(method)))]).toEqual([path, 403]);
    }
    expect(await statusOf(send("/api/x", preflightFor("PUT")))).toBe(200);
    expect(await statusOf(send("/other", preflightFor("POST")))).toBe(200);
    expect(await statusOf(send("https://other.example/api/x", preflightFor("POST")))).toBe(200);
  });

  it("a blocklist for OPTIONS denies every preflight, and a blocklist for GET denies a preflight that announces HEAD", async () => {
    const statusFor = async (methods: string[], announced: string): Promise<number> => {
      const { send } = headgate({ POLICIES: [{ name: "a", match: { methods }, ...blocking }] });
      return statusOf(send("/", preflightFor(announced)));
    };
    expect(await statusFor(["OPTIONS"], "PUT")).toBe(403);
    expect(await statusFor(["GET"], "HEAD")).toBe(403);
    expect(await statusFor(["DELETE"], "PUT")).toBe(200);
  });

  it("a blocklist for a header value denies every preflight that announces the header", async () => {
    const match = { header: { "X-Plan": "free" } };
    const { send } = headgate({ POLICIES: [{ name: "a", match, ...blocking }] });
    const announcing = (names: string) => preflightFor("GET", { "Access-Control-Request-Headers": names });
    expect(await statusOf(send("/", announcing("content-type, X-PLAN")))).toBe(403);
    expect(await statusOf(send("/", announcing("content-type")))).toBe(200);
    expect(await statusOf(send("/", preflightFor("GET", { "X-Plan": "free" })))).toBe(403);
  });

  it("a blocklist in dry run denies no preflight", async () => {
    const { send } = headgate({ POLICIES: [{ name: "a", dryRun: true, ...blocking }] });
    expect(await statusOf(send("/", preflightFor("POST")))).toBe(200);
  });

  it("a policy that denies requests without a key part does not deny their preflights", async () => {
    const missing = { name: "a", key: "jwt:sub", onMissingKey: "deny", limits: "9/s" };
    const { send } = headgate({
      JWT_KEY: "a secret of the tests, thirty-two bytes or more",
      POLICIES: [missing],
    });
    expect(await statusOf(send("/", preflightFor("POST")))).toBe(200);
    expect(await statusOf(send("/", visitor))).toBe(403);
  });

  it("/check/forward denies a preflight of a client on a blocklist", async () => {
    const { send } = headgate({ POLICIES: [{ name: "a", ...blocking }] });
    const described = (address: string) => ({
      headers: {
        "X-Headgate-Token": token,
        "X-Forwarded-Method": "OPTIONS",
        "X-Forwarded-Uri": "/",
        "X-Forwarded-For": address,
        Origin: app,
        "Access-Control-Request-Method": "PUT",
      },
    });
    expect(await statusOf(send("/check/forward", described("203.0.113.7")))).toBe(403);
    expect(await statusOf(send("/check/forward", described("198.51.100.7")))).toBe(204);
  });
});

describe("a preflight of a banned client", () => {
  const banning = { name: "a", limits: "1/hour", ban: "1h" };
  const banned = async (variables: Record<string, unknown>, init = visitor) => {
    const { send, check } = headgate({ POLICIES: [banning], ...variables });
    expect(await statusOf(send("/", init))).toBe(200);
    expect(await statusOf(send("/", init))).toBe(429);
    return { send, check };
  };

  it("a preflight of a banned client is denied as often as its other requests are", async () => {
    const { send } = await banned({});
    for (let sent = 0; sent < 3; sent++) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await send("/", preflightFor("POST"));
      expect(response.status).toBe(429);
      const seconds = Number(response.headers.get("Retry-After"));
      expect(seconds).toBeGreaterThan(3_590);
      expect(seconds).toBeLessThanOrEqual(3_600);
      // oxlint-disable-next-line no-await-in-loop
      expect(await response.json()).toMatchObject({
        type: expect.stringContaining("abnormal-usage-detected"),
      });
    }
    expect(await statusOf(send("/", preflightFor("POST", from("198.51.100.7").headers)))).toBe(200);
  });

  it("a ban denies preflights even with PREFLIGHT_LIMITS = off or denyCache = false", async () => {
    const off = await banned({ PREFLIGHT_LIMITS: "off" });
    expect(await statusOf(off.send("/", preflightFor("POST")))).toBe(429);
    const uncached = await banned({ POLICIES: [{ ...banning, denyCache: false }] });
    expect(await statusOf(uncached.send("/", preflightFor("POST")))).toBe(429);
    expect(await statusOf(uncached.send("/", preflightFor("POST")))).toBe(429);
  });

  it("a preflight is allowed after DELETE /check has lifted the ban", async () => {
    const { send, check } = await banned({});
    await check("DELETE", "/check?policy=a&key=203.0.113.7");
    expect(await statusOf(send("/", preflightFor("POST")))).toBe(200);
  });

  it("denied preflights do not count towards a ban", async () => {
    const lenient = { ...banning, ban: { after: 2, within: "1h", for: "1h" } };
    const { send } = await banned({ POLICIES: [lenient] });
    for (let sent = 0; sent < 5; sent++) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await statusOf(send("/", preflightFor("POST")))).toBe(200);
    }
  });

  it("a preflight denied by a ban is not charged to PREFLIGHT_LIMITS", async () => {
    const { send, check } = await banned({ PREFLIGHT_LIMITS: "2/hour" });
    for (let sent = 0; sent < 4; sent++) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await statusOf(send("/", preflightFor("POST")))).toBe(429);
    }
    await check("DELETE", "/check?policy=a&key=203.0.113.7");
    const statuses = [await statusOf(send("/", preflightFor("POST")))];
    statuses.push(await statusOf(send("/", preflightFor("POST"))));
    expect(statuses).toEqual([200, 200]);
  });

  it("a ban on a key with the method denies only preflights that announce that method", async () => {
    const byMethod = { ...banning, key: ["ip", "method"] };
    const { send } = headgate({ POLICIES: [byMethod] });
    const post = { ...visitor, method: "POST" };
    expect(await statusOf(send("/", post))).toBe(200);
    expect(await statusOf(send("/", post))).toBe(429);
    expect(await statusOf(send("/", preflightFor("POST")))).toBe(429);
    expect(await statusOf(send("/", preflightFor("PUT")))).toBe(200);
  });

  it("a ban on requests without the key part denies no preflight, since preflights never have this part", async () => {
    for (const onMissingKey of ["shared", "ip"]) {
      // oxlint-disable-next-line no-await-in-loop
      const { send } = await banned({
        POLICIES: [{ ...banning, key: "header:x-key", onMissingKey }],
      });
      // oxlint-disable-next-line no-await-in-loop
      expect(await statusOf(send("/", preflightFor("POST")))).toBe(200);
    }
  });
});

describe("a preflight for a policy in dry run", () => {
  it("a ban that began before the policy became a dry run denies no preflight", async () => {
    vi.spyOn(console, "warn").mockReturnValue(undefined);
    const KEY_SECRET = crypto.randomUUID();
    const policy = { name: "a", limits: "1/hour", ban: "1h" };
    const enforced = headgate({ KEY_SECRET, POLICIES: [policy] });
    const dry = headgate({ KEY_SECRET, POLICIES: [{ ...policy, dryRun: true }] });
    expect(await statusOf(enforced.send("/", visitor))).toBe(200);
    expect(await statusOf(enforced.send("/", visitor))).toBe(429);
    expect(await statusOf(enforced.send("/", preflightFor("POST")))).toBe(429);
    expect(await statusOf(dry.send("/", preflightFor("POST")))).toBe(200);
  });

  it("while the object does not answer, a fail-closed policy denies preflights, and a fail-closed dry run does not", async () => {
    vi.spyOn(console, "error").mockReturnValue(undefined);
    const policy = { name: "a", limits: "1/hour", ban: "1h", onError: "closed" };
    const unavailable = (more: object) =>
      headgate({
        PREFLIGHT_LIMITS: "off",
        RATE_LIMITER: {},
        POLICIES: [{ ...policy, ...more }],
      });
    expect(await statusOf(unavailable({ dryRun: true }).send("/", preflightFor("POST")))).toBe(200);
    expect(await statusOf(unavailable({}).send("/", preflightFor("POST")))).toBe(503);
  });
});

describe("/check/forward for a tenant", () => {
  const described = (method: string, tenantToken: string, more: Record<string, string> = {}) => ({
    headers: {
      "X-Headgate-Token": tenantToken,
      "X-Forwarded-Method": method,
      "X-Forwarded-Uri": "/",
      "X-Forwarded-For": "203.0.113.7",
      ...more,
    },
  });
  const preflight = { Origin: app, "Access-Control-Request-Method": "GET" };
  const CHECK_TOKENS = [{ token: "theirs", tenant: "acme" }, { token: "ours" }];

  it("/check/forward denies a preflight only by bans of the caller's own tenant", async () => {
    const policy = { name: "a", limits: "1/hour", ban: "1h" };
    const { send } = headgate({ CHECK_TOKENS, POLICIES: [policy] });
    const ask = (method: string, tenantToken: string, more?: Record<string, string>): Promise<number> =>
      statusOf(send("/check/forward", described(method, tenantToken, more)));
    expect(await ask("GET", "theirs")).toBe(204);
    expect(await ask("GET", "theirs")).toBe(429);
    expect(await ask("OPTIONS", "theirs", preflight)).toBe(429);
    expect(await ask("OPTIONS", "ours", preflight)).toBe(204);
  });

  it("the dry-run-denied events of a tenant's preflight and request have the same key pseudonym", async () => {
    const lines: string[] = [];
    vi.spyOn(console, "warn").mockImplementation((line: string) => void lines.push(line));
    const policy = { name: "a", limits: "9/s", dryRun: true, deny: ["203.0.113.7"] };
    const { send } = headgate({ CHECK_TOKENS, POLICIES: [policy] });
    for (const [method, more] of [["GET", {}] as const, ["OPTIONS", preflight] as const]) {
      // oxlint-disable-next-line no-await-in-loop
      const status = await statusOf(send("/check/forward", described(method, "theirs", more)));
      expect(status).toBe(204);
    }
    const reported = lines.filter((line) => line.includes("dry-run-denied"));
    expect(reported).toHaveLength(2);
    expect(JSON.parse(reported[0] ?? "")).toMatchObject({ policy: "a", reason: "listed" });
    expect(reported[1]).toBe(reported[0]);
  });
});

describe("preflights behind a trusted proxy", () => {
  const preflightOf = (client: string) => preflightFor("PUT", { "X-Forwarded-For": client });

  it("each client behind a trusted proxy has the default PREFLIGHT_LIMITS to itself", async () => {
    const { send } = headgate({ POLICIES: [{ name: "a", limits: "9/s", trustedProxies: 1 }] });
    for (const client of ["10.0.0.1", "10.0.0.2"]) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await send("/", preflightOf(client));
      expect(response.headers.get("RateLimit")).toMatch(/^"headgate.preflights";r=599;/);
      // oxlint-disable-next-line no-await-in-loop
      await response.body?.cancel();
    }
  });

  it("preflights of one client behind a trusted proxy share one limit", async () => {
    const { send } = headgate({
      PREFLIGHT_LIMITS: "1/hour",
      POLICIES: [{ name: "a", limits: "9/s", trustedProxies: 1 }],
    });
    expect(await statusOf(send("/", preflightOf("10.0.0.1")))).toBe(200);
    expect(await statusOf(send("/", preflightOf("192.0.2.1, 10.0.0.1")))).toBe(429);
    expect(await statusOf(send("/", preflightOf("10.0.0.2")))).toBe(200);
  });
});
