/** A limiter without a route: the calls of `rateLimit` and of `createLimiter`. */
import { Hono } from "hono";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { rateLimit } from "../../../src/sdk/package/hono.ts";
import { ConfigProblems, createLimiter, type LimiterCalls } from "../../../src/sdk/package/limiter.ts";
import { createTestLimiter } from "../../../src/sdk/package/test.ts";

beforeEach(() => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  vi.spyOn(console, "warn").mockReturnValue(undefined);
});
afterEach(() => void vi.restoreAllMocks());

const log = { strategy: "sliding-log" } as const;

/** The remaining units of each limit of a key. */
const remainingOf = async (limiter: LimiterCalls, env: object, key: string): Promise<number> =>
  (await limiter.look(env, { key })).limits[0]?.remaining ?? -1;

describe("the counter of a key", () => {
  it("requests of a route that is limited by address, and checks of the address, charge the same counter", async () => {
    const { env } = createTestLimiter();
    const limiter = rateLimit({ name: "shared", limits: "3/minute", ...log });
    const app = new Hono().use(limiter).get("*", (c) => c.text("ok"));
    const visit = async (): Promise<number> =>
      (await app.request("/", { headers: { "CF-Connecting-IP": "203.0.113.7" } }, env)).status;
    expect(await visit()).toBe(200);
    expect(await limiter.check(env, { key: "203.0.113.7" })).toMatchObject({
      allowed: true,
      policy: "shared",
      reason: "limit",
      violated: [],
      limits: [{ remaining: 1 }],
      headers: { "RateLimit-Policy": '"shared";q=3;w=60', RateLimit: '"shared";r=1;t=60' },
    });
    expect(await visit()).toBe(200);
    expect(await visit()).toBe(429);
    expect(await limiter.check(env, { key: "::ffff:203.0.113.7" })).toMatchObject({
      allowed: false,
      reason: "limit",
      violated: ["shared"],
      retryAfterMs: 60_000,
      headers: { "Retry-After": "60" },
    });
    await limiter.forget(env, { key: "203.0.113.7" });
    expect(await visit()).toBe(200);
  });

  it("a call names the key of a function by the text or list that the function would return", async () => {
    const { env } = createTestLimiter();
    const keys: (string | string[])[] = ["user-42", ["team", "red"], '["team","red"]', "[x"];
    const limiter = rateLimit({
      name: "user",
      limits: "5/minute",
      ...log,
      key: (c) => keys[Number(c.req.query("index"))],
    });
    const app = new Hono().use(limiter).get("*", (c) => c.text("ok"));
    for (const [index, key] of keys.entries()) {
      // oxlint-disable no-await-in-loop
      await app.request(`/?index=${index}`, {}, env);
      const { limits } = await limiter.check(env, { key });
      expect(limits[0]?.remaining).toBe(3);
      // oxlint-enable no-await-in-loop
    }
  });

  it("under the key global, calls charge one counter, whatever key they name", async () => {
    const { env } = createTestLimiter();
    const limiter = createLimiter({ name: "all", limits: "5/minute", ...log, key: "global" });
    await limiter.check(env, { key: "a" });
    await limiter.check(env, {});
    expect(await remainingOf(limiter, env, "b")).toBe(3);
  });

  it("a limiter without Hono shares the counters of a route with the same options", async () => {
    const { env } = createTestLimiter();
    const options = { name: "both", limits: "5/minute", ...log, key: () => "k" };
    const limiter = createLimiter(options);
    const app = new Hono().use(rateLimit(options)).get("*", (c) => c.text("ok"));
    await app.request("/", {}, env);
    expect(await remainingOf(limiter, env, "k")).toBe(4);
  });

  it("without the option key, a limiter without Hono accepts any text as key, like a key function", async () => {
    const { env } = createTestLimiter();
    const options = { name: "any-text", limits: "5/minute", ...log };
    const app = new Hono();
    app.use(rateLimit({ ...options, key: () => "user-42" })).get("*", (c) => c.text("ok"));
    await app.request("/", {}, env);
    const limiter = createLimiter(options);
    expect(await remainingOf(limiter, env, "user-42")).toBe(4);
    expect(await remainingOf(limiter, env, "203.0.113.7")).toBe(5);
    await expect(limiter.check(env, {})).rejects.toThrow(/^check\(\{ key \}\) is missing/);
  });

  it("two environments have separate counters", async () => {
    const limiter = createLimiter({ name: "own", limits: "1/minute" });
    const [one, other] = [createTestLimiter(), createTestLimiter()];
    expect((await limiter.check(one.env, { key: "a" })).allowed).toBe(true);
    expect((await limiter.check(one.env, { key: "a" })).allowed).toBe(false);
    expect((await limiter.check(other.env, { key: "a" })).allowed).toBe(true);
  });
});

