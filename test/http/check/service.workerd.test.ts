import { env, exports, RpcTarget } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { from, type Headgate, headgate, token } from "../harness.ts";
import { parseLimits } from "../../../src/strategies/index.ts";

/** As another Worker has it: a binding of the service, whose calls are RPC. */
const service = exports.Headgate;

/** Whatever a caller that is not checked by types may send. */
const untyped = service as unknown as Record<string, (...input: unknown[]) => Promise<unknown>>;

/** Of another policy on the same key. */
const other = { policy: "other", limits: parseLimits("1000000/hour"), cost: 1 };

const variables = { LIMITS: "10/minute", STRATEGY: "sliding-log", KEY: "ip" };
const key = "203.0.113.7";
const shipped = { ...env };

/** Sets what the Worker behind the binding reads, which shares `env` with the tests, and starts it anew. */
function configure(own: Record<string, unknown>): Headgate {
  vi.resetModules();
  for (const name of Object.keys(env)) if (!(name in shipped)) Reflect.deleteProperty(env, name);
  const KEY_SECRET = crypto.randomUUID();
  Object.assign(env, shipped, { KEY_SECRET, CHECK_TOKENS: token, ...own });
  return headgate({ KEY_SECRET, ...own });
}

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) }));
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** What a call throws, as it arrives. */
async function thrownBy(call: Promise<unknown>): Promise<{ message: string; problem: unknown }> {
  const thrown: unknown = await call.then(
    () => null,
    (error: unknown) => error,
  );
  if (!(thrown instanceof Error)) throw new Error(`no error: ${JSON.stringify(thrown)}`);
  expect(thrown.name).toBe("Error");
  return { message: thrown.message, problem: (thrown as { problem?: unknown }).problem };
}

describe("the service", () => {
  it("checks, looks and forgets: the same state as /check and the proxy, in the same shapes", async () => {
    const { check, send } = configure(variables);
    await send("/", from(key));
    const looked = await check("GET", `/check?key=${key}&cost=2`);
    expect(await service.look({ key, cost: 2 })).toEqual(await looked.json());
    const spent = await service.check({ policy: "default", key: [key], cost: 2 });
    expect(spent).toEqual({
      allowed: true,
      cost: 2,
      delayMs: 0,
      retryAfterMs: 0,
      bannedForMs: 0,
      limits: [
        {
          name: "default",
          strategy: "sliding-log",
          limit: 10,
          capacity: 10,
          windowMs: 60_000,
          allowed: true,
          remaining: 7,
          retryAfterMs: 0,
          replenishAfterMs: 60_000,
          resetAfterMs: 60_000,
        },
      ],
      policy: "default",
      reason: "limit",
      violated: [],
      headers: { "RateLimit-Policy": '"default";q=10;w=60', RateLimit: '"default";r=7;t=60' },
    });
    expect((await service.check({ key })).cost).toBe(1);
    expect((await send("/", from(key))).headers.get("RateLimit")).toBe('"default";r=5;t=60');
    expect(await service.forget({ key })).toBeUndefined();
    expect(await service.check({ key, cost: 0 })).toMatchObject({ limits: [{ remaining: 10 }] });
  });

  it("answers a denial, which is no error, and spends nothing for it", async () => {
    configure(variables);
    await service.check({ key, cost: 9 });
    expect(await service.check({ key, cost: 2 })).toMatchObject({
      allowed: false,
      violated: ["default"],
      retryAfterMs: 60_000,
      limits: [{ remaining: 1 }],
      headers: { "Retry-After": "60" },
    });
    expect((await service.check({ key, cost: 1 })).allowed).toBe(true);
  });

  it("takes limits of the call's own", async () => {
    configure(variables);
    const adhoc = { key: ["tenant", "42"], limits: "5/minute; 9/hour", strategy: "fixed-window" };
    await service.check({ ...adhoc, cost: 2 });
    expect(await service.look(adhoc)).toMatchObject({
      policy: "adhoc",
      limits: [{ remaining: 3 }, { remaining: 7 }],
    });
    const { id } = await service.reserve({ ...adhoc, cost: 3, ttlMs: 1_000 });
    expect(await service.settle({ id: id ?? "", cost: 0 })).toEqual({ settled: true });
    expect(await service.look(adhoc)).toMatchObject({ limits: [{ remaining: 3 }, {}] });
  });

  it("takes attributes, with which exceptions hold as in the proxy", async () => {
    const overrides = [{ when: "country=DE", limits: "20/minute" }];
    configure({ POLICIES: [{ name: "p", limits: "10/minute", overrides, deny: ["9.9.9.9"] }] });
    const attributes = { country: "DE" };
    const german = { reason: "limit", limits: [{ limit: 20 }] };
    expect(await service.check({ key, attributes })).toMatchObject(german);
    expect(await service.look({ key, attributes })).toMatchObject(german);
    expect(await service.reserve({ key, attributes, ttlMs: 1_000 })).toMatchObject(german);
    expect(await service.look({ key })).toMatchObject({ limits: [{ limit: 10 }] });
    expect(await service.check({ key: "9.9.9.9", attributes })).toMatchObject({ reason: "deny" });
    const { problem } = await thrownBy(service.check({ key, attributes: { country: "" } }));
    expect(problem).toMatchObject({ status: 422, errors: [{ field: "attributes.country" }] });
  });

  it("reserves and settles, once, what /check may settle too", async () => {
    const { check } = configure(variables);
    const first = await service.reserve({ key, cost: 6, ttlMs: 60_000 });
    expect(first).toMatchObject({ allowed: true, limits: [{ remaining: 4 }] });
    const id = String(first.id);
    expect(await service.reserve({ key, cost: 5, ttlMs: 60_000 })).toMatchObject({
      allowed: false,
      id: null,
    });
    expect(await service.settle({ id, cost: 2 })).toEqual({ settled: true });
    expect(await service.settle({ id, cost: 0 })).toEqual({ settled: false });
    expect(await service.settle({ id: "nothing", cost: 0 })).toEqual({ settled: false });
    expect(await service.look({ key })).toMatchObject({ limits: [{ remaining: 8 }] });
    const second = await service.reserve({ key, cost: 8, ttlMs: 60_000 });
    const response = await check("POST", "/check/settle", { id: second.id, cost: 1 });
    expect(await response.json()).toEqual({ settled: true });
    expect(await service.look({ key })).toMatchObject({ limits: [{ remaining: 7 }] });
  });

  it("decides calls made at once one after the other", async () => {
    configure(variables);
    const answers = await Promise.all(Array.from({ length: 30 }, () => service.check({ key })));
    expect(answers.filter(({ allowed }) => allowed)).toHaveLength(10);
  });
});

