/** Reads the options of `createTestLimiter`. All invalid ones are reported at once. */
import { type ConfigProblem, ConfigProblems } from "../../strategies/index.ts";
import type { TestPolicy } from "./test-service.ts";

/** Before every real test, so that a token that is valid now is valid at the start. */
const defaultStartMs = Date.UTC(2026, 0, 1);

interface TestSettings {
  readonly startAtMs: number;
  readonly policies: readonly TestPolicy[] | null;
}

/** @throws ConfigProblems */
export function readTestOptions(options: object): TestSettings {
  const given: Readonly<Record<string, unknown>> = Object(options);
  const { startAt = defaultStartMs, policies = null, ...others } = given;
  const problems: Omit<ConfigProblem, "variable">[] = [];
  const startAtMs = instantOf(startAt);
  if (startAtMs === null) {
    const accepted = 'a Date, a text such as "2026-01-31T23:59:00Z", or an integer of milliseconds since 1970';
    problems.push({ field: "startAt", value: startAt, accepted });
  }
  if (!isListOrNull(policies)) {
    problems.push({ field: "policies", value: policies, accepted: "a list of policies" });
  }
  for (const [field, value] of Object.entries(others)) {
    problems.push({ field, value, accepted: "one of the options startAt, policies" });
  }
  if (problems.length > 0 || startAtMs === null || !isListOrNull(policies)) {
    throw new ConfigProblems(problems.map((problem) => ({ variable: "createTestLimiter", ...problem })));
  }
  return { startAtMs, policies };
}

/** `parseConfig` reads the policies. */
const isListOrNull = (value: unknown): value is readonly TestPolicy[] | null => value === null || Array.isArray(value);

/** Null for a value that is no instant. */
function instantOf(value: unknown): number | null {
  const isWritten = typeof value === "string" || value instanceof Date;
  const ms = isWritten ? new Date(value).getTime() : value;
  return Number.isSafeInteger(ms) && Number(ms) >= 0 ? Number(ms) : null;
}