describe("costs and reservations", () => {
  const options = { name: "units", limits: "100/hour", key: "header:X", ...log };

  it("the cost is that of the call, or else the number in the options, or else 1", async () => {
    const { env } = createTestLimiter();
    const fixed = createLimiter({ ...options, name: "fixed", cost: 5 });
    expect((await fixed.check(env, { key: "a" })).cost).toBe(5);
    expect((await fixed.check(env, { key: "a", cost: 2 })).cost).toBe(2);
    expect((await fixed.check(env, { key: "a", cost: 0 })).limits[0]?.remaining).toBe(93);
    expect((await createLimiter(options).check(env, { key: "a" })).cost).toBe(1);
  });

  it("a look charges nothing, and a cost above the capacity never fits", async () => {
    const { env } = createTestLimiter();
    const limiter = createLimiter(options);
    expect((await limiter.look(env, { key: "a", cost: 100 })).allowed).toBe(true);
    const denied = await limiter.check(env, { key: "a", cost: 101 });
    expect(denied).toMatchObject({ allowed: false, reason: "cost", retryAfterMs: null });
    expect(await remainingOf(limiter, env, "a")).toBe(100);
  });

  it("a reservation is settled once, to a lower or a higher cost", async () => {
    const { env } = createTestLimiter();
    const limiter = createLimiter(options);
    const { id, limits } = await limiter.reserve(env, { key: "a", cost: 60, ttlMs: 60_000 });
    expect(limits[0]?.remaining).toBe(40);
    expect(await limiter.settle(env, { id, cost: 10 })).toEqual({ settled: true });
    expect(await limiter.settle(env, { id, cost: 0 })).toEqual({ settled: false });
    expect(await remainingOf(limiter, env, "a")).toBe(90);
    const denied = await limiter.reserve(env, { key: "a", cost: 91, ttlMs: 60_000 });
    expect([denied.allowed, denied.id]).toEqual([false, null]);
    expect(await limiter.settle(env, denied.id === null ? { id: null, cost: 1 } : { id, cost: 1 })).toEqual({
      settled: false,
    });
  });

  it("a reservation on a key with too many open ones is denied, with this reason and a wait", async () => {
    const { env } = createTestLimiter();
    const limiter = createLimiter({ ...options, name: "many", limits: "5000/hour" });
    const open = Array.from({ length: 1_000 }, () => limiter.reserve(env, { key: "a", ttlMs: 60_000 }));
    expect((await Promise.all(open)).every(({ allowed }) => allowed)).toBe(true);
    const denied = await limiter.reserve(env, { key: "a", ttlMs: 60_000 });
    expect(denied).toMatchObject({ allowed: false, reason: "reservations", id: null });
    expect(denied.retryAfterMs).toBeGreaterThan(0);
  });
});

describe("lists and overrides", () => {
  it("allow, deny, overrides and dry runs decide by the key and the attributes", async () => {
    const { env } = createTestLimiter();
    const limiter = createLimiter(
      {
        name: "lists",
        limits: "1/hour",
        key: "ip",
        allow: ["192.0.2.0/24"],
        deny: ["198.51.100.9"],
        overrides: [{ key: "203.0.113.1", limits: "7/hour" }],
      },
      { name: "tested", limits: "1/hour", key: "header:X", dryRun: true, deny: ["evil"] },
      { name: "plans", limits: "1/hour", key: "header:X", deny: ["198.51.100.0/24"] },
    );
    const check = async (policy: string, key: string, attributes?: Record<string, string>) => {
      const { allowed, reason, limits } = await limiter.check(env, {
        policy,
        key,
        ...(attributes && { attributes }),
      });
      return [allowed, reason, limits[0]?.limit];
    };
    expect(await check("lists", "192.0.2.7")).toEqual([true, "allow", 1]);
    expect(await check("lists", "198.51.100.9")).toEqual([false, "deny", 1]);
    expect(await check("lists", "203.0.113.1")).toEqual([true, "limit", 7]);
    expect(await check("tested", "evil")).toEqual([true, "dry-run", 1]);
    expect(await check("plans", "a", { ip: "198.51.100.1" })).toEqual([false, "deny", 1]);
    expect(await check("plans", "a", { ip: "203.0.113.1" })).toEqual([true, "limit", 1]);
  });
});

