/** Property tests with fast-check. A failure reports its seed and the smallest counterexample. */
import * as fc from "fast-check";
import { isFull } from "./mode.ts";

type Arbitraries<Values extends [unknown, ...unknown[]]> = {
  [Index in keyof Values]: fc.Arbitrary<Values[Index]>;
};

/** A full test run multiplies the number of drawn values by this factor, unless a test states its own number. */
const fullRunFactor = 2;

/**
 * Returns the body of a test that checks a property for `numRuns` drawn values. Values that `fc.pre` discards are drawn
 * again, so that every run checks the property. The test fails if too many values are discarded. It does not use
 * fast-check's own runner for vitest, since loading that runner takes seconds.
 */
export function forAll<Values extends [unknown, ...unknown[]]>(
  arbitraries: Arbitraries<Values>,
  check: (...values: Values) => boolean | void | Promise<boolean | void>,
  numRuns = 100,
  fullRuns = numRuns * fullRunFactor,
): () => Promise<void> {
  const leastRuns = isFull ? fullRuns : numRuns;
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
