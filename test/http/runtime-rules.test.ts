/** Requests and checks under runtime rules: newer policy rules that an object's reply brings, and rules of one key. */
import { describe, expect, it, vi } from "vitest";
import type { BatchCall } from "../fakes/flat-calls.ts";
import type { CheckCall } from "../../src/limiter/protocol.ts";
import { parseLimits } from "../../src/strategies/index.ts";
import { TestApp } from "./app.ts";

const limitsOf = (limits: string) => parseLimits(limits, { policy: "p", strategy: "fixed-window" });

const fieldsOf = ({ headers }: Response): unknown => [headers.get("RateLimit-Policy"), headers.get("RateLimit")];

const problemOf = async (response: Response): Promise<unknown> => [response.status, await response.json()];

/** The lines that the app logs, as objects. */
const logged = (level: "log" | "warn"): unknown[] =>
  vi.mocked(console[level]).mock.calls.map(([line]) => JSON.parse(String(line)));

describe("policy rules that an object knows and the isolate does not", () => {
  it("a request whose reply brings new limits is decided once under them, and its fields show them", async () => {
    const app = new TestApp([{ name: "p", limits: "2/minute" }]);
    app.setPolicyRules("p", [{ kind: "limits", limits: "50/minute" }]);
    const response = await app.send("/");
    expect(fieldsOf(response)).toEqual(['"p";q=50;w=60', '"p";r=49;t=60']);
    expect(app.callNames()).toEqual(["check", "check"]);
    expect(app.forwarded).toEqual(["/"]);
    expect(fieldsOf(await app.send("/"))).toEqual(['"p";q=50;w=60', '"p";r=48;t=60']);
    expect(app.callNames()).toEqual(["check"]);
  });

  it("a request from a newly denied network gets 403, and no policy is charged for it", async () => {
    const app = new TestApp([
      { name: "q", limits: "2/minute", key: "global" },
      { name: "p", limits: "2/minute" },
    ]);
    app.setPolicyRules("p", [{ kind: "deny", entries: ["203.0.113.0/24"] }]);
    const response = await app.send("/");
    expect(await problemOf(response)).toMatchObject([403, { reason: "deny" }]);
    expect(app.forwarded).toEqual([]);
    expect(app.callNames()).toEqual(["check", "check", "refund"]);
    expect(await app.check("GET", "/check?policy=q")).toMatchObject({ limits: [{ remaining: 2 }] });
  });

  it("a policy that is switched off neither decides nor adds fields", async () => {
    const app = new TestApp([
      { name: "q", limits: "9/minute" },
      { name: "p", limits: "2/minute", match: { path: "/api/*" } },
    ]);
    app.setPolicyRules("p", [{ kind: "mode", mode: "off" }]);
    expect(fieldsOf(await app.send("/api/a"))).toEqual(['"q";q=9;w=60', '"q";r=8;t=60']);
    expect(app.callNames()).toEqual(["check", "check"]);
  });

  it("a policy that becomes a dry run denies nothing", async () => {
    const app = new TestApp([{ name: "p", limits: "1/minute", denyCache: false }]);
    const statuses = [(await app.send("/")).status, (await app.send("/")).status];
    app.setPolicyRules("p", [{ kind: "mode", mode: "dry-run" }]);
    statuses.push((await app.send("/")).status);
    expect(statuses).toEqual([200, 429, 200]);
    expect(app.forwarded).toHaveLength(2);
  });

  it("a preflight of a newly denied network gets 403", async () => {
    const app = new TestApp([{ name: "p", limits: "2/minute", ban: { after: 2, within: "1m", for: "1h" } }]);
    app.setPolicyRules("p", [{ kind: "deny", entries: ["203.0.113.0/24"] }]);
    const headers = { Origin: "https://shop.example", "Access-Control-Request-Method": "GET" };
    const response = await app.send("/", { method: "OPTIONS", headers });
    expect(response.status).toBe(403);
    expect(app.forwarded).toEqual([]);
  });

  it("a preflight whose look for a ban is stale is decided again, and charged once", async () => {
    const app = new TestApp([{ name: "p", limits: "2/minute", ban: { after: 2, within: "1m", for: "1h" } }]);
    app.setPolicyRules("p", [{ kind: "limits", limits: "1/minute" }]);
    const headers = { Origin: "https://shop.example", "Access-Control-Request-Method": "GET" };
    const response = await app.send("/", { method: "OPTIONS", headers });
    expect(response.status).toBe(200);
    expect(response.headers.get("RateLimit")).toMatch(/^"headgate.preflights";r=599;/);
    expect(app.callNames()).toEqual(["check", "look", "refund", "check", "look"]);
  });

  it("rules change the limits on calls of /check", async () => {
    const app = new TestApp([
      { name: "p", limits: "9/minute" },
      { name: "self", limits: "1/minute", match: { path: "/check" }, denyCache: false },
    ]);
    const look = () => app.check("GET", "/check?policy=p&key=203.0.113.9");
    await look();
    expect(await look()).toMatchObject({ status: 429 });
    app.setPolicyRules("self", [{ kind: "limits", limits: "5/minute" }]);
    expect(await look()).toMatchObject({ reason: "limit" });
  });

  it("/check/forward decides by the newer rules", async () => {
    const app = new TestApp([{ name: "p", limits: "9/minute" }]);
    app.setPolicyRules("p", [{ kind: "deny", entries: ["198.51.100.7"] }]);
    const response = await app.send("/check/forward", {
      headers: {
        Authorization: "Bearer the-tests-token",
        "X-Forwarded-Method": "GET",
        "X-Forwarded-Host": "a.example",
        "X-Forwarded-Uri": "/",
        "X-Forwarded-For": "198.51.100.7",
      },
    });
    expect(response.status).toBe(403);
  });
});

