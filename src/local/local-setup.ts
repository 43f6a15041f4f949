/** The setup of the local Worker: the user's variables, and the demo for those that are not set. */
import { isDeepStrictEqual } from "node:util";
import type { Unstable_Config } from "wrangler";
import type { Policy } from "../config/index.ts";
import { checkConfiguration, type Findings } from "./configuration-check.ts";
import { demoLimits, localVariables, type Settings, usesDemoLimits } from "./settings.ts";

export interface LocalSetup extends Findings {
  /** Entry point, bindings and compatibility date. */
  readonly wrangler: Unstable_Config;
  readonly variables: Readonly<Record<string, unknown>>;
  readonly secretNames: readonly string[];
  readonly hasDemoOrigin: boolean;
  readonly hasDemoLimits: boolean;
}

/** @param demoOrigin URL of the origin to use while ORIGIN is not set */
export function localSetup(settings: Settings, demoOrigin: string): LocalSetup {
  const own = localVariables(settings);
  const hasDemoOrigin = !own["ORIGIN"];
  const hasDemoLimits = usesDemoLimits(settings);
  const variables = {
    ...own,
    ...(hasDemoOrigin && { ORIGIN: demoOrigin }),
    ...(hasDemoLimits && demoLimits),
  };
  const findings = checkConfiguration(settings, variables);
  return {
    ...findings,
    warnings: [...findings.warnings, ...jurisdictionWarnings(findings.config?.policies ?? [])],
    wrangler: settings.wrangler,
    variables,
    secretNames: Object.keys(settings.secrets),
    hasDemoOrigin,
    hasDemoLimits,
  };
}

export const runsSameWorker = (one: LocalSetup, other: LocalSetup): boolean =>
  isDeepStrictEqual(one.variables, other.variables) &&
  isDeepStrictEqual(one.secretNames, other.secretNames) &&
  isDeepStrictEqual(one.wrangler, other.wrangler);

/** One warning if any policy sets `jurisdiction`: local workerd has no jurisdictions and rejects such an object. */
function jurisdictionWarnings(policies: readonly Policy[]): string[] {
  const bound = policies.filter(({ objects }) => objects.jurisdiction !== null);
  if (bound.length === 0) return [];
  const names = bound.map(({ name, onError }) => `${name} (onError = "${onError}")`).join(", ");
  return [
    `Local workerd does not support jurisdictions, so onError decides for these policies: ${names}.`,
  ];
}
