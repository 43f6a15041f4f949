/** Limits as they are written, read by the engine. */
import type { FullLimit } from "../../../admin/wire.ts";
import { describeProblem, readLimits } from "../../../strategies/index.ts";

/**
 * @param strategy of limits that name none
 * @param policy the name of the policy
 */
export function limitsWritten(
  written: unknown,
  strategy: string,
  policy: string,
): { readonly limits: readonly FullLimit[]; readonly problems: readonly string[] } {
  const problems: string[] = [];
  const limits = readLimits(written, { strategy, policy }, (problem) =>
    problems.push(describeProblem({ ...problem, variable: "limits" })),
  );
  return { limits: limits.map((limit) => ({ ...limit })), problems: [...new Set(problems)] };
}