describe("/check under newer policy rules", () => {
  const key = "203.0.113.7";

  it.each([
    ["a check", "POST", "/check", { key }, ["check", "check"]],
    ["a look", "GET", `/check?key=${key}`, undefined, ["look", "look"]],
    ["a reservation", "POST", "/check/reserve", { key, ttlMs: 1_000 }, ["reserve", "reserve"]],
  ])("%s is answered once by the new limits", async (_, method, path, body, calls) => {
    const app = new TestApp([{ name: "p", limits: "2/minute" }]);
    app.setPolicyRules("p", [{ kind: "limits", limits: "50/minute" }]);
    const remaining = method === "GET" ? 50 : 49;
    expect(await app.check(method, path, body)).toMatchObject({
      allowed: true,
      limits: [{ limit: 50, remaining }],
      headers: { "RateLimit-Policy": '"p";q=50;w=60' },
    });
    expect(app.callNames()).toEqual(calls);
  });

  it("a batch repeats only its stale checks, and keeps the order of the answers", async () => {
    const app = new TestApp([
      { name: "p", limits: "2/minute" },
      { name: "q", limits: "2/minute" },
    ]);
    app.setPolicyRules("p", [{ kind: "deny", entries: [key] }]);
    const checks = ["q", "p", "q"].map((policy) => ({ policy, key }));
    expect(await app.check("POST", "/check/batch", { checks })).toMatchObject({
      results: [
        { policy: "q", reason: "limit", limits: [{ remaining: 1 }] },
        { policy: "p", reason: "deny", allowed: false },
        { policy: "q", reason: "limit", limits: [{ remaining: 0 }] },
      ],
    });
    expect(app.isolate.calls.map(({ argument }) => (argument as Partial<BatchCall>).calls?.length)).toEqual([
      3,
      undefined,
    ]);
    expect(app.callNames()).toEqual(["batch", "look"]);
  });

  it.each([
    ["POST", "/check", { key }, {}],
    ["GET", `/check?key=${key}`, undefined, {}],
    ["POST", "/check/reserve", { key, ttlMs: 1_000 }, { id: null }],
  ])("%s %s is allowed under a policy that is off, without a call", async (...row) => {
    const [method, path, body, members] = row;
    const app = new TestApp([{ name: "p", limits: "2/minute", deny: [key] }]);
    app.setPolicyRules("p", [{ kind: "mode", mode: "off" }]);
    await app.check("GET", "/check?key=198.51.100.1");
    app.callNames();
    const answer = await app.check(method, path, body);
    expect(answer).toMatchObject({
      allowed: true,
      reason: "off",
      cost: 1,
      limits: [{ remaining: 2 }],
      headers: {},
      ...members,
    });
    expect(app.callNames()).toEqual([]);
  });

  it("a batch calls no object for a policy that is off", async () => {
    const app = new TestApp([{ name: "p", limits: "2/minute" }]);
    app.setPolicyRules("p", [{ kind: "mode", mode: "off" }]);
    await app.check("GET", `/check?key=${key}`);
    app.callNames();
    const checks = [{ key }, { key, cost: 0 }];
    const off = { allowed: true, reason: "off" };
    expect(await app.check("POST", "/check/batch", { checks })).toMatchObject({
      results: [off, off],
    });
    expect(app.callNames()).toEqual([]);
  });

  it("the service for other Workers answers by the new limits", async () => {
    const app = new TestApp([{ name: "p", limits: "2/minute" }]);
    app.setPolicyRules("p", [{ kind: "limits", limits: "50/minute" }]);
    const answer = await app.service.look({ key }, app.waitUntil);
    expect(answer.limits.map(({ limit }) => limit)).toEqual([50]);
  });
});

