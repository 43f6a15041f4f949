/** The web worker that keeps samples of traffic and replays them. */
import { advise } from "../../../advisor/search/advise.ts";
import type { Candidate } from "../../../advisor/search/goal.ts";
import { measureLimits } from "../../../advisor/search/trial.ts";
import { trafficNotes } from "../../../advisor/replay/recording.ts";
import type { ReplayRequest, ShownCandidate } from "./messages.ts";
import { taskHandler } from "./worker-tasks.ts";
import { compare } from "./compare.ts";
import { readSamples } from "./load-samples.ts";

/** Prepares a candidate for the page. Its only limit has the name of the policy. */
const shownOf = (
  {
    strategy,
    limits,
    deniedShare,
    deniedKeyShare,
    deniedActiveKeyShare,
    worstBurst,
    meetsGoal,
  }: Omit<Candidate, "written">,
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
  {
    load: readSamples,
    compare,
    *advise({ timelines }, { policy, goal }) {
      const { candidates, global, notes, ...advice } = yield* advise(timelines, goal);
      return {
        ...advice,
        candidates: candidates.map((each) => shownOf(each, policy)),
        global: global && shownOf(global, policy),
        notes: [...trafficNotes(timelines), ...notes],
      };
    },
    *candidate({ timelines }, { policy, goal, limits }) {
      return shownOf(yield* measureLimits(timelines, goal, limits), policy);
    },
  },
  (answer) => postMessage(answer),
);
addEventListener("message", ({ data }: MessageEvent<ReplayRequest>) => handle(data));
