/** The middleware `rateLimit` in a Hono app, with real Durable Objects. */
import { env } from "cloudflare:workers";
import { Hono } from "hono";
import { cors } from "hono/cors";
import { expect, it, vi } from "vitest";
import { rateLimit } from "../../../src/sdk/package/hono.ts";
import { bindings, visitor } from "./visitor.ts";

it("a route is limited exactly, with RateLimit fields and problem details", async () => {
  const app = new Hono();
  app.use("/api/*", rateLimit({ limits: "3/minute", strategy: "sliding-log", key: "ip" }));
  app.get("/api/x", (c) => c.text("hello"));
  app.get("/other", (c) => c.text("free"));
  const visit = visitor(app);
  const answers = [await visit(), await visit(), await visit(), await visit()];
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
  const [first, , , denied] = answers;
  expect(first?.headers.get("RateLimit-Policy")).toBe('"default";q=3;w=60');
  expect(first?.headers.get("RateLimit")).toMatch(/^"default";r=2;t=\d+$/);
  expect(denied?.headers.get("Content-Type")).toBe("application/problem+json");
  expect(Number(denied?.headers.get("Retry-After"))).toBeGreaterThan(50);
  expect(JSON.parse(denied?.body ?? "")).toMatchObject({
    status: 429,
    title: "Quota Exceeded",
    "violated-policies": ["default"],
  });
  expect(await visit({ path: "/other" })).toMatchObject({ status: 200, body: "free" });
  expect(await visit({ headers: { "CF-Connecting-IP": "203.0.113.8" } })).toMatchObject({
    status: 200,
  });
});

it("simultaneous requests are allowed exactly up to the limit", async () => {
  const app = new Hono();
  app.use(rateLimit({ limit: 7, windowMs: 60_000, strategy: "sliding-log" }));
  app.get("*", (c) => c.text("hello"));
  const visit = visitor(app);
  const answers = await Promise.all(Array.from({ length: 30 }, () => visit()));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(7);
});

it("several policies are decided together: a denied request is charged to none of them", async () => {
  const app = new Hono();
  app.use(
    rateLimit(
      { name: "client", limits: "9/minute", key: "ip" },
      { name: "user", limits: "1/minute", key: (c) => c.req.header("X-User") },
    ),
  );
  app.get("*", (c) => c.json(c.get("headgate").decisions.map(({ policy }) => policy)));
  const visit = visitor(app);
  expect((await visit({ headers: { "X-User": "a" } })).body).toBe('["client","user"]');
  for (let attempt = 0; attempt < 3; attempt++) {
    expect((await visit({ headers: { "X-User": "a" } })).status).toBe(429);
  }
  const other = await visit({ headers: { "X-User": "b" } });
  expect(other.headers.get("RateLimit")).toMatch(/"client";r=7;/);
});

it("when a request passes two limiters, its fields and decisions are those of both", async () => {
  const app = new Hono();
  app.use(rateLimit({ name: "outer", limits: "9/minute" }));
  app.use("/api/*", rateLimit({ name: "inner", limits: "5/minute" }));
  app.get("*", (c) => c.json(c.get("headgate").decisions.map(({ policy }) => policy)));
  const { body, headers } = await visitor(app)();
  expect(JSON.parse(body)).toEqual(["outer", "inner"]);
  expect(headers.get("RateLimit")).toMatch(/"inner";r=4;t=\d+, "outer";r=8;t=\d+/);
});

it("a denial by the inner of two limiters lists only the limits that deny", async () => {
  const app = new Hono();
  app.use(rateLimit({ name: "outer", limits: "9/hour" }));
  app.use(rateLimit({ name: "inner", limits: "1/minute" }));
  app.get("*", (c) => c.text("hello"));
  const visit = visitor(app);
  await visit();
  const { status, headers } = await visit();
  expect(status).toBe(429);
  expect(headers.get("RateLimit")).toMatch(/^"inner";r=0;t=\d+$/);
});

it("two limiters add their fields to an error response of the handler that has Retry-After", async () => {
  const app = new Hono();
  app.use(rateLimit({ name: "outer", limits: "9/hour" }));
  app.use(rateLimit({ name: "inner", limits: "5/minute" }));
  app.get("*", (c) => c.text("later", 503, { "Retry-After": "5" }));
  const { headers } = await visitor(app)();
  expect(headers.get("RateLimit")).toMatch(/^"inner";r=4;t=\d+, "outer";r=8;t=\d+$/);
});

