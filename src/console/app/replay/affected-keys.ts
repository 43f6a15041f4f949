/** The keys that two deciders treat differently. */
import type { Timelines } from "../../../advisor/replay/timelines.ts";
import type { AffectedKey, Comparison } from "./comparison.ts";

const mostListed = 10;

/** @param deniedOfKey the denials of each key, by decider; the last two are compared */
export function affectedBy(
  { keys, firstRow, atMs }: Timelines,
  deniedOfKey: readonly Uint32Array[],
): Pick<Comparison, "affected" | "affectedKeys"> {
  const [then, now] = deniedOfKey.toReversed();
  const difference = (key: number): number => (then?.[key] ?? 0) - (now?.[key] ?? 0);
  const differing = [...keys.keys()].filter((key) => difference(key) !== 0);
  const affected = differing
    .toSorted((one, other) => Math.abs(difference(other)) - Math.abs(difference(one)))
    .slice(0, mostListed)
    .map((index): AffectedKey => {
      const requests = (firstRow[index + 1] ?? 0) - (firstRow[index] ?? 0);
      return {
        key: keys[index] ?? "",
        requests,
        shareOfRequests: requests / atMs.length,
        denied: deniedOfKey.map((denied) => denied[index] ?? 0),
      };
    });
  return { affected, affectedKeys: differing.length };
}
