/**
 * Faults on our side: each is a line in the log and an answer that tells nothing of the values behind it. What may become
 * one is a line in the log alone.
 */
import { type ConfigProblem, describeProblem } from "../config/index.ts";
import { errorText, report } from "../observability/events.ts";
import { problemResponse } from "./problems.ts";

/** What answers everything while the configuration is broken; its problems are logged once. */
export function brokenConfiguration(problems: readonly ConfigProblem[]): () => Response {
  report({ event: "configuration-invalid", problems: problems.map(describeProblem) });
  return () => problemResponse({ kind: "configuration-invalid", problems });
}

/** Logs what a configuration that holds should rather not use. */
export function warnOfConfiguration(warnings: readonly string[]): void {
  if (warnings.length > 0) report({ event: "configuration-warning", warnings });
}

export function internalFault(error: unknown): Response {
  report({ event: "internal-error", error: errorText(error) });
  return problemResponse({ kind: "internal" });
}
