/** The setup of the local Worker: the user's variables, and the demo for those that are not set. */
import { isDeepStrictEqual } from "node:util";
import type { Unstable_Config } from "wrangler";
import { demoLimits } from "../policy/vars/config.ts";
import type { Policy } from "../policy/policy.ts";
import { checkConfiguration, type Findings } from "./configuration-check.ts";
import { localVariables, type Settings, usesDemoLimits } from "./settings.ts";

export interface LocalSetup extends Findings {
  /** Entry point, bindings and compatibility date. */
  readonly wrangler: Unstable_Config;
  readonly variables: Readonly<Record<string, unknown>>;
  readonly secretNames: readonly string[];
  readonly hasDemoOrigin: boolean;
  readonly hasDemoLimits: boolean;
  /** Whether the Worker serves the console on `ADMIN_HOST`. */
  readonly hasConsole: boolean;
}

/** Browsers resolve this host to this machine. The `ADMIN_HOST` of a deployment names another one. */
const localAdminHost = "admin.localhost";

/** @param demoOrigin URL of the origin to use while ORIGIN is not set */
export function localSetup(settings: Settings, demoOrigin: string): LocalSetup {
  const own = localVariables(settings);
  const hasDemoOrigin = !own["ORIGIN"];
  const hasDemoLimits = usesDemoLimits(settings);
  const variables = withLocalAdminHost(settings, {
    ...own,
    ...(hasDemoOrigin && { ORIGIN: demoOrigin }),
    // Sample every key: a local Worker has too few keys for a sample of them.
    SAMPLE: own["SAMPLE"] || "1/1",
    REVEAL: own["REVEAL"] || "admins",
    ...(hasDemoLimits && demoLimits),
  });
  const findings = checkConfiguration(settings, variables);
  const { wrangler } = settings;
  return {
    ...findings,
    warnings: [...findings.warnings, ...jurisdictionWarnings(findings.config?.policies ?? [])],
    wrangler,
    variables,
    secretNames: Object.keys(settings.secrets),
    hasDemoOrigin,
    hasDemoLimits,
    hasConsole: wrangler.assets?.binding === "ASSETS" && !hasFixedHost(wrangler, variables),
  };
}

/** An invalid configuration keeps its `ADMIN_HOST`, so that all its problems are reported. */
function withLocalAdminHost(
  settings: Settings,
  variables: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const admin = checkConfiguration(settings, variables).config?.admin ?? null;
  return admin === null || /(?:^|\.)localhost$/.test(admin.host ?? "")
    ? variables
    : { ...variables, ADMIN_HOST: localAdminHost };
}

/** Whether all requests to the local Worker have the same host, whatever their `Host` field says. */
const hasFixedHost = (
  { dev, route, routes }: Unstable_Config,
  { ORIGIN }: Readonly<Record<string, unknown>>,
): boolean =>
  dev.host !== undefined || (takesHostFromRoute({ ORIGIN }) && (route !== undefined || (routes ?? []).length > 0));

/** With `ORIGIN = "route"`, the origin has the host of the route. */
export const takesHostFromRoute = ({ ORIGIN }: Readonly<Record<string, unknown>>): boolean => ORIGIN === "route";

export const runsSameWorker = (one: LocalSetup, other: LocalSetup): boolean =>
  isDeepStrictEqual(one.variables, other.variables) &&
  isDeepStrictEqual(one.secretNames, other.secretNames) &&
  isDeepStrictEqual(one.wrangler, other.wrangler);

/** One warning if any policy sets `jurisdiction`: local workerd has no jurisdictions and rejects such an object. */
function jurisdictionWarnings(policies: readonly Policy[]): string[] {
  const bound = policies.filter(({ objects }) => objects.jurisdiction !== null);
  if (bound.length === 0) return [];
  const names = bound.map(({ name, onError }) => `${name} (onError = "${onError}")`).join(", ");
  return [`Local workerd does not support jurisdictions, so onError decides for these policies: ${names}.`];
}
