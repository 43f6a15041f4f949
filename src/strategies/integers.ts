/** Exact arithmetic on safe integers, for the strategies that multiply. */
import * as v from "valibot";
import type { Limit, LimitProblem } from "./strategy.ts";

/** Whether a value read from outside is an integer of at least 0 that a double holds exactly. */
export function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

/** The latest instant that is decided at, in the year 4199: what is added to it is an exact integer, and a date. */
const latestMs = 2 ** 46;

/** Whether a value is an instant: integer milliseconds since the Unix epoch. */
export const isInstant = (value: unknown): value is number => isCount(value) && value <= latestMs;

/** The greatest integer that a structured field can carry (RFC 9651, section 3.3.1). */
const greatestUnits = 999_999_999_999_999;
const acceptedUnits = `an integer from 1 to ${greatestUnits}`;

/** Of a field that says how many units there may be. */
export const unitsSchema = v.pipe(
  v.number(acceptedUnits),
  v.safeInteger(acceptedUnits),
  v.minValue(1, acceptedUnits),
  v.maxValue(greatestUnits, acceptedUnits),
);

/** floor(a × b ÷ divisor), for integers a, b >= 0 and divisor > 0. */
export function multiplyDivideFloor(a: number, b: number, divisor: number): number {
  const product = a * b;
  // Below 2^53 the product is exact, and a quotient short of an integer is short by more than a rounding step.
  if (product <= Number.MAX_SAFE_INTEGER) return Math.floor(product / divisor);
  return Number((BigInt(a) * BigInt(b)) / BigInt(divisor));
}

/** ceil(a × b ÷ divisor), for integers a, b >= 0 and divisor > 0. */
export function multiplyDivideCeil(a: number, b: number, divisor: number): number {
  const product = a * b;
  if (product <= Number.MAX_SAFE_INTEGER) return Math.ceil(product / divisor);
  return Number((BigInt(a) * BigInt(b) + BigInt(divisor) - 1n) / BigInt(divisor));
}

export function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

/** What is wrong with a limit whose strategy multiplies units by milliseconds, if the products would not be exact. */
export function productProblem(limit: Limit): LimitProblem | null {
  const divisor = greatestCommonDivisor(limit.limit, limit.windowMs);
  const product = 2 * (limit.limit / divisor) * (limit.windowMs / divisor);
  if (product <= Number.MAX_SAFE_INTEGER) return null;
  return {
    field: "limit",
    accepted: `fewer units or a shorter window: for the strategy ${limit.strategy} limit × window in milliseconds, without common divisors, must stay below 2^52`,
  };
}
