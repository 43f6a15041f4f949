/** Limits that a function in the options returns for each request, such as those of a customer in a database. */
import { Hono } from "hono";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { rateLimit, type Limits, type RateLimitOptions } from "../../../src/sdk/package/hono.ts";
import { createLimiter } from "../../../src/sdk/package/limiter.ts";
import { createTestLimiter } from "../../../src/sdk/package/test.ts";

beforeEach(() => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  vi.spyOn(console, "warn").mockReturnValue(undefined);
});
afterEach(() => void vi.restoreAllMocks());

/** The limits of each user, like rows of a database. Tests change them. */
type Rows = Record<string, unknown>;

const isFromRow = (rows: Rows) => async (c: { req: { header(name: string): string | undefined } }) =>
  rows[c.req.header("X-User") ?? ""] as Limits;

let policies = 0;

/** An app with limits from `rows`. The name of its policy is unique among the tests. */
function appOf(rows: Rows, options: Partial<RateLimitOptions> = {}) {
  policies += 1;
  const test = createTestLimiter();
  const name = options.name ?? `plan-${policies}`;
  const limiter = rateLimit({
    name,
    strategy: "sliding-log",
    key: (c) => c.req.header("X-User"),
    limits: isFromRow(rows),
    ...options,
  });
  const handled = vi.fn<() => void>();
  const app = new Hono();
  app.onError((error, c) => c.text(error.message, 500));
  app.use(limiter).get("*", (c) => {
    handled();
    return c.text("ok");
  });
  const ask = async (user: string) => app.request("/", { headers: { "X-User": user } }, test.env);
  const statuses = async (user: string, count: number): Promise<number[]> => {
    const all: number[] = [];
    // oxlint-disable-next-line no-await-in-loop
    for (let index = 0; index < count; index++) all.push((await ask(user)).status);
    return all;
  };
  return { ...test, name, limiter, handled, ask, statuses };
}

const events = (): unknown[] => vi.mocked(console.error).mock.calls.map(([line]) => JSON.parse(String(line)));

describe("the limits of a request", () => {
  it("each request is decided by the limits that the function returns, and its fields show them", async () => {
    const { ask, statuses, name } = appOf({ ann: "2/minute", bob: ["3/minute", "9/hour"] });
    expect(await statuses("ann", 3)).toEqual([200, 200, 429]);
    const { headers } = await ask("bob");
    expect(headers.get("RateLimit-Policy")).toBe(`"${name}.3-per-1m";q=3;w=60, "${name}.9-per-1h";q=9;w=3600`);
    expect(await statuses("bob", 3)).toEqual([200, 200, 429]);
  });

  it("when the function returns a higher or lower limit, the counter is kept, and the next request uses the new limit", async () => {
    const rows: Rows = { ann: "2/minute" };
    const { ask, statuses, clock } = appOf(rows);
    expect(await statuses("ann", 3)).toEqual([200, 200, 429]);
    rows["ann"] = "5/minute";
    expect((await ask("ann")).headers.get("RateLimit")).toMatch(/;r=2;/);
    rows["ann"] = "3/minute";
    expect(await statuses("ann", 1)).toEqual([429]);
    rows["ann"] = { limit: 4, window: "1m" };
    expect(await statuses("ann", 2)).toEqual([200, 429]);
    await clock.advance("1m");
    expect(await statuses("ann", 1)).toEqual([200]);
  });

  it("returned limits with another window or strategy have a separate counter, which is kept until it is idle", async () => {
    const rows: Rows = { ann: "1/minute" };
    const { statuses } = appOf(rows);
    expect(await statuses("ann", 2)).toEqual([200, 429]);
    rows["ann"] = "1/hour";
    expect(await statuses("ann", 2)).toEqual([200, 429]);
    rows["ann"] = "1/minute";
    expect(await statuses("ann", 1)).toEqual([429]);
  });

  it("limits are enforced even if requests bring more different limits than an isolate keeps", async () => {
    const users = Array.from({ length: 600 }, (_, index) => `user-${index}`);
    const rows = Object.fromEntries(users.map((user, index) => [user, `${1 + index}/hour`]));
    const { ask } = appOf(rows);
    const remaining = async (): Promise<(string | undefined)[]> => {
      const answers = await Promise.all(users.map(ask));
      return answers.map(({ headers }) => /;r=(\d+)/.exec(headers.get("RateLimit") ?? "")?.[1]);
    };
    expect(await remaining()).toEqual(users.map((_, index) => String(index)));
    expect(await remaining()).toEqual(users.map((_, index) => String(Math.max(0, index - 1))));
  });

  it("the limits function is not called for a request that skip exempts", async () => {
    const limits = vi.fn<() => string>().mockReturnValue("1/minute");
    const { statuses } = appOf({}, { limits, skip: () => true });
    expect(await statuses("ann", 3)).toEqual([200, 200, 200]);
    expect(limits).not.toHaveBeenCalled();
  });

  it("several policies whose limits come from functions are decided together", async () => {
    const { env } = createTestLimiter();
    const app = new Hono();
    const key = "header:X-User";
    app.use(
      rateLimit(
        { name: "burst", limits: () => "9/minute", key, strategy: "sliding-log" },
        { name: "total", limits: async () => "1/hour", key, strategy: "sliding-log" },
      ),
    );
    app.get("*", (c) => c.text("ok"));
    const ask = () => app.request("/", { headers: { "X-User": "ann" } }, env);
    const answers = [await ask(), await ask(), await ask()];
    expect(answers.map(({ status }) => status)).toEqual([200, 429, 429]);
    expect(answers[0]?.headers.get("RateLimit")).toMatch(/"burst";r=8;/);
  });
});

