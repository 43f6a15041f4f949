/** The policies of all variables: of the short form, and of the lists. Names are unique among them. */
import * as v from "valibot";
import { acceptedNotation } from "../strategies/index.ts";
import { writtenConditionParts } from "./key-rules.ts";
import { hasJwt } from "./jwt.ts";
import { type KeyPart, readKey } from "./key.ts";
import type { VariableName } from "./known-variables.ts";
import { type Policy, readPolicy } from "./policy.ts";
import { readLists, type WrittenPolicy } from "./policy-lists.ts";
import {
  acceptedJson,
  isBrokenJson,
  isSet,
  numberedNames,
  type ReportProblem,
  typedValue,
  type Variables,
} from "./variables.ts";
import { policyWarnings, sharedKeyWarnings } from "./warnings.ts";
import { isRecord, joinPath } from "../validation/problems.ts";

/** The variables of the short form, by the field of a policy that each of them is. */
const shortForm: Readonly<Record<string, VariableName>> = {
  limits: "LIMITS",
  strategy: "STRATEGY",
  key: "KEY",
};

export interface Policies {
  /** At least one; their names and those of their limits are unique. */
  readonly policies: readonly Policy[];
  /** Those of them that limit calls of the limiter itself. */
  readonly selfPolicies: readonly Policy[];
  /** What is accepted and should rather not be used, a line each. */
  readonly warnings: readonly string[];
}

/** @param checkPath below which everything is the limiter's own */
export function readPolicies(env: Variables, checkPath: string, report: ReportProblem): Policies {
  const written = [...readShortForm(env, report), ...readLists(env, report)];
  reportDuplicates(written, report);
  reportUnverifiableClaims(written, env, report);
  reportSelfDenialAnswers(written, checkPath, report);
  const isNothingSet = [...Object.values(shortForm), ...numberedNames(env, "POLICIES")].every(
    (variable) => !isSet(env[variable]),
  );
  if (isNothingSet) {
    const accepted = `a list of policies; or, in LIMITS, ${acceptedNotation}`;
    report({ variable: "POLICIES", field: "", value: undefined, accepted });
  }
  const policies = written.flatMap(({ policy }) => policy ?? []);
  return {
    policies,
    selfPolicies: policies.filter((policy) => isSelfPolicy(policy, checkPath)),
    warnings: [...written.flatMap(warningsIn), ...sharedKeyWarnings(policies)],
  };
}

/** Whether any variable is meant for policies. A misnamed list counts: it is a problem, and not the absence of limits. */
export const hasLimits = (env: Variables): boolean =>
  Object.entries(env).some(
    ([name, value]) =>
      isSet(value) &&
      (Object.values<string>(shortForm).includes(name) || name.startsWith("POLICIES")),
  );

function warningsIn(written: WrittenPolicy): string[] {
  const { policy } = written;
  if (policy === null) return [];
  return policyWarnings(policy).map(({ field, text }) => `${placeOf(written, field)}: ${text}`);
}

/** Where a field of a policy is written: of the short form in a variable of its own. */
const placeOf = ({ variable, field }: WrittenPolicy, name: string): string =>
  field === "" ? (shortForm[name] ?? variable) : joinPath(variable, `${field}.${name}`);

/** `LIMITS`, `STRATEGY` and `KEY` make one policy, named `default`; its problems name those variables. */
function readShortForm(env: Variables, report: ReportProblem): WrittenPolicy[] {
  const set = Object.entries(shortForm).filter(([, variable]) => isSet(env[variable]));
  if (set.length === 0) return [];
  const broken = new Set(
    set.map(([, variable]) => variable).filter((variable) => isBrokenJson(env[variable])),
  );
  for (const variable of broken) {
    const accepted = acceptedJson(env[variable]);
    report({ variable, field: "", value: env[variable], accepted });
  }
  const value = {
    name: "default",
    ...Object.fromEntries(set.map(([field, variable]) => [field, typedValue(env[variable])])),
  };
  const policy = readPolicy("", "", value, (problem) => {
    const [, name = "", field = ""] = /^([a-z]+)\.?(.*)$/is.exec(problem.field) ?? [];
    const variable = shortForm[name] ?? "LIMITS";
    if (!broken.has(variable)) report({ ...problem, variable, field });
  });
  return [{ variable: "LIMITS", field: "", value, policy }];
}

