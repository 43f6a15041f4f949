/** Reads wrangler vars into a valid Config, or reports every problem at once. */
import { type ConfigProblem, ConfigProblems } from "../../validation/problems.ts";
import { durationMsBetween } from "../schemas.ts";
import { adminWarnings, alertWarnings, readAdmin, readAlerts, readMostDenials, readPath } from "./admin.ts";
import { preflightWarnings, readCorsOrigins, readPreflights } from "./cors.ts";
import { jwtWarnings, readJwt } from "./jwt.ts";
import { type KnownVariables, unknownVariables, type VariableNote } from "./known-variables.ts";
import { hasLimits, readPolicies } from "./policies.ts";
import { placeholderProblems, readCheckTokens, readKeySecret, readOriginSecret, shortSecrets } from "./secrets.ts";
import { isSet, mayHoldCredentials, urlIn, type VariableForm, VariableReader, type Variables } from "./variables.ts";

export type Config = Readonly<ReturnType<typeof readConfig>>;

/** @throws ConfigProblems with every problem in the variables */
export function parseConfig(given: Variables): Config {
  const hasDemo = isDemo(given);
  const env: KnownVariables = hasDemo ? { ...given, ...demoLimits } : given;
  const problems = placeholderProblems(env);
  const placeholders = new Set(problems.map(({ variable }) => variable));
  const reader = new VariableReader(env, (problem) => {
    if (!placeholders.has(problem.variable)) problems.push(problem);
  });
  const config = readConfig(reader, hasDemo);
  if (problems.length > 0) throw new ConfigProblems(problems);
  return config;
}

function readConfig(reader: VariableReader, hasDemo: boolean) {
  const { env } = reader;
  const origin: Origin = hasDemo ? { kind: "demo" } : reader.setting("ORIGIN", { kind: "none" }, originForm);
  const originSecret = readOriginSecret(reader);
  const checkPath = readPath(reader, "CHECK_PATH");
  const { policies, selfPolicies, warnings } = readPolicies(reader, checkPath);
  const names = policies.map(({ name }) => name);
  const jwt = readJwt(reader);
  return {
    origin,
    originTimeoutMs: reader.setting("ORIGIN_TIMEOUT", defaultTimeoutMs, timeout),
    /** Sent to the origin with every request, so that it can reject requests that bypass Headgate. */
    originSecret,
    /** At least one. The names of policies and limits are unique. */
    policies,
    /** The policies among them that limit calls of `/check` itself. */
    selfPolicies,
    /** Null when no verification key is set. */
    jwt,
    /** A line for each discouraged setting. */
    warnings: [
      ...(hasDemo ? [demoWarning] : []),
      ...warnings,
      ...jwtWarnings(jwt),
      ...adminWarnings(env),
      ...alertWarnings(env),
      ...preflightWarnings(env, policies),
    ],
    /** The policy for CORS preflights; null when they have no limits. */
    preflights: readPreflights(reader, policies),
    corsOrigins: readCorsOrigins(reader),
    /** Whether denials are logged as events, up to a maximum per second. */
    logsDenials: reader.setting("LOG_DENIALS", false, flag),
    /** Whether responses also have `X-RateLimit-*` headers. */
    hasLegacyHeaders: reader.setting("LEGACY_HEADERS", false, flag),
    /** The limiter answers requests at and below this path; they are not forwarded. */
    checkPath,
    /** Whether looks (`GET /check`) need no token. */
    isLookOpen: reader.setting("CHECK_AUTH", false, noAuthentication),
    /** Empty when no tokens are configured, so that no token is valid for `/check`. */
    checkTokens: readCheckTokens(reader),
    /** Null without credentials (`ADMIN_TOKENS`, `ACCESS_TEAM`): there is no admin API then. */
    admin: readAdmin(reader, checkPath),
    /** One key in this many is in the traffic sample; null when there is no sample. Without a control plane it has no effect. */
    sampleOneKeyIn: reader.setting("SAMPLE", defaultOneKeyIn, sample),
    /** The most logged denials of each policy; null when none are logged. Without a control plane it has no effect. */
    mostDenials: readMostDenials(reader),
    /** Null when no alerts are sent. */
    alerts: readAlerts(reader, names),
    keySecret: readKeySecret(reader),
  };
}

