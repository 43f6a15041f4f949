/**
 * Faults on our side: each is a line in the log and an answer that tells nothing of the values behind it. What may become
 * one is a line in the log alone.
 */
import { ConfigProblems, describeProblem } from "../config/index.ts";
import { errorText, report } from "../observability/events.ts";
import { type Failure, problemResponse } from "./wire/problems.ts";

/** Reports why the Worker cannot start; it answers everything with the failure. */
export function startFailure(error: unknown): Failure {
  if (!(error instanceof ConfigProblems)) {
    report({ event: "internal-error", error: errorText(error) });
    return { kind: "internal" };
  }
  const { problems } = error;
  report({ event: "configuration-invalid", problems: problems.map(describeProblem) });
  return { kind: "configuration-invalid", problems };
}

/** Logs what a configuration that holds should rather not use. */
export function warnOfConfiguration(warnings: readonly string[]): void {
  if (warnings.length > 0) report({ event: "configuration-warning", warnings });
}

export function internalFault(error: unknown): Response {
  report({ event: "internal-error", error: errorText(error) });
  return problemResponse({ kind: "internal" });
}
