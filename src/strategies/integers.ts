/** Exact integer arithmetic. */
import { integerFrom } from "../validation/problems.ts";
import type { Limit, LimitProblem } from "./strategy.ts";

/** Whether a value is an integer of at least 0 that a double holds exactly. */
export function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

/** The latest accepted instant, in the year 4199. Sums with durations stay exact integers and valid dates. */
const latestMs = 2 ** 46;

/** Whether a value is an instant: integer milliseconds since the Unix epoch. */
export const isInstant = (value: unknown): value is number => isCount(value) && value <= latestMs;

/** @throws RangeError */
export function requireInstant(nowMs: number): void {
  if (!isInstant(nowMs)) throw new RangeError(`nowMs must be integer milliseconds since 1970, not ${String(nowMs)}`);
}

export function requireCount(name: string, value: number): void {
  if (!isCount(value)) throw new RangeError(`${name} must be an integer of at least 0, not ${String(value)}`);
}

export function requireTtl(ttlMs: number): void {
  if (!isCount(ttlMs) || ttlMs === 0)
    throw new RangeError(`ttlMs must be an integer of at least 1, not ${String(ttlMs)}`);
}

/** The greatest integer of a structured field (RFC 9651, section 3.3.1). */
const greatestUnits = 999_999_999_999_999;

/** Schema of a field that is a number of units. */
export const unitsSchema = integerFrom(1, greatestUnits);

/** The first index in `[start, end)` from which on `isReached` is true; `end` if there is none. */
export function bisect(start: number, end: number, isReached: (index: number) => boolean): number {
  let low = start;
  let high = end;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (isReached(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** floor(a × b ÷ divisor), for integers a, b >= 0 and divisor > 0. */
export function multiplyDivideFloor(a: number, b: number, divisor: number): number {
  const product = a * b;
  // Below 2^53 the product is exact, and rounding never lifts a quotient to the next integer.
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

/** The problem of a limit whose products of units and milliseconds would not be exact; null if they are. */
export function productProblem(limit: Limit): LimitProblem | null {
  const divisor = greatestCommonDivisor(limit.limit, limit.windowMs);
  const product = 2 * (limit.limit / divisor) * (limit.windowMs / divisor);
  if (product <= Number.MAX_SAFE_INTEGER) return null;
  return {
    field: "limit",
    accepted: `fewer units or a shorter window: for the strategy ${limit.strategy}, limit × window in milliseconds, both divided by their greatest common divisor, must stay below 2^52`,
  };
}
