/** The service binding for other Workers: the entrypoint `Headgate`. */
import { env, exports, RpcTarget } from "cloudflare:workers";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { fillReservations, from, type Headgate, headgate, token } from "../harness.ts";

/** The binding as another Worker has it. Calls are RPC. */
const service = exports.Headgate;

/** The same binding without its types, for invalid calls. */
const untyped = service as unknown as Record<string, (...input: unknown[]) => Promise<unknown>>;

const variables = { LIMITS: "10/minute", STRATEGY: "sliding-log", KEY: "ip" };

/** The key of the current test. Tests that share a Worker have different keys. */
let key = "";
let keys = 0;
const initialEnv = { ...env };

/** Restarts the Worker behind the binding with other variables. The Worker shares `env` with the tests. */
function restart(own: Record<string, unknown>): void {
  vi.resetModules();
  for (const name of Object.keys(env)) if (!(name in initialEnv)) Reflect.deleteProperty(env, name);
  Object.assign(env, initialEnv, own);
}
afterAll(() => restart({}));

function configure(own: Record<string, unknown>): Headgate {
  const KEY_SECRET = crypto.randomUUID();
  restart({ KEY_SECRET, CHECK_TOKENS: token, ...own });
  configured = { own, gate: headgate({ KEY_SECRET, ...own }) };
  return configured.gate;
}

let configured: { readonly own: object; readonly gate: Headgate } | null = null;

