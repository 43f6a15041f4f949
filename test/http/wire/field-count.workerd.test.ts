/** At most 16 limits in the RateLimit fields, those with the least remaining first. */
import * as fc from "fast-check";
import { parseList } from "structured-headers";
import { describe, expect, it } from "vitest";
import { rateLimitFields, type RateLimitFields } from "../../../src/http/wire/rate-limit-fields.ts";
import type { Decision, Limit, LimitDecision } from "../../../src/strategies/index.ts";
import { forAll } from "../../for-all.ts";
import { from, headgate } from "../harness.ts";

interface Drawn {
  readonly remaining: number;
  readonly resetAfterMs: number;
  readonly allowed: boolean;
}

const limitOf = (index: number): Limit => ({
  name: `l${index}`,
  strategy: "fixed-window",
  limit: 100,
  windowMs: 60_000,
});

const decisionOf = (drawn: Drawn, index: number): LimitDecision => ({
  ...limitOf(index),
  ...drawn,
  strategy: "fixed-window",
  capacity: 100,
  retryAfterMs: drawn.allowed ? 0 : drawn.resetAfterMs,
  replenishAfterMs: drawn.resetAfterMs,
});

/** The fields of limits that are decided together, and of others that were not asked. */
function fieldsOf(drawn: readonly Drawn[], unasked = 0): RateLimitFields {
  const limits = Array.from({ length: drawn.length + unasked }, (_, index) => limitOf(index));
  const decision: Decision = {
    allowed: drawn.every(({ allowed }) => allowed),
    cost: 1,
    delayMs: 0,
    retryAfterMs: 0,
    bannedForMs: 0,
    limits: drawn.map(decisionOf),
  };
  return rateLimitFields(limits, [decision]);
}

const namesIn = (field: string | null = ""): string[] =>
  parseList(field ?? "").map(([name]) => (typeof name === "string" ? name : ""));

const names = (...indexes: number[]): string[] => indexes.map((index) => `l${index}`);
const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

const fine = (remaining: number, resetAfterMs = 1_000): Drawn => ({
  remaining,
  resetAfterMs,
  allowed: true,
});

describe("the RateLimit fields", () => {
  it("list 16 limits in the order of the configuration", () => {
    const fields = fieldsOf(upTo(16).map((index) => fine(90 - index)));
    expect(namesIn(fields.RateLimit)).toEqual(names(...upTo(16)));
    expect(namesIn(fields["RateLimit-Policy"])).toEqual(names(...upTo(16)));
  });

  it("list of 17 limits the 16 with the least remaining, the least first", () => {
    const fields = fieldsOf(upTo(17).map((index) => fine(90 - index)));
    const expected = names(...upTo(17).toReversed().slice(0, 16));
    expect(namesIn(fields.RateLimit)).toEqual(expected);
    expect(namesIn(fields["RateLimit-Policy"])).toEqual(expected);
  });

  it("list first, of limits with equally little remaining, the one that is full again last", () => {
    const drawn = upTo(17).map((index) => fine(5, index === 3 ? 9_000 : index === 9 ? 500 : 1_000));
    const fields = fieldsOf(drawn);
    const others = upTo(17).filter((index) => index !== 3 && index !== 9);
    expect(namesIn(fields.RateLimit)).toEqual(names(3, ...others));
  });

  it("list on a 429 the violated limits alone, and beside them others in RateLimit-Policy", () => {
    const drawn = upTo(20).map((index) => ({ ...fine(index), allowed: index !== 18 }));
    const fields = fieldsOf(drawn);
    expect(namesIn(fields.RateLimit)).toEqual(["l18"]);
    expect(namesIn(fields["RateLimit-Policy"])).toEqual(names(18, ...upTo(15)));
    const all = fieldsOf(drawn.map((each, index) => ({ ...each, allowed: index < 2 })));
    expect(namesIn(all.RateLimit)).toEqual(names(...upTo(18).slice(2)));
    expect(namesIn(all["RateLimit-Policy"])).toEqual(names(...upTo(18).slice(2)));
  });

  it("list limits that were not asked after those that were", () => {
    const fields = fieldsOf([fine(9), fine(1)], 20);
    expect(namesIn(fields.RateLimit)).toEqual(["l0", "l1"]);
    expect(namesIn(fields["RateLimit-Policy"])).toEqual(names(...upTo(16)));
  });

  it(
    "never list more than 16 limits, and none in RateLimit that RateLimit-Policy lacks",
    forAll(
      [
        fc.array(
          fc.record({
            remaining: fc.integer({ min: 0, max: 100 }),
            resetAfterMs: fc.integer({ min: 1, max: 60_000 }),
            allowed: fc.boolean(),
          }),
          { minLength: 1, maxLength: 64 },
        ),
        fc.nat(40),
      ],
      (drawn, unasked) => {
        const fields = fieldsOf(drawn, unasked);
        const sent = namesIn(fields.RateLimit);
        const policy = namesIn(fields["RateLimit-Policy"]);
        expect(policy).toHaveLength(Math.min(16, drawn.length + unasked));
        expect(new Set(policy).size).toBe(policy.length);
        const denying = drawn.filter(({ allowed }) => !allowed);
        const relevant = denying.length > 0 ? denying : drawn;
        expect(sent).toHaveLength(Math.min(16, relevant.length));
        expect(policy).toEqual(expect.arrayContaining(sent));
        // None that is left out has less remaining than one that is sent.
        const remainings = relevant.map(({ remaining }) => remaining).toSorted((a, b) => a - b);
        const sentRemaining = sent.map((name) => drawn[Number(name.slice(1))]?.remaining);
        expect(sentRemaining.toSorted((a, b) => Number(a) - Number(b))).toEqual(
          remainings.slice(0, 16),
        );
      },
    ),
  );
});

it("64 policies of 4 limits send at most 16 items and 2 KB of RateLimit fields", async () => {
  const POLICIES = upTo(64).map((index) => ({
    name: `policy-with-a-long-name-${index}`,
    limits: `${1_000 - index}/minute; ${2_000 - index}/hour; ${3_000 - index}/day; 4000/week`,
  }));
  const legacy = { LEGACY_HEADERS: "true" };
  const { send } = headgate({ POLICIES, ...legacy });
  const response = await send("/", from("203.0.113.7"));
  await response.body?.cancel();
  expect(response.status).toBe(200);
  const fields = ["RateLimit", "RateLimit-Policy"].map((name) => response.headers.get(name) ?? "");
  const expected = upTo(16).map((index) => `policy-with-a-long-name-${63 - index}`);
  for (const field of fields) {
    const items = namesIn(field);
    expect(items.map((name) => name.replace(/\..*$/, ""))).toEqual(expected);
  }
  expect(fields.join("").length).toBeLessThan(2_048);
  expect(response.headers.get("X-RateLimit-Remaining")).toBe("936");
});
