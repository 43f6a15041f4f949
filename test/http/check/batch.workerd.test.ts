/** Batches of checks: `POST /check/batch`. */
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { FlatList } from "../../../src/limiter/flat-calls.ts";
import { nestedCalls } from "../../fakes/flat-calls.ts";
import { headgate, statusOf } from "../harness.ts";

beforeEach(() => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  vi.spyOn(console, "warn").mockReturnValue(undefined);
});

const policies = [
  { name: "login", limits: "3/minute", strategy: "fixed-window", deny: ["198.51.100.1"] },
  { name: "api", key: "header:x-api-key", limits: "2/minute", objects: "sharded", shards: 1 },
  { name: "shadow", key: "header:x", limits: "1/minute", dryRun: true },
  { name: "banned", key: "header:x", limits: "1/minute", strategy: "fixed-window", ban: "1h" },
];

interface Result {
  allowed?: boolean;
  policy?: string;
  problem?: { status: number; type: string };
  limits?: { remaining: number }[];
}

type Check = ReturnType<typeof headgate>["check"];

async function batch(check: Check, checks: readonly unknown[]): Promise<Result[]> {
  const response = await check("POST", "/check/batch", { checks });
  expect([response.status, response.headers.get("Cache-Control")]).toEqual([200, "no-store"]);
  const { results } = await response.json<{ results: Result[] }>();
  return results;
}

const left = ({ limits }: Result): number | undefined => limits?.[0]?.remaining;

describe("POST /check/batch", () => {
  it("a batch answers its checks in order, each by its own policy", async () => {
    const { check } = headgate({ POLICIES: policies });
    const results = await batch(check, [
      { policy: "api", key: "k" },
      { policy: "login", key: "203.0.113.7", cost: 3 },
      { policy: "api", key: "other", cost: 2 },
      { limits: "5/hour", key: "k" },
    ]);
    expect(results.map((each) => [each.policy, each.allowed, left(each)])).toEqual([
      ["api", true, 1],
      ["login", true, 0],
      ["api", true, 0],
      ["adhoc", true, 4],
    ]);
  });

  it("a batch answers each check as a single check would", async () => {
    const [batching, single] = [headgate({ POLICIES: policies }), headgate({ POLICIES: policies })];
    vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) });
    const checks = [
      { policy: "login", key: "203.0.113.7", cost: 2 },
      { policy: "login", key: "203.0.113.7", cost: 2 },
      { policy: "login", key: "198.51.100.1" },
      { policy: "shadow", key: "k", cost: 2 },
      { limits: ["5/hour", "2/second"], key: ["a", "b"], strategy: "sliding-log" },
    ];
    const singleAnswers = [];
    for (const each of checks) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await single.check("POST", "/check", each);
      // oxlint-disable-next-line no-await-in-loop
      singleAnswers.push(await response.json());
    }
    expect(await batch(batching.check, checks)).toEqual(singleAnswers);
    vi.useRealTimers();
  });

  it("a batch charges checks of one key sequentially, in order", async () => {
    const { check } = headgate({ POLICIES: policies });
    const spend = { policy: "login", key: "203.0.113.7" };
    const results = await batch(check, [spend, { ...spend, cost: 3 }, spend, spend, spend]);
    expect(results.map(({ allowed }) => allowed)).toEqual([true, false, true, true, false]);
    expect(results.map(left)).toEqual([2, 2, 1, 0, 0]);
  });

  it("a check of a batch that has a problem does not affect the other checks", async () => {
    const { check } = headgate({ POLICIES: policies });
    const results = await batch(check, [
      { policy: "unknown", key: "k" },
      { policy: "login", key: "no address" },
      { policy: "api", key: "k" },
      { key: "k" },
    ]);
    const outcomes = results.map(({ problem, allowed }) => problem?.status ?? allowed);
    expect(outcomes).toEqual([404, 422, true, 422]);
    expect(results[0]?.problem).toMatchObject({ type: "about:blank", title: "Not Found" });
  });

  it("a check of cost 0 in a batch is a look, which spends nothing", async () => {
    const { check } = headgate({ POLICIES: policies });
    const spend = { policy: "login", key: "203.0.113.7" };
    const results = await batch(check, [{ ...spend, cost: 0 }, spend, { ...spend, cost: 0 }]);
    expect(results.map(left)).toEqual([3, 2, 2]);
    const look = await check("GET", "/check?policy=login&key=203.0.113.7&cost=0");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 2 }] });
  });

  it("a denial in a batch begins a ban, as in a single check", async () => {
    const { check } = headgate({ POLICIES: policies });
    const spend = { policy: "banned", key: "k" };
    await batch(check, [spend, spend]);
    const look = await check("GET", "/check?policy=banned&key=k");
    expect(await look.json()).toMatchObject({ allowed: false, bannedForMs: expect.any(Number) });
  });

  it("a batch calls an object once for all of its keys", async () => {
    const batches: number[] = [];
    const stub = {
      decide: (texts: readonly string[], checks: FlatList) => {
        batches.push(nestedCalls({ texts, checks }).length);
        return Promise.reject(new Error("gone"));
      },
    };
    const { check } = headgate({ POLICIES: policies, RATE_LIMITER: { getByName: () => stub } });
    const keys = Array.from({ length: 50 }, (_, index) => `k${index}`);
    await batch(check, [...keys.map((key) => ({ policy: "api", key })), { policy: "login", key: "203.0.113.7" }]);
    expect(batches.toSorted((a, b) => a - b)).toEqual([1, 50]);
  });
});