describe("precedence", () => {
  it("an override in the options takes precedence over the limits function", async () => {
    const { statuses } = appOf(
      { ann: "1/minute", bob: "1/minute" },
      { key: "header:X-User", overrides: [{ key: "ann", limits: "2/minute" }] },
    );
    expect(await statuses("ann", 3)).toEqual([200, 200, 429]);
    expect(await statuses("bob", 2)).toEqual([200, 429]);
  });

  it("the limits function is not called for keys on the allow or deny list", async () => {
    const options = { key: "header:X-User", allow: ["ann"], deny: ["bob"] } as const;
    const { statuses } = appOf({}, options);
    expect(await statuses("ann", 2)).toEqual([200, 200]);
    expect(await statuses("bob", 1)).toEqual([403]);
    expect(await statuses("cid", 1)).toEqual([500]);
  });
});

describe("invalid limits", () => {
  it.each([
    ["lots", "", '"lots"'],
    [[], "", "[]"],
    ["", "", '""'],
    [undefined, "", '"undefined"'],
    [null, "", "null"],
    [100, "", "100"],
    [() => "1/minute", "", '"a function"'],
    [[{ limit: 5, window: "soon" }], "[0].window", '"soon"'],
    [{ limit: Number.NaN, window: "1m" }, "limit", '"NaN"'],
    [{ limit: 5, window: "1m", strategy: "fast" }, "strategy", '"fast"'],
  ])("the limits %j answer 500 with a problem, and the event names the value", async (limits, field, value) => {
    const { ask, handled, name } = appOf({ ann: limits });
    const response = await ask("ann");
    expect(response.status).toBe(500);
    expect(response.headers.get("Content-Type")).toBe("application/problem+json");
    const expected = expect.stringMatching(new RegExp(`^the function limits of the policy "${name}" to return `));
    expect(await response.json()).toMatchObject({
      status: 500,
      title: "Internal Server Error",
      errors: [{ variable: "rateLimit({ limits })", field, accepted: expected }],
    });
    expect(handled).not.toHaveBeenCalled();
    expect(events()).toEqual([{ event: "configuration-invalid", problems: [expect.stringContaining(`got ${value}`)] }]);
    expect(JSON.stringify(events())).toContain("rateLimit({ limits })");
  });

  it("invalid limits are logged once, and requests with valid limits are still decided", async () => {
    const { statuses } = appOf({ ann: "lots", bob: "1/minute", cid: "few" });
    expect(await statuses("ann", 3)).toEqual([500, 500, 500]);
    expect(await statuses("bob", 2)).toEqual([200, 429]);
    expect(events()).toHaveLength(1);
    expect(await statuses("cid", 2)).toEqual([500, 500]);
    expect(events()).toHaveLength(2);
  });

  it("when a request has invalid limits for one policy, it is charged to no policy", async () => {
    const { env } = createTestLimiter();
    const first = { name: "sound", limits: "5/minute", key: "header:X-User" } as const;
    const app = new Hono();
    app.use(rateLimit(first, { name: "unsound", limits: () => "lots" }));
    expect((await app.request("/", { headers: { "X-User": "ann" } }, env)).status).toBe(500);
    const { limits } = await createLimiter(first).look(env, { key: "ann" });
    expect(limits[0]?.remaining).toBe(5);
  });

  it("returned limits that contradict other options of the policy are invalid", async () => {
    const rows: Rows = {
      ann: { limit: 2, window: "1m", strategy: "concurrency" },
      bob: "1/minute",
    };
    const { statuses } = appOf(rows, { consistency: "leased" });
    expect(await statuses("ann", 1)).toEqual([500]);
    expect(await statuses("bob", 2)).toEqual([200, 429]);
  });

  it("a returned limit with the name of another policy is invalid", async () => {
    const { env } = createTestLimiter();
    const app = new Hono();
    const named = { limit: 5, window: "1m", name: "other" };
    app.use(rateLimit({ name: "one", limits: () => named }, { name: "other", limits: "5/minute" }));
    const response = await app.request("/", {}, env);
    expect(response.status).toBe(500);
    expect(await response.text()).toContain("a name that no other policy or limit has");
  });

  it("an error that the limits function throws reaches app.onError", async () => {
    const limits = (): never => {
      throw new Error("the database is away");
    };
    const { ask, handled } = appOf({}, { limits });
    const response = await ask("ann");
    expect([response.status, await response.text()]).toEqual([500, "the database is away"]);
    expect(handled).not.toHaveBeenCalled();
  });

  it("a function as the option limit is an error that says to use limits", () => {
    const options = { limit: () => 5, windowMs: 1_000 } as unknown as RateLimitOptions;
    expect(() => rateLimit(options)).toThrow(/limits may be a function such as \(c\) => "100\/minute"/);
  });
});

