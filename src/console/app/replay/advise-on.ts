/** Advice for the page: candidates without their replays, named as those of the policy. */
import { advise } from "../../../advisor/search/advise.ts";
import { measureLimits, type MeasuredLimits } from "../../../advisor/search/trial.ts";
import { trafficNotes } from "../../../advisor/replay/traffic-notes.ts";
import type { ReplayTasks, ShownAdvice, ShownCandidate } from "./messages.ts";
import type { ReadSamples } from "./tasks.ts";

export function* adviseOn(
  { timelines }: ReadSamples,
  { policy, goal }: ReplayTasks["advise"]["request"],
): Generator<number, ShownAdvice> {
  const { candidates, global, notes, ...advice } = yield* advise(timelines, goal);
  return {
    ...advice,
    candidates: candidates.map((each) => shownOf(each, policy)),
    global: global === null ? null : shownOf(global, policy),
    notes: [...trafficNotes(timelines), ...notes],
  };
}

export function* measureOn(
  { timelines }: ReadSamples,
  { policy, goal, limits }: ReplayTasks["candidate"]["request"],
): Generator<number, ShownCandidate> {
  return shownOf(yield* measureLimits(timelines, goal, limits), policy);
}

/** A policy names its only limit as itself. */
const shownOf = (
  { strategy, limits, deniedShare, deniedKeyShare, deniedActiveKeyShare, worstBurst, meetsGoal }: MeasuredLimits,
  policy: string,
): ShownCandidate => ({
  strategy,
  limits: limits.map((limit) => ({ ...limit, ...(limits.length === 1 && { name: policy }) })),
  deniedShare,
  deniedKeyShare,
  deniedActiveKeyShare,
  worstBurst,
  meetsGoal,
});