describe("a batch while no object answers", () => {
  const call = (): Promise<never> => Promise.reject(new Error("gone"));
  const withoutObjects = (onError: string): ReturnType<typeof headgate> =>
    headgate({
      POLICIES: [{ name: "p", limits: "2/minute", strategy: "fixed-window", onError }],
      RATE_LIMITER: { getByName: () => ({ decide: call }) },
    });

  it("each check of a batch under a fail-open or fail-closed policy is answered with a problem while no object answers", async () => {
    for (const onError of ["closed", "open"]) {
      const { check } = withoutObjects(onError);
      // oxlint-disable-next-line no-await-in-loop
      const results = await batch(check, [{ key: "203.0.113.7" }, { key: "203.0.113.8" }]);
      expect(results.map(({ problem }) => problem?.status)).toEqual([503, 503]);
    }
  });

  it("a batch under a local policy is decided by the isolate while no object answers", async () => {
    const { check } = withoutObjects("local");
    const results = await batch(
      check,
      Array.from({ length: 3 }, () => ({ key: "203.0.113.7" })),
    );
    expect(results.map(({ allowed }) => allowed)).toEqual([true, true, false]);
  });
});

describe("an invalid batch", () => {
  const errorsOf = async (body: unknown, path = "/check/batch"): Promise<unknown> => {
    const { check } = headgate({ POLICIES: policies });
    const response = await check("POST", path, body);
    const { status, errors } = await response.json<{
      status: number;
      errors?: { field: string; accepted: string }[];
    }>();
    expect(response.headers.get("Content-Type")).toBe("application/problem+json");
    return [status, ...(errors ?? []).map(({ field }) => field)];
  };

  it.for<[unknown, string[]]>([
    [{}, ["checks"]],
    [{ checks: [] }, ["checks"]],
    [{ checks: {} }, ["checks"]],
    [{ checks: "x" }, ["checks"]],
    [{ checks: [{ key: "k" }], more: 1 }, ["more"]],
    [[], ["body"]],
    [null, ["body"]],
    [{ checks: [null] }, ["checks[0]"]],
    [{ checks: [{ key: "k" }, "x", [1]] }, ["checks[1]", "checks[2]"]],
    [{ checks: [{ key: "k" }, { key: "", cost: -1 }] }, ["checks[1].key", "checks[1].cost"]],
    [{ checks: [{ key: "k", limits: "0/s" }] }, ["checks[0].limits.limit"]],
    [{ checks: [{ key: "k", ttlMs: 1_000 }] }, ["checks[0].ttlMs"]],
  ])("an invalid batch is answered with 422 and every invalid field: %j", async ([body, fields]) => {
    expect(await errorsOf(body)).toEqual([422, ...fields]);
  });

  it("a batch of more than 100 checks is rejected and spends nothing", async () => {
    const { check } = headgate({ LIMITS: "1000/minute", KEY: "header:x" });
    const checks = Array.from({ length: 101 }, () => ({ key: "k" }));
    expect(await statusOf(check("POST", "/check/batch", { checks }))).toBe(422);
    const look = await check("GET", "/check?key=k");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 1_000 }] });
    expect(await batch(check, checks.slice(1))).toHaveLength(100);
    const after = await check("GET", "/check?key=k");
    expect(await after.json()).toMatchObject({ limits: [{ remaining: 900 }] });
  });

  it("a batch of more than 128 KiB is rejected", async () => {
    const { send } = headgate({ LIMITS: "1000/minute", KEY: "header:x" });
    const headers = { Authorization: "Bearer the-tests-token", "Content-Type": "application/json" };
    const body = JSON.stringify({ checks: [{ key: "k" }] });
    const ask = (bytes: number): Promise<Response> =>
      send("/check/batch", { method: "POST", headers, body: body.padEnd(bytes) });
    expect(await statusOf(ask(131_072))).toBe(200);
    expect(await statusOf(ask(131_073))).toBe(413);
  });

  it("a batch accepts no query parameters, only the method POST and only JSON", async () => {
    expect(await errorsOf({ checks: [{ key: "k" }] }, "/check/batch?deny=429")).toEqual([422, "deny"]);
    const { check, send } = headgate({ POLICIES: policies });
    const get = await check("GET", "/check/batch");
    expect([get.status, get.headers.get("Allow")]).toEqual([405, "POST"]);
    const headers = { Authorization: "Bearer the-tests-token", "Content-Type": "text/plain" };
    const init = { method: "POST", headers, body: "{}" };
    expect(await statusOf(send("/check/batch", init))).toBe(415);
  });
});

