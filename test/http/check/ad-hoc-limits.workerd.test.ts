import { describe, expect, it, vi } from "vitest";
import { strategies } from "../../../src/strategies/index.ts";
import { headgate } from "../harness.ts";

const one = { LIMITS: "3/minute", STRATEGY: "fixed-window", KEY: "header:X-Api-Key" };

/** The answers to checks of one Headgate, made one after the other. */
const answersOf = async (
  checks: readonly Record<string, unknown>[],
  variables: Record<string, unknown> = one,
): Promise<unknown[]> => {
  const { check } = headgate(variables);
  const answers: unknown[] = [];
  for (const each of checks) {
    // oxlint-disable-next-line no-await-in-loop
    const response = await check("POST", "/check", each);
    // oxlint-disable-next-line no-await-in-loop
    answers.push({ status: response.status, ...(await response.json<object>()) });
  }
  return answers;
};

const strategy = "fixed-window";
const remaining = (...units: number[]): unknown => ({
  status: 200,
  limits: units.map((each) => expect.objectContaining({ remaining: each })),
});

describe("limits that a check brings", () => {
  it("are spent and told like a policy's, under the name adhoc", async () => {
    const [answer] = await answersOf([{ key: "k", cost: 2, limits: "5/minute", strategy }]);
    expect(answer).toEqual({
      status: 200,
      allowed: true,
      cost: 2,
      delayMs: 0,
      retryAfterMs: 0,
      bannedForMs: 0,
      limits: [
        {
          name: "adhoc",
          strategy: "fixed-window",
          limit: 5,
          capacity: 5,
          windowMs: 60_000,
          allowed: true,
          remaining: 3,
          retryAfterMs: 0,
          replenishAfterMs: 60_000,
          resetAfterMs: 60_000,
        },
      ],
      policy: "adhoc",
      reason: "limit",
      violated: [],
      headers: { "RateLimit-Policy": '"adhoc";q=5;w=60', RateLimit: '"adhoc";r=3;t=60' },
    });
  });

  it("deny what is beyond them, and spend nothing for it", async () => {
    const spend = { key: "k", limits: "5/minute", strategy };
    const [, denied, allowed] = await answersOf([
      { ...spend, cost: 4 },
      { ...spend, cost: 2 },
      spend,
    ]);
    expect(denied).toMatchObject({
      status: 200,
      allowed: false,
      violated: ["adhoc"],
      headers: { "Retry-After": "60" },
    });
    expect(allowed).toMatchObject({ allowed: true, limits: [{ remaining: 0 }] });
  });

  it("deny with the status that the caller asks for", async () => {
    const { check } = headgate(one);
    const denied = await check("POST", "/check?deny=403", { key: "k", cost: 6, limits: "5/h" });
    expect([denied.status, await denied.json()]).toMatchObject([403, { policy: "adhoc" }]);
  });

  it("are looked at, and not spent, with a cost of 0", async () => {
    const look = { key: "k", limits: "5/minute", cost: 0 };
    const answers = await answersOf([{ ...look, cost: 2 }, look, look]);
    expect(answers).toMatchObject([remaining(3), remaining(3), remaining(3)]);
  });

  it("count apart from every policy's, whatever its name and key", async () => {
    const policies = [
      { name: "adhoc", key: "header:X-Api-Key", limits: "3/minute", strategy },
      { name: "everyone", key: "global", limits: "3/minute", strategy },
    ];
    const answers = await answersOf(
      [
        { key: "k", limits: "3/minute", strategy, cost: 2 },
        { key: "k", policy: "adhoc" },
        { policy: "everyone" },
        { key: "k", limits: "3/minute", strategy },
      ],
      { POLICIES: policies },
    );
    expect(answers).toMatchObject([remaining(1), remaining(2), remaining(2), remaining(0)]);
  });

  it("of different calls on one key do not erase one another", async () => {
    const minute = { key: "k", limits: "5/minute" };
    const hour = { key: "k", limits: "9/hour" };
    expect(await answersOf([minute, hour, minute, hour])).toMatchObject([
      remaining(4),
      remaining(8),
      remaining(3),
      remaining(7),
    ]);
  });

  it("keep what is spent when only their number changes", async () => {
    const answers = await answersOf([
      { key: "k", limits: "5/minute", cost: 4 },
      { key: "k", limits: "10/minute" },
      { key: "k", limits: "5/minute" },
    ]);
    expect(answers).toMatchObject([
      remaining(1),
      remaining(5),
      { allowed: false, limits: [{ remaining: 0 }] },
    ]);
  });

  it("may be of several strategies, and are charged all or nothing", async () => {
    const limits = [
      "10/hour",
      { limit: 2, window: "1m", strategy: "sliding-log", name: "burst" },
      { limit: 4, window: "1d", strategy: "token-bucket" },
    ];
    const spend = { key: "k", limits, strategy, cost: 2 };
    const answers = await answersOf([spend, { ...spend, cost: 1 }, { ...spend, cost: 0 }]);
    expect(answers).toMatchObject([
      remaining(8, 0, 2),
      {
        allowed: false,
        violated: ["burst"],
        limits: [
          { name: "adhoc.10-per-1h", strategy: "fixed-window", allowed: true },
          { name: "burst", strategy: "sliding-log", allowed: false },
          { name: "adhoc.4-per-1d", strategy: "token-bucket", allowed: true },
        ],
      },
      remaining(8, 0, 2),
    ]);
  });

  it.for([...strategies.keys()])("may be of the strategy %s", async (each) => {
    const limits = { limit: 3, window: "1h" };
    const [first, second] = await answersOf([
      { key: "k", limits: { ...limits, strategy: each }, cost: 2 },
      { key: "k", limits, strategy: each, cost: 3 },
    ]);
    expect(first).toMatchObject({ allowed: true, limits: [{ strategy: each }] });
    expect(second).toMatchObject({ allowed: false, violated: ["adhoc"] });
  });

  it("go on in the isolate, each call by its own, while the object gives no answer", async () => {
    const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
    const call = (): Promise<never> => Promise.reject(new Error("gone"));
    const minute = { key: "k", limits: "2/minute", strategy, cost: 2 };
    const hour = { key: "k", limits: "5/hour", strategy };
    const answers = await answersOf([minute, hour, { ...minute, cost: 1 }, hour], {
      ...one,
      RATE_LIMITER: { getByName: () => ({ check: call, look: call }) },
    });
    expect(answers).toMatchObject([
      remaining(0),
      remaining(4),
      { allowed: false, headers: { "Retry-After": "60" } },
      remaining(3),
    ]);
    errors.mockRestore();
  });
});

