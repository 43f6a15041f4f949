/** Preflights: their own limits, and the deny lists and bans of the policies for the request that they announce. */
import { afterEach, describe, expect, it, vi } from "vitest";
import { from, headgate, statusOf, token } from "../harness.ts";

afterEach(() => void vi.restoreAllMocks());

const app = "https://app.example.com";
const visitor = from("203.0.113.7");

/** A preflight for a request of this method, from a visitor unless the headers say otherwise. */
const preflightFor = (method: string, headers: Record<string, string> = {}) => ({
  method: "OPTIONS",
  headers: {
    ...visitor.headers,
    Origin: app,
    "Access-Control-Request-Method": method,
    ...headers,
  },
});

describe("a preflight", () => {
  const preflight = preflightFor("PUT");

  it("is forwarded, and charged to limits of its own alone", async () => {
    const { send, check } = headgate({ LIMITS: "1/minute", PREFLIGHT_LIMITS: "2/minute" });
    const answers = [await send("/", preflight), await send("/", preflight)];
    expect(await answers[0]?.json()).toMatchObject({ method: "OPTIONS" });
    expect(await statusOf(send("/", preflight))).toBe(429);
    const look = await check("GET", "/check?key=203.0.113.7");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 1 }] });
    expect(await statusOf(send("/", { ...preflight, ...from("203.0.113.8") }))).toBe(200);
  });

  it("is let in while the policy of the path is used up, and does not use it up", async () => {
    const { send } = headgate({ LIMITS: "1/minute" });
    expect(await statusOf(send("/", preflight))).toBe(200);
    expect(await statusOf(send("/", visitor))).toBe(200);
    expect(await statusOf(send("/", visitor))).toBe(429);
    expect(await statusOf(send("/", preflight))).toBe(200);
  });

  it.for([
    ["without an origin", { "Access-Control-Request-Method": "PUT" }, "OPTIONS"],
    ["without the method that is asked about", { Origin: app }, "OPTIONS"],
    ["of another method", { Origin: app, "Access-Control-Request-Method": "PUT" }, "GET"],
  ] as const)("%s is none, and counts as any request", async ([, headers, method]) => {
    const { send } = headgate({ LIMITS: "1/minute", PREFLIGHT_LIMITS: "9/minute" });
    const init = { method, headers: { ...visitor.headers, ...headers } };
    expect(await statusOf(send("/", init))).toBe(200);
    expect(await statusOf(send("/", init))).toBe(429);
  });
});