describe("the token of a batch", () => {
  const tokens = [
    { token: "full" },
    { token: "plain", may: ["check"] },
    { token: "looks", may: ["look"] },
    { token: "theirs", tenant: "acme" },
  ];
  const statusAndResults = async (token: string | null, check: object): Promise<[number, Result[]]> => {
    const { send } = headgate({ LIMITS: "5/minute", KEY: "header:x", CHECK_TOKENS: tokens });
    const response = await send("/check/batch", {
      method: "POST",
      headers: {
        "Content-Type": "application/json",
        ...(token !== null && { Authorization: `Bearer ${token}` }),
      },
      body: JSON.stringify({ checks: [check] }),
    });
    const { results = [] } = await response.json<{ results?: Result[] }>();
    return [response.status, results];
  };

  it("a batch requires a token with the right called check", async () => {
    expect((await statusAndResults(null, { key: "k" }))[0]).toBe(401);
    expect((await statusAndResults("looks", { key: "k" }))[0]).toBe(403);
    expect((await statusAndResults("plain", { key: "k" }))[0]).toBe(200);
  });

  it("a batch with ad hoc limits requires a token with the right called adhoc", async () => {
    expect((await statusAndResults("plain", { key: "k", limits: "5/hour" }))[0]).toBe(403);
    expect((await statusAndResults("full", { key: "k", limits: "5/hour" }))[0]).toBe(200);
  });

  it("a batch charges the keys of the token's tenant", async () => {
    const { send } = headgate({ LIMITS: "5/minute", KEY: "header:x", CHECK_TOKENS: tokens });
    const as = async (token: string): Promise<unknown> => {
      const response = await send("/check/batch", {
        method: "POST",
        headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
        body: JSON.stringify({ checks: [{ key: "k" }] }),
      });
      const { results } = await response.json<{ results: Result[] }>();
      return results.map(left);
    };
    expect([await as("full"), await as("theirs"), await as("full")]).toEqual([[4], [4], [3]]);
  });
});
