/** Scenarios in which a request or response declares a cost, validly or not. */
import type { OriginInstruction } from "./origin.ts";
import type { Draw } from "./draw.ts";
import { anyCase, byHeader, percentEncoded, utf8 } from "./people.ts";
import { allOf, charge, longWindow, type Scenario } from "./scenarios.ts";

const log = (limit: number): object => ({ limit, window: longWindow, strategy: "sliding-log" });
const sharded = { objects: "sharded", shards: 4 };

/** Texts of a cost and their units; null if the text is not a valid cost. */
const texts: readonly (readonly [string, number | null])[] = [
  ["0", 0],
  ["1", 1],
  ["2", 2],
  ["3", 3],
  ["4", 4],
  ["007", 7],
  ["100", 100],
  ["9999999999999999999999999999999999999999999999", 1e9],
  ["", null],
  ["-1", null],
  ["-0", null],
  ["+2", null],
  ["1.5", null],
  ["1e3", null],
  ["0x10", null],
  ["1_000", null],
  ["Infinity", null],
  ["NaN", null],
  ["2;q=1", null],
  ["two", null],
  ["２", null],
  ["2\u00a03", null],
  ["²", null],
];

type DeclaredCost = (typeof texts)[number];

/** A cost that is declared twice, once or not at all. */
function declaredCosts(draw: Draw): readonly DeclaredCost[] {
  if (draw.chance(0.1)) return [];
  return draw.chance(0.1) ? [draw.one(texts), draw.one(texts)] : [draw.one(texts)];
}

const valuesOf = (costs: readonly DeclaredCost[]): string[] => costs.map(([text]) => text);

/**
 * The greatest declared cost of a request counts. A text that is not an integer counts as the maximum, and an empty
 * text is ignored.
 */
function charged(costs: readonly DeclaredCost[], max: number): number {
  const units = costs.filter(([text]) => text !== "").map(([, each]) => each ?? max);
  return Math.min(max, Math.max(1, ...units));
}

const ofHeader = { limit: 25, max: 6 };

const header: Scenario = {
  name: "cost-header",
  policies: [
    {
      name: "cost-header",
      match: allOf("cost-header"),
      key: "header:X-Key",
      cost: { from: "header:X-Cost", max: ofHeader.max },
      limits: log(ofHeader.limit),
      ...sharded,
    },
  ],
  draw: (draw) => {
    const { key, lines } = byHeader(draw, "X-Key");
    const costs = declaredCosts(draw);
    const values = valuesOf(costs);
    const cost = charged(costs, ofHeader.max);
    return {
      lines: [...lines, ...values.map((value) => `${anyCase(draw, "X-Cost")}: ${utf8(value)}`)],
      charges: [charge("cost-header", key, ofHeader.limit, { cost, finalCost: cost })],
    };
  },
};

const ofQuery = { limit: 20, max: 3 };

const query: Scenario = {
  name: "cost-query",
  policies: [
    {
      name: "cost-query",
      match: allOf("cost-query"),
      key: "header:X-Key",
      cost: { from: "query:cost", max: ofQuery.max },
      limits: {
        limit: ofQuery.limit,
        window: longWindow,
        strategy: "token-bucket",
        refill: "interval",
      },
      ...sharded,
    },
  ],
  draw: (draw) => {
    const { key, lines } = byHeader(draw, "X-Key");
    const costs = declaredCosts(draw);
    const values = valuesOf(costs);
    // Some origins read the first of these as the cost parameter. No origin reads `costs` as this parameter.
    const others = draw.chance(0.3) ? [draw.one(["Cost=2", "cost[]=2", "[COST]=2"]), "costs=3"] : [];
    const cost = charged(others.length > 0 ? [...costs, ["2", 2]] : costs, ofQuery.max);
    const parameter = (value: string): string =>
      `cost=${/^[\w.]*$/.test(value) ? percentEncoded(draw, value) : encodeURIComponent(value)}`;
    return {
      lines,
      query: [...values.map(parameter), ...others],
      charges: [charge("cost-query", key, ofQuery.limit, { cost, finalCost: cost })],
    };
  },
};