describe("key rules in the proxy", () => {
  /** An app that has charged the client's key once. */
  async function charged(...args: ConstructorParameters<typeof TestApp>): Promise<TestApp> {
    const app = new TestApp(...args);
    await app.send("/");
    return app;
  }

  it("the RateLimit fields show the limits of a key's rule", async () => {
    const app = await charged([{ name: "p", limits: "2/minute" }], { LEGACY_HEADERS: true });
    app.setKeyRules("p", [{ kind: "limits", limits: limitsOf("50/minute") }]);
    const response = await app.send("/");
    expect(fieldsOf(response)).toEqual(['"p";q=50;w=60', '"p";r=48;t=60']);
    expect(response.headers.get("X-RateLimit-Limit")).toBe("50");
  });

  it("a denial names the limits of a key's rule", async () => {
    const app = await charged([{ name: "p", limits: "9/minute" }]);
    const limits = parseLimits([{ name: "tight", limit: 1, window: "1m" }], {
      strategy: "fixed-window",
    });
    app.setKeyRules("p", [{ kind: "limits", limits }]);
    const response = await app.send("/");
    expect(fieldsOf(response)).toEqual(['"tight";q=1;w=60', expect.stringContaining('"tight";r=0')]);
    expect(await problemOf(response)).toMatchObject([429, { "violated-policies": ["tight"] }]);
  });

  it("a blocked key gets the same answer as a key on the deny list, field by field", async () => {
    const policy = { name: "p", limits: "2/minute", onDeny: { status: 418, body: "no" } };
    const other = { name: "q", limits: "9/minute", key: "global" };
    const listed = await new TestApp([other, { ...policy, deny: ["203.0.113.7"] }]).send("/");
    const app = await charged([other, policy]);
    app.setKeyRules("p", [{ kind: "block" }]);
    const blocked = await app.send("/");
    expect(Object.fromEntries(blocked.headers)).toEqual(Object.fromEntries(listed.headers));
    const instance: unknown = expect.stringMatching(/^urn:uuid:/);
    const [status, details] = [listed.status, await listed.json<object>()];
    expect(details).toMatchObject({ instance });
    expect(await problemOf(blocked)).toEqual([status, { ...details, instance }]);
    expect(app.forwarded).toHaveLength(1);
    // The spend of the other policy is refunded.
    expect(await app.check("GET", "/check?policy=q")).toMatchObject({ limits: [{ remaining: 8 }] });
  });

  it("the log of denials has the same reason for a blocked key as for a key on the deny list", async () => {
    const app = await charged([{ name: "p", limits: "2/minute" }], { LOG_DENIALS: true });
    app.setKeyRules("p", [{ kind: "block" }]);
    await app.send("/");
    expect(logged("log")).toMatchObject([
      { event: "request-denied", policy: "p", reason: "deny", violated: [], retryAfterMs: null },
    ]);
  });

  it("a request whose key a rule allows has the fields of the other policies only", async () => {
    const app = await charged([
      { name: "q", limits: "9/minute", key: "global" },
      { name: "p", limits: "1/minute" },
    ]);
    app.setKeyRules("p", [{ kind: "allow" }]);
    const response = await app.send("/");
    expect(response.status).toBe(200);
    expect(fieldsOf(response)).toEqual(['"q";q=9;w=60', '"q";r=7;t=60']);
  });

  it("a request has no RateLimit fields if its only policy has a rule that allows the key", async () => {
    const app = await charged([{ name: "p", limits: "1/minute" }], { LEGACY_HEADERS: true });
    app.setKeyRules("p", [{ kind: "allow" }]);
    const response = await app.send("/");
    expect(fieldsOf(response)).toEqual([null, null]);
    expect(response.headers.has("X-RateLimit-Limit")).toBe(false);
  });

  it("a request whose key is blocked in a dry run passes, and is logged as on the deny list", async () => {
    const app = await charged([{ name: "p", limits: "2/minute", dryRun: true }]);
    app.setKeyRules("p", [{ kind: "block" }]);
    vi.mocked(console.warn).mockClear();
    expect((await app.send("/")).status).toBe(200);
    expect(logged("warn")).toMatchObject([{ event: "dry-run-denied", policy: "p", reason: "listed", violated: [] }]);
  });
});