/**
 * Where allowed requests are forwarded: to a URL, to the zone's origin behind the Worker's route, or nowhere. In the demo,
 * they are charged, and answered with a page that says what to configure.
 */
export type Origin =
  | { readonly kind: "url"; readonly url: URL }
  | { readonly kind: "route" }
  | { readonly kind: "demo" }
  | { readonly kind: "none" };

const originForm: VariableForm<Origin> = {
  read: (value) => {
    if (value === "route") return { kind: "route" };
    const url = urlIn(value);
    const isBare = url !== undefined && `${url.pathname}${url.search}${url.hash}` === "/";
    return isBare && /^https?:$/.test(url.protocol) ? { kind: "url", url } : undefined;
  },
  accepted: 'an http or https URL without path, query or credentials such as "https://api.example.com", or "route"',
  isSecret: mayHoldCredentials,
};

const leastTimeoutMs = 100;
const mostTimeoutMs = 3_600_000;
/** Cloudflare's own timeout for origins. */
const defaultTimeoutMs = 100_000;

/** The longest wait in ms for the beginning of a response; the body may take longer. */
const timeout: VariableForm<number> = {
  read: (value) => durationMsBetween(value, leastTimeoutMs, mostTimeoutMs) ?? undefined,
  accepted: 'a duration from 100 ms to 1 hour such as "30s"',
};

const flag: VariableForm<boolean> = {
  read: (value) => [true, false].find((each) => value === each || value === String(each)),
  accepted: "true or false",
};

const noAuthentication: VariableForm<true> = {
  read: (value) => value === "none" || undefined,
  accepted: '"none" for checks of cost 0 without a token, or no value',
};

const defaultOneKeyIn = 64;
const greatestOneKeyIn = 4_096;

/** n for `1/n`; null for `off`. */
const sample: VariableForm<number | null> = {
  read: (value) => {
    if (value === "off") return null;
    const [, digits] = /^1\/([1-9]\d{0,3})$/.exec(typeof value === "string" ? value : "") ?? [];
    const oneKeyIn = Number(digits);
    return oneKeyIn <= greatestOneKeyIn ? oneKeyIn : undefined;
  },
  accepted: `a share of the keys such as "1/${defaultOneKeyIn}", from "1/1" to "1/${greatestOneKeyIn}", or "off"`,
};

/** A line for each unknown variable and each short secret. They block a deployment, but the Worker runs with them. */
export const deploymentProblems = (variables: Variables): VariableNote[] => [
  ...unknownVariables(variables),
  ...shortSecrets(variables),
];

/** Limits that take effect while nothing is configured. They deny after a few requests, and allow again within seconds. */
export const demoLimits = { LIMITS: "5/10s", STRATEGY: "fixed-window", KEY: "ip" };

const demoWarning =
  "LIMITS and ORIGIN are not set: the demo limits are in effect, 5 requests per 10 seconds for each client address, and a page says what to set.";

/**
 * Whether the demo is in effect. It is never in effect with an origin, whose clients it would deny, or with an unknown
 * variable, which may be a misspelt LIMITS.
 */
const isDemo = (variables: Variables): boolean =>
  !isSet(variables["ORIGIN"]) && !hasLimits(variables) && unknownVariables(variables).length === 0;

/** The variables without which no request can be decided. */
const neededVariables: readonly string[] = ["KEY_SECRET", "POLICIES"];

/** Whether every problem is a variable that is not set yet, as opposed to a mistake in one that is. */
export const isUnconfigured = (problems: readonly ConfigProblem[], variables: Variables): boolean =>
  unknownVariables(variables).length === 0 &&
  problems.every(
    ({ variable, field, value }) => value === undefined && field === "" && neededVariables.includes(variable),
  );
