/** Reads wrangler vars into a valid Config, or reports every problem at once. */
import { type AdminSettings, adminWarnings, readAdmin } from "./admin.ts";
import { type AlertSettings, alertWarnings, readAlerts } from "./alerts.ts";
import { type JwtSettings, jwtWarnings, readJwt } from "./jwt.ts";
import { type Origin, readOrigin, readOriginTimeout } from "./origin.ts";
import { type AllowedOrigins, preflightWarnings, readCorsOrigins, readPreflights } from "./cors.ts";
import { type Policies, readPolicies } from "../policies.ts";
import type { Policy } from "../policy.ts";
import { type CheckToken, readCheckAuth, readCheckTokens } from "./tokens.ts";
import { type KnownVariables, unknownVariables } from "./known-variables.ts";
import { readKeySecret, readOriginSecret, placeholderProblems, shortSecrets } from "./secrets.ts";
import { readSample } from "./sample.ts";
import { isSet, type ReportProblem, type Variables } from "./variables.ts";
import { readCheckPath } from "./check-path.ts";
import { demoLimits, demoWarning, isDemo } from "./demo.ts";
import { ConfigProblems } from "../../validation/problems.ts";

export type { AccessSettings, AdminSettings } from "./admin.ts";
export { type AlertSettings, alertSettings } from "./alerts.ts";
export { type Address, allWorkers, isWithin, networkText, parseAddress, withoutPort } from "../address.ts";
export { type Cost, type Count, greatestCost, mostReserved } from "../cost.ts";
export type { Ban } from "../ban.ts";
export type { DenialAnswer } from "../on-deny.ts";
export { type Override, conditionParts } from "../key-rules.ts";
export { canonicalText, type KeyTextSettings, unmatchedText } from "../key-text.ts";
export type { Condition, SubjectPattern, Pattern } from "../subject-pattern.ts";
export { type Match, normalizedHost } from "../match.ts";
export type { Durability, FailureMode, Policy } from "../policy.ts";
export { type AddressSettings, type KeyPart, mostKeyParts, partName, type PlainKey, readKeyPart } from "../key.ts";
export type { JwtKey, JwtKeys, JwtSettings } from "./jwt.ts";
export {
  defaultShards,
  type Jurisdiction,
  jurisdictions,
  type LocationHint,
  locationHints,
  mostShards,
  type ObjectSettings,
} from "../objects.ts";
export type { Origin } from "./origin.ts";
export {
  compareVersions,
  modeOf,
  type PolicyMode,
  type PolicyRule,
  type PolicyRules,
  type RuleEntry,
  type RulesVersion,
} from "../runtime-rules.ts";
export {
  applyRules,
  type KeyRuleContent,
  mostRulesBytes,
  policyWithRules,
  readKeyRule,
  readPolicyRule,
  type ReadRules,
  readRules,
  readStatedLimits,
  type RefusedRule,
  type RuleContext,
  type RuledPolicy,
  type RuleFields,
} from "../policy-rules.ts";
export type { AllowedOrigins } from "./cors.ts";
export { demoLimits, isUnconfigured } from "./demo.ts";
export { normalizedPath } from "./check-path.ts";
export { pathKey, pathKeys } from "../path-pattern.ts";
export { parsePath, PathReadings } from "../path-readings.ts";
export { hasPieces } from "../wildcard.ts";
export { hasLimits } from "../policies.ts";
export { isKnownVariable } from "./known-variables.ts";
export { policyFields, readPolicy } from "../policy.ts";
export type { ReportProblem } from "./variables.ts";
export { type AdminRight, adminRights, type AdminToken, type CheckToken, type Right } from "./tokens.ts";

