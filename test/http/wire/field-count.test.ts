/** The RateLimit fields list at most 16 limits, those with the fewest remaining units first. */
import * as fc from "fast-check";
import { parseList } from "structured-headers";
import { describe, expect, it } from "vitest";
import { rateLimitFields, type RateLimitFields } from "../../../src/http/wire/rate-limit-fields.ts";
import type { Decision, Limit, LimitDecision } from "../../../src/strategies/index.ts";
import { forAll } from "../../for-all.ts";

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

/** The fields of limits that are decided together, and of `undecided` limits whose objects are not called. */
function fieldsOf(drawn: readonly Drawn[], undecided = 0): RateLimitFields {
  const limits = Array.from({ length: drawn.length + undecided }, (_, index) => limitOf(index));
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

const decided = (remaining: number, resetAfterMs = 1_000): Drawn => ({
  remaining,
  resetAfterMs,
  allowed: true,
});

describe("the RateLimit fields", () => {
  it("the RateLimit fields list 16 limits in the order of the configuration", () => {
    const fields = fieldsOf(upTo(16).map((index) => decided(90 - index)));
    expect(namesIn(fields.RateLimit)).toEqual(names(...upTo(16)));
    expect(namesIn(fields["RateLimit-Policy"])).toEqual(names(...upTo(16)));
  });

  it("the RateLimit fields list the 16 of 17 limits with the fewest remaining units, in ascending order", () => {
    const fields = fieldsOf(upTo(17).map((index) => decided(90 - index)));
    const expected = names(...upTo(17).toReversed().slice(0, 16));
    expect(namesIn(fields.RateLimit)).toEqual(expected);
    expect(namesIn(fields["RateLimit-Policy"])).toEqual(expected);
  });

  it("among limits with equal remaining units, the RateLimit fields list the one with the latest reset first", () => {
    const drawn = upTo(17).map((index) => decided(5, index === 3 ? 9_000 : index === 9 ? 500 : 1_000));
    const fields = fieldsOf(drawn);
    const others = upTo(17).filter((index) => index !== 3 && index !== 9);
    expect(namesIn(fields.RateLimit)).toEqual(names(3, ...others));
  });

  it("the RateLimit field of a denial lists only violated limits, and RateLimit-Policy lists these first", () => {
    const drawn = upTo(20).map((index) => ({ ...decided(index), allowed: index !== 18 }));
    const fields = fieldsOf(drawn);
    expect(namesIn(fields.RateLimit)).toEqual(["l18"]);
    expect(namesIn(fields["RateLimit-Policy"])).toEqual(names(18, ...upTo(15)));
    const all = fieldsOf(drawn.map((each, index) => ({ ...each, allowed: index < 2 })));
    expect(namesIn(all.RateLimit)).toEqual(names(...upTo(18).slice(2)));
    expect(namesIn(all["RateLimit-Policy"])).toEqual(names(...upTo(18).slice(2)));
  });

  it("RateLimit-Policy lists decided limits before undecided ones", () => {
    const fields = fieldsOf([decided(9), decided(1)], 20);
    expect(namesIn(fields.RateLimit)).toEqual(["l0", "l1"]);
    expect(namesIn(fields["RateLimit-Policy"])).toEqual(names(...upTo(16)));
  });

  it(
    "the RateLimit fields list at most 16 limits, and RateLimit-Policy has every name of RateLimit",
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
      (drawn, undecided) => {
        const fields = fieldsOf(drawn, undecided);
        const sent = namesIn(fields.RateLimit);
        const policy = namesIn(fields["RateLimit-Policy"]);
        expect(policy).toHaveLength(Math.min(16, drawn.length + undecided));
        expect(new Set(policy).size).toBe(policy.length);
        const denying = drawn.filter(({ allowed }) => !allowed);
        const relevant = denying.length > 0 ? denying : drawn;
        expect(sent).toHaveLength(Math.min(16, relevant.length));
        expect(policy).toEqual(expect.arrayContaining(sent));
        // No omitted limit has fewer remaining units than a listed one.
        const remainings = relevant.map(({ remaining }) => remaining).toSorted((a, b) => a - b);
        const listedRemaining = sent.map((name) => drawn[Number(name.slice(1))]?.remaining);
        expect(listedRemaining.toSorted((a, b) => Number(a) - Number(b))).toEqual(remainings.slice(0, 16));
      },
    ),
  );
});
