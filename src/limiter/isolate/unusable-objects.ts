/**
 * Recognizes objects that can never decide. The cause is a mistake in the Worker's configuration, not an outage, so
 * `onError` does not apply.
 */
import { type ConfigProblem, ConfigProblems, describeProblem } from "../../validation/problems.ts";
import { report } from "../../observability/events.ts";
import { noSqliteStorage } from "../protocol.ts";

const variable = "RATE_LIMITER";

/**
 * The problem of a binding to a class without SQLite storage.
 * @param error the error of a call to one of its objects
 * @returns null when the error has another cause
 */
export function sqliteProblem(error: unknown, binding: string, className: string): ConfigProblem | null {
  // An object whose constructor reads its storage fails with the error of the platform, which names the field to write.
  if (!(error instanceof Error) || !causes.some((cause) => error.message.includes(cause))) {
    return null;
  }
  return {
    variable: binding,
    field: "",
    value: "a class without SQLite storage",
    accepted: `a class with SQLite storage: [[migrations]] with tag = "v1" and new_sqlite_classes = ["${className}"] in wrangler.toml, in place of new_classes; a class that is deployed without it keeps its storage, so export ${className} under another name, and write that name there and in class_name`,
  };
}

const causes = [noSqliteStorage, "new_sqlite_classes"];

const otherClass: ConfigProblem = {
  variable,
  field: "",
  value: "another class",
  accepted:
    'the class RateLimiter: class_name = "RateLimiter" in [[durable_objects.bindings]] of wrangler.toml, and export { RateLimiter } from "headgate/object" in the entry file of the Worker',
};

/** All objects of a binding have the same class, so the first such error applies to all of them. */
export class UnusableObjects {
  #problems: ConfigProblems | null = null;

  get isKnown(): boolean {
    return this.#problems !== null;
  }

  /**
   * @param isDecision whether every version of the object has the method of the call
   * @returns whether the error of a call shows that no call will ever succeed
   */
  note(error: unknown, isDecision: boolean): boolean {
    const problem = problemOf(error, isDecision);
    if (problem === null) return false;
    if (this.#problems === null) {
      this.#problems = new ConfigProblems([problem]);
      report({ event: "configuration-invalid", problems: [describeProblem(problem)] });
    }
    return true;
  }

  /** @throws ConfigProblems when the objects can never decide */
  check(): void {
    if (this.#problems !== null) throw this.#problems;
  }
}

function problemOf(error: unknown, isDecision: boolean): ConfigProblem | null {
  const problem = sqliteProblem(error, variable, "RateLimiter");
  if (problem !== null || !(error instanceof Error)) return problem;
  return isDecision && (isWithoutMethod(error) || isWithoutRpc(error)) ? otherClass : null;
}

/** Whether the object has no method of this name. workerd then throws this error. */
const isWithoutMethod = (error: unknown): boolean =>
  error instanceof TypeError && error.message.includes("does not implement the method");

/** Whether the class does not extend `DurableObject`. workerd then throws this error. */
const isWithoutRpc = (error: Error): boolean =>
  error instanceof TypeError && error.message.includes("does not support RPC");