describe("while the object is unavailable", () => {
  const options = { limits: "1/minute", key: "header:X" } as const;

  it.each([
    ["open", true, {}],
    ["closed", false, { "Retry-After": "1" }],
  ] as const)(
    "while the object is unavailable, onError = %j answers `allowed: %s` with that reason",
    async (onError, allowed, headers) => {
      const { env, fail, recover, clock } = createTestLimiter();
      const limiter = createLimiter({ ...options, name: "out", onError });
      fail();
      const answer = {
        allowed,
        reason: "unavailable",
        limits: [],
        violated: [],
        policy: "out",
        headers,
      };
      for (const method of ["check", "look"] as const) {
        // oxlint-disable-next-line no-await-in-loop
        expect(await limiter[method](env, { key: "a" })).toMatchObject(answer);
      }
      const reserved = await limiter.reserve(env, { key: "a", ttlMs: 1_000 });
      expect(reserved).toMatchObject({ ...answer, id: null });
      recover();
      await clock.advance("1s");
      expect((await limiter.check(env, { key: "a" })).reason).toBe("limit");
    },
  );

  it('onError = "local" enforces the limits in the isolate', async () => {
    const { env, fail } = createTestLimiter();
    const limiter = createLimiter({ ...options, name: "local" });
    fail();
    const answers = [await limiter.check(env, { key: "a" }), await limiter.check(env, { key: "a" })];
    expect(answers.map(({ allowed }) => allowed)).toEqual([true, false]);
  });

  it("forget and settle throw an error with problem details, and can be repeated", async () => {
    const { env, fail, recover, clock } = createTestLimiter();
    const limiter = createLimiter({ ...options, name: "again" });
    const { id } = await limiter.reserve(env, { key: "a", ttlMs: 60_000 });
    fail();
    const problem = { problem: { status: 503 } };
    await expect(limiter.settle(env, { id, cost: 0 })).rejects.toMatchObject(problem);
    await expect(limiter.forget(env, { key: "a" })).rejects.toMatchObject(problem);
    recover();
    await clock.advance("1s");
    expect(await limiter.settle(env, { id, cost: 0 })).toEqual({ settled: true });
    await limiter.forget(env, { key: "a" });
  });
});

