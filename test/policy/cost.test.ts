import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { forAll } from "../for-all.ts";
import { costOfRequest, costOfResponse } from "../../src/policy/cost.ts";
import { policyOf, requestTo } from "./harness.ts";

type Fields = Record<string, unknown>;

/** The cost of a request with these header values, with the maximum `max`. */
const byHeader = (text: string | null, max = 100): number =>
  costOfRequest(
    policyOf({ cost: { from: "header:X-Cost", max } }),
    requestTo("/", { headers: text === null ? {} : { "x-cost": text } }),
  );

const byQuery = (query: string, max = 100): number =>
  costOfRequest(policyOf({ cost: { from: "query:cost", max } }), requestTo(`/?${query}`));

/** The final cost of a response when `reserve` has been spent before it. */
const byResponse = (text: string | null, reserve = 7, max = 100, fields: Fields = {}): number => {
  const policy = policyOf({ ...fields, cost: { from: "response-header:X-Cost", reserve, max } });
  const headers = text === null ? {} : { "x-cost": text };
  return costOfResponse(policy, costOfRequest(policy, requestTo("/")), new Response("", { headers }));
};

/** Costs as text, and the units that they cost with a maximum of 100; null for invalid costs. */
const costs: [string, number | null][] = [
  ["1", 1],
  ["42", 42],
  ["99", 99],
  ["100", 100],
  ["101", 100],
  ["007", 7],
  ["00000000000000000000000000000001", 1],
  ["9007199254740993", 100],
  ["9".repeat(400), 100],
  ["-1", null],
  ["+1", null],
  ["--1", null],
  ["1.0", null],
  ["1.5", null],
  [".5", null],
  ["1,5", null],
  ["1_000", null],
  ["1 000", null],
  ["5 5", null],
  ["1e2", null],
  ["1E2", null],
  ["0x10", null],
  ["0b1", null],
  ["1n", null],
  ["NaN", null],
  ["Infinity", null],
  ["null", null],
  ["true", null],
  ["ten", null],
  ["[5]", null],
  ['"5"', null],
  ["5;q=1", null],
  ["$5", null],
];

/** Any header value. */
const anyText = fc.oneof(
  fc.stringMatching(/^[\x20-\x7e]{0,20}$/),
  fc.stringMatching(/^[-+ ]?[0-9]{0,25}(?:[.,e][0-9]{1,3})?$/),
  fc.constantFrom("", "0", "00", ...costs.map(([text]) => text)),
);
const greatest = fc.oneof(fc.integer({ min: 1, max: 20 }), fc.constantFrom(1, 1_000_000));

const isCost = (cost: number, least: number, most: number): boolean =>
  Number.isSafeInteger(cost) && cost >= least && cost <= most;

