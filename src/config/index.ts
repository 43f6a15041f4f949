/** Wrangler vars, of any shape, -> a Config that cannot be wrong; or all that is wrong with them, at once. */
import * as v from "valibot";
import {
  acceptedNotation,
  type ConfigProblem,
  ConfigProblems,
  joinPath,
} from "../strategies/index.ts";
import { type Policy, readPolicy } from "./policy.ts";
import { isSet, numbered, typed } from "./variables.ts";

export type { FailureMode, KeyPart, Match, Policy } from "./policy.ts";
export { partName } from "./policy.ts";
export { type ConfigProblem, ConfigProblems, describeProblem } from "../strategies/index.ts";

/** Where allowed requests go: to a host of its own, to the zone's origin behind the Worker's route, or nowhere. */
export type Origin =
  | { readonly kind: "url"; readonly url: URL }
  | { readonly kind: "route" }
  | { readonly kind: "none" };

export interface Config {
  readonly origin: Origin;
  /** Sent to the origin with every request, so that it can refuse what did not come through here. */
  readonly originSecret: string | null;
  /** At least one; their names and those of their limits are unique. */
  readonly policies: readonly Policy[];
  /** Everything at and below this path is the limiter's own. */
  readonly checkPath: string;
  /** Empty when `/check` is closed. */
  readonly checkTokens: readonly string[];
  readonly keySecret: string;
}

type Variables = Readonly<Record<string, unknown>>;
type Report = (problem: ConfigProblem) => void;

/** @throws ConfigProblems with every problem in the variables */
export function parseConfig(env: Variables): Config {
  const problems: ConfigProblem[] = [];
  const report: Report = (problem) => problems.push(problem);
  const config: Config = {
    origin: readOrigin(env["ORIGIN"], report),
    originSecret: readOriginSecret(env["ORIGIN_SECRET"], report),
    policies: readPolicies(env, report),
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
    value: hasCredentials ? "(a URL with credentials)" : value,
    accepted:
      'an http or https URL without path, query or credentials such as "https://api.example.com", or "route"',
  });
  return { kind: "none" };
}

/** Secrets are never quoted in a problem. */
const hidden = "(hidden)";
const isVisible = (value: unknown): value is string =>
  typeof value === "string" && /^[\x21-\x7e]+$/.test(value);

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

function readCheckTokens(value: unknown, report: Report): readonly string[] {
  if (!isSet(value)) return [];
  const read = typed(value);
  const tokens: readonly unknown[] = Array.isArray(read) ? read : [read];
  const texts = tokens.filter(isVisible);
  if (tokens.length > 0 && texts.length === tokens.length) return texts;
  report({
    variable: "CHECK_TOKENS",
    field: "",
    value: hidden,
    accepted: "a bearer token of visible ASCII characters, or a JSON list of such tokens",
  });
  return [];
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

/** The policy of the short form, if it is used, then those of `POLICIES`, `POLICIES_2`, … */
function readPolicies(env: Variables, report: Report): Policy[] {
  const policies: Policy[] = [];
  const names = new Map<string, string>();
  const keep = (written: unknown, policy: Policy | null, variable: string, field: string): void => {
    refuseDuplicates(policy ?? written, names, variable, field, report);
    if (policy !== null) policies.push(policy);
  };
  const lists = numbered(env, "POLICIES");
  const hasShortForm = ["LIMITS", "STRATEGY", "KEY"].some((variable) => isSet(env[variable]));
  if (hasShortForm) keep({ name: "default" }, readShortForm(env, report), "LIMITS", "");
  for (const variable of lists) {
    const list = typed(env[variable]);
    const items: readonly unknown[] = Array.isArray(list) ? list : [];
    if (items.length === 0) {
      report({
        variable,
        field: "",
        value: env[variable],
        accepted: "a list of one or more policies",
      });
    }
    for (const [index, item] of items.entries()) {
      const field = `[${index}]`;
      keep(item, readPolicy(variable, field, item, report), variable, field);
    }
  }
  if (!hasShortForm && lists.length === 0) {
    const accepted = `a list of policies; or set LIMITS, for one policy, to ${acceptedNotation}`;
    report({ variable: "POLICIES", field: "", value: undefined, accepted });
  }
  return policies;
}

/** `LIMITS`, `STRATEGY` and `KEY` make one policy, named `default`; its problems name those variables. */
function readShortForm(env: Variables, report: Report): Policy | null {
  const variables: Readonly<Record<string, string>> = {
    limits: "LIMITS",
    strategy: "STRATEGY",
    key: "KEY",
  };
  const written = Object.entries(variables).flatMap(([field, variable]) =>
    isSet(env[variable]) ? [[field, typed(env[variable])]] : [],
  );
  const policy = { name: "default", ...Object.fromEntries(written) };
  return readPolicy("", "", policy, (problem) => {
    const [, field = "", rest = ""] = /^([a-z]+)\.?(.*)$/i.exec(problem.field) ?? [];
    report({ ...problem, variable: variables[field] ?? "LIMITS", field: rest });
  });
}

/**
 * In one response the names of all limits stand side by side, so they are unique, and so are those of policies. Of a
 * policy that could not be read the name is still compared: all problems are to be found at once.
 */
function refuseDuplicates(
  policy: unknown,
  names: Map<string, string>,
  variable: string,
  field: string,
  report: Report,
): void {
  const place = joinPath(variable, field);
  for (const name of namesOf(policy)) {
    const taken = names.get(name);
    if (taken !== undefined) {
      const accepted = `a name that no other policy or limit has; ${taken} has this one`;
      report({ variable, field: joinPath(field, "name"), value: name, accepted });
    }
    names.set(name, place);
  }
}

function namesOf(policy: unknown): ReadonlySet<string> {
  const parsed = v.safeParse(
    v.object({
      name: v.string(),
      limits: v.fallback(v.array(v.object({ name: v.string() })), []),
    }),
    policy,
  );
  if (!parsed.success) return new Set();
  return new Set([parsed.output.name, ...parsed.output.limits.map((limit) => limit.name)]);
}
