import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { from, headgate, statusOf } from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) }));
afterEach(() => void vi.useRealTimers());

const log = { name: "p", limits: "100/hour", strategy: "sliding-log" };
const visitor = from("203.0.113.7");

/** What is left of 100 units after a request for a path with these headers. */
async function leftAfter(
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

describe("a cost", () => {
  it("that is fixed is spent by each request", async () => {
    expect(await leftAfter({ cost: 7 }, "/")).toEqual([200, 93]);
  });

  it("beyond what a limit holds denies every request, and promises nothing", async () => {
    const { send } = headgate({ POLICIES: [{ ...log, cost: 101 }] });
    const response = await send("/", visitor);
    expect([response.status, response.headers.get("Retry-After")]).toEqual([429, null]);
  });
});

/** Texts, and what a request is charged by them where the most is 50. */
const told: [string, number][] = [
  ["1", 1],
  ["7", 7],
  ["007", 7],
  ["50", 50],
  ["51", 50],
  ["9007199254740993", 50],
  ["9".repeat(400), 50],
  ["", 1],
  ["0", 1],
  ["-0", 50],
  ["-1", 50],
  ["-100", 50],
  ["+7", 50],
  ["0.5", 50],
  ["1.0", 50],
  ["1e1", 50],
  ["1e309", 50],
  ["0x10", 50],
  ["NaN", 50],
  ["Infinity", 50],
  ["7 8", 50],
  ["7;8", 50],
  ["seven", 50],
  ["null", 50],
  ["٧", 50],
];

describe("a cost that a client tells", () => {
  const readable = told.filter(([text]) => /^[\x20-\x7e]*$/.test(text));

  it.each(readable)("in a header as %j is charged as %i", async (text, units) => {
    const cost = { from: "header:X-Cost", max: 50 };
    expect(await leftAfter({ cost }, "/", { "x-cost": text })).toEqual([200, 100 - units]);
  });

  it.each(told)("in a query as %j is charged as %i", async (text, units) => {
    const cost = { from: "query:cost", max: 50 };
    const path = `/?cost=${encodeURIComponent(text)}`;
    expect(await leftAfter({ cost }, path)).toEqual([200, 100 - units]);
  });

  it("is 1 where it is not told, and the greatest where it is told twice", async () => {
    const header = { from: "header:x-cost", max: 50 };
    const query = { from: "query:c", max: 50 };
    expect(await leftAfter({ cost: header }, "/")).toEqual([200, 99]);
    expect(await leftAfter({ cost: header }, "/", { "x-cost": "7, 9 ,1" })).toEqual([200, 91]);
    expect(await leftAfter({ cost: header }, "/", { "x-cost": "7,, x" })).toEqual([200, 50]);
    expect(await leftAfter({ cost: query }, "/?x=7")).toEqual([200, 99]);
    expect(await leftAfter({ cost: query }, "/?c=7&c=9&c=")).toEqual([200, 91]);
  });
});

it.each(["C=7", "c[]=7", "C%5B0%5D=7", "c=1&C[]=7&[c]=2", "x=1;c=7", "c%5B%5D=0007"])(
  "a cost in the query is charged in the form %s, which an origin may read as the parameter",
  async (query) => {
    const cost = { from: "query:c", max: 50 };
    expect(await leftAfter({ cost }, `/?${query}`)).toEqual([200, 93]);
  },
);

describe("a cost that the origin tells", () => {
  const cost = { from: "response-header:X-Tokens", reserve: 20, max: 60 };
  const after = (query: string): Promise<[number, number]> =>
    leftAfter({ cost }, `/answer?${query}`);

  it.each([
    ["X-Tokens=7", 7],
    ["x-tokens=0", 0],
    ["X-Tokens=45", 45],
    ["X-Tokens=61", 60],
    [`X-Tokens=${"9".repeat(300)}`, 60],
    ["X-Tokens=20", 20],
  ])("by %s is charged as %i in place of what was reserved", async (query, units) => {
    expect(await after(query)).toEqual([200, 100 - units]);
  });

  it.each(["", "X-Tokens=", "X-Tokens=-5", "X-Tokens=0.5", "X-Tokens=many", "X-Tokens=1e9"])(
    "by %j leaves what was reserved",
    async (query) => {
      expect(await after(query)).toEqual([200, 80]);
    },
  );

  it("may leave a debt, which is paid by waiting", async () => {
    const { send } = headgate({ POLICIES: [{ ...log, limits: "30/hour", cost }] });
    expect(await statusOf(send("/answer?X-Tokens=60", visitor))).toBe(200);
    const response = await send("/answer", visitor);
    expect([response.status, response.headers.get("RateLimit")]).toEqual([429, '"p";r=0;t=3600']);
  });

  it("is what stands when the origin cannot be reached, too: what it has done nobody knows", async () => {
    vi.spyOn(console, "error").mockReturnValue(undefined);
    expect(await leftAfter({ cost }, "/unreachable")).toEqual([502, 80]);
    vi.restoreAllMocks();
  });
});

describe("what came of a request", () => {
  const failures = { limits: "5/minute", count: { status: ["401", 403] } };

  it("counts by its status alone", async () => {
    const { send } = headgate({ POLICIES: [{ ...log, ...failures }] });
    const ask = (status: number): Promise<number> =>
      statusOf(send(`/answer?status=${status}`, visitor));
    const statuses = [200, 401, 200, 403, 404, 500, 401, 401, 200, 401, 200, 401];
    const answers = [];
    // oxlint-disable-next-line no-await-in-loop
    for (const status of statuses) answers.push(await ask(status));
    expect(answers).toEqual([200, 401, 200, 403, 404, 500, 401, 401, 200, 401, 429, 429]);
  });

  it("counts but for some statuses", async () => {
    const count = { exceptStatus: ["2xx", 404] };
    expect(await leftAfter({ count }, "/answer?status=202")).toEqual([202, 100]);
    expect(await leftAfter({ count }, "/answer?status=404")).toEqual([404, 100]);
    expect(await leftAfter({ count }, "/answer?status=500")).toEqual([500, 99]);
  });

  it("is that of the origin's redirect or cached answer, too", async () => {
    const count = { status: ["3xx"] };
    expect(await leftAfter({ count }, "/redirect")).toEqual([302, 99]);
    expect(await leftAfter({ count }, "/not-modified")).toEqual([304, 99]);
    expect(await leftAfter({ count }, "/")).toEqual([200, 100]);
  });

  it("decides over a cost, too: nothing where it does not count", async () => {
    const cost = { from: "response-header:x-tokens", reserve: 20, max: 60 };
    const both = { cost, count: { status: ["2xx"] } };
    expect(await leftAfter(both, "/answer?x-tokens=50")).toEqual([200, 50]);
    expect(await leftAfter(both, "/answer?status=503&x-tokens=50")).toEqual([503, 100]);
  });

  it("is told to each policy of one key by its own rule, in one call", async () => {
    const policies = [
      { ...log, name: "all" },
      { ...log, name: "failed", count: { status: ["5xx"] } },
      { ...log, name: "tokens", cost: { from: "response-header:x-tokens", reserve: 9, max: 99 } },
    ];
    const { send, check } = headgate({ POLICIES: policies });
    await statusOf(send("/answer?status=200&x-tokens=42", visitor));
    const left = policies.map(async ({ name }) => {
      const response = await check("GET", `/check?policy=${name}&key=203.0.113.7`);
      return (await response.json<{ limits: { remaining: number }[] }>()).limits[0]?.remaining;
    });
    expect(await Promise.all(left)).toEqual([99, 100, 58]);
  });

  it("is given back whole where another policy denies", async () => {
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

describe("50 wrong passwords at once", () => {
  it("let 5 through in a minute, and no success is charged", async () => {
    const login = { ...log, limits: "5/minute", count: { status: ["401"] } };
    const { send } = headgate({ POLICIES: [login] });
    const ask = (status: number): Promise<number> =>
      statusOf(send(`/answer?status=${status}`, visitor));
    for (let success = 0; success < 7; success++) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await ask(200)).toBe(200);
    }
    const answers = await Promise.all(Array.from({ length: 50 }, () => ask(401)));
    expect(answers.filter((status) => status === 401)).toHaveLength(5);
    expect(answers.filter((status) => status === 429)).toHaveLength(45);
  });
});
