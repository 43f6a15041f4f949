import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { isFull } from "../../mode.ts";
import { from, headgate, statusOf } from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) }));
afterEach(() => void vi.useRealTimers());

const log = { name: "p", limits: "100/hour", strategy: "sliding-log" };
const visitor = from("203.0.113.7");

/** The status of a request, and the units that remain of 100 after it. */
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

  it("a cost above capacity is denied without Retry-After", async () => {
    const { send } = headgate({ POLICIES: [{ ...log, cost: 101 }] });
    const response = await send("/", visitor);
    expect([response.status, response.headers.get("Retry-After")]).toEqual([429, null]);
  });
});

/** Texts and the cost that they are read as, with a maximum of 50; the unit tests of costs have more. */
const costTexts: [string, number][] = [
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

describe("a cost from the request", () => {
  const texts = isFull ? costTexts : costTexts.filter(([text]) => ["7", "51", "", "-1"].includes(text));
  const inHeader = texts.filter(([text]) => /^[\x20-\x7e]*$/.test(text));

  it.each(inHeader)("a cost of %j in a header is charged as %i", async (text, units) => {
    const cost = { from: "header:X-Cost", max: 50 };
    expect(await statusAndRemaining({ cost }, "/", { "x-cost": text })).toEqual([200, 100 - units]);
  });

  it.each(texts)("a cost of %j in the query is charged as %i", async (text, units) => {
    const cost = { from: "query:cost", max: 50 };
    const path = `/?cost=${encodeURIComponent(text)}`;
    expect(await statusAndRemaining({ cost }, path)).toEqual([200, 100 - units]);
  });

  it("a missing cost is 1, and of several costs the greatest is charged", async () => {
    const header = { from: "header:x-cost", max: 50 };
    const query = { from: "query:c", max: 50 };
    expect(await statusAndRemaining({ cost: header }, "/")).toEqual([200, 99]);
    expect(await statusAndRemaining({ cost: header }, "/", { "x-cost": "7, 9 ,1" })).toEqual([200, 91]);
    expect(await statusAndRemaining({ cost: header }, "/", { "x-cost": "7,, x" })).toEqual([200, 50]);
    expect(await statusAndRemaining({ cost: query }, "/?x=7")).toEqual([200, 99]);
    expect(await statusAndRemaining({ cost: query }, "/?c=7&c=9&c=")).toEqual([200, 91]);
  });
});

it.each(["C=7", "c[]=7", "C%5B0%5D=7", "c=1&C[]=7&[c]=2", "x=1;c=7", "c%5B%5D=0007"])(
  "a cost in the query that is written as %s is charged, since an origin may read it as the parameter c",
  async (query) => {
    const cost = { from: "query:c", max: 50 };
    expect(await statusAndRemaining({ cost }, `/?${query}`)).toEqual([200, 93]);
  },
);

describe("a cost from the response", () => {
  const cost = { from: "response-header:X-Tokens", reserve: 20, max: 60 };
  const answered = (query: string): Promise<[number, number]> => statusAndRemaining({ cost }, `/answer?${query}`);

  it.each([
    ["X-Tokens=7", 7],
    ["x-tokens=0", 0],
    ["X-Tokens=45", 45],
    ["X-Tokens=61", 60],
    [`X-Tokens=${"9".repeat(300)}`, 60],
    ["X-Tokens=20", 20],
  ])("a response with %s settles the reserved cost to %i", async (query, units) => {
    expect(await answered(query)).toEqual([200, 100 - units]);
  });

  it.each(["", "X-Tokens=", "X-Tokens=-5", "X-Tokens=0.5", "X-Tokens=many", "X-Tokens=1e9"])(
    "a response with %j leaves the reserved cost charged",
    async (query) => {
      expect(await answered(query)).toEqual([200, 80]);
    },
  );

  it("a response cost above the limit leaves a debt, which a longer wait repays", async () => {
    const { send } = headgate({ POLICIES: [{ ...log, limits: "30/hour", cost }] });
    expect(await statusOf(send("/answer?X-Tokens=60", visitor))).toBe(200);
    const response = await send("/answer", visitor);
    expect([response.status, response.headers.get("RateLimit")]).toEqual([429, '"p";r=0;t=3600']);
  });

  it("the reserved cost stays charged when the origin is unreachable, since it may have done the work", async () => {
    vi.spyOn(console, "error").mockReturnValue(undefined);
    expect(await statusAndRemaining({ cost }, "/unreachable")).toEqual([502, 80]);
    vi.restoreAllMocks();
  });
});

describe("a policy with count", () => {
  const failures = { limits: "5/minute", count: { status: ["401", 403] } };

  it("count charges only responses with the listed statuses", async () => {
    const { send } = headgate({ POLICIES: [{ ...log, ...failures }] });
    const sendFor = (status: number): Promise<number> => statusOf(send(`/answer?status=${status}`, visitor));
    const statuses = [200, 401, 200, 403, 404, 500, 401, 401, 200, 401, 200, 401];
    const answers = [];
    // oxlint-disable-next-line no-await-in-loop
    for (const status of statuses) answers.push(await sendFor(status));
    expect(answers).toEqual([200, 401, 200, 403, 404, 500, 401, 401, 200, 401, 429, 429]);
  });

  it("count with exceptStatus charges all other statuses", async () => {
    const count = { exceptStatus: ["2xx", 404] };
    expect(await statusAndRemaining({ count }, "/answer?status=202")).toEqual([202, 100]);
    expect(await statusAndRemaining({ count }, "/answer?status=404")).toEqual([404, 100]);
    expect(await statusAndRemaining({ count }, "/answer?status=500")).toEqual([500, 99]);
  });

  it("count applies to redirects and 304 responses too", async () => {
    const count = { status: ["3xx"] };
    expect(await statusAndRemaining({ count }, "/redirect")).toEqual([302, 99]);
    expect(await statusAndRemaining({ count }, "/not-modified")).toEqual([304, 99]);
    expect(await statusAndRemaining({ count }, "/")).toEqual([200, 100]);
  });

  it("a response that does not count is charged nothing, whatever its cost header", async () => {
    const cost = { from: "response-header:x-tokens", reserve: 20, max: 60 };
    const both = { cost, count: { status: ["2xx"] } };
    expect(await statusAndRemaining(both, "/answer?x-tokens=50")).toEqual([200, 50]);
    expect(await statusAndRemaining(both, "/answer?status=503&x-tokens=50")).toEqual([503, 100]);
  });

  it("each policy on one key is settled by its own rule", async () => {
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

  it("a reserved cost is refunded whole when another policy denies", async () => {
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
  it("5 of 50 wrong passwords at once reach the origin, and no successful login is charged", async () => {
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