export interface Config extends Policies {
  readonly origin: Origin;
  readonly originTimeoutMs: number;
  /** Sent to the origin with every request, so that it can reject requests that bypass Headgate. */
  readonly originSecret: string | null;
  /** The policy for CORS preflights; null when they have no limits. */
  readonly preflights: Policy | null;
  readonly corsOrigins: AllowedOrigins;
  /** Whether responses also have `X-RateLimit-*` headers. */
  readonly hasLegacyHeaders: boolean;
  /** Whether denials are logged as events, up to a maximum per second. */
  readonly logsDenials: boolean;
  /** The limiter answers requests at and below this path; they are not forwarded. */
  readonly checkPath: string;
  /** Whether looks (`GET /check`) need no token. */
  readonly isLookOpen: boolean;
  /** Empty when no tokens are configured, so that no token is valid for `/check`. */
  readonly checkTokens: readonly CheckToken[];
  /** Null without credentials (`ADMIN_TOKENS`, `ACCESS_TEAM`): there is no admin API then. */
  readonly admin: AdminSettings | null;
  /** One key in this many is in the traffic sample; null when there is no sample. Without a control plane it has no effect. */
  readonly sampleOneKeyIn: number | null;
  /** Null when no alerts are sent. */
  readonly alerts: AlertSettings | null;
  readonly keySecret: string;
  /** Null when no verification key is set. */
  readonly jwt: JwtSettings | null;
}

/** @throws ConfigProblems with every problem in the variables */
export function parseConfig(given: Variables): Config {
  const hasDemo = isDemo(given);
  const variables = hasDemo ? { ...given, ...demoLimits } : given;
  const env: KnownVariables = variables;
  const problems = placeholderProblems(env);
  const placeholders = new Set(problems.map(({ variable }) => variable));
  const report: ReportProblem = (problem) => {
    if (!placeholders.has(problem.variable)) problems.push(problem);
  };
  const origin: Origin = hasDemo ? { kind: "demo" } : readOrigin(env.ORIGIN, report);
  const originSecret = readOriginSecret(env.ORIGIN_SECRET, report);
  const checkPath = readCheckPath(env.CHECK_PATH, report);
  const { policies, selfPolicies, warnings } = readPolicies(variables, checkPath, report);
  const jwt = readJwt(env, report);
  const config: Config = {
    origin,
    originTimeoutMs: readOriginTimeout(env.ORIGIN_TIMEOUT, report),
    originSecret,
    policies,
    selfPolicies,
    jwt,
    warnings: [
      ...(hasDemo ? [demoWarning] : []),
      ...warnings,
      ...jwtWarnings(jwt),
      ...adminWarnings(env),
      ...alertWarnings(env, isSet(env.ADMIN_TOKENS) || isSet(env.ACCESS_TEAM)),
      ...preflightWarnings(env.PREFLIGHT_LIMITS, policies),
    ],
    preflights: readPreflights(env.PREFLIGHT_LIMITS, policies, report),
    corsOrigins: readCorsOrigins(env.CORS_ORIGINS, report),
    logsDenials: readFlag("LOG_DENIALS", env.LOG_DENIALS, report),
    hasLegacyHeaders: readFlag("LEGACY_HEADERS", env.LEGACY_HEADERS, report),
    checkPath,
    isLookOpen: readCheckAuth(env.CHECK_AUTH, report),
    checkTokens: readCheckTokens(env.CHECK_TOKENS, report),
    admin: readAdmin(env, checkPath, report),
    sampleOneKeyIn: readSample(env.SAMPLE, report),
    alerts: readAlerts(
      env,
      policies.map(({ name }) => name),
      report,
    ),
    keySecret: readKeySecret(env.KEY_SECRET, report),
  };
  if (problems.length > 0) throw new ConfigProblems(problems);
  return config;
}

/** A line for each unknown variable and each short secret. They block a deployment, but the Worker runs with them. */
export const deploymentProblems = (variables: Variables): string[] => [
  ...unknownVariables(variables),
  ...shortSecrets(variables),
];

function readFlag(variable: string, value: unknown, report: ReportProblem): boolean {
  if (value === true || value === "true") return true;
  if (!isSet(value) || value === false || value === "false") return false;
  report({ variable, field: "", value, accepted: "true or false" });
  return false;
}

export { type ConfigProblem, ConfigProblems, describeProblem } from "../../validation/problems.ts";
