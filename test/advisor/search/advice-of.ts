/** Runs the advisor to its end without a pause, and returns its recommendation. */
import { type Advice, type Candidate, type Goal, parseGoal } from "../../../src/advisor/search/goal.ts";
import { advise } from "../../../src/advisor/search/advise.ts";
import type { Timelines } from "../../../src/advisor/replay/timelines.ts";

export function adviceOf(timelines: Timelines, goal: Goal | string): Advice {
  const steps = advise(timelines, typeof goal === "string" ? parseGoal(goal) : goal);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

export function recommendedOf({ candidates, recommendation }: Advice): Candidate {
  const candidate = recommendation.kind === "recommended" ? candidates[recommendation.candidate] : undefined;
  if (candidate === undefined) throw new Error(`expected a recommendation: ${recommendation.reason}`);
  return candidate;
}
