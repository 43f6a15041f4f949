/** The variable `headgate` in handlers: dry runs, resets, and requests that continue despite a denial. */
import { Hono, type Context } from "hono";
import { HTTPException } from "hono/http-exception";
import { describe, expect, it } from "vitest";
import { rateLimit, type RateLimitOptions } from "../../../src/sdk/package/hono.ts";
import { createTestLimiter } from "../../../src/sdk/package/test.ts";

const visitor = { headers: { "CF-Connecting-IP": "203.0.113.7" } };

function visiting(app: Hono) {
  const { env, clock, fail } = createTestLimiter();
  const visit = async (path = "/", headers: Record<string, string> = {}) => {
    const all = { headers: { ...visitor.headers, ...headers } };
    const response = await app.request(path, all, env);
    return { status: response.status, headers: response.headers, body: await response.text() };
  };
  return { visit, clock, fail };
}

const shown = (c: Context): Response =>
  c.json(c.get("headgate").decisions.map(({ policy, dryRun, allowed }) => ({ policy, dryRun, allowed })));

describe("dry runs", () => {
  it("the decisions include that of a dry run on its own key, which denies nothing", async () => {
    const app = new Hono();
    app.use(rateLimit({ name: "trial", limits: "1/minute", dryRun: true }));
    app.get("*", shown);
    const { visit } = visiting(app);
    const trial = { policy: "trial", dryRun: true };
    expect(JSON.parse((await visit()).body)).toEqual([{ ...trial, allowed: true }]);
    const second = await visit();
    expect(JSON.parse(second.body)).toEqual([{ ...trial, allowed: false }]);
    expect([second.status, second.headers.has("RateLimit")]).toEqual([200, false]);
  });

  it("the decisions include those of dry runs, on the key of an enforced policy and on another key", async () => {
    const app = new Hono();
    app.use(
      rateLimit(
        { name: "enforced", limits: "9/minute" },
        { name: "same", limits: "1/minute", dryRun: true },
        { name: "other", limits: "1/minute", key: "header:X-User", dryRun: true },
      ),
    );
    app.get("*", (c) =>
      c.json({
        allowed: c.get("headgate").allowed,
        decisions: c.get("headgate").decisions.map(({ policy, dryRun }) => [policy, dryRun]),
      }),
    );
    const { visit } = visiting(app);
    await visit("/", { "X-User": "a" });
    const { body } = await visit("/", { "X-User": "a" });
    expect(JSON.parse(body)).toEqual({
      allowed: true,
      decisions: [
        ["enforced", false],
        ["same", true],
        ["other", true],
      ],
    });
  });

  it("a request passes a dry run whose object fails", async () => {
    const app = new Hono();
    app.use(rateLimit({ name: "trial", limits: "1/minute", dryRun: true, onError: "closed" }));
    app.get("*", shown);
    const { visit, fail } = visiting(app);
    fail();
    expect(await visit()).toMatchObject({ status: 200, body: "[]" });
  });
});

describe("a dry run of an object that gives no answer", () => {
  it("the handler waits at most the timeout of the dry run when the object hangs", async () => {
    const app = new Hono();
    app.use(rateLimit({ name: "trial", limits: "1/minute", dryRun: true, timeout: "250ms" }));
    app.get("*", shown);
    const { visit, clock, fail } = visiting(app);
    fail("silent");
    let isAnswered = false;
    const answering = visit().finally(() => (isAnswered = true));
    await clock.advance(249);
    expect(isAnswered).toBe(false);
    await clock.advance(1);
    expect((await answering).status).toBe(200);
  });
});

