import fc from "fast-check";
import { test } from "vitest";

type Arbitraries<Values extends [unknown, ...unknown[]]> = {
  [Index in keyof Values]: fc.Arbitrary<Values[Index]>;
};

/**
 * A test of something that holds for all values. A failure tells its seed and path, and the least values that fail.
 * Not the runner that fast-check has for vitest: loading that takes longer than all of these tests together.
 */
export function law<Values extends [unknown, ...unknown[]]>(
  title: string,
  arbitraries: Arbitraries<Values>,
  holds: (...values: Values) => void,
  numRuns = 500,
): void {
  test(title, () => {
    fc.assert(fc.property<Values>(...arbitraries, holds), { numRuns });
  });
}
