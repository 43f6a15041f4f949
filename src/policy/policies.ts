/** Reads all policies: the short form (`LIMITS`, `STRATEGY`, `KEY`) and the lists (`POLICIES`, `POLICIES_2`, …). */
import * as v from "valibot";
import { acceptedNotation } from "../strategies/index.ts";
import { conditionPartsOf } from "./key-rules.ts";
import { hasJwt } from "./vars/jwt.ts";
import { type KeyPart, readKey } from "./key.ts";
import type { VariableName } from "./vars/known-variables.ts";
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
} from "./vars/variables.ts";
import { policyWarnings, sharedKeyWarnings } from "./warnings.ts";
import { isRecord, joinPath } from "../validation/problems.ts";

/** The variables of the short form, by the policy field that each one sets. */
const shortForm: Readonly<Record<string, VariableName>> = {
  limits: "LIMITS",
  strategy: "STRATEGY",
  key: "KEY",
};

export interface Policies {
  /** At least one, if there are no problems. The names of policies and limits are unique. */
  readonly policies: readonly Policy[];
  /** The policies among them that limit calls of `/check` itself. */
  readonly selfPolicies: readonly Policy[];
  /** A line for each discouraged setting. */
  readonly warnings: readonly string[];
}

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

/** Whether any variable sets policies. A misnamed list counts, since it is a problem of its own. */
export const hasLimits = (env: Variables): boolean =>
  Object.entries(env).some(
    ([name, value]) => isSet(value) && (Object.values<string>(shortForm).includes(name) || name.startsWith("POLICIES")),
  );

function warningsIn(written: WrittenPolicy): string[] {
  const { policy } = written;
  if (policy === null) return [];
  return policyWarnings(policy).map(({ field, text }) => `${placeOf(written, field)}: ${text}`);
}

/** The place of a policy's field. In the short form, each field is a variable. */
const placeOf = ({ variable, field }: WrittenPolicy, name: string): string =>
  field === "" ? (shortForm[name] ?? variable) : joinPath(variable, `${field}.${name}`);

/** One policy named `default`, whose problems name the variables of the short form. */
function readShortForm(env: Variables, report: ReportProblem): WrittenPolicy[] {
  const set = Object.entries(shortForm).filter(([, variable]) => isSet(env[variable]));
  if (set.length === 0) return [];
  const broken = new Set(set.map(([, variable]) => variable).filter((variable) => isBrokenJson(env[variable])));
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
 * The RateLimit fields of a response identify limits by name, so names must be unique. Names of invalid policies are
 * compared too, so that all problems are reported at once.
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

function isSelfPolicy({ match: { path, pathMatching } }: Policy, checkPath: string): boolean {
  if (path === null || /^[\w.-]/.test(path.pathname.slice(checkPath.length))) return false;
  return pathMatching === "exact"
    ? path.pathname.startsWith(checkPath)
    : path.pathname.toLowerCase().startsWith(checkPath.toLowerCase());
}

/** Rejects `onDeny` for calls of `/check`, whose answers follow the OpenAPI document. */
function reportSelfDenialAnswers(written: readonly WrittenPolicy[], checkPath: string, report: ReportProblem): void {
  for (const { variable, field, policy } of written) {
    if (policy === null || policy.onDeny === null || !isSelfPolicy(policy, checkPath)) continue;
    const accepted = `nothing, because the policy limits calls of ${checkPath}`;
    report({ variable, field: joinPath(field, "onDeny"), value: policy.onDeny, accepted });
  }
}

/** Without a verification key, every request would lack its claims. */
function reportUnverifiableClaims(written: readonly WrittenPolicy[], env: Variables, report: ReportProblem): void {
  if (hasJwt(env)) return;
  const places = written.flatMap((each) => {
    const value = isRecord(each.value) ? each.value : {};
    return [
      ...(readKey(value["key"])?.some(isClaim) === true ? [placeOf(each, "key")] : []),
      ...(conditionPartsOf(value).some(isClaim) ? [placeOf(each, "overrides")] : []),
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
