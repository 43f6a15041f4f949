/** The web worker that keeps samples of traffic and replays them. */
import { advise } from "../../../advisor/search/advise.ts";
import type { Candidate } from "../../../advisor/search/goal.ts";
import { measureLimits } from "../../../advisor/search/trial.ts";
import { trafficNotes } from "../../../advisor/replay/recording.ts";
import type { ReplayRequest, ReplayTasks, ShownAdvice, ShownCandidate } from "./messages.ts";
import { type ReadSamples, taskHandler } from "./worker-tasks.ts";
import { compare } from "./compare.ts";
import { readSamples } from "./load-samples.ts";

function* adviseOn(
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

function* measureOn(
  { timelines }: ReadSamples,
  { policy, goal, limits }: ReplayTasks["candidate"]["request"],
): Generator<number, ShownCandidate> {
  return shownOf(yield* measureLimits(timelines, goal, limits), policy);
}

/** A policy names its only limit as itself. */
const shownOf = (
  { strategy, limits, deniedShare, deniedKeyShare, deniedActiveKeyShare, worstBurst, meetsGoal }: Omit<Candidate, "written">,
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

const handle = taskHandler(
  { load: readSamples, replays: { compare, advise: adviseOn, candidate: measureOn } },
  (answer) => postMessage(answer),
);
addEventListener("message", ({ data }: MessageEvent<ReplayRequest>) => handle(data));