describe("invalid input", () => {
  const { env } = createTestLimiter();
  const one = createLimiter({ name: "one", limits: "5/minute", key: "ip" });
  const two = createLimiter(
    { name: "first", limits: "5/minute", key: "ip" },
    { name: "second", limits: "5/minute", key: () => "k" },
  );
  const messageOf = async (call: Promise<unknown>): Promise<string> => {
    const error: unknown = await call.then(
      () => null,
      (thrown: unknown) => thrown,
    );
    if (!(error instanceof TypeError)) throw new Error(`expected a TypeError, got ${String(error)}`);
    return error.message;
  };
  const anyInput = (input: unknown) => input as { key: string };

  it.each([
    [{ key: "203.0.113.7", cost: 1.5 }, "check({ cost }): expected an integer from 0 to 1000000, got 1.5"],
    [{ key: "203.0.113.7", cost: -1 }, "check({ cost }): expected an integer from 0 to 1000000, got -1"],
    [
      { key: "" },
      'check({ key }): expected a well-formed text of 1 to 1024 UTF-8 bytes, or a list of such texts, got ""',
    ],
    [
      { key: null },
      "check({ key }): expected a well-formed text of 1 to 1024 UTF-8 bytes, or a list of such texts, got null",
    ],
    [{}, "check({ key }) is missing: expected a text for ip, where ip is an IPv4 or IPv6 address"],
    [{ key: "nobody" }, 'check({ key }): expected a text for ip, where ip is an IPv4 or IPv6 address, got "nobody"'],
    [
      { key: ["a", "b"] },
      'check({ key }): expected a text for ip, where ip is an IPv4 or IPv6 address, got "(a list of 2)"',
    ],
    [
      { key: "x".repeat(1_025) },
      'check({ key }): expected a well-formed text of 1 to 1024 UTF-8 bytes, or a list of such texts, got "(a text of 1025 bytes)"',
    ],
    [
      { key: "203.0.113.7", limits: "lots" },
      expect.stringMatching(/^check\(\{ limits \}\): expected limits such as "10\/minute".*, got "lots"$/),
    ],
    [
      { key: "203.0.113.7", limits: [{ limit: 0, window: "1m" }] },
      expect.stringMatching(/^check\(\{ limits \}\)\[0\]\.limit: expected an integer .*, got 0/),
    ],
    [{ key: "203.0.113.7", policy: "other" }, 'check({ policy }): expected "one", got "other"'],
    [
      { key: "203.0.113.7", attributes: { ip: "x" } },
      'check({ attributes }).ip: expected an IPv4 or IPv6 address, got "x"',
    ],
    [
      { key: "203.0.113.7", attributes: { ip: "203.0.113.8" } },
      expect.stringMatching(
        /^check\(\{ attributes \}\)\.ip: expected no value, or the value that key has for ip, got "203\.0\.113\.8"/,
      ),
    ],
    [
      { key: "203.0.113.7", costs: 2 },
      expect.stringMatching(
        /^check\(\{ costs \}\): expected one of the fields policy, key, cost, limits, attributes, got 2; did you mean cost\?/,
      ),
    ],
    ["203.0.113.7", 'check: expected an object, got "203.0.113.7"'],
  ])("check(env, %j) throws a TypeError that names field, value and what is accepted", async (input, message) => {
    const thrown = await messageOf(one.check(env, anyInput(input)));
    expect(thrown).toEqual(message);
  });

  it("a call throws an error that names every invalid field", async () => {
    const lines = await messageOf(one.reserve(env, anyInput({ key: 7, cost: "1" }) as never));
    expect(lines.split("\n").map((line) => line.split(/[:]| is/)[0])).toEqual([
      "reserve({ key })",
      "reserve({ cost })",
      "reserve({ ttlMs })",
    ]);
  });

  it("a call of a limiter with several policies must name a policy", async () => {
    expect(await messageOf(two.look(env, { key: "203.0.113.7" }))).toBe(
      'look({ policy }) is missing: expected "first" or "second"',
    );
    expect(await messageOf(two.check(env, { policy: "second" }))).toBe(
      "check({ key }) is missing: expected a text, or a list of texts",
    );
    expect((await two.check(env, { policy: "second", key: "k" })).policy).toBe("second");
  });

  it("the errors of settle and forget name the invalid fields", async () => {
    expect(await messageOf(one.settle(env, { id: anyInput(undefined) as never, cost: 1 }))).toBe(
      "settle({ id }) is missing: expected the id of a reservation, or null",
    );
    expect(await messageOf(one.forget(env, {}))).toMatch(/^forget\(\{ key \}\) is missing: expected/);
    expect(await one.settle(env, { id: "unknown", cost: 1 })).toEqual({ settled: false });
  });

  it("a missing binding and a missing secret throw ConfigProblems that name them", async () => {
    const problemsOf = async (own: object): Promise<string> => {
      const thrown: unknown = await one.check(own, { key: "203.0.113.7" }).catch((error: unknown) => error);
      if (!(thrown instanceof ConfigProblems)) throw new Error("expected ConfigProblems");
      return thrown.message;
    };
    expect(await problemsOf({})).toMatch(/^RATE_LIMITER is missing: expected the binding/);
    expect(await problemsOf({ RATE_LIMITER: env.RATE_LIMITER })).toMatch(/KEY_SECRET is missing/);
  });

  it("an error about invalid options names createLimiter if the app called it", () => {
    expect(() => createLimiter({ limits: "lots" })).toThrow(/^createLimiter\.limits: expected/);
  });
});