describe("the cost of a request", () => {
  it("a fixed cost does not depend on the request", () => {
    for (const cost of [1, 5, 1_000_000]) {
      const visit = requestTo("/?cost=9", { headers: { "X-Cost": "9" } });
      expect(costOfRequest(policyOf({ cost }), visit)).toBe(cost);
    }
    expect(costOfRequest(policyOf({}), requestTo("/"))).toBe(1);
  });

  // Repeated headers are joined by commas, so this value is two costs.
  const inHeader = costs.map(([text, units]) => [text, text === "1,5" ? 5 : units] as const);

  it.for(inHeader)("the header value %j costs %j (null: the maximum)", ([text, units]) => {
    expect(byHeader(text)).toBe(units ?? 100);
  });

  it.for(costs)("the query value %j costs %j (null: the maximum)", ([text, units]) => {
    expect(byQuery(`x=1&cost=${encodeURIComponent(text)}`)).toBe(units ?? 100);
  });

  it("a request without a cost, or with a cost of 0, costs 1", () => {
    expect([null, "", " ", "0", "00"].map((text) => byHeader(text))).toEqual([1, 1, 1, 1, 1]);
    expect(["", "cost", "cost=", "cost=0", "x=5"].map((query) => byQuery(query))).toEqual([1, 1, 1, 1, 1]);
  });

  it("spaces around a header value do not change the cost", () => {
    expect(byHeader("  5  ")).toBe(5);
    expect(byHeader("\t5")).toBe(5);
    expect(["cost=+5", "cost=5+", "cost=%205"].map((query) => byQuery(query))).toEqual([100, 100, 100]);
  });

  it("several costs in a request count as the greatest of them", () => {
    const headers = new Headers([
      ["X-Cost", "5"],
      ["x-cost", "6"],
    ]);
    const policy = policyOf({ cost: { from: "header:X-Cost", max: 100 } });
    expect(costOfRequest(policy, { ...requestTo("/"), headers })).toBe(6);
    const queries = ["cost=5&cost=5", "cost=6&cost=5", "cost=5&cost=", "cost=5&%63ost=x"];
    expect(queries.map((query) => byQuery(query))).toEqual([5, 6, 5, 100]);
  });

  it("a percent-encoded query value is decoded before it is read as a cost", () => {
    expect(byQuery("cost=%35")).toBe(5);
    expect(byQuery("c%6Fst=5")).toBe(5);
    expect(byQuery("cost=%D9%A5")).toBe(100);
    expect(byQuery("cost=%00")).toBe(100);
    expect(byQuery("cost=5%0A")).toBe(100);
  });

  /** Queries in which at least one origin reads the parameter `cost`. */
  const forms = [
    "COST=50",
    "cOsT=50",
    "co\u017Ft=50",
    "cost[]=50",
    "cost[0]=50",
    "cost[a]=50",
    "cost[a][b]=50",
    "cost[0=50",
    "cost]=50",
    "COST%5B%5D=50",
    "cost%5b1%5d=50",
    "[cost]=50",
    "%5Bcost%5D=50",
    "+cost=50",
    "%20%09cost=50",
    "cost%00=50",
    "cost%00x=50",
    "%63%6F%73%74=50",
    "x=1;cost=50",
    "x=1;COST[]=50;y=2",
    "x;cost=50",
    "&cost=50&",
    "amp;cost=50",
    "cost=%35%30",
    "cost=0050",
  ];

  it.for(forms)("the cost is read from the query %j, as an origin may read it", (query) => {
    expect(byQuery(query)).toBe(50);
    expect(byQuery(`cost=5&${query}`)).toBe(50);
  });

  it("a number in the query that is followed by a semicolon costs the maximum", () => {
    const queries = ["cost=5;cost=50", "cost=5;q=1", "x=1;cost=5;q=1&cost=6", "cost=;5"];
    expect(queries.map((query) => byQuery(query))).toEqual([100, 100, 6, 100]);
  });

  it.for(["%2563ost=50", "%2543OST=50", "xcost=50", "cost_=50", "costs=50", "x[cost]=50", "x=cost=50"])(
    "the query %j has no cost, because no origin reads the parameter in it",
    (query) => expect(byQuery(query)).toBe(1),
  );

  it("the parameter name may have a dot, a space or a bracket in place of an underscore", () => {
    const policy = policyOf({ cost: { from: "query:page_size", max: 100 } });
    const queries = ["page_size", "page.size", "page+size", "Page%20Size", "page[size", "page_size[]"];
    for (const query of queries) {
      expect(costOfRequest(policy, requestTo(`/?${query}=50`))).toBe(50);
    }
  });

  it("the configured parameter name may have capitals and brackets", () => {
    const policy = policyOf({ cost: { from: "query:Filter[Rows]", max: 100 } });
    for (const query of ["Filter[Rows]", "filter[rows]", "filter%5Brows%5D[]", "FILTER[ROWS][0]"]) {
      expect(costOfRequest(policy, requestTo(`/?${query}=50`))).toBe(50);
    }
    expect(costOfRequest(policy, requestTo("/?filter=50&rows=50&filter[x]=50"))).toBe(1);
  });

  it("a valid number together with an invalid one costs the maximum", () => {
    const invalid = ["x", "-1", "+5", "%2B5", "5;q=1", "1e1", "1,2", "0x1", "%EF%BC%95"];
    for (const text of invalid) {
      expect(byQuery(`cost=5&cost=${text}`)).toBe(100);
      expect(byQuery(`cost[]=${text}&cost=5`)).toBe(100);
    }
    expect(["5, x", "x, 5", "5,,-1"].map((text) => byHeader(text))).toEqual([100, 100, 100]);
  });

  it(
    "an additional query parameter never lowers the cost",
    forAll(
      [
        fc.array(fc.constantFrom(...forms, "cost=5", "cost=x", "cost=", "x=9;y", "a=b"), {
          maxLength: 4,
        }),
        fc.constantFrom(...forms, "cost=5", "cost=x", "cost=", "x=9;y"),
        fc.nat(4),
      ],
      (queries, added, index) => {
        const more = queries.toSpliced(index, 0, added);
        expect(byQuery(more.join("&"))).toBeGreaterThanOrEqual(byQuery(queries.join("&")));
      },
    ),
  );

  it("a policy whose cost comes from the response first reserves a fixed amount", () => {
    const policy = policyOf({ cost: { from: "response-header:x", reserve: 7, max: 9 } });
    expect(costOfRequest(policy, requestTo("/", { headers: { x: "1" } }))).toBe(7);
  });

  it(
    "the cost of a request is an integer from 1 to the maximum, whatever the header",
    forAll([anyText, greatest], (text, max) => {
      expect(isCost(byHeader(text, max), 1, max)).toBe(true);
      expect(isCost(byQuery(`cost=${encodeURIComponent(text)}`, max), 1, max)).toBe(true);
    }),
  );

  it(
    "the cost of a request is an integer from 1 to the maximum, whatever the query",
    forAll([fc.webQueryParameters(), fc.string({ unit: "binary" }), greatest], (query, text, max) => {
      const { search } = new URL(`https://h.example/?cost=${text}&${query}`);
      expect(isCost(byQuery(search.slice(1), max), 1, max)).toBe(true);
    }),
  );
});