it("a limiter stays charged when a later limiter in the chain denies", async () => {
  const app = new Hono();
  app.use(rateLimit({ name: "first", limits: "9/minute" }));
  app.use("/both", rateLimit({ name: "second", limits: "1/minute", denyCache: false }));
  app.get("*", (c) => c.text(String(c.get("headgate").decisions[0]?.limits[0]?.remaining)));
  const visit = visitor(app);
  expect((await visit({ path: "/both" })).body).toBe("8");
  expect((await visit({ path: "/both" })).status).toBe(429);
  expect((await visit({ path: "/first" })).body).toBe("6");
});

it("a function may return the key, as one text or as several", async () => {
  const app = new Hono();
  const key = vi.fn<() => string | string[] | null | number>();
  app.use(rateLimit({ limits: "1/minute", key: key as () => string, onMissingKey: "skip" }));
  app.get("*", (c) => c.text("hello"));
  const visit = visitor(app);
  const statusFor = async (value: string | string[] | null | number): Promise<number> => {
    key.mockReturnValue(value);
    return (await visit()).status;
  };
  expect(await statusFor("a")).toBe(200);
  expect(await statusFor("a")).toBe(429);
  expect(await statusFor(["a"])).toBe(429);
  expect(await statusFor(["a", "b"])).toBe(200);
  expect(await statusFor('["a","b"]')).toBe(200);
  expect(await statusFor(["a", "b"])).toBe(429);
  expect(await statusFor(42)).toBe(200);
  expect(await statusFor(42)).toBe(429);
  expect(await statusFor(null)).toBe(200);
  expect(await statusFor(null)).toBe(200);
});

it("a denial for missing keys names the policies whose functions returned none", async () => {
  const app = new Hono();
  const options = { limits: "1/minute", onMissingKey: "deny" } as const;
  app.use(
    rateLimit(
      { ...options, name: "user", key: () => null },
      { ...options, name: "team", key: () => null },
      { ...options, name: "client", key: "header:X-Client" },
    ),
  );
  const { status, body } = await visitor(app)();
  expect(status).toBe(403);
  expect(JSON.parse(body)).toMatchObject({
    missing_parts: ["key:user", "key:team", "header:x-client"],
  });
});

it("a function that returns neither a key nor a cost throws an error that names the policy", async () => {
  const errors: string[] = [];
  const app = new Hono();
  app.onError((error, c) => {
    errors.push(error.message);
    return c.text("failed", 500);
  });
  const broken = {} as unknown as string;
  app.use("/key", rateLimit({ name: "a", limits: "1/minute", key: () => broken }));
  app.use("/cost", rateLimit({ name: "b", limits: "1/minute", cost: () => 1.5 }));
  app.get("*", (c) => c.text("hello"));
  const visit = visitor(app);
  expect((await visit({ path: "/key" })).status).toBe(500);
  expect((await visit({ path: "/cost" })).status).toBe(500);
  expect(errors).toEqual([
    'the function key of the policy "a" returned an object; expected a text, or a list of texts',
    'the function cost of the policy "b" returned 1.5; expected an integer from 0 to 1000000',
  ]);
});

it("a function may return the cost, and a cost of 0 spends nothing", async () => {
  const app = new Hono();
  app.use(rateLimit({ limits: "10/minute", cost: (c) => Number(c.req.query("cost")) }));
  app.get("*", (c) => c.text(String(c.get("headgate").decisions[0]?.limits[0]?.remaining)));
  const visit = visitor(app);
  expect((await visit({ path: "/?cost=4" })).body).toBe("6");
  expect((await visit({ path: "/?cost=0" })).body).toBe("6");
  expect((await visit({ path: "/?cost=7" })).status).toBe(429);
  expect((await visit({ path: "/?cost=6" })).body).toBe("0");
  expect((await visit({ path: "/?cost=0" })).status).toBe(200);
});

it("requests that the option skip exempts are neither charged nor denied", async () => {
  const app = new Hono();
  app.use(rateLimit({ limits: "1/minute", skip: (c) => c.req.query("admin") !== undefined }));
  app.get("*", (c) => c.text("hello"));
  const visit = visitor(app);
  expect((await visit({ path: "/?admin" })).headers.has("RateLimit")).toBe(false);
  expect((await visit()).status).toBe(200);
  expect((await visit()).status).toBe(429);
  expect((await visit({ path: "/?admin" })).status).toBe(200);
});

