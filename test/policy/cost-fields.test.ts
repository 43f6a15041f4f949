import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { forAll } from "../for-all.ts";
import type { Policy } from "../../src/policy/policy.ts";
import { configOf, problemsIn } from "./parsed.ts";

type Fields = Readonly<Record<string, unknown>>;

const policy = { name: "a", limits: "1/s" };

const parsed = (fields: Fields): Partial<Policy> =>
  configOf({ POLICIES: [{ ...policy, ...fields }] }).policies[0] ?? {};

const problemsWith = (fields: Fields): unknown[] => [
  ...problemsIn({ KEY_SECRET: "s", POLICIES: [{ ...policy, ...fields }] }),
];

describe("the field cost", () => {
  it("the cost defaults to 1", () => {
    expect(parsed({})).toMatchObject({ cost: { kind: "fixed", units: 1 } });
  });

  it.for([1, 2, 999_999, 1_000_000])("the cost may be the fixed number %i", (units) => {
    expect(parsed({ cost: units }).cost).toEqual({ kind: "fixed", units });
  });

  it.for<[string, "header" | "query", string]>([
    ["header:X-Cost", "header", "X-Cost"],
    ["HEADER:x", "header", "x"],
    [`header:${"x".repeat(64)}`, "header", "x".repeat(64)],
    ["query:cost", "query", "cost"],
    ["Query:filter[n]", "query", "filter[n]"],
    ["query:a:b", "query", "a:b"],
    [`query:${"n".repeat(128)}`, "query", "n".repeat(128)],
  ])("the cost may come from the request: %s", ([written, from, name]) => {
    for (const max of [1, 50, 1_000_000]) {
      const cost = { kind: "request", from, name, max };
      expect(parsed({ cost: { from: written, max } }).cost).toEqual(cost);
    }
  });

  it.for<[number, number]>([
    [1, 1],
    [1, 1_000_000],
    [10, 10],
    [1_000_000, 1_000_000],
  ])("the cost may come from the response, with %i reserved and at most %i", ([reserve, max]) => {
    for (const from of ["response-header:X-Cost", "Response-Header:X-Cost"]) {
      const cost = { kind: "response", name: "X-Cost", reserve, max };
      expect(parsed({ cost: { from, reserve, max } }).cost).toEqual(cost);
    }
  });

  const max = 10;
  const from = "header:X-Cost";
  const response = { from: "response-header:X-Cost", reserve: 5, max };

  it.for<[string, unknown]>([
    ["0", 0],
    ["negative", -1],
    ["a fraction", 1.5],
    ["too great", 1_000_001],
    ["infinite", Infinity],
    ["not a number", Number.NaN],
    ["a number in a text", "5"],
    ["a source in a text", from],
    ["null", null],
    ["true", true],
    ["a list", [5]],
    ["an empty object", {}],
    ["a source without its greatest", { from }],
    ["a greatest without its source", { max }],
    ["a greatest of 0", { from, max: 0 }],
    ["a negative greatest", { from, max: -1 }],
    ["a greatest that is a fraction", { from, max: 1.5 }],
    ["a greatest that is too great", { from, max: 1_000_001 }],
    ["a greatest in a text", { from, max: "10" }],
    ["a greatest that is null", { from, max: null }],
    ["a request's with a reserve", { from, max, reserve: 1 }],
    ["with an unknown field", { from, max, min: 1 }],
    ["of an unknown source", { from: "cookie:cost", max }],
    ["of a claim", { from: "jwt:cost", max }],
    ["of the query of a response", { from: "response-query:x", reserve: 1, max }],
    ["of a header without a name", { from: "header:", max }],
    ["of a header whose name is none", { from: "header:a b", max }],
    ["of a header with a space before its name", { from: "header: X-Cost", max }],
    ["of a header with too long a name", { from: `header:${"x".repeat(65)}`, max }],
    ["of a parameter without a name", { from: "query:", max }],
    ["of a parameter with a space", { from: "query:a b", max }],
    ["of several sources", { from: [from], max }],
    ["of a source that is null", { from: null, max }],
    ["a response's without a reserve", { from: response.from, max }],
    ["a response's without a greatest", { from: response.from, reserve: 1 }],
    ["a response's with a reserve of 0", { ...response, reserve: 0 }],
    ["a response's with a reserve beyond its greatest", { ...response, reserve: 11 }],
    ["a response's with a reserve in a text", { ...response, reserve: "5" }],
    ["a response's with a reserve that is a fraction", { ...response, reserve: 0.5 }],
    ["a response's that is too great", { ...response, max: 1_000_001 }],
    ["a response's with an unknown field", { ...response, min: 1 }],
    ["a response's without a name", { ...response, from: "response-header:" }],
    ["a response's whose name is none", { ...response, from: "response-header:a,b" }],
  ])("cost rejects %s", ([, cost]) => {
    expect(problemsWith({ cost })).toEqual([
      {
        variable: "POLICIES",
        field: "[0].cost",
        value: cost,
        accepted: expect.stringMatching(/^an integer from 1 to 1000000; or .*reserve = <integer>/),
      },
    ]);
  });

  it(
    "a cost in the configuration is either accepted or reported as a problem",
    forAll(
      [
        fc.oneof(
          fc.jsonValue(),
          fc.record({
            from: fc.oneof(fc.string(), fc.constantFrom(from, response.from, "query:x")),
            max: fc.oneof(fc.integer(), fc.nat(20), fc.double()),
            reserve: fc.option(fc.nat(20), { nil: undefined }),
          }),
        ),
      ],
      (cost) => {
        const problems = problemsWith({ cost });
        const kind = problems.length > 0 ? "wrong" : parsed({ cost }).cost?.kind;
        expect(["wrong", "fixed", "request", "response"]).toContain(kind);
        expect(problems.length).toBe(kind === "wrong" ? 1 : 0);
      },
    ),
  );
});