/** The Worker with `variables`. It restarts only if they differ from the last ones, since a restart takes 0.1 s. */
const shared = (): Headgate => (configured?.own === variables ? configured.gate : configure(variables));

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) });
  keys += 1;
  key = `203.0.113.${keys}`;
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** The error of a call as its caller receives it. */
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
  it("checks, looks and deletions by the service use the state of the proxy and have the answers of /check", async () => {
    const { check, send } = shared();
    await send("/", from(key));
    const look = await check("GET", `/check?key=${key}&cost=2`);
    expect(await service.look({ key, cost: 2 })).toEqual(await look.json());
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

  it("the service returns a denial as an answer, not as an error, and spends nothing", async () => {
    shared();
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

  it("the service accepts ad hoc limits", async () => {
    shared();
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

  it("the service accepts a name for ad hoc limits, and resets the counters of that name", async () => {
    shared();
    const adhoc = { key: "k", limits: "5/minute" };
    const named = { ...adhoc, name: "export" };
    expect(await service.check({ ...named, cost: 2 })).toMatchObject({ policy: "export" });
    expect(await service.look(adhoc)).toMatchObject({ limits: [{ remaining: 5 }] });
    expect(await service.look(named)).toMatchObject({ limits: [{ remaining: 3 }] });
    await service.forget({ key: "k", name: "export" });
    expect(await service.look(named)).toMatchObject({ limits: [{ remaining: 5 }] });
  });

  it("the service accepts attributes, to which overrides and deny apply", async () => {
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

  it("a reservation of the service is settled once, by the service or by /check", async () => {
    const { check } = shared();
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
});

describe("invalid input of the service", () => {
  const address = "203.0.113.7";

  it.for<[string, unknown, string[]]>([
    ["check", undefined, ["body"]],
    ["check", "text", ["body"]],
    ["check", new Map([["key", address]]), ["key"]],
    ["check", { key: 1n, cost: 1n }, ["key", "cost"]],
    ["check", { key: address, cost: Number.NaN }, ["cost"]],
    ["check", { key: "not an address" }, ["key"]],
    ["check", { key: [address, address] }, ["key"]],
    ["check", {}, ["key"]],
    ["check", { key: address, limits: { limit: 0, window: "soon" } }, ["limits.limit", "limits.window"]],
    ["look", { key: address, ttlMs: 1_000 }, ["ttlMs"]],
    ["forget", { key: address, cost: 1 }, ["cost"]],
    ["forget", { policy: 1 }, ["policy"]],
    ["reserve", { key: address }, ["ttlMs"]],
    ["reserve", { key: address, ttlMs: 999 }, ["ttlMs"]],
    ["settle", { id: null, cost: 1.5 }, ["id", "cost"]],
    ["settle", {}, ["id", "cost"]],
  ])("the service method %s throws 422 for %o with the invalid fields %j", async ([method, input, fields]) => {
    shared();
    const { problem } = await thrownBy(untyped[method]?.(input) ?? Promise.resolve());
    const { status, errors } = problem as { status: number; errors: { field: string }[] };
    expect([status, errors.map(({ field }) => field)]).toEqual([422, fields]);
  });

  it("the service throws 422 for a circular list and for a text with a lone surrogate", async () => {
    shared();
    const limits: unknown[] = [];
    limits.push(limits, { limit: limits, window: limits });
    for (const input of [{ key, limits }, { key: "\ud800" }]) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await thrownBy(service.check(input))).toMatchObject({ problem: { status: 422 } });
    }
  });

  it("the service throws 422 for functions and RPC targets, and does not call them", async () => {
    shared();
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
});

describe("errors of the service", () => {
  const acceptedKey = "a well-formed text of 1 to 1024 UTF-8 bytes, or a list of such texts";
  const costs = "an integer from 0 to 1000000";

  it("for invalid input, the service throws an Error with every invalid field and problem details", async () => {
    shared();
    const invalid = { key: 5, cost: -1, colour: 1 };
    const known = "one of the fields policy, key, cost, limits, strategy, name, attributes";
    const detail = `key: expected ${acceptedKey}; cost: expected ${costs}; colour: expected ${known}`;
    for (const method of ["check", "look"]) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await thrownBy(untyped[method]?.(invalid) ?? Promise.resolve())).toEqual({
        message: `Unprocessable Content: ${detail}`,
        problem: {
          type: "about:blank",
          title: "Unprocessable Content",
          status: 422,
          detail,
          errors: [
            { field: "key", accepted: acceptedKey },
            { field: "cost", accepted: costs },
            { field: "colour", accepted: known },
          ],
        },
      });
    }
  });

  it("the service throws 404 for an unknown policy", async () => {
    shared();
    expect(await thrownBy(service.check({ policy: "unknown", key }))).toMatchObject({
      message: "Not Found: There is no policy with this name.",
      problem: { status: 404 },
    });
  });

  it("the service throws 429 for a key with 1,000 open reservations", async () => {
    shared();
    const { id } = await service.reserve({ key, cost: 0, ttlMs: 10_000 });
    await fillReservations(Response.json({ id }), { ttlMs: 60_000 });
    expect(await thrownBy(service.reserve({ key, ttlMs: 1_000 }))).toMatchObject({
      message: expect.stringContaining("retry in 10 seconds") as string,
      problem: { status: 429, title: "Too Many Requests" },
    });
  });

  it("the service throws 503 while the object does not answer, unless the policy is local", async () => {
    const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
    const gone = (): Promise<never> => Promise.reject(new Error("gone"));
    const silent = { decide: gone, look: gone, forget: gone, reserve: gone, settle: gone };
    const RATE_LIMITER = { getByName: () => silent };
    shared();
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

  it("for an invalid configuration, the service throws 500 without any configured value", async () => {
    vi.spyOn(console, "error").mockReturnValue(undefined);
    configure({ LIMITS: "canary1/minute", ORIGIN: "canary2", KEY: "canary3" });
    const calls = ["check", "look", "forget", "reserve", "settle"].map((method) =>
      thrownBy(untyped[method]?.({ key }) ?? Promise.resolve()),
    );
    for (const { message, problem } of await Promise.all(calls)) {
      expect(message).toMatch(/^Internal Server Error: The configuration of Headgate is invalid/);
      const { status, errors } = problem as { status: number; errors: { variable: string }[] };
      expect(status).toBe(500);
      expect(errors.map(({ variable }) => variable).toSorted()).toEqual(["KEY", "LIMITS", "ORIGIN"]);
      expect(JSON.stringify([message, problem])).not.toContain("canary");
    }
  });

  it("for an unexpected failure, the service throws 500, and only the log has the cause", async () => {
    const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
    shared();
    vi.spyOn(crypto.subtle, "sign").mockRejectedValue(new Error("no entropy"));
    const { message, problem } = await thrownBy(service.check({ key }));
    expect([message, problem]).toMatchObject([
      expect.not.stringContaining("entropy"),
      { status: 500, detail: "Headgate failed unexpectedly. Its log has the cause." },
    ]);
    expect(errors.mock.calls.join()).toContain('"error":"Error: no entropy"');
  });
});