describe("the cost of a response", () => {
  it.for(costs)("the response value %j costs %j (null: the reserved amount)", ([text, units]) => {
    expect(byResponse(text)).toBe(units ?? 7);
  });

  it("a response without a cost costs the reserved amount, and a response cost of 0 costs nothing", () => {
    expect([null, "", " ", "-0", "-1"].map((text) => byResponse(text))).toEqual([7, 7, 7, 7, 7]);
    expect(["0", "00", " 0 "].map((text) => byResponse(text))).toEqual([0, 0, 0]);
  });

  it("a response with several costs costs the reserved amount", () => {
    const policy = policyOf({ cost: { from: "response-header:x", reserve: 7, max: 9 } });
    const headers: [string, string][] = [
      ["X", "5"],
      ["x", "5"],
    ];
    expect(costOfResponse(policy, 7, new Response("", { headers }))).toBe(7);
  });

  it("a cost that is fixed or comes from the request does not depend on the response", () => {
    const response = new Response("", { headers: { "X-Cost": "9" } });
    const cost = { from: "header:X-Cost", max: 10 };
    expect(costOfResponse(policyOf({ cost }), 3, response)).toBe(3);
    expect(costOfResponse(policyOf({ cost: 5 }), 5, response)).toBe(5);
  });

  it(
    "the cost of a response is an integer from 0 to the maximum, whatever the header",
    forAll([anyText, greatest, greatest], (text, one, other) => {
      const [reserve, max] = [Math.min(one, other), Math.max(one, other)];
      expect(isCost(byResponse(text, reserve, max), 0, max)).toBe(true);
    }),
  );
});

describe("the responses that count", () => {
  const statuses = [200, 204, 299, 300, 304, 399, 400, 401, 403, 404, 429, 499, 500, 502, 599];

  /** The statuses of the responses that count. */
  const countedStatuses = (count: unknown): number[] => {
    const policy = policyOf({ cost: 3, count });
    return statuses.filter((status) => {
      const cost = costOfResponse(policy, 3, new Response(null, { status }));
      expect([0, 3]).toContain(cost);
      return cost === 3;
    });
  };

  it("without the field count, every response counts", () => {
    expect(countedStatuses(undefined)).toEqual(statuses);
  });

  it.for<[unknown[], number[]]>([
    [["401"], [401]],
    [[401], [401]],
    [["4xx"], [400, 401, 403, 404, 429, 499]],
    [["5XX"], [500, 502, 599]],
    [
      ["3xx", 404],
      [300, 304, 399, 404],
    ],
    [
      ["401", "4xx"],
      [400, 401, 403, 404, 429, 499],
    ],
    [["1xx"], []],
    [["418"], []],
    [["2xx", "3xx", "4xx", "5xx"], statuses],
  ])(
    "count.status = %j counts only these statuses, and count.exceptStatus = %j counts all others",
    ([written, expected]) => {
      expect(countedStatuses({ status: written })).toEqual(expected);
      expect(countedStatuses({ exceptStatus: written })).toEqual(
        statuses.filter((status) => !expected.includes(status)),
      );
    },
  );

  it("a response that does not count costs nothing, even if it has a cost header", () => {
    const fields = { count: { exceptStatus: ["2xx"] } };
    expect(byResponse("9", 7, 100, fields)).toBe(0);
    expect(byResponse(null, 7, 100, fields)).toBe(0);
    const failed = new Response("", { status: 500, headers: { "X-Cost": "9" } });
    const cost = { from: "response-header:X-Cost", reserve: 1, max: 10 };
    expect(costOfResponse(policyOf({ ...fields, cost }), 1, failed)).toBe(9);
  });

  it("an upgrade (101) counts if the class 1xx counts", () => {
    // The Response constructor rejects this status.
    const upgrade = { status: 101, headers: new Headers() } as Response;
    expect(costOfResponse(policyOf({ count: { status: ["1xx"] } }), 1, upgrade)).toBe(1);
    expect(costOfResponse(policyOf({ count: { exceptStatus: [101] } }), 1, upgrade)).toBe(0);
  });

  it(
    "status and exceptStatus with the same list select opposite responses",
    forAll(
      [
        fc.array(fc.oneof(fc.integer({ min: 100, max: 599 }), fc.constantFrom("1xx", "2xx", "3xx", "4xx", "5xx")), {
          minLength: 1,
          maxLength: 5,
        }),
        fc.integer({ min: 200, max: 599 }),
      ],
      (statusList, status) => {
        const costWith = (count: unknown): number =>
          costOfResponse(policyOf({ count }), 1, new Response(null, { status }));
        const isListed = statusList.some((each) => each === status || each === `${Math.floor(status / 100)}xx`);
        expect(costWith({ status: statusList })).toBe(isListed ? 1 : 0);
        expect(costWith({ exceptStatus: statusList.map(String) })).toBe(isListed ? 0 : 1);
      },
    ),
  );
});
