/** The names of limiters that the app does not name. Each test has its own objects. */
import { Hono } from "hono";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ConfigProblems, rateLimit, type RateLimitOptions } from "../../../src/sdk/package/hono.ts";
import { createTestLimiter } from "../../../src/sdk/package/test.ts";

const visitor = { headers: { "CF-Connecting-IP": "203.0.113.7" } };

const visit = async (app: Hono, path: string, env: object) => {
  const { status, headers } = await app.request(path, visitor, env);
  return { status, name: /^"(.+?)"/.exec(headers.get("RateLimit-Policy") ?? "")?.[1] ?? null };
};

const statuses = async (app: Hono, paths: readonly string[], env: object): Promise<number[]> => {
  const found: number[] = [];
  // oxlint-disable-next-line no-await-in-loop
  for (const path of paths) found.push((await visit(app, path, env)).status);
  return found;
};

/** Sends a request, after which limiters of earlier tests no longer count as being loaded. */
beforeEach(async () => {
  const app = new Hono().use(rateLimit({ name: "before", limits: "1/minute" }));
  await app.get("/", (c) => c.text("hello")).request("/", visitor, createTestLimiter().env);
});

/** An app with one limiter for each path, constructed in this order. */
function appWith(limited: readonly (readonly [path: string, options: RateLimitOptions])[]): Hono {
  const app = new Hono();
  for (const [path, options] of limited) app.use(path, rateLimit(options));
  return app.get("*", (c) => c.text("hello"));
}

it("two limiters with equal options have separate counters", async () => {
  const { env } = createTestLimiter();
  const app = new Hono();
  app.use("/a", rateLimit({ limits: "1/minute" }));
  app.use("/b", rateLimit({ limits: "1/minute" }));
  app.get("*", (c) => c.text("hello"));
  expect(await statuses(app, ["/a", "/b", "/a", "/b"], env)).toEqual([200, 200, 429, 429]);
});

it("two limiters whose key functions have the same text have separate counters", async () => {
  const { env } = createTestLimiter();
  const keyOf = (name: string) => () => (name === "user" ? "42" : ["42"]);
  const app = appWith([
    ["/user", { limits: "1/minute", key: keyOf("user") }],
    ["/tenant", { limits: "1/minute", key: keyOf("tenant") }],
  ]);
  expect(await statuses(app, ["/user", "/tenant", "/user"], env)).toEqual([200, 200, 429]);
});

it("two limiters with different options have the same names, whichever gets the first request", async () => {
  const build = () =>
    appWith([
      ["/a", { limits: "1/minute" }],
      ["/b", { limits: "2/minute" }],
    ]);
  const namesOf = async (paths: readonly string[]) => {
    const { env } = createTestLimiter();
    const app = build();
    const found: Record<string, string | null> = {};
    // oxlint-disable-next-line no-await-in-loop
    for (const path of paths) found[path] = (await visit(app, path, env)).name;
    return found;
  };
  const first = await namesOf(["/a", "/b"]);
  expect(first).toEqual({ "/a": "default", "/b": expect.stringMatching(/^default-[0-9a-f]{8}$/) });
  expect(await namesOf(["/b", "/a"])).toEqual(first);
});

it("the name of a limiter depends neither on the order of its options nor on the text of its functions", async () => {
  const nameOf = async (options: RateLimitOptions) => {
    const app = appWith([
      ["/first", { limits: "1/minute" }],
      ["/second", options],
    ]);
    return (await visit(app, "/second", createTestLimiter().env)).name;
  };
  const match = { methods: "GET", path: "/*" };
  const name = await nameOf({ limits: "5/minute", key: () => "k", match });
  const again = { match: { path: "/*", methods: "GET" }, key: () => "another", limits: "5/minute" };
  expect(await nameOf(again)).toBe(name);
  expect(await nameOf({ ...again, limits: "6/minute" })).not.toBe(name);
});

it("one limiter on two routes has a single counter", async () => {
  const { env } = createTestLimiter();
  const limiter = rateLimit({ limits: "1/minute" });
  const app = new Hono().use("/a", limiter).use("/b", limiter);
  app.get("*", (c) => c.text("hello"));
  expect(await statuses(app as unknown as Hono, ["/a", "/b"], env)).toEqual([200, 429]);
});

it("limiters with the same explicit name and equal options share a counter", async () => {
  const { env } = createTestLimiter();
  const app = appWith([
    ["/a", { name: "both", limits: "1/minute", key: "ip" }],
    ["/b", { key: "ip", limits: "1/minute", name: "both" }],
  ]);
  expect(await statuses(app, ["/a", "/b"], env)).toEqual([200, 429]);
});

it("the same explicit name for different options is refused at construction, with advice on what to write", () => {
  rateLimit({ name: "login", limits: "1/minute" });
  expect(() => rateLimit({ name: "login", limits: "2/minute" })).toThrow(
    /^rateLimit\.name: expected a name of its own such as name: "login-2", .*, got "login"$/,
  );
});

it("an explicit name is refused if an unnamed limiter has already been given this name", () => {
  rateLimit({ limits: "1/minute" });
  expect(() => rateLimit({ name: "default", limits: "1/minute" })).toThrow(ConfigProblems);
});