describe("the field count", () => {
  it("every response counts by default", () => {
    expect(parsed({})).toMatchObject({ count: null });
  });

  it.for<[unknown, [number, number][]]>([
    [["401"], [[401, 401]]],
    [[401], [[401, 401]]],
    [
      ["100", 599],
      [
        [100, 100],
        [599, 599],
      ],
    ],
    [["5xx"], [[500, 599]]],
    [
      ["4XX", "5xX"],
      [
        [400, 499],
        [500, 599],
      ],
    ],
    [
      ["401", "401"],
      [
        [401, 401],
        [401, 401],
      ],
    ],
  ])("count accepts %j as status and as exceptStatus", ([statuses, ranges]) => {
    expect(parsed({ count: { status: statuses } }).count).toEqual({
      isExcept: false,
      statuses: ranges,
    });
    expect(parsed({ count: { exceptStatus: statuses } }).count).toEqual({
      isExcept: true,
      statuses: ranges,
    });
  });

  const wrongStatuses: unknown[] = [
    "401",
    401,
    null,
    [],
    {},
    [null],
    [""],
    ["4"],
    ["4x"],
    ["40x"],
    ["xxx"],
    ["0xx"],
    ["6xx"],
    ["99"],
    ["600"],
    ["4010"],
    [" 401"],
    ["401 "],
    ["401,402"],
    ["400-499"],
    ["-401"],
    ["4e2"],
    ["0x191"],
    [0],
    [99],
    [600],
    [4010],
    [-401],
    [401.5],
    [Number.NaN],
    [["401"]],
    ["401", "4o4"],
    // A hole in the list of statuses.
    Array.from({ length: 2 }),
  ];
  const wrong: unknown[] = [
    ...wrongStatuses.flatMap((status) => [{ status }, { exceptStatus: status }]),
    { status: ["401"], exceptStatus: ["5xx"] },
    { statuses: ["401"] },
    { Status: ["401"] },
    { status: ["401"], of: 1 },
    {},
    [],
    ["401"],
    "5xx",
    401,
    true,
    null,
  ];

  it.for(wrong.map((count) => [count]))("count rejects %j", ([count]) => {
    expect(problemsWith({ count })).toEqual([
      {
        variable: "POLICIES",
        field: "[0].count",
        value: count,
        accepted: expect.stringContaining("{ status = [...] } or { exceptStatus = [...] }"),
      },
    ]);
  });
});