describe("strategies and consistency", () => {
  it("maxDelay applies to returned limits only if they are a queue", async () => {
    const queue = { limit: 1, window: "10s", strategy: "leaky-bucket", burst: 5 };
    const { ask, statuses, clock } = appOf({ ann: queue, bob: "1/minute" }, { maxDelay: "10s" });
    const delayed = [ask("ann"), ask("ann"), ask("ann")];
    await clock.advance("10s");
    const answers = await Promise.all(delayed);
    // The three requests may reach the object in any order.
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 200, 429]);
    expect(await statuses("bob", 2)).toEqual([200, 429]);
  });

  it("slots are freed even if the limits of a key change while a request occupies one", async () => {
    const slots = (limit: number) => ({ limit, window: "1m", strategy: "concurrency" });
    const rows: Rows = { ann: slots(1) };
    const { ask, limiter, env, name } = appOf(rows);
    const held = await limiter.reserve(env, {
      key: "ann",
      ttlMs: 60_000,
      limits: slots(1) as Limits,
    });
    expect((await ask("ann")).status).toBe(429);
    rows["ann"] = slots(2);
    expect((await ask("ann")).status).toBe(200);
    await limiter.settle(env, { id: held.id, cost: 1 });
    rows["ann"] = slots(1);
    expect((await ask("ann")).status).toBe(200);
    expect(name).toMatch(/^plan-/);
  });

  it.each(["leased", "eventual"] as const)(
    "under %s consistency, lower limits deny at once, and higher ones allow the difference",
    async (consistency) => {
      const rows: Rows = { ann: "20/hour" };
      const { statuses, clock } = appOf(rows, { consistency });
      expect(await statuses("ann", 5)).toEqual([200, 200, 200, 200, 200]);
      rows["ann"] = "5/hour";
      expect(await statuses("ann", 2)).toEqual([429, 429]);
      await clock.advance("5s");
      rows["ann"] = "8/hour";
      expect(await statuses("ann", 5)).toEqual([200, 200, 200, 429, 429]);
    },
  );

  it("while the object is unavailable, the isolate enforces the limits of each request", async () => {
    const rows: Rows = { ann: "2/minute" };
    const { statuses, fail } = appOf(rows);
    fail();
    expect(await statuses("ann", 3)).toEqual([200, 200, 429]);
    rows["ann"] = "3/minute";
    expect(await statuses("ann", 2)).toEqual([200, 429]);
  });

  it("a dry run reports what the returned limits would deny", async () => {
    const { statuses, name } = appOf({ ann: "1/minute" }, { dryRun: true });
    expect(await statuses("ann", 2)).toEqual([200, 200]);
    await expect
      .poll(() => JSON.stringify(vi.mocked(console.warn).mock.calls))
      .toContain(`\\"dry-run-denied\\",\\"policy\\":\\"${name}\\"`);
  });
});

describe("outside of a route", () => {
  it("a check passes its limits in the call, and charges the counter of the route", async () => {
    const rows: Rows = { ann: "3/minute" };
    const { limiter, env, statuses } = appOf(rows);
    expect(await statuses("ann", 1)).toEqual([200]);
    const answer = await limiter.check(env, { key: "ann", limits: "3/minute" });
    expect(answer.limits[0]?.remaining).toBe(1);
    expect((await limiter.look(env, { key: "ann", limits: "9/minute" })).limits[0]?.remaining).toBe(7);
    expect(await statuses("ann", 2)).toEqual([200, 429]);
    await limiter.forget(env, { key: "ann" });
    expect(await statuses("ann", 1)).toEqual([200]);
  });

  it("a check without limits throws a TypeError if the policy's limits are a function", async () => {
    const { limiter, env, name } = appOf({});
    const call = limiter.check(env, { key: "ann" });
    await expect(call).rejects.toThrow(TypeError);
    await expect(limiter.reserve(env, { key: "ann", ttlMs: 1_000 })).rejects.toThrow(
      new RegExp(`^reserve\\(\\{ limits \\}\\) is missing: expected limits such as .* "${name}"`),
    );
  });

  it("the limits in a check replace fixed limits, but not overrides", async () => {
    const { env } = createTestLimiter();
    const limiter = createLimiter({
      name: "fixed",
      limits: "1/hour",
      key: "header:X",
      strategy: "sliding-log",
      overrides: [{ key: "vip", limits: "9/hour" }],
    });
    const check = async (key: string, limits?: string) =>
      (await limiter.check(env, { key, ...(limits !== undefined && { limits }) })).limits[0];
    expect(await check("a")).toMatchObject({ limit: 1, remaining: 0, strategy: "sliding-log" });
    expect(await check("a", "5/hour")).toMatchObject({ limit: 5, remaining: 3 });
    expect(await check("a")).toMatchObject({ allowed: false });
    expect(await check("vip", "2/hour")).toMatchObject({ limit: 9, remaining: 8 });
  });
});