const statuses = [
  200, 200, 200, 201, 204, 205, 206, 226, 299, 301, 302, 304, 307, 400, 401, 403, 404, 409, 418, 422, 429, 451, 499,
  500, 502, 503, 508, 511, 599,
] as const;

export const anyStatus = (draw: Draw): number => (draw.chance(0.8) ? draw.one(statuses) : 200 + draw.below(400));

const ofResponse = { limit: 40, reserve: 3, max: 8 };

/** The cost that the origin declares, and the units that Headgate then charges to the request. */
function answered(
  draw: Draw,
  { reserve, max }: { reserve: number; max: number },
): { fields: OriginInstruction["fields"]; units: number } {
  const costs = declaredCosts(draw);
  const [only] = costs;
  // A field with several lines has no valid value.
  const units = costs.length === 1 ? (only?.[1] ?? null) : null;
  return {
    fields: valuesOf(costs).map((value) => ["X-Spent", utf8(value)] as const),
    units: units === null ? reserve : Math.min(max, units),
  };
}

const response: Scenario = {
  name: "cost-response",
  policies: [
    {
      name: "cost-response",
      match: allOf("cost-response"),
      key: "header:X-Key",
      cost: { from: "response-header:X-Spent", reserve: ofResponse.reserve, max: ofResponse.max },
      limits: log(ofResponse.limit),
      ...sharded,
    },
  ],
  draw: (draw) => {
    const { key, lines } = byHeader(draw, "X-Key");
    const { fields, units } = answered(draw, ofResponse);
    const costs = { cost: ofResponse.reserve, finalCost: units };
    return {
      lines,
      ask: { fields: fields ?? [] },
      charges: [charge("cost-response", key, ofResponse.limit, costs)],
    };
  },
};

const failuresOnly: Scenario = {
  name: "failures",
  policies: [
    {
      name: "failures",
      match: allOf("failures"),
      key: "header:X-Key",
      count: { status: ["401", 404, "5xx"] },
      limits: { limit: 6, window: longWindow, strategy: "fixed-window" },
      ...sharded,
    },
  ],
  draw: (draw) => {
    const { key, lines } = byHeader(draw, "X-Key");
    const status = anyStatus(draw);
    const counts = status === 401 || status === 404 || status >= 500;
    return {
      lines,
      ask: { status },
      charges: [charge("failures", key, 6, { finalCost: counts ? 1 : 0 })],
    };
  },
};

const ofBoth = { limit: 30, reserve: 2, max: 5 };

const both: Scenario = {
  name: "work",
  policies: [
    {
      name: "work",
      match: allOf("work"),
      key: "header:X-Key",
      count: { exceptStatus: ["3xx", "404"] },
      cost: { from: "response-header:X-Spent", reserve: ofBoth.reserve, max: ofBoth.max },
      limits: { limit: ofBoth.limit, window: longWindow, strategy: "token-bucket" },
      durability: "confirmed",
      ...sharded,
    },
  ],
  draw: (draw) => {
    const { key, lines } = byHeader(draw, "X-Key");
    const { fields, units } = answered(draw, ofBoth);
    const status = anyStatus(draw);
    const counts = !(status === 404 || (status >= 300 && status < 400));
    const quotas = [{ name: "work", limit: ofBoth.limit, isForgetful: true }];
    const costs = { quotas, cost: ofBoth.reserve, finalCost: counts ? units : 0 };
    return {
      lines,
      ask: { status, fields: fields ?? [] },
      charges: [charge("work", key, ofBoth.limit, costs)],
    };
  },
};

export const byCost: readonly Scenario[] = [header, query, response, failuresOnly, both];
