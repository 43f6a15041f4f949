/** The client with the app itself: its requests match the OpenAPI document, and it can read the answers. */
import { describe, expect, expectTypeOf, it } from "vitest";
import type * as server from "../../../src/app.ts";
import { createClient, HeadgateError, type HeadgateService } from "../../../src/sdk/package/client.ts";
import type * as client from "../../../src/sdk/package/client.ts";
import type { CheckAnswer } from "../../../src/http/check/answer.ts";
import type { ReserveAnswer, SettleAnswer } from "../../../src/http/check/operations.ts";
import type { ProblemDetails } from "../../../src/http/wire/problems.ts";
import type { LimitInput } from "../../../src/strategies/index.ts";
import { TestApp } from "../../http/app.ts";

const token = "the-tests-token";
const url = "https://headgate.example";
const policies = [
  {
    name: "api",
    limits: "5/minute",
    match: { path: "/api/*" },
    overrides: [{ when: "country=DE", limits: "9/minute" }],
  },
  { name: "pair", key: ["ip", "header:X-Api-Key"], limits: "5/minute", match: { path: "/pair" } },
];

function httpClient(app = new TestApp(policies)) {
  return createClient({ url, token, fetch: (target, init) => app.send(target, init) });
}

function serviceClient(app = new TestApp(policies)) {
  const { service, waitUntil } = app;
  return createClient({
    service: {
      check: (input) => service.check(input as server.CheckInput, waitUntil),
      look: (input) => service.look(input as server.CheckInput, waitUntil),
      forget: (input) => service.forget(input as server.ForgetInput, waitUntil),
      reserve: (input) => service.reserve(input as server.ReserveInput, waitUntil),
      settle: (input) => service.settle(input, waitUntil),
    },
  });
}

const ways = [
  { way: "HTTP", clientOf: httpClient },
  { way: "a service binding", clientOf: serviceClient },
] as const;

const thrownBy = async (call: Promise<unknown>): Promise<HeadgateError> => {
  const error: unknown = await call.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof HeadgateError)) throw new Error(`no HeadgateError: ${String(error)}`);
  return error;
};

describe.each(ways)("the client over $way", ({ way, clientOf }) => {
  const place = (http: string, method: string): string => (way === "HTTP" ? http : `service.${method}()`);

  it(`a check over ${way} charges the key, and a look charges nothing`, async () => {
    const limiter = clientOf();
    const answer = await limiter.check({ policy: "api", key: "192.0.2.1", cost: 2 });
    expect(answer).toMatchObject({ allowed: true, cost: 2, policy: "api", reason: "limit" });
    expect(answer.headers.RateLimit).toBe('"api";r=3;t=60');
    const looks = [await limiter.look({ policy: "api", key: "192.0.2.1", cost: 4 })];
    looks.push(await limiter.look({ policy: "api", key: ["192.0.2.1"] }));
    expect(looks.map(({ allowed, limits }) => [allowed, limits[0]?.remaining])).toEqual([
      [false, 3],
      [true, 3],
    ]);
  });

  it(`a denial over ${way} is an answer and not an error`, async () => {
    const limiter = clientOf();
    await limiter.check({ policy: "api", key: "192.0.2.1", cost: 5 });
    const denied = await limiter.check({ policy: "api", key: "192.0.2.1" });
    expect(denied).toMatchObject({ allowed: false, violated: ["api"], retryAfterMs: 60_000 });
    expect(await limiter.check({ policy: "api", key: "192.0.2.2", cost: 6 })).toMatchObject({
      allowed: false,
      reason: "cost",
      retryAfterMs: null,
    });
  });

  it(`a look over ${way} can send key parts, attributes, and characters that a URL must encode`, async () => {
    const limiter = clientOf();
    const key = ["192.0.2.1", "a&b=ü /?#+%"];
    await limiter.check({ policy: "pair", key, cost: 2 });
    const look = await limiter.look({ policy: "pair", key });
    expect(look.limits[0]?.remaining).toBe(3);
    const attributes = {
      country: "DE",
      "jwt:level": 3,
      "jwt:beta": true,
      "jwt:groups": ["a", "b"],
    };
    const german = await limiter.look({ policy: "api", key: "192.0.2.1", attributes });
    expect(german.limits[0]?.limit).toBe(9);
  });

  it(`a key that is deleted over ${way} has no usage afterwards`, async () => {
    const limiter = clientOf();
    await limiter.check({ policy: "api", key: "192.0.2.1", cost: 5 });
    expect(await limiter.forget({ policy: "api", key: "192.0.2.1" })).toBeUndefined();
    expect((await limiter.look({ policy: "api", key: "192.0.2.1" })).limits[0]?.remaining).toBe(5);
  });

  it(`a reservation over ${way} is settled to its actual cost, and only once`, async () => {
    const limiter = clientOf();
    const key = "192.0.2.1";
    const { id } = await limiter.reserve({ policy: "api", key, cost: 4, ttlMs: 60_000 });
    expect(await limiter.settle({ id, cost: 1 })).toEqual({ settled: true });
    expect(await limiter.settle({ id, cost: 1 })).toEqual({ settled: false });
    expect((await limiter.look({ policy: "api", key })).limits[0]?.remaining).toBe(4);
  });

  it(`a denied reservation over ${way} has no id, and settling it sends nothing`, async () => {
    const limiter = clientOf();
    const reservation = { policy: "api", key: "192.0.2.1", cost: 4, ttlMs: 60_000 };
    await limiter.reserve(reservation);
    const { allowed, id } = await limiter.reserve(reservation);
    expect([allowed, id]).toEqual([false, null]);
    expect(await limiter.settle({ id, cost: 1 })).toEqual({ settled: false });
  });

  it(`ad hoc limits over ${way} may have a name, whose counters can be reset`, async () => {
    const limiter = clientOf();
    const check = { key: "tenant", limits: "10/minute", name: "export" };
    expect(await limiter.check(check)).toMatchObject({ policy: "export" });
    expect((await limiter.check({ ...check, name: "login" })).limits[0]?.remaining).toBe(9);
    await limiter.forget({ key: "tenant", name: "export" });
    expect((await limiter.check({ ...check, cost: 0 })).limits[0]?.remaining).toBe(10);
  });

  it(`a check over ${way} takes ad hoc limits`, async () => {
    const limiter = clientOf();
    const limits = ["10/minute", { limit: 2, window: "1s", strategy: "token-bucket", burst: 3 }];
    const answer = await limiter.check({ key: "tenant", limits, strategy: "sliding-log" });
    expect(answer.limits.map(({ strategy, remaining }) => [strategy, remaining])).toEqual([
      ["sliding-log", 9],
      ["token-bucket", 2],
    ]);
  });

  it(`invalid fields over ${way} cause an error with problem details, which names the call`, async () => {
    const error = await thrownBy(clientOf().check({ policy: "api", key: "", cost: -1 }));
    expect(error).toMatchObject({ status: 422, isSafeToRepeat: true, retryAfterMs: null });
    expect(error.problem?.errors?.map(({ field }) => field)).toEqual(["key", "cost"]);
    expect(error.message).toBe(
      `${place(`POST ${url}/check`, "check")}: Unprocessable Content: ${error.problem?.detail}`,
    );
  });

  it(`an unknown policy over ${way} causes an error with status 404`, async () => {
    const error = await thrownBy(clientOf().look({ policy: "none", key: "k" }));
    expect(error).toMatchObject({ name: "HeadgateError", status: 404 });
    // Errors may be logged, and logs must not contain a key.
    expect(error.message).toMatch(
      place("GET https://headgate.example/check: Not Found: There is", "look").replace("?", ""),
    );
  });
});

