/** `/check` in memory: the client and the service binding that a test limiter returns. */
import { describe, expect, it } from "vitest";
import { createClient, HeadgateError } from "../../../src/sdk/package/client.ts";
import { createTestLimiter } from "../../../src/sdk/package/test.ts";

const login = { name: "login", key: "ip", limits: "2/minute", strategy: "fixed-window" };
const tokens = {
  name: "tokens",
  key: "header:x-user",
  limits: "100/hour",
  strategy: "sliding-log",
};
const policies = [login, tokens];

describe("the client of a limiter in memory", () => {
  it("a check beyond the limit is denied, with the wait and the header fields to pass on", async () => {
    const { client, clock } = createTestLimiter({ policies });
    const check = () => client.check({ policy: "login", key: "203.0.113.7" });
    expect([await check(), await check()].map(({ allowed }) => allowed)).toEqual([true, true]);
    await clock.advance("10s");
    expect(await check()).toMatchObject({
      allowed: false,
      retryAfterMs: 50_000,
      policy: "login",
      reason: "limit",
      headers: { "Retry-After": "50" },
    });
    await clock.advance("50s");
    expect(await check()).toMatchObject({ allowed: true });
  });

  it("a look charges nothing, and a key that is deleted has no usage afterwards", async () => {
    const { client } = createTestLimiter({ policies });
    const key = { policy: "tokens", key: "ada" };
    await client.check({ ...key, cost: 99 });
    const remaining = async () => (await client.look(key)).limits[0]?.remaining;
    expect([await remaining(), await remaining()]).toEqual([1, 1]);
    await client.forget(key);
    expect(await remaining()).toBe(100);
  });

  it("a reservation is settled once, at its actual cost", async () => {
    const { client } = createTestLimiter({ policies });
    const key = { policy: "tokens", key: "ada" };
    const { id, allowed } = await client.reserve({ ...key, cost: 80, ttlMs: 60_000 });
    expect([allowed, typeof id]).toEqual([true, "string"]);
    expect(await client.settle({ id, cost: 30 })).toEqual({ settled: true });
    expect(await client.settle({ id, cost: 30 })).toEqual({ settled: false });
    expect((await client.look(key)).limits[0]?.remaining).toBe(70);
  });

  it("the checks of a batch are independent, and each has an answer or a problem", async () => {
    const { client } = createTestLimiter({ policies });
    const { results } = await client.batch({
      checks: [
        { policy: "login", key: "203.0.113.7", cost: 2 },
        { policy: "login", key: "203.0.113.7" },
        { policy: "unknown", key: "a" },
        { policy: "login", key: "203.0.113.8" },
      ],
    });
    expect(results).toMatchObject([
      { allowed: true },
      { allowed: false },
      { problem: { status: 404 } },
      { allowed: true },
    ]);
  });

  it.each([
    ["check", { policy: "login", key: "203.0.113.7", cost: -1 }, 422],
    ["check", { policy: "unknown", key: "a" }, 404],
    ["batch", { checks: [] }, 422],
  ] as const)("%s throws the problem of an invalid input: %j", async (operation, input, status) => {
    const { client } = createTestLimiter({ policies });
    const calling = client[operation](input as never);
    await expect(calling).rejects.toThrow(HeadgateError);
    await expect(calling).rejects.toMatchObject({ status, problem: { status } });
  });

  it("while the objects fail, a check throws under onError = closed, and the isolate decides it under onError = local", async () => {
    const { client, clock, fail, recover } = createTestLimiter({
      policies: ["closed", "local"].map((onError) => ({ ...login, name: onError, onError })),
    });
    const check = (policy: string) => client.check({ policy, key: "203.0.113.7" });
    fail();
    await expect(check("closed")).rejects.toMatchObject({ status: 503 });
    expect(await check("local")).toMatchObject({ allowed: true });
    recover();
    await clock.advance("1s");
    expect(await check("closed")).toMatchObject({ allowed: true });
  });

  it("an abort signal ends a call even if no object answers", async () => {
    const { client, fail } = createTestLimiter({ policies });
    fail("silent");
    const caller = new AbortController();
    const check = client.check({ policy: "login", key: "203.0.113.7" }, { signal: caller.signal });
    caller.abort(new Error("the caller has left"));
    await expect(check).rejects.toThrow("the caller has left");
  });
});

it("a client for service bindings works with the service in memory", async () => {
  const { service } = createTestLimiter({ policies });
  const client = createClient({ service });
  const check = { policy: "login", key: "203.0.113.7", cost: 3 };
  expect(await client.check(check)).toMatchObject({ allowed: false, reason: "cost" });
});

it("invalid policies of a test limiter are reported like those in variables", () => {
  const wrong = [
    { name: "login", limits: "5 per parsec" },
    { name: "login", limits: "5/hour" },
  ];
  expect(() => createTestLimiter({ policies: wrong })).toThrow(
    /POLICIES\[0\] \(login\) limits.*5 per parsec[^]*POLICIES\[1\] \(login\) name/,
  );
});
