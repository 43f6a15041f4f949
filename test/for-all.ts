/** Property tests with fast-check. A failure reports its seed and the smallest counterexample. */
import * as fc from "fast-check";
import { isFull } from "./mode.ts";

type Check<Values extends unknown[]> = (...values: Values) => boolean | void | Promise<boolean | void>;

type Arbitraries<Values extends [unknown, ...unknown[]]> = {
  [Index in keyof Values]: fc.Arbitrary<Values[Index]>;
};

/** A short test run draws this part of the values, unless a test states its own number. */
const shortShare = 1 / 4;

/**
 * Returns the body of a test that checks a property for `numRuns` drawn values, or for fewer in a short test run.
 * Values that `fc.pre` discards are drawn again, so that every run checks the property. The test fails if too many
 * values are discarded. It does not use fast-check's own runner for vitest, since loading that runner takes seconds.
 */
export function forAll<Values extends [unknown, ...unknown[]]>(
  arbitraries: Arbitraries<Values>,
  check: Check<Values>,
  numRuns = 100,
  shortRuns = Math.ceil(numRuns * shortShare),
): () => Promise<void> {
  const leastRuns = isFull ? numRuns : shortRuns;
  return async () => {
    let checkedRuns = 0;
    const property = fc.asyncProperty<Values>(...arbitraries, async (...values) => {
      const holds = await check(...values);
      checkedRuns++;
      return holds;
    });
    await fc.assert(property, { numRuns: leastRuns });
    if (checkedRuns < leastRuns) throw new Error(`only ${checkedRuns} of ${leastRuns} runs checked the property`);
  };
}

/**
 * Like `forAll`, for a test that then asserts how often a situation occurred: a short test run draws `numRuns` values,
 * and a full one twice as many.
 */
export const forAllCounted = <Values extends [unknown, ...unknown[]]>(
  arbitraries: Arbitraries<Values>,
  check: Check<Values>,
  numRuns = 100,
): (() => Promise<void>) => forAll(arbitraries, check, 2 * numRuns, numRuns);
