/** Functions for the option `key`: their types, and requests for which a function returns no key. */
import { Hono, type MiddlewareHandler } from "hono";
import { expect, it } from "vitest";
import { rateLimit, type RateLimitOptions } from "../../../src/sdk/package/hono.ts";
import { createTestLimiter } from "../../../src/sdk/package/test.ts";

const visitor = { headers: { "CF-Connecting-IP": "203.0.113.7" } };

/** Sends two requests under a limit of one. */
async function answersOf(options: object) {
  const { env } = createTestLimiter();
  const app = new Hono().use(rateLimit({ name: "user", limits: "1/minute", ...options }));
  app.get("*", (c) => c.text("hello"));
  const first = await app.request("/", visitor, env);
  const second = await app.request("/", visitor, env);
  return { statuses: [first.status, second.status], body: await first.text() };
}

it.each([[undefined], [null], [""], [[]], [["team", undefined]], [["team", null]], [["", "team"]]])(
  "a request for which the key function returns %j is denied, and the response names the missing key",
  async (key) => {
    const { statuses, body } = await answersOf({ key: () => key });
    expect(statuses).toEqual([403, 403]);
    expect(JSON.parse(body)).toMatchObject({
      detail: "The request is missing a required key part: key:user.",
      missing_parts: ["key:user"],
    });
  },
);

it.each([
  ["shared", [200, 429]],
  ["ip", [200, 429]],
  ["skip", [200, 200]],
  ["deny", [403, 403]],
] as const)(
  "onMissingKey %j decides about requests for which the key function returns nothing",
  async (onMissingKey, statuses) => {
    expect((await answersOf({ key: () => undefined, onMissingKey })).statuses).toEqual(statuses);
  },
);

it("requests without a named key part still share one counter by default", async () => {
  expect((await answersOf({ key: "header:X-User" })).statuses).toEqual([200, 429]);
});

it("match.pathMatching determines how match.path is compared", async () => {
  const statusesOf = async (match: NonNullable<RateLimitOptions["match"]>) => {
    const { env } = createTestLimiter();
    const app = new Hono().use(rateLimit({ limits: "1/minute", match }));
    app.get("*", (c) => c.text("hello"));
    const statusOf = async (path: string): Promise<number> => (await app.request(path, visitor, env)).status;
    return [await statusOf("/login"), await statusOf("/LOGIN")];
  };
  expect(await statusesOf({ path: "/login", pathMatching: "exact" })).toEqual([200, 200]);
  expect(await statusesOf({ path: "/login", pathMatching: "lenient" })).toEqual([200, 429]);
});

interface AppEnv {
  readonly Bindings: { readonly PLAN: string };
  readonly Variables: { readonly user: { readonly id: string } };
}

it("key functions have the variables of the app environment that is stated, and no others", () => {
  const limits = "5/minute";
  const app = new Hono<AppEnv>();
  app.use(rateLimit<AppEnv>({ limits, key: (c) => c.var.user.id }));
  app.use(rateLimit<AppEnv>({ limits, skip: (c) => c.env.PLAN === "free" }));
  // @ts-expect-error: usr is not a variable of the app
  app.use(rateLimit<AppEnv>({ limits, key: (c) => c.var.usr.idd }));
  // @ts-expect-error: the environment is not stated
  app.get("/x", rateLimit({ limits, key: (c) => c.var.usr.idd }));
  // @ts-expect-error: usr is not a variable of the handler's environment
  const wrong: MiddlewareHandler<AppEnv> = rateLimit({ limits, key: (c) => c.var.usr.idd });
  const right: MiddlewareHandler<AppEnv> = rateLimit({ limits, key: (c) => c.var.user.id });
  app.get("/y", right, wrong, (c) => c.text(c.var.user.id + c.env.PLAN));
  app.get("/:team", rateLimit({ limits, key: (c) => ["team", c.req.param("team")] }), (c) =>
    c.text(c.req.param("team") + c.var.user.id),
  );
  expect(app.routes).not.toEqual([]);
});
