/** Reads goals. The reader is loaded on demand, because it needs the engine's parser. */
import { type Goal, goalText, parseGoal } from "../../../advisor/search/goal.ts";
import { ConfigProblems, describeProblem } from "../../../strategies/index.ts";

/** The goal with the usual words for it, or the reason why the text is no goal. */
export function readGoal(text: string): { readonly goal: Goal; readonly text: string } | { readonly problem: string } {
  try {
    const goal = parseGoal(text);
    return { goal, text: goalText(goal) };
  } catch (error) {
    if (!(error instanceof ConfigProblems)) throw error;
    return { problem: error.problems.map(describeProblem).join(" ") };
  }
}