describe("key rules at /check", () => {
  const key = "203.0.113.7";

  async function checked(policy: object = {}): Promise<TestApp> {
    const app = new TestApp([{ name: "p", limits: "2/minute", ...policy }]);
    await app.check("POST", "/check", { key });
    return app;
  }

  it.each([
    ["block", { allowed: false, reason: "deny", retryAfterMs: null, violated: [], headers: {} }],
    ["allow", { allowed: true, reason: "allow", retryAfterMs: 0, violated: [], headers: {} }],
  ])("a rule of kind %s gives every operation the answer of the list", async (kind, answer) => {
    const app = await checked();
    app.setKeyRules("p", [{ kind }]);
    expect(await app.check("GET", `/check?key=${key}`)).toMatchObject(answer);
    expect(await app.check("POST", "/check", { key })).toMatchObject(answer);
    const reserved = await app.check("POST", "/check/reserve", { key, ttlMs: 1_000 });
    expect(reserved).toMatchObject({ ...answer, id: null });
    const checks = [{ key }, { key, cost: 5 }];
    expect(await app.check("POST", "/check/batch", { checks })).toMatchObject({
      results: [answer, { ...answer, cost: 5 }],
    });
    app.setKeyRules("p", []);
    expect(await app.check("GET", `/check?key=${key}`)).toMatchObject({
      limits: [{ remaining: 1 }],
    });
  });

  it("a check answers with the limits of its key's rule", async () => {
    const app = await checked();
    app.setKeyRules("p", [{ kind: "limits", limits: limitsOf("50/minute") }]);
    expect(await app.check("POST", "/check", { key })).toMatchObject({
      reason: "limit",
      limits: [{ limit: 50, remaining: 48 }],
      headers: { "RateLimit-Policy": '"p";q=50;w=60' },
    });
  });

  it("a check under a dry run answers that a blocked key would have been denied", async () => {
    const app = await checked({ dryRun: true });
    app.setKeyRules("p", [{ kind: "block" }]);
    vi.mocked(console.warn).mockClear();
    expect(await app.check("POST", "/check", { key })).toMatchObject({
      allowed: true,
      reason: "dry-run",
      violated: [],
    });
    expect(logged("warn")).toMatchObject([{ event: "dry-run-denied", reason: "listed" }]);
  });
});

describe("without a control plane", () => {
  it("without a control plane, charges carry no rules, and a check is one call", async () => {
    const app = new TestApp([{ name: "p", limits: "2/minute" }], { CONTROL_PLANE: undefined });
    app.setPolicyRules("p", [{ kind: "mode", mode: "off" }]);
    expect(fieldsOf(await app.send("/"))).toEqual(['"p";q=2;w=60', '"p";r=1;t=60']);
    const fields = app.isolate.calls.flatMap(({ argument }) =>
      (argument as CheckCall).charges.map((charge) => Object.keys(charge)),
    );
    expect(fields).toEqual([["policy", "limits", "cost"]]);
    expect(app.callNames()).toEqual(["check"]);
  });
});
