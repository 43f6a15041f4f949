import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { from, headgate, statusOf } from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) }));
afterEach(() => void vi.useRealTimers());

const log = { name: "p", limits: "100/hour", strategy: "sliding-log" };
const visitor = from("203.0.113.7");

/** The status of a request, and how many of 100 units remain after it. */
async function statusAndRemaining(
  fields: object,
  path: string,
  headers: Record<string, string> = {},
): Promise<[number, number]> {
  const { send, check } = headgate({ POLICIES: [{ ...log, ...fields }] });
  const status = await statusOf(send(path, { headers: { ...visitor.headers, ...headers } }));
  const response = await check("GET", "/check?key=203.0.113.7");
  const { limits } = await response.json<{ limits: { remaining: number }[] }>();
  return [status, limits[0]?.remaining ?? Number.NaN];
}

describe("a fixed cost", () => {
  it("a fixed cost is charged for each request", async () => {
    expect(await statusAndRemaining({ cost: 7 }, "/")).toEqual([200, 93]);
  });
});

describe("a cost from the request", () => {
  /** More cases are in the unit tests of costs. */
  const texts: [string, number][] = [
    ["7", 7],
    ["51", 50],
    ["", 1],
    ["-1", 50],
  ];

  it.each(texts)("a cost of %j in a header is charged as %i", async (text, units) => {
    const cost = { from: "header:X-Cost", max: 50 };
    expect(await statusAndRemaining({ cost }, "/", { "x-cost": text })).toEqual([200, 100 - units]);
  });

  it.each(texts)("a cost of %j in the query is charged as %i", async (text, units) => {
    const cost = { from: "query:cost", max: 50 };
    expect(await statusAndRemaining({ cost }, `/?cost=${text}`)).toEqual([200, 100 - units]);
  });
});

describe("a cost from the response", () => {
  const cost = { from: "response-header:X-Tokens", reserve: 20, max: 60 };

  it.each([
    ["X-Tokens=7", 7],
    ["x-tokens=0", 0],
    ["X-Tokens=61", 60],
    ["X-Tokens=many", 20],
    ["", 20],
  ])("a response with %j settles the reserved cost to %i", async (query, units) => {
    expect(await statusAndRemaining({ cost }, `/answer?${query}`)).toEqual([200, 100 - units]);
  });

  it("a response cost above the limit leaves a debt, so the next wait is longer", async () => {
    const { send } = headgate({ POLICIES: [{ ...log, limits: "30/hour", cost }] });
    expect(await statusOf(send("/answer?X-Tokens=60", visitor))).toBe(200);
    const response = await send("/answer", visitor);
    expect([response.status, response.headers.get("RateLimit")]).toEqual([429, '"p";r=0;t=3600']);
  });

  it("the reserved cost stays charged when the origin is unreachable, since the origin may have done the work", async () => {
    vi.spyOn(console, "error").mockReturnValue(undefined);
    expect(await statusAndRemaining({ cost }, "/unreachable")).toEqual([502, 80]);
    vi.restoreAllMocks();
  });
});

describe("a policy with count", () => {
  const failures = { limits: "5/minute", count: { status: ["401", 403] } };

  it("with count, only responses with the listed statuses are charged", async () => {
    const { send } = headgate({ POLICIES: [{ ...log, ...failures }] });
    const sendFor = (status: number): Promise<number> => statusOf(send(`/answer?status=${status}`, visitor));
    const statuses = [200, 401, 200, 403, 404, 500, 401, 401, 200, 401, 200, 401];
    const answers = [];
    // oxlint-disable-next-line no-await-in-loop
    for (const status of statuses) answers.push(await sendFor(status));
    expect(answers).toEqual([200, 401, 200, 403, 404, 500, 401, 401, 200, 401, 429, 429]);
  });

  it("the field count applies to redirects and 304 responses too", async () => {
    const count = { status: ["3xx"] };
    expect(await statusAndRemaining({ count }, "/redirect")).toEqual([302, 99]);
    expect(await statusAndRemaining({ count }, "/not-modified")).toEqual([304, 99]);
    expect(await statusAndRemaining({ count }, "/")).toEqual([200, 100]);
  });

  it("each of several policies on one key is settled by its own cost rule", async () => {
    const policies = [
      { ...log, name: "all" },
      { ...log, name: "failed", count: { status: ["5xx"] } },
      { ...log, name: "tokens", cost: { from: "response-header:x-tokens", reserve: 9, max: 99 } },
    ];
    const { send, check } = headgate({ POLICIES: policies });
    await statusOf(send("/answer?status=200&x-tokens=42", visitor));
    const remaining = policies.map(async ({ name }) => {
      const response = await check("GET", `/check?policy=${name}&key=203.0.113.7`);
      return (await response.json<{ limits: { remaining: number }[] }>()).limits[0]?.remaining;
    });
    expect(await Promise.all(remaining)).toEqual([99, 100, 58]);
  });

  it("the whole reserved cost is refunded when another policy denies", async () => {
    const policies = [
      { ...log, name: "tokens", cost: { from: "response-header:x-t", reserve: 30, max: 99 } },
      { ...log, name: "global", key: "global", limits: "1/hour" },
    ];
    const { send, check } = headgate({ POLICIES: policies });
    expect(await statusOf(send("/answer", visitor))).toBe(200);
    expect(await statusOf(send("/answer", visitor))).toBe(429);
    const response = await check("GET", "/check?policy=tokens&key=203.0.113.7");
    expect(await response.json()).toMatchObject({ limits: [{ remaining: 70 }] });
  });
});

describe("a login policy", () => {
  it("only 5 of 50 concurrent logins with wrong passwords reach the origin, and no successful login is charged", async () => {
    const login = { ...log, limits: "5/minute", count: { status: ["401"] } };
    const { send } = headgate({ POLICIES: [login] });
    const sendFor = (status: number): Promise<number> => statusOf(send(`/answer?status=${status}`, visitor));
    for (let success = 0; success < 7; success++) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await sendFor(200)).toBe(200);
    }
    const answers = await Promise.all(Array.from({ length: 50 }, () => sendFor(401)));
    expect(answers.filter((status) => status === 401)).toHaveLength(5);
    expect(answers.filter((status) => status === 429)).toHaveLength(45);
  });
});
