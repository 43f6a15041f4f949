/** Wrangler vars, of any shape, -> a Config that cannot be wrong; or all that is wrong with them, at once. */
import { type JwtSettings, jwtWarnings, readJwt } from "./jwt.ts";
import { type Origin, readOrigin, readOriginTimeout } from "./origin.ts";
import { type AllowedOrigins, preflightWarnings, readCorsOrigins, readPreflights } from "./cors.ts";
import { type Policies, readPolicies } from "./policies.ts";
import type { Policy } from "./policy.ts";
import { type CheckToken, readCheckAuth, readCheckTokens } from "./tokens.ts";
import { type KnownVariables, unknownVariables } from "./known-variables.ts";
import { readKeySecret, readOriginSecret, placeholderProblems, shortSecrets } from "./secrets.ts";
import { isSet, type ReportProblem, type Variables } from "./variables.ts";
import { readCheckPath } from "./check-path.ts";
import { ConfigProblems } from "../validation/problems.ts";

export { type Address, parseAddress, isWithin } from "./address.ts";
export { type Cost, type Count, greatestCost, mostReserved } from "./cost.ts";
export type { Ban } from "./ban.ts";
export type { DenialAnswer } from "./on-deny.ts";
export { type Override, conditionParts } from "./key-rules.ts";
export {
  type Condition,
  type SubjectPattern,
  type Pattern,
  canonicalText,
} from "./subject-pattern.ts";
export { type Match, normalizedHost } from "./match.ts";
export type { Durability, FailureMode, Policy } from "./policy.ts";
export { type AddressSettings, type KeyPart, mostKeyParts, partName, readKeyPart } from "./key.ts";
export type { JwtKey, JwtKeys, JwtSettings } from "./jwt.ts";
export {
  defaultShards,
  type Jurisdiction,
  jurisdictions,
  type LocationHint,
  locationHints,
  mostShards,
  type ObjectSettings,
} from "./objects.ts";
export type { Origin } from "./origin.ts";
export type { AllowedOrigins } from "./cors.ts";
export { normalizedPath } from "./check-path.ts";
export { pathKey } from "./path-pattern.ts";
export { parsePath, PathReadings } from "./path-readings.ts";
export { hasPieces } from "./wildcard.ts";
export { hasLimits } from "./policies.ts";
export { isKnownVariable } from "./known-variables.ts";
export { readPolicy } from "./policy.ts";
export type { CheckToken, Right } from "./tokens.ts";

export interface Config extends Policies {
  readonly origin: Origin;
  /** How long a response may take to begin. */
  readonly originTimeoutMs: number;
  /** Sent to the origin with every request, so that it can refuse what did not come through here. */
  readonly originSecret: string | null;
  /** The policy that preflights are charged to; null when they have no limits. */
  readonly preflights: Policy | null;
  /** Which scripts may read what the limiter answers itself. */
  readonly corsOrigins: AllowedOrigins;
  /** Whether `X-RateLimit-*` are sent too, for clients that know no others. */
  readonly hasLegacyHeaders: boolean;
  /** Whether denials are logged as events, up to a bound per second. */
  readonly logsDenials: boolean;
  /** Everything at and below this path is the limiter's own. */
  readonly checkPath: string;
  /** Whether anybody may look, without a token. */
  readonly isLookOpen: boolean;
  /** Empty when `/check` is closed. */
  readonly checkTokens: readonly CheckToken[];
  readonly keySecret: string;
  /** Null when no token can be verified. */
  readonly jwt: JwtSettings | null;
}

/** @throws ConfigProblems with every problem in the variables */
export function parseConfig(variables: Variables): Config {
  const env: KnownVariables = variables;
  const problems = placeholderProblems(env);
  const placeholders = new Set(problems.map(({ variable }) => variable));
  const report: ReportProblem = (problem) => {
    if (!placeholders.has(problem.variable)) problems.push(problem);
  };
  const origin = readOrigin(env.ORIGIN, report);
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
      ...warnings,
      ...jwtWarnings(jwt),
      ...preflightWarnings(env.PREFLIGHT_LIMITS, policies),
    ],
    preflights: readPreflights(env.PREFLIGHT_LIMITS, policies, report),
    corsOrigins: readCorsOrigins(env.CORS_ORIGINS, report),
    logsDenials: readFlag("LOG_DENIALS", env.LOG_DENIALS, report),
    hasLegacyHeaders: readFlag("LEGACY_HEADERS", env.LEGACY_HEADERS, report),
    checkPath,
    isLookOpen: readCheckAuth(env.CHECK_AUTH, report),
    checkTokens: readCheckTokens(env.CHECK_TOKENS, report),
    keySecret: readKeySecret(env.KEY_SECRET, report),
  };
  if (problems.length > 0) throw new ConfigProblems(problems);
  return config;
}

/**
 * A line for each problem that has to be solved before a deployment, although the Worker runs with it: variables that it
 * does not know, and secrets that are too short.
 */
export const deploymentProblems = (variables: Variables): string[] => [
  ...unknownVariables(variables),
  ...shortSecrets(variables),
];

/** Off unless it is set. */
function readFlag(variable: string, value: unknown, report: ReportProblem): boolean {
  if (value === true || value === "true") return true;
  if (!isSet(value) || value === false || value === "false") return false;
  report({ variable, field: "", value, accepted: "true or false" });
  return false;
}

export { type ConfigProblem, ConfigProblems, describeProblem } from "../validation/problems.ts";
