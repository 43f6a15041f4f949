/** Property tests with fast-check: each counts its runs, and a failure reports its seed and the smallest counterexample. */
import * as fc from "fast-check";
import { isFull } from "./mode.ts";

type Arbitraries<Values extends [unknown, ...unknown[]]> = {
  [Index in keyof Values]: fc.Arbitrary<Values[Index]>;
};

/** A full test run draws this many times as many values. */
const fullRunFactor = 4;

/**
 * The body of a test that checks a property for `numRuns` drawn values. fast-check's own runner for vitest is not used,
 * since loading it takes seconds.
 */
export function forAll<Values extends [unknown, ...unknown[]]>(
  arbitraries: Arbitraries<Values>,
  holds: (...values: Values) => boolean | void | Promise<boolean | void>,
  numRuns = 100,
): () => Promise<void> {
  return () =>
    fc.assert(
      fc.asyncProperty<Values>(...arbitraries, async (...values) => holds(...values)),
      { numRuns: isFull ? numRuns * fullRunFactor : numRuns },
    );
}
