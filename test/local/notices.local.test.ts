import { describe, expect, it } from "vitest";
import { parseConfig } from "../../src/config/index.ts";
import { complaint, inEffect, problemsOf } from "../../src/local/notices.ts";
import type { Plan } from "../../src/local/plan.ts";

const secret = "a secret of thirty-two characters or more";

function planWith(vars: Record<string, unknown>, other: Partial<Plan> = {}): Plan {
  const variables = { KEY_SECRET: secret, ...vars };
  return {
    config: parseConfig(variables),
    problems: [],
    warnings: [],
    wrangler: {} as Plan["wrangler"],
    variables,
    secretNames: ["KEY_SECRET", "CHECK_TOKENS", "ORIGIN_SECRET"],
    isDemoOrigin: false,
    isDemoPolicy: false,
    ...other,
  };
}
const named = (count: number): unknown[] =>
  Array.from({ length: count }, (_, index) => ({ name: `p${index}`, limits: `${index + 1}/s` }));

const line = (plan: Plan, previous = plan): string => inEffect(plan, previous);

describe("the line about what is in effect", () => {
  it("names each limit of each policy, and dry runs", () => {
    const policies = [
      { name: "login", limits: ["5/minute", "20/day"] },
      { name: "all", limits: "100/hour", dryRun: true },
    ];
    expect(line(planWith({ ORIGIN: "https://api.example.com", POLICIES: policies }))).toBe(
      "In effect now: login 5 per 1m and 20 per 1d; all 100 per 1h (dry run), in front of https://api.example.com.",
    );
  });

  it("names no more than five policies", () => {
    const texts = [5, 6, 9].map((count) =>
      line(planWith({ ORIGIN: "route", POLICIES: named(count) })),
    );
    expect(texts.map((text) => /p4 5 per 1s(.*)\.$/.exec(text)?.[1])).toEqual([
      ", in front of the origin of its route",
      "; and 1 more, in front of the origin of its route",
      "; and 4 more, in front of the origin of its route",
    ]);
  });

  it("says where the demo stands in", () => {
    const demo = { isDemoOrigin: true, isDemoPolicy: true };
    expect(line(planWith({ ORIGIN: "http://127.0.0.1:9", LIMITS: "5/10s" }, demo))).toBe(
      "In effect now: the demo limits: default 5 per 10s, in front of the demo origin.",
    );
  });

  it("names secrets that have changed, without their values", () => {
    const previous = planWith({ ORIGIN: "route", LIMITS: "5/s", CHECK_TOKENS: "a".repeat(20) });
    const plan = planWith({
      ORIGIN: "route",
      LIMITS: "6/s",
      CHECK_TOKENS: "b".repeat(20),
      ORIGIN_SECRET: "c",
    });
    expect(line(plan, previous)).toBe(
      "In effect now: default 6 per 1s, in front of the origin of its route; CHECK_TOKENS changed.",
    );
  });

  it("is empty without a configuration", () => {
    expect(line({ ...planWith({ LIMITS: "1/s" }), config: null })).toBe("");
  });
});

it("problems stand in lines of their own, below what follows from them", () => {
  expect(problemsOf(["a", "b"], true)).toBe(
    "The configuration has problems, so the previous one stays in effect:\n  a\n  b",
  );
  expect(problemsOf(["a"], false)).toBe("The configuration has problems:\n  a");
});

it("a Worker without a valid configuration says that it answers 500, and how to stop it", () => {
  expect(complaint("http://localhost:1")).toMatch(
    /^\nHeadgate is running at http:\/\/localhost:1, but answers every request with 500 [^]+Stop with Ctrl-C\.\n$/,
  );
});