describe("reset", () => {
  it.each(["strict", "leased", "eventual"] as const)(
    "a handler forgets what the key of its request has used, with %s consistency",
    async (consistency) => {
      const app = new Hono();
      app.use(rateLimit({ limits: "2/minute", consistency, key: "header:X-User" }));
      app.get("/reset", async (c) => c.json(await c.get("headgate").reset()));
      app.get("*", (c) => c.text("hello"));
      const { visit } = visiting(app);
      const user = { "X-User": "a" };
      const other = { "X-User": "b" };
      expect([(await visit("/", other)).status, (await visit("/", other)).status]).toEqual([200, 200]);
      await visit("/", user);
      expect((await visit("/reset", user)).body).toBe("true");
      const statuses = [
        (await visit("/", user)).status,
        (await visit("/", user)).status,
        (await visit("/", user)).status,
      ];
      expect(statuses).toEqual([200, 200, 429]);
      expect((await visit("/", other)).status).toBe(429);
    },
  );

  it("a successful login removes the counted failures of its key", async () => {
    const app = new Hono();
    app.use(
      rateLimit({
        name: "login",
        limits: "3/hour",
        strategy: "sliding-log",
        count: { status: ["401"] },
      }),
    );
    app.get("/right", async (c) => {
      await c.get("headgate").reset("login");
      return c.text("welcome");
    });
    app.get("/wrong", (c) => c.text("wrong", 401));
    const { visit } = visiting(app);
    const statuses: number[] = [];
    for (const path of ["wrong", "wrong", "right", "wrong", "wrong", "wrong", "right"]) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push((await visit(`/${path}`)).status);
    }
    expect(statuses).toEqual([401, 401, 200, 401, 401, 401, 429]);
  });

  it("a reset by name affects one of several policies, and an unknown name is an error", async () => {
    const app = new Hono();
    app.use(rateLimit({ name: "first", limits: "9/minute" }));
    app.use(rateLimit({ name: "second", limits: "9/minute" }));
    app.onError(({ message }, c) => c.text(message, 500));
    app.get("/reset", async (c) => {
      await c.get("headgate").reset(c.req.query("policy"));
      return c.text("done");
    });
    app.get("*", (c) => c.json(c.get("headgate").decisions.map(({ limits }) => limits[0]?.remaining)));
    const { visit } = visiting(app);
    await visit();
    await visit("/reset?policy=second");
    expect((await visit()).body).toBe("[6,8]");
    expect((await visit("/reset?policy=third")).body).toBe(
      'reset: "third" is not a policy that was charged for this request; expected "first", "second"',
    );
  });
});

describe('onDeny: "continue"', () => {
  const softly = (...more: readonly RateLimitOptions[]): Hono => {
    const app = new Hono();
    app.use(rateLimit({ name: "soft", limits: "1/minute", onDeny: "continue" }, ...more));
    return app;
  };

  it("when a denied request reaches the handler, the handler's response has the fields of the denial", async () => {
    const app = softly();
    app.get("*", (c) => c.text(c.get("headgate").allowed ? "full" : "reduced"));
    const { visit } = visiting(app);
    expect((await visit()).body).toBe("full");
    const { status, headers, body } = await visit();
    expect([status, body]).toEqual([200, "reduced"]);
    expect(headers.get("RateLimit")).toMatch(/^"soft";r=0;t=\d+$/);
    expect(headers.get("RateLimit-Policy")).toBe('"soft";q=1;w=60');
    expect(headers.has("Retry-After")).toBe(false);
  });

  it("when a denied request reaches the handler, an error response of the handler has Retry-After", async () => {
    const app = softly();
    app.get("*", (c) => c.text("later", c.get("headgate").allowed ? 200 : (420 as 429)));
    const { visit } = visiting(app);
    await visit();
    const { status, headers } = await visit();
    expect(status).toBe(420);
    expect(headers.get("Retry-After")).toMatch(/^\d+$/);
  });

  it("when a denied request reaches the handler, its decisions name the policy that denies", async () => {
    const app = softly({ name: "hard", limits: "9/minute", key: "global" });
    app.get("*", shown);
    const { visit } = visiting(app);
    await visit();
    expect(JSON.parse((await visit()).body)).toEqual([
      { policy: "soft", dryRun: false, allowed: false },
      { policy: "hard", dryRun: false, allowed: true },
    ]);
  });

  it.each([["ip"], ["global"]])(
    "a request that goes on is charged to the other policies, whose key is %s, and they still deny it",
    async (key) => {
      const app = softly({ name: "hard", limits: "3/minute", strategy: "sliding-log", key });
      app.get("*", (c) => c.text("hello"));
      const { visit } = visiting(app);
      const statuses: number[] = [];
      for (let sent = 0; sent < 5; sent++) {
        // oxlint-disable-next-line no-await-in-loop
        statuses.push((await visit()).status);
      }
      expect(statuses).toEqual([200, 200, 200, 429, 429]);
      expect((await visit()).headers.get("RateLimit")).toMatch(/"hard";r=0;t=\d+$/);
    },
  );

  it("a request can reach the handler although several policies deny it", async () => {
    const app = softly(
      { name: "second", limits: "1/hour", key: "global", onDeny: "continue" },
      { name: "hard", limits: "9/minute", key: "header:X-User" },
    );
    app.get("*", shown);
    const { visit } = visiting(app);
    await visit();
    const { status, headers, body } = await visit();
    expect(status).toBe(200);
    expect(JSON.parse(body)).toEqual([
      { policy: "soft", dryRun: false, allowed: false },
      { policy: "second", dryRun: false, allowed: false },
      { policy: "hard", dryRun: false, allowed: true },
    ]);
    expect(headers.get("RateLimit")).toMatch(/^"soft";r=0;t=\d+$/);
  });

  it("the handler of a denied request can reset the policy that denies, which the request is not charged to", async () => {
    const app = softly();
    app.get("/reset", async (c) => c.json(await c.get("headgate").reset("soft")));
    app.get("*", (c) => c.json(c.get("headgate").allowed));
    const { visit } = visiting(app);
    await visit();
    expect((await visit()).body).toBe("false");
    expect((await visit("/reset")).body).toBe("true");
    expect((await visit()).body).toBe("true");
  });

  it("a handler cannot settle the reserved cost of a policy that denies", async () => {
    const app = new Hono();
    app.use(
      rateLimit({
        name: "tokens",
        limits: "10/minute",
        cost: 10,
        reserve: true,
        onDeny: "continue",
      }),
    );
    app.get("*", async (c) => c.json(await c.get("headgate").settle(10)));
    const { visit } = visiting(app);
    expect((await visit()).body).toBe("true");
    expect((await visit()).body).toBe("false");
  });

  it("a client on the deny list gets 403, even if denials by limits reach the handler", async () => {
    const app = new Hono();
    app.use(rateLimit({ name: "soft", limits: "1/minute", onDeny: "continue", deny: ["203.0.113.7"] }));
    app.get("*", (c) => c.text("hello"));
    expect((await visiting(app).visit()).status).toBe(403);
  });
});