describe("the client over HTTP", () => {
  it("a batch returns an answer or a problem for each check", async () => {
    const checks = [
      { policy: "api", key: "192.0.2.1" },
      { policy: "none", key: "k" },
    ];
    const { results } = await httpClient().batch({ checks });
    expect(results).toMatchObject([{ allowed: true }, { problem: { status: 404 } }]);
  });

  it("a client with another path calls the endpoints below it", async () => {
    const app = new TestApp(policies, { CHECK_PATH: "/limits/v1" });
    const fetch = (target: string, init: object): Promise<Response> => app.send(target, init);
    const limiter = createClient({ url: new URL(url), token, path: "/limits/v1", fetch });
    const { id } = await limiter.reserve({ policy: "api", key: "192.0.2.1", ttlMs: 1_000 });
    expect(await limiter.settle({ id, cost: 0 })).toEqual({ settled: true });
  });

  it("a wrong token causes an error with status 401, which does not contain the token", async () => {
    const app = new TestApp(policies);
    const fetch = (target: string, init: object): Promise<Response> => app.send(target, init);
    const limiter = createClient({ url, token: "a-wrong-secret", fetch });
    const error = await thrownBy(limiter.check({ key: "k" }));
    expect(error.status).toBe(401);
    expect(error.message).toMatch(/Unauthorized: The bearer token is invalid/);
    expect(JSON.stringify([error, error.message, error.stack])).not.toContain("a-wrong-secret");
  });
});

describe("the types of the client", () => {
  it("the types of the answers are those of the server", () => {
    expectTypeOf<client.CheckAnswer>().toEqualTypeOf<CheckAnswer>();
    expectTypeOf<client.ReserveAnswer>().toEqualTypeOf<ReserveAnswer>();
    expectTypeOf<client.SettleAnswer>().toEqualTypeOf<SettleAnswer>();
    expectTypeOf<client.Problem>().toEqualTypeOf<ProblemDetails>();
  });

  it("the arguments of the client's calls have the same fields as those of the server", () => {
    expectTypeOf<keyof client.CheckInput>().toEqualTypeOf<keyof server.CheckInput>();
    expectTypeOf<keyof client.ReserveInput>().toEqualTypeOf<keyof server.ReserveInput>();
    expectTypeOf<keyof client.ForgetInput>().toEqualTypeOf<keyof server.ForgetInput>();
    expectTypeOf<keyof client.SettleInput>().toEqualTypeOf<keyof server.SettleInput>();
    expectTypeOf<Required<server.CheckInput>["attributes"]>().toExtend<client.CheckInput["attributes"]>();
    expectTypeOf<LimitInput>().toExtend<client.CheckInput["limits"]>();
  });

  it("a service binding has the type that the client's options require", () => {
    type Binding = Service<typeof import("../../../src/index.ts").Headgate>;
    expectTypeOf<Binding>().toExtend<client.ServiceOptions["service"]>();
    expectTypeOf<Fetcher>().toExtend<client.ServiceOptions["service"]>();
    expectTypeOf<{ fetch: 5 }>().not.toExtend<client.ServiceOptions["service"]>();
    expectTypeOf<HeadgateService>().toExtend<client.ServiceOptions["service"]>();
    expectTypeOf<typeof fetch>().toExtend<client.Fetch>();
  });
});
