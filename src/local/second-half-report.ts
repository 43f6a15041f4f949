/** The lines of `npm run advise` about the second half of a log, which was not used to choose the limit. */
import type { SecondHalf } from "../advisor/second-half.ts";
import { clockText, countText, partText, wrappedLines } from "./report-text.ts";

export function secondHalfLines(half: SecondHalf | null): string[] {
  if (half === null) {
    return wrappedLines(
      "Chosen from the whole log: its first half alone does not show that a limit for each key meets the goal, so no half is left for a check.",
    );
  }
  const { fromMs, requests, denied, keys, deniedKeys, worstBurst, meetsGoal } = half;
  const result = meetsGoal
    ? "The goal is met there, too."
    : "The goal is not met there: the traffic of the two halves differs. Use a longer log, or --whole to choose from both.";
  return wrappedLines(
    `Chosen from the first half of the log, until ${clockText(fromMs)} UTC. On the second half, which was not used, it denies ${partText(denied, requests)} of ${countText(requests)} requests and ${partText(deniedKeys, keys)} of ${countText(keys)} keys, and lets at most ${countText(worstBurst)} ${worstBurst === 1 ? "request" : "requests"} per second reach the origin. ${result}`,
  );
}

/** Null when the limit was chosen from the whole log. */
export const secondHalfFacts = (half: SecondHalf | null): object | null =>
  half === null
    ? null
    : {
        from: new Date(half.fromMs).toISOString(),
        requests: half.requests,
        denied: half.denied,
        deniedShare: half.requests === 0 ? 0 : half.denied / half.requests,
        keys: half.keys,
        deniedKeys: half.deniedKeys,
        deniedKeyShare: half.keys === 0 ? 0 : half.deniedKeys / half.keys,
        worstBurstPerSecond: half.worstBurst,
        meetsGoal: half.meetsGoal,
      };
