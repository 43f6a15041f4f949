/** Products of integers beyond 2^53, compared with BigInt. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { multiplyDivideCeil, multiplyDivideFloor, productProblem } from "../../src/strategies/integers.ts";
import { forAll } from "../for-all.ts";

describe("multiplyDivideFloor and multiplyDivideCeil", () => {
  const factor = fc.oneof(fc.nat(1_000), fc.maxSafeNat());
  const divisor = fc.oneof(fc.integer({ min: 1, max: 1_000 }), fc.integer({ min: 1 }));

  test(
    "multiplyDivideFloor and multiplyDivideCeil round exactly while the quotient is a safe integer",
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
      500,
    ),
  );

  test(
    "a quotient without remainder is not rounded",
    forAll(
      [fc.maxSafeNat(), fc.integer({ min: 1 }), fc.constantFrom(1, 2, 3)],
      (quotient, by, share) => {
        fc.pre(quotient * share <= Number.MAX_SAFE_INTEGER);
        expect(multiplyDivideFloor(quotient, by * share, by)).toBe(quotient * share);
        expect(multiplyDivideCeil(quotient, by * share, by)).toBe(quotient * share);
      },
      250,
    ),
  );
});

describe("the bound on limit × window of strategies that multiply", () => {
  const problemOf = (limit: number, windowMs: number) =>
    productProblem({ name: "limit", strategy: "sliding-window-counter", limit, windowMs });

  test("the product limit × window is accepted while twice the product is a safe integer", () => {
    expect(problemOf(2 ** 52 - 1, 1)).toBeNull();
    expect(problemOf(2 ** 52, 1)).not.toBeNull();
    expect(problemOf(2 ** 26 + 1, 2 ** 26)).not.toBeNull();
    expect(problemOf(2 ** 26 - 1, 2 ** 26)).toBeNull();
  });

  test("the bound on limit × window applies after division by the common divisors of both", () => {
    const dayMs = 86_400_000;
    expect(problemOf(10_000_000 * dayMs, dayMs)).toBeNull();
    expect(problemOf(10_000_000 * dayMs + 1, dayMs)).not.toBeNull();
    expect(problemOf(2 ** 40, 2 ** 30)).toBeNull();
  });

  test("a problem with limit × window names the field and the accepted values", () => {
    expect(problemOf(2 ** 52, 1)).toEqual({
      field: "limit",
      accepted: expect.stringContaining("2^52"),
    });
  });
});
