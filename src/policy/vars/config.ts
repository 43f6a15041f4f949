/** Reads wrangler vars into a valid Config, or reports every problem at once. */
import {
  type AdminSettings,
  adminWarnings,
  readAdmin,
  type AlertSettings,
  alertWarnings,
  readAlerts,
} from "./admin.ts";
import { type JwtSettings, jwtWarnings, readJwt } from "./jwt.ts";
import { type Origin, readOrigin, readOriginTimeout, readCheckPath } from "./origin.ts";
import { type AllowedOrigins, preflightWarnings, readCorsOrigins, readPreflights } from "./cors.ts";
import { type Policies, readPolicies, hasLimits } from "./policies.ts";
import type { Policy } from "../policy.ts";
import {
  type CheckToken,
  readCheckAuth,
  readCheckTokens,
  readKeySecret,
  readOriginSecret,
  placeholderProblems,
  shortSecrets,
} from "./secrets.ts";
import { type KnownVariables, unknownVariables } from "./known-variables.ts";
import { isSet, type Variables } from "./variables.ts";
import { type ReportProblem, ConfigProblems, type ConfigProblem } from "../../validation/problems.ts";

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

const defaultOneKeyIn = 64;
const greatestOneKeyIn = 4_096;

/** @returns n for `1/n`; null for `off` */
export function readSample(value: unknown, report: ReportProblem): number | null {
  if (!isSet(value)) return defaultOneKeyIn;
  if (value === "off") return null;
  const [, digits] = /^1\/([1-9]\d{0,3})$/.exec(typeof value === "string" ? value : "") ?? [];
  const oneKeyIn = Number(digits);
  if (oneKeyIn <= greatestOneKeyIn) return oneKeyIn;
  const accepted = `a share of the keys such as "1/${defaultOneKeyIn}", from "1/1" to "1/${greatestOneKeyIn}", or "off"`;
  report({ variable: "SAMPLE", field: "", value, accepted });
  return defaultOneKeyIn;
}
