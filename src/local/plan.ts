/** What `npm start` would run under the current settings: the user's variables, and the demo where there are none. */
import { isDeepStrictEqual } from "node:util";
import type { Unstable_Config } from "wrangler";
import { check, type Findings } from "./check.ts";
import { jurisdictionWarnings } from "./notices.ts";
import { demoPolicy, isDemo, localVariables, type Settings } from "./settings.ts";

export interface Plan extends Findings {
  /** Everything else that wrangler needs: entry point, bindings, compatibility date. */
  readonly wrangler: Unstable_Config;
  /** What the Worker gets. */
  readonly variables: Readonly<Record<string, unknown>>;
  /** Names of variables that are secrets. */
  readonly secretNames: readonly string[];
  readonly isDemoOrigin: boolean;
  readonly isDemoPolicy: boolean;
}

/** @param demoOrigin URL of the origin that stands in while there is no ORIGIN */
export function planOf(settings: Settings, demoOrigin: string): Plan {
  const own = localVariables(settings);
  const isDemoOrigin = !own["ORIGIN"];
  const isDemoPolicy = isDemo(settings);
  const variables = {
    ...own,
    ...(isDemoOrigin && { ORIGIN: demoOrigin }),
    ...(isDemoPolicy && demoPolicy),
  };
  const findings = check(settings, variables);
  return {
    ...findings,
    warnings: [...findings.warnings, ...jurisdictionWarnings(findings.config?.policies ?? [])],
    wrangler: settings.wrangler,
    variables,
    secretNames: Object.keys(settings.secrets),
    isDemoOrigin,
    isDemoPolicy,
  };
}

/** Whether two plans run the same Worker. */
export const isSame = (one: Plan, other: Plan): boolean =>
  isDeepStrictEqual(one.variables, other.variables) &&
  isDeepStrictEqual(one.secretNames, other.secretNames) &&
  isDeepStrictEqual(one.wrangler, other.wrangler);
