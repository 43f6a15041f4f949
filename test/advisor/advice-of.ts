/** Runs the advisor to its end without a pause. */
import type { Advice, Goal } from "../../src/advisor/advice.ts";
import { advise } from "../../src/advisor/advise.ts";
import { parseGoal } from "../../src/advisor/goal.ts";
import type { Timelines } from "../../src/replay/timelines.ts";

export function adviceOf(timelines: Timelines, goal: Goal | string): Advice {
  const steps = advise(timelines, typeof goal === "string" ? parseGoal(goal) : goal);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}