/**
 * In one response the names of all limits stand side by side, so they are unique, and so are those of policies. Of a
 * policy that could not be read the name is still compared: all problems are to be found at once.
 */
function reportDuplicates(written: readonly WrittenPolicy[], report: ReportProblem): void {
  const places = new Map<string, string>();
  for (const { variable, field, value, policy } of written) {
    const place = joinPath(variable, field);
    const { name: policyName, limits } = namesOf(policy ?? value);
    for (const name of new Set([policyName, ...limits])) {
      const taken = places.get(name);
      if (taken !== undefined) {
        const within = joinPath(field, name === policyName ? "name" : "limits");
        const accepted = `a name that no other policy or limit has; ${taken} has the same`;
        report({ variable, field: within, value: name, accepted });
      }
      if (name !== "") places.set(name, place);
    }
  }
}

/** Whether a policy's path begins with that of the limiter's own calls, and not only with the same letters. */
function isSelfPolicy({ match: { path, pathMatching } }: Policy, checkPath: string): boolean {
  if (path === null || /^[\w.-]/.test(path.pathname.slice(checkPath.length))) return false;
  return pathMatching === "exact"
    ? path.pathname.startsWith(checkPath)
    : path.pathname.toLowerCase().startsWith(checkPath.toLowerCase());
}

/** The limiter's own calls are answered as its OpenAPI document says. */
function reportSelfDenialAnswers(
  written: readonly WrittenPolicy[],
  checkPath: string,
  report: ReportProblem,
): void {
  for (const { variable, field, policy } of written) {
    if (policy === null || policy.onDeny === null || !isSelfPolicy(policy, checkPath)) continue;
    const accepted = `nothing, because the policy limits calls of ${checkPath}`;
    report({ variable, field: joinPath(field, "onDeny"), value: policy.onDeny, accepted });
  }
}

/** A claim that nothing can verify would be missing from every request. */
function reportUnverifiableClaims(
  written: readonly WrittenPolicy[],
  env: Variables,
  report: ReportProblem,
): void {
  if (hasJwt(env)) return;
  const places = written.flatMap((each) => {
    const value = isRecord(each.value) ? each.value : {};
    return [
      ...(readKey(value["key"])?.some(isClaim) === true ? [placeOf(each, "key")] : []),
      ...(writtenConditionParts(value).some(isClaim) ? [placeOf(each, "overrides")] : []),
    ];
  });
  if (places.length === 0) return;
  const accepted =
    `a key that verifies tokens, or JWT_JWKS_URL with the address of such keys, ` +
    `for the jwt:<claim> in ${places.join(", ")}`;
  report({ variable: "JWT_KEY", field: "", value: undefined, accepted });
}

const isClaim = ({ kind }: KeyPart): boolean => kind === "jwt";

const namedLimits = v.fallback(v.array(v.object({ name: v.string() })), []);
const namedPolicy = v.object({
  name: v.fallback(v.string(), ""),
  limits: namedLimits,
  keyRules: v.fallback(v.object({ overrides: v.array(v.object({ limits: namedLimits })) }), {
    overrides: [],
  }),
});

function namesOf(policy: unknown): { name: string; limits: string[] } {
  const parsed = v.safeParse(namedPolicy, policy);
  if (!parsed.success) return { name: "", limits: [] };
  const { name, limits, keyRules } = parsed.output;
  const all = [limits, ...keyRules.overrides.map((override) => override.limits)].flat();
  return { name, limits: all.map((limit) => limit.name) };
}
