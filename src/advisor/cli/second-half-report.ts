/** The report of `npm run advise` about the halves of a log: the first, which a limit is chosen from, and a check on the second. */
import type { CheckedAdvice, WholeCause } from "../search/second-half.ts";
import { clockText, countOf, countText, partText, wrappedLines } from "./report-text.ts";

const causes: Record<WholeCause, string> = {
  "too-short": "a check on its second half needs at least an hour and 500 requests in each half.",
  wait: "its first half alone does not show that a limit for each key meets the goal, so no half is left for a check.",
  global:
    "its first half alone leads to one limit for all keys, and only limits for each key are checked on the second half.",
  unneeded: "its first half alone needs no limit.",
};

/** Empty when there is nothing to check: no limit is chosen, no check was wanted, or the strategy ensures the goal. */
export function secondHalfLines({ advice, secondHalf, wholeCause }: CheckedAdvice): string[] {
  if (secondHalf === null) {
    const { goal, recommendation } = advice;
    const isChosen = recommendation.kind === "recommended" || recommendation.kind === "global";
    return wholeCause === null || !isChosen || goal.kind === "key-rate"
      ? []
      : wrappedLines(`Chosen from the whole log: ${causes[wholeCause]}`);
  }
  const { fromMs, requests, denied, keys, deniedKeys, worstBurst, meetsGoal } = secondHalf;
  const result = meetsGoal
    ? "The goal is met there, too."
    : "The goal is not met there: the traffic of the two halves differs. Use a longer log, or --whole to choose from both.";
  return wrappedLines(
    `Chosen from the first half of the log, until ${clockText(fromMs)} UTC. On the second half, which was not used, it denies ${partText(denied, requests)} of ${countText(requests)} requests and ${partText(deniedKeys, keys)} of ${countOf(keys, "key")}, and lets at most ${countOf(worstBurst, "request")} per second reach the origin. ${result}`,
  );
}

/** The part of the traffic that every other result is about, and the check, which is null when the whole was used. */
export const halfFacts = ({ chosenFrom, secondHalf: half }: CheckedAdvice): object => ({
  chosenFrom: {
    from: new Date(chosenFrom.source.fromMs).toISOString(),
    to: new Date(chosenFrom.source.toMs).toISOString(),
    requests: chosenFrom.atMs.length,
    keys: chosenFrom.keys.length,
  },
  secondHalf:
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
        },
});
