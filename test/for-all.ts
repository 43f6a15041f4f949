import * as fc from "fast-check";

type Arbitraries<Values extends [unknown, ...unknown[]]> = {
  [Index in keyof Values]: fc.Arbitrary<Values[Index]>;
};

/**
 * A test of something that holds for all values. A failure tells its seed and path, and the least values that fail.
 * Not the runner that fast-check has for vitest: to load it takes seconds, as long as many of these tests.
 */
export function forAll<Values extends [unknown, ...unknown[]]>(
  arbitraries: Arbitraries<Values>,
  holds: (...values: Values) => boolean | void | Promise<boolean | void>,
  numRuns = 250,
): () => Promise<void> {
  return () =>
    fc.assert(
      fc.asyncProperty<Values>(...arbitraries, async (...values) => holds(...values)),
      { numRuns },
    );
}
