/** Checks of `/check` against ad hoc limits. */
import { describe, expect, it, vi } from "vitest";
import { strategies } from "../../../src/strategies/index.ts";
import { headgate } from "../harness.ts";

const one = { LIMITS: "3/minute", STRATEGY: "fixed-window", KEY: "header:X-Api-Key" };

/** The answers of one Worker to checks, one after the other. */
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

describe("ad hoc limits", () => {
  it("a check against ad hoc limits spends and answers as if a policy named adhoc had these limits", async () => {
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

  it("a check against ad hoc limits is denied and spends nothing when it costs more than remains", async () => {
    const spend = { key: "k", limits: "5/minute", strategy };
    const [, denied, allowed] = await answersOf([{ ...spend, cost: 4 }, { ...spend, cost: 2 }, spend]);
    expect(denied).toMatchObject({
      status: 200,
      allowed: false,
      violated: ["adhoc"],
      headers: { "Retry-After": "60" },
    });
    expect(allowed).toMatchObject({ allowed: true, limits: [{ remaining: 0 }] });
  });

  it("a check of cost 0 against ad hoc limits looks without spending", async () => {
    const look = { key: "k", limits: "5/minute", cost: 0 };
    const answers = await answersOf([{ ...look, cost: 2 }, look, look]);
    expect(answers).toMatchObject([remaining(3), remaining(3), remaining(3)]);
  });

  it("the state of ad hoc limits is separate from that of every policy, whatever its name and key", async () => {
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

  it("different ad hoc limits on one key keep separate states", async () => {
    const minute = { key: "k", limits: "5/minute" };
    const hour = { key: "k", limits: "9/hour" };
    expect(await answersOf([minute, hour, minute, hour])).toMatchObject([
      remaining(4),
      remaining(8),
      remaining(3),
      remaining(7),
    ]);
  });

  it.for([...strategies.keys()])("ad hoc limits accept the strategy %s", async (each) => {
    const limits = { limit: 3, window: "1h" };
    const [first, second] = await answersOf([
      { key: "k", limits: { ...limits, strategy: each }, cost: 2 },
      { key: "k", limits, strategy: each, cost: 3 },
    ]);
    expect(first).toMatchObject({ allowed: true, limits: [{ strategy: each }] });
    expect(second).toMatchObject({ allowed: false, violated: ["adhoc"] });
  });

  it("while the object does not answer, the isolate decides by each call's own ad hoc limits", async () => {
    const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
    const call = (): Promise<never> => Promise.reject(new Error("gone"));
    const minute = { key: "k", limits: "2/minute", strategy, cost: 2 };
    const hour = { key: "k", limits: "5/hour", strategy };
    const answers = await answersOf([minute, hour, { ...minute, cost: 1 }, hour], {
      ...one,
      RATE_LIMITER: { getByName: () => ({ decide: call, look: call }) },
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

describe("the key of ad hoc limits", () => {
  const spend = (key: unknown): Record<string, unknown> => ({ key, limits: "9/minute" });

  it("the key of ad hoc limits is compared byte for byte", async () => {
    const keys = ["k", "K", " k", "k ", "é", "e\u0301", "203.0.113.7", "::ffff:203.0.113.7"];
    const answers = await answersOf(keys.map(spend));
    expect(answers).toMatchObject(keys.map(() => remaining(8)));
  });

  it("the key of ad hoc limits may be a list of several texts, which differs from every single text", async () => {
    const keys = [["a", "b"], ["b", "a"], 'a","b', ["a,b"], ["a", "b", "c"], "a", ["a"]];
    const answers = await answersOf([...keys, ["a", "b"], "abcdefgh".split("")].map(spend));
    // A list of one text is the same key as that text.
    const left = [8, 8, 8, 8, 8, 8, 7, 7, 8];
    expect(answers).toMatchObject(left.map((each) => remaining(each)));
  });
});

interface InvalidAnswer {
  status: number;
  detail: string;
  errors?: { field: string; accepted: string }[];
}

const errorsOf = async (body: Record<string, unknown>): Promise<unknown> => {
  const [answer] = await answersOf([body]);
  const { status, errors = [] } = answer as InvalidAnswer;
  return [status, ...errors.map(({ field, accepted }) => [field, accepted])];
};

const text = expect.stringMatching(/^a well-formed text of 1 to 1024 UTF-8 bytes/);
const notation = expect.stringMatching(/^limits such as "10\/minute"/);
const integer = expect.stringMatching(/^an integer from 1/);
const duration = expect.stringMatching(/^a duration from 1 ms/);
const strategyName = expect.stringMatching(/^one of "fixed-window", "sliding-log"/);

describe("invalid ad hoc limits", () => {
  const valid = { key: "k", limits: "5/minute" };

  it.for<[string, Record<string, unknown>, unknown[]]>([
    ["come with a policy", { policy: "default" }, [["policy", "no value together with limits"]]],
    ["have no key", { key: undefined }, [["key", text]]],
    ["have an empty key", { key: "" }, [["key", text]]],
    ["have a number as key", { key: 5 }, [["key", text]]],
    ["have an empty list as key", { key: [] }, [["key", text]]],
    ["have a key of too many texts", { key: "abcdefghi".split("") }, [["key", "at most 8 texts"]]],
    ["have a cost below 0", { cost: -1 }, [["cost", "an integer from 0 to 1000000"]]],
    ["have an unknown field", { window: "1m" }, [["window", expect.stringMatching(/^one of the/)]]],
    ["are null", { limits: null }, [["limits", notation]]],
    ["are a number", { limits: 5 }, [["limits", notation]]],
    ["are an empty text", { limits: "" }, [["limits", notation]]],
    ["are an empty list", { limits: [] }, [["limits", "from 1 to 16 limits"]]],
    ["are too many", { limits: "1/s;".repeat(16) + "1/s" }, [["limits", "from 1 to 16 limits"]]],
    ["have an entry that is no notation", { limits: ["5/minute", "ten"] }, [["limits[1]", notation]]],
    ["have an invalid window", { limits: "5/soon" }, [["limits.window", duration]]],
    [
      "have several invalid fields",
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
      "have an object as strategy",
      { limits: { limit: 1, window: "1s", strategy: { toString: null } } },
      [["limits.strategy", strategyName]],
    ],
    ["have an unknown default strategy", { strategy: "magic" }, [["strategy", strategyName]]],
    ["have null as default strategy", { strategy: null }, [["strategy", strategyName]]],
    [
      "are equal except for the number of units",
      { limits: "1/m; 2/m" },
      [["limits", expect.stringMatching(/^limits that differ from one another in window, strategy or options/)]],
    ],
    ["repeat one mistake in a text", { limits: "0/s; 0/m; 0/h" }, [["limits.limit", integer]]],
    [
      "are invalid in several places",
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
  ])("ad hoc limits are answered with 422 and every invalid field if they %s", async ([, changes, errors]) => {
    expect(await errorsOf({ ...valid, ...changes })).toEqual([422, ...errors]);
  });

  it("a check with the field strategy but without the field limits is answered with 422", async () => {
    expect(await errorsOf({ key: "k", strategy })).toEqual([422, ["strategy", "no value without limits"]]);
  });

  it("problems of ad hoc limits do not quote their values", async () => {
    const [answer] = await answersOf([
      { key: "k", policy: "hunter2", limits: ["hunter2", "5/hunter2"], strategy: "hunter2" },
    ]);
    expect(JSON.stringify(answer)).not.toContain("hunter2");
  });

  it("invalid ad hoc limits spend nothing", async () => {
    const { check } = headgate(one);
    const spend = { key: "k", limits: "2/minute", strategy };
    await check("POST", "/check", spend);
    const changes = [{ limits: "0/minute" }, { policy: "default" }, { cost: -1 }, { strategy: "x" }];
    await Promise.all(changes.map((each) => check("POST", "/check", { ...spend, ...each })));
    const looks = [
      { ...spend, cost: 0 },
      { key: "k", cost: 0 },
    ].map(async (each) => (await check("POST", "/check", each)).json());
    expect(await Promise.all(looks)).toMatchObject([{ limits: [{ remaining: 1 }] }, { limits: [{ remaining: 3 }] }]);
  });
});
