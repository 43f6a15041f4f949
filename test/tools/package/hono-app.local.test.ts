/** A Hono Worker outside the repository that limits its routes with the middleware. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestHarness, type TestHarness } from "wrangler";
import { compilers, type FreshApp, freshApp, patient, tools } from "./fresh-app.ts";

const worker = `import { Hono } from "hono";
import { rateLimit } from "headgate/hono";

export { RateLimiter } from "headgate/object";

const options = { key: "header:X-User", limits: "5/hour", timeout: "${patient}" };
const app = new Hono();
app.use("/api/*", rateLimit({ ...options, strategy: "sliding-log" }));
app.get("/api/hello", (c) => c.json(c.get("headgate").decisions.map(({ policy }) => policy)));
app.use("/packed", rateLimit({ name: "packed", limits: "5/hour", reserve: true }));
app.get("/packed", async () => {
  const packed = new Blob(["unpacked once"]).stream().pipeThrough(new CompressionStream("gzip"));
  const body = await new Response(packed).arrayBuffer();
  return new Response(body, { headers: { "Content-Encoding": "gzip" }, encodeBody: "manual" });
});
interface Env {
  readonly PLAN?: string;
}
const perPlan = rateLimit<{ Bindings: Env }>({
  name: "plan",
  key: (c) => c.req.header("X-User"),
  limits: async (c) => c.env.PLAN ?? [{ limit: 2, window: "1h", strategy: "sliding-log" }],
});
app.use("/plan", perPlan);
app.get("/plan", async (c) => {
  const limits = { limit: 2, window: "1h", strategy: "sliding-log" } as const;
  const answer = await perPlan.check(c.env, { key: "four", limits });
  return c.json(answer.limits[0]?.remaining);
});
app.get("/", (c) => c.text("not limited"));

export default app;
`;

/** This code compiles only if each marked line has an error. */
const types = `import { rateLimit as fromRoot } from "headgate";
import { Hono, type MiddlewareHandler } from "hono";
import { rateLimit } from "headgate/hono";

type AppEnv = { Bindings: { PLAN: string }; Variables: { user: { id: string } } };
const limits = "5/minute";
const app = new Hono<AppEnv>();
app.use(rateLimit<AppEnv>({ limits, key: (c) => c.var.user.id, skip: (c) => c.env.PLAN === "free" }));
// @ts-expect-error: usr is not a variable of the app
app.use(rateLimit<AppEnv>({ limits, key: (c) => c.var.usr.idd }));
// @ts-expect-error: the environment is not stated
app.use(rateLimit({ limits, key: (c) => c.var.usr.idd }));
// @ts-expect-error: usr is not a variable of the app
app.get("/x", rateLimit<AppEnv>({ limits, key: (c) => c.var.usr.idd }), (c) => c.text(c.var.user.id));
export const inferred: MiddlewareHandler<AppEnv> = rateLimit({ limits, key: (c) => c.var.user.id });
// @ts-expect-error: usr is not a variable of the app
export const wrong: MiddlewareHandler<AppEnv> = rateLimit({ limits, key: (c) => c.var.usr.idd });
app.get("/teams/:team", rateLimit({ limits, key: (c) => ["team", c.req.param("team")] }), (c) =>
  c.text(c.req.param("team") + c.var.user.id + c.env.PLAN),
);
app.get("/lenient", rateLimit({ limits, match: { path: "/lenient", pathMatching: "exact" } }));
export const untyped = new Hono().use(rateLimit({ limits, key: (c) => c.req.header("X-Api-Key") }));
// @ts-expect-error: headgate itself has no code
fromRoot({ limits });
export default app;
`;

const configuration = `name = "app"
main = "src/index.ts"
compatibility_date = "2026-11-01"
compatibility_flags = ["enable_request_signal"]

[[durable_objects.bindings]]
name = "RATE_LIMITER"
class_name = "RateLimiter"

[[migrations]]
tag = "v1"
new_sqlite_classes = ["RateLimiter"]

[secrets]
required = ["KEY_SECRET"]
`;

const secrets = { KEY_SECRET: "a secret of more than thirty-two characters" };

let app: FreshApp;

beforeAll(async () => {
  app = await freshApp({ "src/index.ts": worker, "src/types.ts": types, "wrangler.toml": configuration }, [
    "@cloudflare/workers-types",
    "@cloudflare/vite-plugin",
    "hono",
    "vite",
    "wrangler",
  ]);
});

afterAll(() => app.remove());

it.each(compilers)("the Hono Worker compiles with TypeScript $version and $moduleResolution", async (compiler) => {
  expect(await app.typeErrors(compiler, ["@cloudflare/workers-types"])).toBe("");
});

describe.each(tools)("a Hono Worker with headgate/hono, built with %s", (tool) => {
  let server: TestHarness;

  beforeAll(async () => {
    server = createTestHarness({ workers: [{ ...(await app.builtBy(tool)), secrets }] });
    await server.listen();
  });

  afterAll(() => server.close());

  const get = (path: string, user: string): ReturnType<TestHarness["fetch"]> =>
    server.fetch(`https://app.example${path}`, { headers: { "x-user": user } });

  it("the Hono middleware allows exactly its limit of concurrent requests", async () => {
    const responses = await Promise.all(Array.from({ length: 12 }, () => get("/api/hello", "one")));
    const statuses = responses.map(({ status }) => status).toSorted((a, b) => a - b);
    expect(statuses).toEqual([...Array<number>(5).fill(200), ...Array<number>(7).fill(429)]);
    expect((await get("/", "one")).status).toBe(200);
  });

  it("a response body that the handler has compressed is not compressed again", async () => {
    expect(await (await get("/packed", "three")).text()).toBe("unpacked once");
  });

  it("a function returns the limits, and a check of the limiter charges the counter of the route", async () => {
    expect(await (await get("/plan", "four")).json()).toBe(0);
    expect((await get("/plan", "four")).status).toBe(429);
  });

  it("an allowed request has the decisions and the RateLimit fields, and a denied request gets problem details", async () => {
    const allowed = await get("/api/hello", "two");
    expect(await allowed.json()).toEqual(["default"]);
    expect(allowed.headers.get("ratelimit")).toMatch(/^"default";r=4;t=\d+$/);
    for (let sent = 1; sent < 5; sent += 1) await get("/api/hello", "two");
    const denied = await get("/api/hello", "two");
    expect(denied.headers.get("content-type")).toBe("application/problem+json");
    expect(Number(denied.headers.get("retry-after"))).toBeGreaterThan(0);
  });
});
