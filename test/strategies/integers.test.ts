/** Products beyond what a double holds exactly, against arithmetic without bounds. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  multiplyDivideCeil,
  multiplyDivideFloor,
  productProblem,
} from "../../src/strategies/integers.ts";
import { forAll } from "../for-all.ts";

describe("a product divided", () => {
  const factor = fc.oneof(fc.nat(1_000), fc.maxSafeNat());
  const divisor = fc.oneof(fc.integer({ min: 1, max: 1_000 }), fc.integer({ min: 1 }));

  test(
    "is rounded down or up exactly, as long as the quotient is a safe integer",
    forAll(
      [factor, factor, divisor],
      (a, b, by) => {
        const product = BigInt(a) * BigInt(b);
        fc.pre(product / BigInt(by) < BigInt(Number.MAX_SAFE_INTEGER));
        const isWhole = product % BigInt(by) === 0n;
        const floor = Number(product / BigInt(by));
        expect(multiplyDivideFloor(a, b, by)).toBe(floor);
        expect(multiplyDivideCeil(a, b, by)).toBe(isWhole ? floor : floor + 1);
      },
      2_000,
    ),
  );

  test(
    "is not rounded when nothing is left over",
    forAll(
      [fc.maxSafeNat(), fc.integer({ min: 1 }), fc.constantFrom(1, 2, 3)],
      (quotient, by, share) => {
        fc.pre(quotient * share <= Number.MAX_SAFE_INTEGER);
        expect(multiplyDivideFloor(quotient, by * share, by)).toBe(quotient * share);
        expect(multiplyDivideCeil(quotient, by * share, by)).toBe(quotient * share);
      },
      1_000,
    ),
  );
});

describe("a limit whose strategy multiplies", () => {
  const problemOf = (limit: number, windowMs: number) =>
    productProblem({ name: "limit", strategy: "sliding-window-counter", limit, windowMs });

  test("is fine as long as twice its product is a safe integer", () => {
    expect(problemOf(2 ** 52 - 1, 1)).toBeNull();
    expect(problemOf(2 ** 52, 1)).not.toBeNull();
    expect(problemOf(2 ** 26 + 1, 2 ** 26)).not.toBeNull();
    expect(problemOf(2 ** 26 - 1, 2 ** 26)).toBeNull();
  });

  test("has its product taken without common divisors", () => {
    const dayMs = 86_400_000;
    expect(problemOf(10_000_000 * dayMs, dayMs)).toBeNull();
    expect(problemOf(10_000_000 * dayMs + 1, dayMs)).not.toBeNull();
    expect(problemOf(2 ** 40, 2 ** 30)).toBeNull();
  });

  test("is told which field is wrong and what would be accepted", () => {
    expect(problemOf(2 ** 52, 1)).toEqual({
      field: "limit",
      accepted: expect.stringContaining("2^52"),
    });
  });
});