it("the functions of a policy are called only for requests that the policy matches", async () => {
  const app = new Hono();
  const key = vi.fn<() => string>().mockReturnValue("k");
  app.use(rateLimit({ limits: "1/minute", match: { methods: "POST" }, key }));
  app.all("*", (c) => c.text("hello"));
  const visit = visitor(app);
  expect([(await visit()).status, (await visit()).status]).toEqual([200, 200]);
  expect(key).not.toHaveBeenCalled();
  expect((await visit({ method: "POST" })).status).toBe(200);
  expect((await visit({ method: "POST" })).status).toBe(429);
});

it("the deny cache still works when the app wraps its environment anew for each request", async () => {
  const app = new Hono();
  app.use(rateLimit({ limits: "1/minute" }));
  app.get("*", (c) => c.text("hello"));
  const own = bindings();
  const calls = vi.spyOn(env.RATE_LIMITER, "getByName");
  for (let request = 0; request < 6; request++) await visitor(app, { ...own })();
  expect(calls).toHaveBeenCalledTimes(2);
});

it("when two policies have limits of the same name, the limits are reported by the names of their policies", async () => {
  const app = new Hono();
  app.use(
    rateLimit(
      { name: "a", limits: { limit: 5, window: "1m", name: "shared" } },
      { name: "b", limits: { limit: 5, window: "1h", name: "shared" } },
    ),
  );
  app.get("*", (c) => c.text("hello"));
  const { status, body } = await visitor(app)();
  expect(status).toBe(500);
  expect(JSON.parse(body)).toMatchObject({
    errors: [{ variable: 'rateLimit (name: "b")', field: "limits" }],
  });
});

it("a function may answer denials, and its response has the fields of the denial", async () => {
  const app = new Hono();
  app.use(
    rateLimit({
      limits: "1/minute",
      onDeny: (c, { policy, retryAfterMs, limits }) =>
        c.json({ policy, wait: retryAfterMs !== null && retryAfterMs > 0, limits: limits.length }, 420 as 429),
    }),
  );
  app.get("*", (c) => c.text("hello"));
  const visit = visitor(app);
  await visit();
  for (const _ of ["from the object", "from the deny cache"]) {
    const denied = await visit();
    expect(denied.status).toBe(420);
    expect(denied.headers.get("Content-Type")).toContain("application/json");
    expect(denied.headers.get("RateLimit")).toMatch(/^"default";r=0;t=\d+$/);
    expect(denied.headers.has("Retry-After")).toBe(true);
    expect(denied.headers.get("Cache-Control")).toBe("no-store");
    expect(JSON.parse(denied.body)).toEqual({ policy: "default", wait: true, limits: 1 });
  }
});

it("when onDeny redirects, the response has no RateLimit fields", async () => {
  const app = new Hono();
  app.use(rateLimit({ limits: "1/minute", onDeny: (c) => c.redirect("/slow-down") }));
  app.get("*", (c) => c.text("hello"));
  const visit = visitor(app);
  await visit();
  const { status, headers } = await visit();
  expect([status, headers.get("Location")]).toEqual([302, "/slow-down"]);
  expect(headers.get("Retry-After")).toMatch(/^\d+$/);
  expect([headers.has("RateLimit"), headers.has("RateLimit-Policy")]).toEqual([false, false]);
});

it("a function for denials that returns no response throws an error that names the policy", async () => {
  const app = new Hono();
  const silent = (() => undefined) as unknown as () => Response;
  app.use(rateLimit({ name: "silent", limits: "1/minute", onDeny: silent }));
  app.get("*", (c) => c.text("hello"));
  app.onError(({ message }, c) => c.text(message, 500));
  const visit = visitor(app);
  await visit();
  expect((await visit()).body).toBe(
    'the function onDeny of the policy "silent" returned undefined; expected a Response',
  );
});

it("a fixed onDeny response replaces the problem details", async () => {
  const app = new Hono();
  app.use(rateLimit({ limits: "1/minute", onDeny: { status: 403, body: "Later" } }));
  app.get("*", (c) => c.text("hello"));
  const visit = visitor(app);
  await visit();
  expect(await visit()).toMatchObject({ status: 403, body: "Later" });
});

it("only responses of the handler with a status in count are charged", async () => {
  const app = new Hono();
  app.use(rateLimit({ limits: "2/minute", strategy: "sliding-log", count: { status: ["401"] } }));
  app.get("*", (c) => c.text("answer", Number(c.req.query("status")) as 200));
  const visit = visitor(app);
  for (let request = 0; request < 4; request++) {
    expect((await visit({ path: "/?status=200" })).status).toBe(200);
  }
  expect((await visit({ path: "/?status=401" })).status).toBe(401);
  expect((await visit({ path: "/?status=401" })).status).toBe(401);
  expect((await visit({ path: "/?status=401" })).status).toBe(429);
});