describe("a function onDeny that throws", () => {
  /** Sends two requests, the second of which is denied by an `onDeny` that throws. Returns the second response. */
  async function denialBy(onDeny: (c: Context) => Response, prepare = (_app: Hono) => undefined) {
    const app = new Hono();
    prepare(app);
    app.use(rateLimit({ name: "outer", limits: "9/hour" }));
    app.use(rateLimit({ name: "inner", limits: "1/minute", onDeny }));
    app.get("*", (c) => c.text("hello"));
    const { visit } = visiting(app);
    await visit();
    return visit();
  }

  const broken = (): never => {
    throw new HTTPException(429, { message: "slow down" });
  };

  it("the response to an HTTPException that onDeny throws has the fields of the denial", async () => {
    const { status, headers, body } = await denialBy(broken);
    expect([status, body]).toEqual([429, "slow down"]);
    expect(headers.get("RateLimit")).toMatch(/^"inner";r=0;t=\d+$/);
    expect(headers.get("Retry-After")).toMatch(/^\d+$/);
  });

  it("the response inside an HTTPException that onDeny throws keeps its fields, and gets those of the denial", async () => {
    const { status, headers, body } = await denialBy(() => {
      const res = new Response("own", {
        status: 418,
        headers: { "Retry-After": "7", "X-Own": "1" },
      });
      throw new HTTPException(418, { res });
    });
    expect([status, body, headers.get("X-Own")]).toEqual([418, "own", "1"]);
    expect(headers.get("Retry-After")).toBe("7");
    expect(headers.get("RateLimit")).toMatch(/^"inner";r=0;t=\d+$/);
  });

  it.each<[string, string, (error: Error, c: Context) => Response]>([
    ["its response", "own", (error, c) => (error as HTTPException).getResponse() ?? c.text("")],
    ["another response", "{}", (_, c) => c.json({}, 503)],
    ["another response without the context", "{}", () => Response.json({}, { status: 503 })],
  ])("the Retry-After of an HTTPException stays when app.onError answers %s", async (_, text, answer) => {
    const throwing = (): never => {
      throw new HTTPException(402, {
        res: new Response("own", { headers: { "Retry-After": "99" } }),
      });
    };
    const { headers, body } = await denialBy(throwing, (app) => {
      app.onError(answer);
      return undefined;
    });
    expect([body, headers.get("Retry-After")]).toEqual([text, "99"]);
    expect(headers.get("RateLimit")).toMatch(/^"inner";r=0;t=\d+$/);
  });

  it.each<[string, (error: Error, c: Context) => Response]>([
    ["by the context", ({ message }, c) => c.json({ message }, 500)],
    ["by a response of its own", ({ message }) => Response.json({ message }, { status: 500 })],
  ])("the response that app.onError makes %s has the fields of the denial and earlier headers", async (_, answer) => {
    const { status, headers, body } = await denialBy(broken, (app) => {
      app.use(async (c, next) => {
        c.header("X-Request-Id", "42");
        await next();
      });
      app.onError(answer);
      return undefined;
    });
    expect([status, body]).toEqual([500, '{"message":"slow down"}']);
    expect(headers.get("Content-Type")).toContain("application/json");
    expect(headers.get("X-Request-Id")).toBe("42");
    expect(headers.get("RateLimit")).toMatch(/^"inner";r=0;t=\d+$/);
    expect(headers.get("Retry-After")).toMatch(/^\d+$/);
    expect(headers.get("Cache-Control")).toBe("no-store");
  });
});
