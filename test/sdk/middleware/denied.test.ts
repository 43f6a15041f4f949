/** The variable `headgate` of denied requests, in functions `onDeny` and in middleware outside the limiter. */
import { Hono, type Context } from "hono";
import { expect, it } from "vitest";
import { rateLimit, type RateLimitContext, type RateLimitOptions } from "../../../src/sdk/package/hono.ts";
import { createTestLimiter } from "../../../src/sdk/package/test.ts";

const shown = (c: Context) => {
  const variable: RateLimitContext = c.get("headgate");
  const decisions = variable.decisions.map(({ policy, allowed }) => [policy, allowed]);
  return { allowed: variable.allowed, decisions };
};

/** An app whose outermost middleware logs the variable after the inner middleware has answered. */
function logging(...limiters: readonly (readonly RateLimitOptions[])[]) {
  const { env, fail } = createTestLimiter();
  const log: unknown[] = [];
  const app = new Hono();
  app.use(async (c, next) => {
    await next();
    log.push({ status: c.res.status, ...shown(c) });
  });
  for (const options of limiters) app.use(rateLimit(...options));
  app.get("*", (c) => c.text("hello"));
  const visit = async () => app.request("/", { headers: { "CF-Connecting-IP": "203.0.113.7" } }, env);
  return { app, log, visit, fail };
}

const outer = { name: "outer", limits: "9/hour" };
const inner = { name: "inner", limits: "1/minute" };
const both = [
  ["outer", true],
  ["inner", false],
];

it("onDeny and an outer middleware can see that a request is denied, and by which policy", async () => {
  const seen: unknown[] = [];
  const onDeny = (c: Context): Response => {
    seen.push(shown(c));
    return c.text("slow down", 429);
  };
  const { log, visit } = logging([outer], [{ ...inner, onDeny }]);
  await visit();
  await visit();
  await visit();
  const denied = { allowed: false, decisions: both };
  expect(seen).toEqual([denied, denied]);
  expect(log).toEqual([
    { status: 200, allowed: true, decisions: [both[0], ["inner", true]] },
    { status: 429, ...denied },
    // The isolate answers this repeated denial without the object.
    { status: 429, ...denied },
  ]);
});

it("when onDeny throws an error, the decisions of the denial are still available", async () => {
  const onDeny = (): never => {
    throw new Error("broken");
  };
  const { app, log, visit } = logging([outer], [{ ...inner, onDeny }]);
  app.onError((_, c) => c.text("later", 503));
  await visit();
  await visit();
  expect(log.at(-1)).toEqual({ status: 503, allowed: false, decisions: both });
});

it("a denial without onDeny makes the decisions of all policies that decided available", async () => {
  const { log, visit } = logging([outer, inner]);
  await visit();
  await visit();
  expect(log.at(-1)).toEqual({ status: 429, allowed: false, decisions: both });
});

it('a policy that denies after another one with onDeny: "continue" has its decision beside that one', async () => {
  const soft = { name: "soft", limits: "1/minute", onDeny: "continue" } as const;
  const { log, visit } = logging([soft, { name: "hard", limits: "2/minute", key: "global" }]);
  await visit();
  await visit();
  await visit();
  expect(log.slice(1)).toEqual([
    {
      status: 200,
      allowed: false,
      decisions: [
        ["soft", false],
        ["hard", true],
      ],
    },
    {
      status: 429,
      allowed: false,
      decisions: [
        ["soft", false],
        ["hard", false],
      ],
    },
  ]);
});

it("a handler may reset the key of a request that another limiter denies", async () => {
  const onDeny = async (c: Context): Promise<Response> => c.json(await c.get("headgate").reset("inner"), 429);
  const { log, visit } = logging([outer], [{ ...inner, onDeny }]);
  await visit();
  expect(await (await visit()).json()).toBe(true);
  expect((await visit()).status).toBe(200);
  expect(log).toHaveLength(3);
});

it.each<[string, Partial<RateLimitOptions>, number]>([
  ["on a deny list", { deny: ["203.0.113.7"] }, 403],
  ["without a part of the key", { key: "header:X-User", onMissingKey: "deny" }, 403],
  ["without a result of the key function", { key: () => null }, 403],
  ["that an object without an answer denies", { onError: "closed" }, 503],
])("a request %s is not allowed, whether or not a policy has decided it", async (...row) => {
  const [, options, status] = row;
  const { log, visit, fail } = logging([outer], [{ ...inner, ...options }]);
  if (status === 503) fail();
  await visit();
  expect(log).toMatchObject([{ status, allowed: false }]);
});

it("a request that a dry run would deny is shown as allowed, and so is a preflight", async () => {
  const { app, log, visit } = logging([{ ...inner, dryRun: true }]);
  await visit();
  await visit();
  const headers = { Origin: "https://a.example", "Access-Control-Request-Method": "GET" };
  await app.request("/", { method: "OPTIONS", headers }, createTestLimiter().env);
  expect(log).toMatchObject([
    { allowed: true },
    { status: 200, allowed: true, decisions: [["inner", false]] },
    { status: 404, allowed: true, decisions: [] },
  ]);
});