describe("what it throws", () => {
  const keys = "a well-formed text of 1 to 1024 UTF-8 bytes, or a list of such texts";
  const costs = "an integer from 0 to 1000000";

  it("is an Error that names every wrong field, with problem details", async () => {
    configure(variables);
    const wrong = { key: 5, cost: -1, colour: 1 };
    const known = "one of the fields policy, key, cost, limits, strategy, attributes";
    const detail = `key: expected ${keys}; cost: expected ${costs}; colour: expected ${known}`;
    for (const method of ["check", "look"]) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await thrownBy(untyped[method]?.(wrong) ?? Promise.resolve())).toEqual({
        message: `Unprocessable Content: ${detail}`,
        problem: {
          type: "about:blank",
          title: "Unprocessable Content",
          status: 422,
          detail,
          errors: [
            { field: "key", accepted: keys },
            { field: "cost", accepted: costs },
            { field: "colour", accepted: known },
          ],
        },
      });
    }
  });

  it.for<[string, unknown, string[]]>([
    ["check", undefined, ["body"]],
    ["check", "text", ["body"]],
    ["check", new Map([["key", key]]), ["key"]],
    ["check", { key: 1n, cost: 1n }, ["key", "cost"]],
    ["check", { key, cost: Number.NaN }, ["cost"]],
    ["check", { key: "not an address" }, ["key"]],
    ["check", { key: [key, key] }, ["key"]],
    ["check", {}, ["key"]],
    ["check", { key, limits: { limit: 0, window: "soon" } }, ["limits.limit", "limits.window"]],
    ["look", { key, ttlMs: 1_000 }, ["ttlMs"]],
    ["forget", { key, cost: 1 }, ["cost"]],
    ["forget", { policy: 1 }, ["policy"]],
    ["reserve", { key }, ["ttlMs"]],
    ["reserve", { key, ttlMs: 999 }, ["ttlMs"]],
    ["settle", { id: null, cost: 1.5 }, ["id", "cost"]],
    ["settle", {}, ["id", "cost"]],
  ])("names for %s of %o what is wrong: %j", async ([method, input, fields]) => {
    configure(variables);
    const { problem } = await thrownBy(untyped[method]?.(input) ?? Promise.resolve());
    const { status, errors } = problem as { status: number; errors: { field: string }[] };
    expect([status, errors.map(({ field }) => field)]).toEqual([422, fields]);
  });

  it("is the same for a list within itself and a text that is no UTF-8", async () => {
    configure(variables);
    const limits: unknown[] = [];
    limits.push(limits, { limit: limits, window: limits });
    for (const input of [{ key, limits }, { key: "\ud800" }]) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await thrownBy(service.check(input))).toMatchObject({ problem: { status: 422 } });
    }
  });

  it("is the same for what is no data, which is not called", async () => {
    configure(variables);
    const called = vi.fn<() => string>(() => key);
    class Target extends RpcTarget {
      get key(): string {
        return called();
      }
    }
    for (const input of [new Target(), called, { key: called }]) {
      // oxlint-disable-next-line no-await-in-loop
      const { problem } = await thrownBy(untyped["check"]?.(input) ?? Promise.resolve());
      expect(problem).toMatchObject({ status: 422 });
    }
    expect(called).not.toHaveBeenCalled();
  });

  it("is 404 for a policy that there is not", async () => {
    configure(variables);
    expect(await thrownBy(service.check({ policy: "nobody", key }))).toMatchObject({
      message: "Not Found: There is no policy with this name.",
      problem: { status: 404 },
    });
  });

  it("is 429 for a key with too many open reservations", async () => {
    configure(variables);
    const { id } = await service.reserve({ key, cost: 0, ttlMs: 10_000 });
    const [, partition = ""] = String(id).split(".");
    const object = env.RATE_LIMITER.getByName(partition);
    await Promise.all(
      Array.from({ length: 999 }, (_, each) =>
        object.reserve({ key: partition, charges: [other], id: String(each), ttlMs: 60_000 }),
      ),
    );
    expect(await thrownBy(service.reserve({ key, ttlMs: 1_000 }))).toMatchObject({
      message: expect.stringContaining("retry in 10 seconds") as string,
      problem: { status: 429, title: "Too Many Requests" },
    });
  });

  it("is 503 while the object is silent, unless the policy is local", async () => {
    const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
    const gone = (): Promise<never> => Promise.reject(new Error("gone"));
    const silent = { check: gone, look: gone, forget: gone, reserve: gone, settle: gone };
    const RATE_LIMITER = { getByName: () => silent };
    configure(variables);
    const { id } = await service.reserve({ key, ttlMs: 1_000 });
    const { KEY_SECRET } = env;
    configure({
      KEY_SECRET,
      RATE_LIMITER,
      POLICIES: [{ name: "p", limits: "2/s", onError: "open" }],
    });
    const calls = [
      service.check({ key }),
      service.look({ key }),
      service.forget({ key }),
      service.reserve({ key, ttlMs: 1_000 }),
      service.settle({ id: String(id), cost: 0 }),
    ];
    const unavailable = { problem: { status: 503, title: "Service Unavailable" } };
    expect(await Promise.all(calls.map(thrownBy))).toMatchObject(calls.map(() => unavailable));
    configure({ RATE_LIMITER, ...variables });
    const local = await service.reserve({ key, cost: 10, ttlMs: 1_000 });
    expect(local).toMatchObject({ allowed: true, id: null, headers: {} });
    expect((await service.check({ key })).allowed).toBe(false);
    expect(errors).toHaveBeenCalled();
  });

  it("is 500 for every call while the configuration is broken, and tells no value of it", async () => {
    vi.spyOn(console, "error").mockReturnValue(undefined);
    configure({ LIMITS: "canary1/minute", ORIGIN: "canary2", KEY: "canary3" });
    const calls = ["check", "look", "forget", "reserve", "settle"].map((method) =>
      thrownBy(untyped[method]?.({ key }) ?? Promise.resolve()),
    );
    for (const { message, problem } of await Promise.all(calls)) {
      expect(message).toMatch(/^Internal Server Error: The configuration of Headgate is invalid/);
      const { status, errors } = problem as { status: number; errors: { variable: string }[] };
      expect(status).toBe(500);
      expect(errors.map(({ variable }) => variable).toSorted()).toEqual([
        "KEY",
        "LIMITS",
        "ORIGIN",
      ]);
      expect(JSON.stringify([message, problem])).not.toContain("canary");
    }
  });

  it("is 500 for a fault of Headgate's own, which only the log tells", async () => {
    const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
    configure(variables);
    vi.spyOn(crypto.subtle, "sign").mockRejectedValue(new Error("no entropy"));
    const { message, problem } = await thrownBy(service.check({ key }));
    expect([message, problem]).toMatchObject([
      expect.not.stringContaining("entropy"),
      { status: 500, detail: "Headgate failed unexpectedly. Its log has the cause." },
    ]);
    expect(errors.mock.calls.join()).toContain('"error":"Error: no entropy"');
  });
});
