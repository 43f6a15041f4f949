/** Wrangler vars, of any shape, -> a Config that cannot be wrong; or all that is wrong with them, at once. */
import { type ConfigProblem, ConfigProblems } from "../strategies/index.ts";
import { type JwtSettings, jwtWarnings, readJwt } from "./jwt.ts";
import { type Policies, readPolicies } from "./policies.ts";
import { type CheckToken, isVisible, readCheckTokens } from "./tokens.ts";
import { isSet, type Variables } from "./variables.ts";

export { type Address, addressOf, isWithin } from "./address.ts";
export { type Cost, type Count, greatestCost, mostReserved } from "./cost.ts";
export type { Ban, DenialAnswer } from "./denial.ts";
export { type Override, partsAskedFor } from "./exceptions.ts";
export type { Condition, Listed, Pattern } from "./listed.ts";
export type { Match } from "./match.ts";
export type { Durability, FailureMode, Policy } from "./policy.ts";
export { type AddressSettings, type KeyPart, mostKeyParts, partName } from "./key.ts";
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
export { normalizedHost, normalizedPath, writtenPath } from "./path.ts";
export { readPolicy } from "./policy.ts";
export type { CheckToken, Right } from "./tokens.ts";
export { type ConfigProblem, ConfigProblems, describeProblem } from "../strategies/index.ts";

/** Where allowed requests go: to a host of its own, to the zone's origin behind the Worker's route, or nowhere. */
export type Origin =
  | { readonly kind: "url"; readonly url: URL }
  | { readonly kind: "route" }
  | { readonly kind: "none" };

export interface Config extends Policies {
  readonly origin: Origin;
  /** Sent to the origin with every request, so that it can refuse what did not come through here. */
  readonly originSecret: string | null;
  /** Everything at and below this path is the limiter's own. */
  readonly checkPath: string;
  /** Empty when `/check` is closed. */
  readonly checkTokens: readonly CheckToken[];
  readonly keySecret: string;
  /** Null when no token can be verified. */
  readonly jwt: JwtSettings | null;
}

type Report = (problem: ConfigProblem) => void;

/** @throws ConfigProblems with every problem in the variables */
export function parseConfig(env: Variables): Config {
  const problems: ConfigProblem[] = [];
  const report: Report = (problem) => problems.push(problem);
  const origin = readOrigin(env["ORIGIN"], report);
  const originSecret = readOriginSecret(env["ORIGIN_SECRET"], report);
  const { policies, warnings } = readPolicies(env, report);
  const jwt = readJwt(env, report);
  const config: Config = {
    origin,
    originSecret,
    policies,
    jwt,
    warnings: [...warnings, ...jwtWarnings(jwt)],
    checkPath: readCheckPath(env["CHECK_PATH"], report),
    checkTokens: readCheckTokens(env["CHECK_TOKENS"], report),
    keySecret: readKeySecret(env["KEY_SECRET"], report),
  };
  if (problems.length > 0) throw new ConfigProblems(problems);
  return config;
}

function readOrigin(value: unknown, report: Report): Origin {
  if (!isSet(value)) return { kind: "none" };
  if (value === "route") return { kind: "route" };
  const url = typeof value === "string" && URL.canParse(value) ? new URL(value) : null;
  const hasCredentials = url !== null && `${url.username}${url.password}` !== "";
  const isBare = url !== null && `${url.pathname}${url.search}${url.hash}` === "/";
  if (url !== null && /^https?:$/.test(url.protocol) && isBare && !hasCredentials) {
    return { kind: "url", url };
  }
  report({
    variable: "ORIGIN",
    field: "",
    // What may be credentials is not quoted, whether the text is a URL or nearly one.
    value: typeof value === "string" && /[@?#]/.test(value) ? hidden : value,
    accepted:
      'an http or https URL without path, query or credentials such as "https://api.example.com", or "route"',
  });
  return { kind: "none" };
}

/** Secrets are never quoted in a problem. */
const hidden = "(hidden)";

function readOriginSecret(value: unknown, report: Report): string | null {
  if (!isSet(value)) return null;
  if (isVisible(value)) return value;
  report({
    variable: "ORIGIN_SECRET",
    field: "",
    value: hidden,
    accepted: "text of visible ASCII characters",
  });
  return null;
}

function readKeySecret(value: unknown, report: Report): string {
  if (typeof value === "string" && value !== "") return value;
  report({
    variable: "KEY_SECRET",
    field: "",
    value: isSet(value) ? hidden : undefined,
    accepted:
      "a secret text, the same in every deployment: `wrangler secret put KEY_SECRET`, or .dev.vars locally",
  });
  return "";
}

function readCheckPath(value: unknown, report: Report): string {
  if (!isSet(value)) return "/check";
  if (typeof value === "string" && /^(?:\/(?!\.\.?(?:\/|$))[a-z0-9_.-]+)+$/i.test(value))
    return value;
  report({
    variable: "CHECK_PATH",
    field: "",
    value,
    accepted:
      'a path of letters, digits, "_", "." and "-" without a slash at its end such as "/check"',
  });
  return "/check";
}
