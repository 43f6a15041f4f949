import { beforeEach, describe, expect, it, vi } from "vitest";
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
  it("answers each check in its place, by its own policy", async () => {
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

  it("answers each as it would be by itself", async () => {
    const [one, other] = [headgate({ POLICIES: policies }), headgate({ POLICIES: policies })];
    vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) });
    const checks = [
      { policy: "login", key: "203.0.113.7", cost: 2 },
      { policy: "login", key: "203.0.113.7", cost: 2 },
      { policy: "login", key: "198.51.100.1" },
      { policy: "shadow", key: "k", cost: 2 },
      { limits: ["5/hour", "2/second"], key: ["a", "b"], strategy: "sliding-log" },
    ];
    const alone = [];
    for (const each of checks) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await other.check("POST", "/check", each);
      // oxlint-disable-next-line no-await-in-loop
      alone.push(await response.json());
    }
    expect(await batch(one.check, checks)).toEqual(alone);
    vi.useRealTimers();
  });

  it("charges checks of one key one after the other, in their order", async () => {
    const { check } = headgate({ POLICIES: policies });
    const spend = { policy: "login", key: "203.0.113.7" };
    const results = await batch(check, [spend, { ...spend, cost: 3 }, spend, spend, spend]);
    expect(results.map(({ allowed }) => allowed)).toEqual([true, false, true, true, false]);
    expect(results.map(left)).toEqual([2, 2, 1, 0, 0]);
  });

  it("lets one stand whatever comes of the others", async () => {
    const { check } = headgate({ POLICIES: policies });
    const results = await batch(check, [
      { policy: "nobody", key: "k" },
      { policy: "login", key: "no address" },
      { policy: "api", key: "k" },
      { key: "k" },
    ]);
    const told = results.map(({ problem, allowed }) => problem?.status ?? allowed);
    expect(told).toEqual([404, 422, true, 422]);
    expect(results[0]?.problem).toMatchObject({ type: "about:blank", title: "Not Found" });
  });

  it("spends nothing for a cost of 0, and never gives anything back", async () => {
    const { check } = headgate({ POLICIES: policies });
    const spend = { policy: "login", key: "203.0.113.7" };
    const results = await batch(check, [{ ...spend, cost: 0 }, spend, { ...spend, cost: 0 }]);
    expect(results.map(left)).toEqual([3, 2, 2]);
    const look = await check("GET", "/check?policy=login&key=203.0.113.7&cost=0");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 2 }] });
  });

  it("bans who is denied in it, as a check by itself does", async () => {
    const { check } = headgate({ POLICIES: policies });
    const spend = { policy: "banned", key: "k" };
    await batch(check, [spend, spend]);
    const look = await check("GET", "/check?policy=banned&key=k");
    expect(await look.json()).toMatchObject({ allowed: false, bannedForMs: expect.any(Number) });
  });

  it("asks an object once for all of its keys", async () => {
    const batches: number[] = [];
    const stub = {
      batch: ({ calls }: { calls: unknown[] }) => {
        batches.push(calls.length);
        return Promise.reject(new Error("gone"));
      },
    };
    const { check } = headgate({ POLICIES: policies, RATE_LIMITER: { getByName: () => stub } });
    const keys = Array.from({ length: 50 }, (_, index) => `k${index}`);
    await batch(check, [
      ...keys.map((key) => ({ policy: "api", key })),
      { policy: "login", key: "203.0.113.7" },
    ]);
    expect(batches.toSorted((a, b) => a - b)).toEqual([1, 50]);
  });
});

describe("while there is no decision", () => {
  const call = (): Promise<never> => Promise.reject(new Error("gone"));
  const without = (onError: string): ReturnType<typeof headgate> =>
    headgate({
      POLICIES: [{ name: "p", limits: "2/minute", strategy: "fixed-window", onError }],
      RATE_LIMITER: { getByName: () => ({ batch: call }) },
    });

  it("each check of a closed or open policy is a problem of its own", async () => {
    for (const onError of ["closed", "open"]) {
      const { check } = without(onError);
      // oxlint-disable-next-line no-await-in-loop
      const results = await batch(check, [{ key: "203.0.113.7" }, { key: "203.0.113.8" }]);
      expect(results.map(({ problem }) => problem?.status)).toEqual([503, 503]);
    }
  });

  it("a local policy goes on by the isolate's own count", async () => {
    const { check } = without("local");
    const results = await batch(
      check,
      Array.from({ length: 3 }, () => ({ key: "203.0.113.7" })),
    );
    expect(results.map(({ allowed }) => allowed)).toEqual([true, true, false]);
  });
});

describe("a batch that is wrong", () => {
  const wrong = async (body: unknown, path = "/check/batch"): Promise<unknown> => {
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
  ])("names every wrong field: %j", async ([body, fields]) => {
    expect(await wrong(body)).toEqual([422, ...fields]);
  });

  it("has at most 100 checks, and spends nothing for more", async () => {
    const { check } = headgate({ LIMITS: "1000/minute", KEY: "header:x" });
    const checks = Array.from({ length: 101 }, () => ({ key: "k" }));
    expect(await statusOf(check("POST", "/check/batch", { checks }))).toBe(422);
    const look = await check("GET", "/check?key=k");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 1_000 }] });
    expect(await batch(check, checks.slice(1))).toHaveLength(100);
    const after = await check("GET", "/check?key=k");
    expect(await after.json()).toMatchObject({ limits: [{ remaining: 900 }] });
  });

  it("has at most 128 KiB", async () => {
    const { send } = headgate({ LIMITS: "1000/minute", KEY: "header:x" });
    const headers = { Authorization: "Bearer the-tests-token", "Content-Type": "application/json" };
    const asked = JSON.stringify({ checks: [{ key: "k" }] });
    const ask = (bytes: number): Promise<Response> =>
      send("/check/batch", { method: "POST", headers, body: asked.padEnd(bytes) });
    expect(await statusOf(ask(131_072))).toBe(200);
    expect(await statusOf(ask(131_073))).toBe(413);
  });

  it("takes nothing in its query, no other method, and no other type", async () => {
    expect(await wrong({ checks: [{ key: "k" }] }, "/check/batch?deny=429")).toEqual([422, "deny"]);
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
  const asked = async (token: string | null, check: object): Promise<[number, Result[]]> => {
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

  it("is needed, and must be for checks", async () => {
    expect((await asked(null, { key: "k" }))[0]).toBe(401);
    expect((await asked("looks", { key: "k" }))[0]).toBe(403);
    expect((await asked("plain", { key: "k" }))[0]).toBe(200);
  });

  it("must be for limits of the call's own where one of the checks has such", async () => {
    expect((await asked("plain", { key: "k", limits: "5/hour" }))[0]).toBe(403);
    expect((await asked("full", { key: "k", limits: "5/hour" }))[0]).toBe(200);
  });

  it("is that of its tenant's keys", async () => {
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