describe("the key of limits that a check brings", () => {
  const spend = (key: unknown): Record<string, unknown> => ({ key, limits: "9/minute" });

  it("is taken byte for byte", async () => {
    const keys = ["k", "K", " k", "k ", "é", "e\u0301", "203.0.113.7", "::ffff:203.0.113.7"];
    const answers = await answersOf(keys.map(spend));
    expect(answers).toMatchObject(keys.map(() => remaining(8)));
  });

  it("may be a list, of which no text can pose as several", async () => {
    const keys = [["a", "b"], ["b", "a"], 'a","b', ["a,b"], ["a", "b", "c"], "a", ["a"]];
    const answers = await answersOf([...keys, ["a", "b"], "abcdefgh".split("")].map(spend));
    // A list of one text is that text.
    const left = [8, 8, 8, 8, 8, 8, 7, 7, 8];
    expect(answers).toMatchObject(left.map((each) => remaining(each)));
  });
});

interface Refused {
  status: number;
  detail: string;
  errors?: { field: string; accepted: string }[];
}

const refusalOf = async (body: Record<string, unknown>): Promise<unknown> => {
  const [answer] = await answersOf([body]);
  const { status, errors = [] } = answer as Refused;
  return [status, ...errors.map(({ field, accepted }) => [field, accepted])];
};

const text = expect.stringMatching(/^a well-formed text of 1 to 1024 UTF-8 bytes/);
const notation = expect.stringMatching(/^limits such as "10\/minute"/);
const integer = expect.stringMatching(/^an integer from 1/);
const duration = expect.stringMatching(/^a duration from 1 ms/);
const strategyName = expect.stringMatching(/^one of "fixed-window", "sliding-log"/);

