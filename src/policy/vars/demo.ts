/** The demo: limits that take effect while nothing is configured, so that a first deployment shows what Headgate does. */
import { type KnownVariables, unknownVariables } from "./known-variables.ts";
import { hasLimits } from "../policies.ts";
import { isSet, type Variables } from "./variables.ts";
import type { ConfigProblem } from "../../validation/problems.ts";

/** Low enough to deny within a few requests, and short enough to allow again within seconds. */
export const demoLimits = { LIMITS: "5/10s", STRATEGY: "fixed-window", KEY: "ip" };

export const demoWarning =
  "LIMITS and ORIGIN are not set: the demo limits are in effect, 5 requests per 10 seconds for each client address, and a page says what to set.";

/**
 * Whether the demo is in effect. It never is in front of an origin, whose clients it would deny, or beside an unknown
 * variable, which may be a misspelt LIMITS.
 */
export function isDemo(variables: Variables): boolean {
  const { ORIGIN: origin }: KnownVariables = variables;
  return !isSet(origin) && !hasLimits(variables) && unknownVariables(variables).length === 0;
}

/** The variables without which no request can be decided. */
const neededVariables: readonly string[] = ["KEY_SECRET", "POLICIES"];

/** Whether every problem is a variable that is not set yet, as opposed to a mistake in one that is. */
export const isUnconfigured = (problems: readonly ConfigProblem[], variables: Variables): boolean =>
  unknownVariables(variables).length === 0 &&
  problems.every(
    ({ variable, field, value }) => value === undefined && field === "" && neededVariables.includes(variable),
  );