it("RateLimit fields are added even to an immutable response of the handler", async () => {
  const app = new Hono();
  app.use(rateLimit({ limits: "5/minute" }));
  app.get("*", () => fetch("https://origin.example/immutable"));
  const { status, headers } = await visitor(app)();
  expect(status).toBe(200);
  expect(headers.get("RateLimit")).toMatch(/^"default";r=4/);
});

it("the middleware cors adds its fields to denials, and preflights are not charged", async () => {
  const app = new Hono();
  app.use(cors({ origin: "https://site.example", exposeHeaders: ["RateLimit"] }));
  app.use(rateLimit({ limits: "1/minute" }));
  app.get("*", (c) => c.text("hello"));
  const visit = visitor(app);
  const headers = { Origin: "https://site.example" };
  const preflight = { ...headers, "Access-Control-Request-Method": "GET" };
  expect((await visit({ method: "OPTIONS", headers: preflight })).status).toBe(204);
  expect((await visit({ headers })).status).toBe(200);
  const denied = await visit({ headers });
  expect(denied.status).toBe(429);
  expect(denied.headers.get("Access-Control-Allow-Origin")).toBe("https://site.example");
});

it("an error of the handler reaches the error handler of the app, and is charged", async () => {
  const app = new Hono();
  app.onError((_, c) => c.text("handled", 500));
  app.use(rateLimit({ limits: "1/minute" }));
  app.get("*", () => {
    throw new Error("broken handler");
  });
  const visit = visitor(app);
  const failed = await visit();
  expect(failed).toMatchObject({ status: 500, body: "handled" });
  expect(failed.headers.get("RateLimit")).toMatch(/^"default";r=0/);
  expect((await visit()).status).toBe(429);
});

it("missing bindings and secrets are named in a problem response, without values", async () => {
  const app = new Hono();
  app.use(rateLimit({ limits: "1/minute" }));
  app.get("*", (c) => c.text("hello"));
  const withoutObjects = await visitor(app, { KEY_SECRET: "the secret" })();
  expect(withoutObjects.status).toBe(500);
  expect(JSON.parse(withoutObjects.body)).toMatchObject({ errors: [{ variable: "RATE_LIMITER" }] });
  const withoutSecret = await visitor(app, { RATE_LIMITER: env.RATE_LIMITER })();
  expect(JSON.parse(withoutSecret.body)).toMatchObject({
    detail: "The configuration of Headgate is invalid. The log also shows the values.",
    errors: [{ variable: "KEY_SECRET" }],
  });
});

it("a limiter that is constructed for each request keeps its counters", async () => {
  const app = new Hono();
  app.use((c, next) => rateLimit({ limits: "2/minute", key: () => "k" })(c, next));
  app.get("*", (c) => c.text("hello"));
  const visit = visitor(app);
  expect([(await visit()).status, (await visit()).status, (await visit()).status]).toEqual([200, 200, 429]);
});

it("tenants of one quota have fair shares, and requests of a class only a part of it", async () => {
  const app = new Hono();
  app.use(
    rateLimit(
      {
        name: "quota",
        limits: "12/hour",
        key: () => "all",
        strategy: "sliding-log",
        classes: [{ when: "header:X-Batch=1", upTo: "25%" }],
      },
      {
        name: "tenant",
        within: "quota",
        limits: "12/hour",
        key: (c) => c.req.header("X-Tenant"),
        strategy: "sliding-log",
        guaranteed: "fair",
      },
    ),
  );
  app.get("*", (c) => c.text("hello"));
  const visit = visitor(app);
  const reasonOf = async (headers: Record<string, string>): Promise<unknown> => {
    const { status, body } = await visit({ headers });
    return status === 200 ? status : (JSON.parse(body) as { reason?: string }).reason;
  };
  const reasons: unknown[] = [];
  for (const tenant of ["acme", "bolt", ...Array.from({ length: 6 }, () => "acme"), "bolt"]) {
    reasons.push(await reasonOf({ "X-Tenant": tenant }));
  }
  expect(reasons).toEqual([200, 200, 200, 200, 200, 200, 200, "share", 200]);
  expect(await reasonOf({ "X-Tenant": "bolt", "X-Batch": "1" })).toBe("class");
});