describe("limits that are wrong", () => {
  const fine = { key: "k", limits: "5/minute" };

  it.for<[string, Record<string, unknown>, unknown[]]>([
    ["stand beside a policy", { policy: "default" }, [["policy", "no value together with limits"]]],
    ["have no key", { key: undefined }, [["key", text]]],
    ["have an empty key", { key: "" }, [["key", text]]],
    ["have a key that is no text", { key: 5 }, [["key", text]]],
    ["have an empty list for a key", { key: [] }, [["key", text]]],
    ["have too many texts", { key: "abcdefghi".split("") }, [["key", "at most 8 texts"]]],
    ["have a cost below 0", { cost: -1 }, [["cost", "an integer from 0 to 1000000"]]],
    ["have other fields", { window: "1m" }, [["window", expect.stringMatching(/^one of the/)]]],
    ["are null", { limits: null }, [["limits", notation]]],
    ["are a number", { limits: 5 }, [["limits", notation]]],
    ["are an empty text", { limits: "" }, [["limits", notation]]],
    ["are none", { limits: [] }, [["limits", "from 1 to 16 limits"]]],
    ["are too many", { limits: "1/s;".repeat(16) + "1/s" }, [["limits", "from 1 to 16 limits"]]],
    ["are no notation", { limits: ["5/minute", "ten"] }, [["limits[1]", notation]]],
    ["have a window that is none", { limits: "5/soon" }, [["limits.window", duration]]],
    [
      "have fields that are wrong",
      { limits: [{ limit: 0, window: "soon", strategy: "magic", name: "No" }] },
      [
        ["limits[0].limit", integer],
        ["limits[0].window", duration],
        ["limits[0].strategy", strategyName],
        ["limits[0].name", expect.stringMatching(/^a name of 1 to 64/)],
      ],
    ],
    [
      "have options of another strategy",
      { limits: { limit: 1, window: "1m", burst: 2 } },
      [["limits.burst", expect.stringMatching(/^one of the fields limit, window/)]],
    ],
    [
      "have a strategy without a text",
      { limits: { limit: 1, window: "1s", strategy: { toString: null } } },
      [["limits.strategy", strategyName]],
    ],
    ["have a default that is no strategy", { strategy: "magic" }, [["strategy", strategyName]]],
    ["have a default that is null", { strategy: null }, [["strategy", strategyName]]],
    [
      "cannot be told apart",
      { limits: "1/m; 2/m" },
      [["limits", expect.stringMatching(/^limits that differ in window, strategy or options/)]],
    ],
    ["repeat one mistake", { limits: "0/s; 0/m; 0/h" }, [["limits.limit", integer]]],
    [
      "are wrong in several places",
      { policy: "a", key: 1, cost: "x", limits: ["x", "0/s"], strategy: 5 },
      [
        ["policy", "no value together with limits"],
        ["key", text],
        ["cost", "an integer from 0 to 1000000"],
        ["strategy", strategyName],
        ["limits[0]", notation],
        ["limits[1].limit", integer],
      ],
    ],
  ])("are refused with every wrong field when they %s", async ([, wrong, errors]) => {
    expect(await refusalOf({ ...fine, ...wrong })).toEqual([422, ...errors]);
  });

  it("are missed where there is a strategy", async () => {
    expect(await refusalOf({ key: "k", strategy })).toEqual([
      422,
      ["strategy", "no value without limits"],
    ]);
  });

  it("are not quoted", async () => {
    const [answer] = await answersOf([
      { key: "k", policy: "hunter2", limits: ["hunter2", "5/hunter2"], strategy: "hunter2" },
    ]);
    expect(JSON.stringify(answer)).not.toContain("hunter2");
  });

  it("touch no quota", async () => {
    const { check } = headgate(one);
    const spend = { key: "k", limits: "2/minute", strategy };
    await check("POST", "/check", spend);
    const wrong = [{ limits: "0/minute" }, { policy: "default" }, { cost: -1 }, { strategy: "x" }];
    await Promise.all(wrong.map((each) => check("POST", "/check", { ...spend, ...each })));
    const looks = [
      { ...spend, cost: 0 },
      { key: "k", cost: 0 },
    ].map(async (each) => (await check("POST", "/check", each)).json());
    expect(await Promise.all(looks)).toMatchObject([
      { limits: [{ remaining: 1 }] },
      { limits: [{ remaining: 3 }] },
    ]);
  });
});