describe("a preflight of a client on a deny list", () => {
  const listed = { limits: "9/s", deny: ["203.0.113.0/24"] };

  it("is refused, and does not reach the origin", async () => {
    const { send } = headgate({ POLICIES: [{ name: "a", ...listed }] });
    for (let sent = 0; sent < 20; sent++) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await send("/", preflightFor("POST"));
      expect(response.status).toBe(403);
      // oxlint-disable-next-line no-await-in-loop
      expect(await response.json()).toMatchObject({ title: "Forbidden" });
    }
    expect(await statusOf(send("/", preflightFor("POST", from("198.51.100.7").headers)))).toBe(200);
  });

  it("is refused where preflights have no limits", async () => {
    const { send } = headgate({ PREFLIGHT_LIMITS: "off", POLICIES: [{ name: "a", ...listed }] });
    expect(await statusOf(send("/", preflightFor("POST")))).toBe(403);
    const other = await send("/", preflightFor("POST", from("198.51.100.7").headers));
    expect([other.status, other.headers.has("RateLimit")]).toEqual([200, false]);
  });

  it("is refused by the policies for the request that it announces, and by no others", async () => {
    const match = { path: "/api/*", methods: ["POST"], host: "headgate.example" };
    const { send } = headgate({ POLICIES: [{ name: "a", match, ...listed }] });
    const refused: [string, string][] = [
      ["/api/x", "POST"],
      ["/x/..%2fAPI/x", "POST"],
      ["/api;a/x", "post"],
    ];
    for (const [path, method] of refused) {
      // oxlint-disable-next-line no-await-in-loop
      expect([path, await statusOf(send(path, preflightFor(method)))]).toEqual([path, 403]);
    }
    expect(await statusOf(send("/api/x", preflightFor("PUT")))).toBe(200);
    expect(await statusOf(send("/other", preflightFor("POST")))).toBe(200);
    expect(await statusOf(send("https://other.example/api/x", preflightFor("POST")))).toBe(200);
  });

  it("is refused by a policy for OPTIONS, and for GET where it announces a HEAD", async () => {
    const refusing = async (methods: string[], announced: string): Promise<number> => {
      const { send } = headgate({ POLICIES: [{ name: "a", match: { methods }, ...listed }] });
      return statusOf(send("/", preflightFor(announced)));
    };
    expect(await refusing(["OPTIONS"], "PUT")).toBe(403);
    expect(await refusing(["GET"], "HEAD")).toBe(403);
    expect(await refusing(["DELETE"], "PUT")).toBe(200);
  });

  it("is refused by a policy for a header that it announces", async () => {
    const match = { header: { "X-Plan": "free" } };
    const { send } = headgate({ POLICIES: [{ name: "a", match, ...listed }] });
    const announcing = (names: string) =>
      preflightFor("GET", { "Access-Control-Request-Headers": names });
    expect(await statusOf(send("/", announcing("content-type, X-PLAN")))).toBe(403);
    expect(await statusOf(send("/", announcing("content-type")))).toBe(200);
    expect(await statusOf(send("/", preflightFor("GET", { "X-Plan": "free" })))).toBe(403);
  });

  it("is let in by a dry run", async () => {
    const { send } = headgate({ POLICIES: [{ name: "a", dryRun: true, ...listed }] });
    expect(await statusOf(send("/", preflightFor("POST")))).toBe(200);
  });

  it("is let in by a policy that only lacks a part of its key", async () => {
    const missing = { name: "a", key: "jwt:sub", onMissingKey: "deny", limits: "9/s" };
    const { send } = headgate({
      JWT_KEY: "a secret of the tests, thirty-two bytes or more",
      POLICIES: [missing],
    });
    expect(await statusOf(send("/", preflightFor("POST")))).toBe(200);
    expect(await statusOf(send("/", visitor))).toBe(403);
  });

  it("is refused when a gateway describes it", async () => {
    const { send } = headgate({ POLICIES: [{ name: "a", ...listed }] });
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

  it("is refused as any other request of it, again and again", async () => {
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

  it("is refused where preflights have no limits, and where denials are not remembered", async () => {
    const off = await banned({ PREFLIGHT_LIMITS: "off" });
    expect(await statusOf(off.send("/", preflightFor("POST")))).toBe(429);
    const forgetful = await banned({ POLICIES: [{ ...banning, denyCache: false }] });
    expect(await statusOf(forgetful.send("/", preflightFor("POST")))).toBe(429);
    expect(await statusOf(forgetful.send("/", preflightFor("POST")))).toBe(429);
  });

  it("is let in once the ban is forgotten", async () => {
    const { send, check } = await banned({});
    await check("DELETE", "/check?policy=a&key=203.0.113.7");
    expect(await statusOf(send("/", preflightFor("POST")))).toBe(200);
  });

  it("spends nothing of the policy, whose denials it does not add to", async () => {
    const lenient = { ...banning, ban: { after: 2, within: "1h", for: "1h" } };
    const { send } = await banned({ POLICIES: [lenient] });
    for (let sent = 0; sent < 5; sent++) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await statusOf(send("/", preflightFor("POST")))).toBe(200);
    }
  });

  it("does not spend of the limits of preflights", async () => {
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

  it("is refused by the ban on the method that it announces", async () => {
    const byMethod = { ...banning, key: ["ip", "method"] };
    const { send } = headgate({ POLICIES: [byMethod] });
    const post = { ...visitor, method: "POST" };
    expect(await statusOf(send("/", post))).toBe(200);
    expect(await statusOf(send("/", post))).toBe(429);
    expect(await statusOf(send("/", preflightFor("POST")))).toBe(429);
    expect(await statusOf(send("/", preflightFor("PUT")))).toBe(200);
  });

  it("is let in where the ban is on those who send no key, as no preflight does", async () => {
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

describe("a preflight for a policy that is tried out", () => {
  it("is let in although its client is still banned from when the policy was enforced", async () => {
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

  it("is let in while the object gives no answer, although the policy is closed then", async () => {
    vi.spyOn(console, "error").mockReturnValue(undefined);
    const policy = { name: "a", limits: "1/hour", ban: "1h", onError: "closed" };
    const silent = (more: object) =>
      headgate({
        PREFLIGHT_LIMITS: "off",
        RATE_LIMITER: {},
        POLICIES: [{ ...policy, ...more }],
      });
    expect(await statusOf(silent({ dryRun: true }).send("/", preflightFor("POST")))).toBe(200);
    expect(await statusOf(silent({}).send("/", preflightFor("POST")))).toBe(503);
  });
});

describe("a preflight that the gateway of a tenant describes", () => {
  const described = (method: string, of: string, more: Record<string, string> = {}) => ({
    headers: {
      "X-Headgate-Token": of,
      "X-Forwarded-Method": method,
      "X-Forwarded-Uri": "/",
      "X-Forwarded-For": "203.0.113.7",
      ...more,
    },
  });
  const preflight = { Origin: app, "Access-Control-Request-Method": "GET" };
  const CHECK_TOKENS = [{ token: "theirs", tenant: "acme" }, { token: "ours" }];

  it("is refused by the bans of this tenant, and by no other's", async () => {
    const policy = { name: "a", limits: "1/hour", ban: "1h" };
    const { send } = headgate({ CHECK_TOKENS, POLICIES: [policy] });
    const ask = (method: string, of: string, more?: Record<string, string>): Promise<number> =>
      statusOf(send("/check/forward", described(method, of, more)));
    expect(await ask("GET", "theirs")).toBe(204);
    expect(await ask("GET", "theirs")).toBe(429);
    expect(await ask("OPTIONS", "theirs", preflight)).toBe(429);
    expect(await ask("OPTIONS", "ours", preflight)).toBe(204);
  });

  it("is reported under the name of this tenant's key by a dry run that would refuse it", async () => {
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

describe("preflights behind a proxy", () => {
  const preflightOf = (client: string) => preflightFor("PUT", { "X-Forwarded-For": client });

  it("are counted by the client's address, as the policies by address find it", async () => {
    const { send } = headgate({ POLICIES: [{ name: "a", limits: "9/s", trustedProxies: 1 }] });
    const sending = Array.from({ length: 605 }, (_, index) =>
      statusOf(send("/", preflightOf(`10.0.${index >> 8}.${index & 255}`))),
    );
    expect(new Set(await Promise.all(sending))).toEqual(new Set([200]));
  });

  it("of one client share its limit", async () => {
    const { send } = headgate({
      PREFLIGHT_LIMITS: "1/hour",
      POLICIES: [{ name: "a", limits: "9/s", trustedProxies: 1 }],
    });
    expect(await statusOf(send("/", preflightOf("10.0.0.1")))).toBe(200);
    expect(await statusOf(send("/", preflightOf("192.0.2.1, 10.0.0.1")))).toBe(429);
    expect(await statusOf(send("/", preflightOf("10.0.0.2")))).toBe(200);
  });
});
