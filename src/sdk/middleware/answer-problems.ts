/**
 * Answers problems that appear only when a request is handled: invalid limits that a function returns, and objects that
 * can never count.
 */
import { type ConfigProblem, ConfigProblems } from "../../validation/problems.ts";
import { StatedLimitsInvalid } from "../../policy/stated-limits.ts";
import { failureBy, reportStartError } from "../../http/runtime.ts";
import { problemResponse } from "../../http/wire/problems.ts";
import { ofPackage } from "./environment.ts";
import { namedNumber } from "./read-options.ts";

/**
 * Lists of problems that were already reported. A function may return the same invalid limits for many requests, and
 * these are reported once.
 */
const reported = new WeakSet<object>();

/** Answers 500 with problem details that show no value, and reports the values. Nothing was charged, and no handler has run. */
export async function answeringProblems<Answer>(enforce: () => Promise<Answer>): Promise<Answer | Response> {
  try {
    return await enforce();
  } catch (error) {
    if (!(error instanceof ConfigProblems)) throw error;
    if (!(error instanceof StatedLimitsInvalid)) return problemResponse(ofPackage(failureBy(error)));
    const problems = error.problems.map((problem) => ofFunction(problem, error.policy));
    if (!reported.has(error.problems)) reportStartError(new ConfigProblems(problems));
    reported.add(error.problems);
    return problemResponse({ kind: "configuration-invalid", problems, isOfPackage: true });
  }
}

function ofFunction(problem: ConfigProblem, policy: string): ConfigProblem {
  const { field, value, accepted } = problem;
  const within = field.replace(/^limits\.?/, "");
  return {
    variable: "rateLimit({ limits })",
    field: within,
    value: value === undefined ? "undefined" : namedNumber(value),
    accepted: `the function limits of the policy "${policy}" to return ${accepted}`,
  };
}
