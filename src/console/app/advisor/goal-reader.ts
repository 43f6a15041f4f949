/** Reads goals. The reader is loaded on demand, because it needs the engine's parser. */
import { type Goal, goalText, parseGoal } from "../../../advisor/search/goal.ts";
import { ConfigProblems, describeProblem } from "../../../strategies/index.ts";

export type ReadGoal =
  | { readonly goal: Goal; /** In the usual words. */ readonly text: string }
  | { readonly problem: string };

export function readGoal(text: string): ReadGoal {
  try {
    const goal = parseGoal(text);
    return { goal, text: goalText(goal) };
  } catch (error) {
    if (!(error instanceof ConfigProblems)) throw error;
    return { problem: error.problems.map(describeProblem).join(" ") };
  }
}