it("an unnamed limiter is not called default if another limiter has this explicit name", async () => {
  const { env } = createTestLimiter();
  const app = appWith([
    ["/named", { name: "default", limits: "1/minute" }],
    ["/other", { limits: "1/minute" }],
  ]);
  expect(await statuses(app, ["/named", "/other"], env)).toEqual([200, 200]);
});

it("a limiter with three policies, one of which is unnamed, gives a name only to that one", async () => {
  const { env } = createTestLimiter();
  const app = new Hono();
  app.use(
    "/three",
    rateLimit(
      { limits: "5/minute" },
      { name: "user", limits: "6/minute" },
      { name: "all", limits: "7/minute", key: "global" },
    ),
  );
  app.use("/one", rateLimit({ limits: "5/minute" }));
  app.get("*", (c) => c.json(c.get("headgate").decisions.map(({ policy }) => policy)));
  const policies = async (path: string) => (await app.request(path, visitor, env)).json();
  expect(await policies("/three")).toEqual(["default", "user", "all"]);
  expect(await policies("/one")).toEqual([expect.stringMatching(/^default-[0-9a-f]{8}$/)]);
});

it("an app that is constructed several times has the same names each time", async () => {
  const { env } = createTestLimiter();
  const build = () =>
    appWith([
      ["/a", { limits: "3/minute" }],
      ["/b", { limits: "3/minute" }],
    ]);
  const found: number[] = [];
  for (let time = 0; time < 4; time++) {
    // oxlint-disable-next-line no-await-in-loop
    found.push(...(await statuses(build(), ["/a", "/b"], env)));
  }
  expect(found).toEqual([200, 200, 200, 200, 200, 200, 429, 429]);
});

it("an unnamed limiter answers 500, with advice, if its name has handled requests with other options", async () => {
  const { env } = createTestLimiter();
  const app = appWith([["/a", { limits: "1/minute" }]]);
  expect(await statuses(app, ["/a"], env)).toEqual([200]);
  const late = appWith([["/late", { limits: "2/minute" }]]);
  const response = await late.request("/late", visitor, env);
  expect(response.status).toBe(500);
  const accepted = expect.stringContaining('such as name: "login"');
  expect(await response.json()).toMatchObject({
    errors: [{ variable: "rateLimit", field: "name", accepted }],
  });
  expect(await statuses(app, ["/a"], env)).toEqual([429]);
});

describe("when the modules are part of a Worker's start", () => {
  /** Loads the package as a Worker does, which refuses random values until its startup has ended. */
  async function startWorker() {
    vi.resetModules();
    vi.spyOn(crypto, "randomUUID").mockImplementation(() => {
      throw new Error("Disallowed operation called within global scope");
    });
    const hono: typeof import("../../../src/sdk/package/hono.ts") = await import("../../../src/sdk/package/hono.ts");
    const limiter: typeof import("../../../src/sdk/package/limiter.ts") =
      await import("../../../src/sdk/package/limiter.ts");
    return { ...hono, ...limiter, endStart: () => void vi.restoreAllMocks() };
  }

  afterEach(() => {
    vi.restoreAllMocks();
    vi.resetModules();
  });

  it("an unnamed limiter is refused during a request, whether or not the app constructed others at startup", async () => {
    for (const hasOthers of [false, true]) {
      // oxlint-disable-next-line no-await-in-loop
      const worker = await startWorker();
      if (hasOthers) worker.rateLimit({ limits: "1/minute" });
      worker.endStart();
      expect(() => worker.rateLimit({ limits: "2/minute" })).toThrow(
        /^rateLimit\.name is missing: expected a name such as name: "login", because this limiter is constructed for a request/,
      );
      expect(() => worker.createLimiter({ limits: "2/minute" })).toThrow(/^createLimiter\.name is missing/);
    }
  });

  it("a named limiter may be constructed during a request, unless one from startup has the name with other options", async () => {
    const worker = await startWorker();
    worker.rateLimit({ name: "api", limits: "1/minute" });
    worker.endStart();
    expect(() => worker.rateLimit({ name: "late", limits: "2/minute" })).not.toThrow();
    expect(() => worker.rateLimit({ name: "api", limits: "1/minute" })).not.toThrow();
    expect(() => worker.rateLimit({ name: "api", limits: "2/minute" })).toThrow('got "api"');
  });

  it("limiters that the same line constructs have separate counters, even with other work in between", async () => {
    const worker = await startWorker();
    const app = new Hono();
    for (const path of ["/a", "/b"]) {
      // Other modules may be loaded between two limiters.
      // oxlint-disable-next-line no-await-in-loop
      await Promise.resolve();
      app.use(path, worker.rateLimit({ limits: "1/minute", key: "global" }));
    }
    app.get("*", (c) => c.text("hello"));
    worker.endStart();
    const { env } = createTestLimiter();
    expect(await statuses(app, ["/a", "/b", "/a", "/b"], env)).toEqual([200, 200, 429, 429]);
  });
});

it("a named limiter of a route that is loaded after the first request works", async () => {
  const { env } = createTestLimiter();
  const app = appWith([["/a", { limits: "1/minute" }]]);
  expect(await statuses(app, ["/a"], env)).toEqual([200]);
  const late = appWith([["/late", { name: "late", limits: "1/minute" }]]);
  expect(await statuses(late, ["/late", "/late"], env)).toEqual([200, 429]);
});
