/**
 * Recognizes objects that can never decide. The cause is a mistake in the Worker's configuration, not an outage, so
 * `onError` does not apply.
 */
import { type ConfigProblem, ConfigProblems, describeProblem } from "../../validation/problems.ts";
import { report } from "../../observability/events.ts";
import { noSqliteStorage } from "../protocol.ts";

const variable = "RATE_LIMITER";

const withoutSqlite: ConfigProblem = {
  variable,
  field: "",
  value: "a class without SQLite storage",
  accepted:
    'a class with SQLite storage: [[migrations]] with tag = "v1" and new_sqlite_classes = ["RateLimiter"] in wrangler.toml, in place of new_classes; a class that is deployed without it keeps its storage, so export RateLimiter under another name, and write that name there and in class_name',
};

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
  if (!(error instanceof Error)) return null;
  if (error.message.includes(noSqliteStorage)) return withoutSqlite;
  return isDecision && (isWithoutMethod(error) || isWithoutRpc(error)) ? otherClass : null;
}

/** Whether the object has no method of this name. workerd then throws this error. */
export const isWithoutMethod = (error: unknown): boolean =>
  error instanceof TypeError && error.message.includes("does not implement the method");

/** Whether the class does not extend `DurableObject`. workerd then throws this error. */
const isWithoutRpc = (error: Error): boolean =>
  error instanceof TypeError && error.message.includes("does not support RPC");
