/** Reads all policies: the short form (`LIMITS`, `STRATEGY`, `KEY`) and the lists (`POLICIES`, `POLICIES_2`, …). */
import * as v from "valibot";
import { acceptedNotation, namePattern } from "../../strategies/index.ts";
import { isRecord } from "../../validation/json.ts";
import {
  acceptedFields,
  type ConfigProblem,
  hidden,
  joinPath,
  jsonOf,
  type ReportProblem,
} from "../../validation/problems.ts";
import { type KeyPart, readKey } from "../key.ts";
import { conditionPartsOf } from "../lists.ts";
import { namesOf, type Policy, readPolicy } from "../policy.ts";
import { priorityPartsOf } from "../shares.ts";
import { policyWarnings, sharedKeyWarnings } from "../warnings.ts";
import { asParent, type EarlierPolicies, type Parent } from "../within.ts";
import { hasJwt } from "./jwt.ts";
import type { VariableName } from "./known-variables.ts";
import {
  acceptedJson,
  isBrokenJson,
  isPolicyList,
  isSet,
  jsonErrorNote,
  typedValue,
  type VariableReader,
  type Variables,
} from "./variables.ts";

/** The variables of the short form, by the policy field that each one sets. */
const shortForm: Readonly<Record<string, VariableName>> = { limits: "LIMITS", strategy: "STRATEGY", key: "KEY" };

export function readPolicies(reader: VariableReader, checkPath: string) {
  const { env } = reader;
  const report: ReportProblem = (problem) => reader.report({ ...problem, ...policyNameAt(env, problem) });
  reportBothForms(env, report);
  const written = [...readShortForm(env, report), ...readPolicyLists(env, report)];
  reportDuplicates(written, report);
  reportUnverifiableClaims(written, env, report);
  reportSelfDenialAnswers(written, checkPath, report);
  if (![...Object.values(shortForm), ...policyLists(env)].some((name) => isSet(Reflect.get(env, name)))) {
    const accepted = `a list of policies; or, in LIMITS, ${acceptedNotation}`;
    report({ variable: "POLICIES", field: "", value: undefined, accepted });
  }
  const policies = written.flatMap(({ policy }) => policy ?? []);
  return {
    policies,
    selfPolicies: policies.filter((policy) => isSelfPolicy(policy, checkPath)),
    warnings: [...written.flatMap((each) => warningsIn(each, policies)), ...sharedKeyWarnings(policies)],
  };
}

/** The name of the policy at the place of a problem; empty without a valid name, which may be any text. */
function policyNameAt(env: Variables, { variable, field }: ConfigProblem): Pick<ConfigProblem, "policy"> {
  const [, index = ""] = /^\[(\d+)\]/.exec(field) ?? [];
  const entry: unknown = isPolicyList(variable) ? Reflect.get(Object(typedValue(env[variable])), index) : undefined;
  const { name, continues = name }: Record<string, unknown> = isRecord(entry) ? entry : {};
  return typeof continues === "string" && namePattern.test(continues) ? { policy: continues } : {};
}

/** Rejects the short form beside lists: its policy would also be in effect, which few users expect. */
function reportBothForms(env: Variables, report: ReportProblem): void {
  const [list] = policyLists(env);
  if (list === undefined) return;
  for (const [field, variable] of Object.entries(shortForm)) {
    if (!isSet(env[variable])) continue;
    const advice = `to keep its policy, write it in ${list} with name = "default" and ${field} = …`;
    report({ variable, field: "", value: env[variable], accepted: `no value, because ${list} is set; ${advice}` });
  }
}

/** Whether any variable sets policies. A misnamed list counts, since it is a problem of its own. */
export const hasLimits = (env: Variables): boolean =>
  Object.entries(env).some(
    ([name, value]) => isSet(value) && (Object.values<string>(shortForm).includes(name) || name.startsWith("POLICIES")),
  );

function warningsIn(written: WrittenPolicy, policies: readonly Policy[]): string[] {
  const { policy } = written;
  if (policy === null) return [];
  return policyWarnings(policy, policies).map(({ field, text }) => `${placeOf(written, field)}: ${text}`);
}

/** The place of a policy's field. In the short form, each field is a variable. */
const placeOf = ({ variable, field }: WrittenPolicy, name: string): string =>
  field === "" ? (shortForm[name] ?? variable) : joinPath(variable, `${field}.${name}`);

/** One policy named `default`, whose problems name the variables of the short form. */
function readShortForm(env: Variables, report: ReportProblem): WrittenPolicy[] {
  const set = Object.entries(shortForm).filter(([, variable]) => isSet(env[variable]));
  if (set.length === 0 || policyLists(env).length > 0) return [];
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
    const names = policy === null ? statedNames(value) : namesOf(policy);
    for (const name of new Set(names)) {
      const taken = places.get(name);
      if (taken !== undefined) {
        const within = joinPath(field, name === names[0] ? "name" : "limits");
        const accepted = `a name that no other policy or limit has; ${taken} has the same`;
        report({ variable, field: within, value: name, accepted });
      }
      if (name !== "") places.set(name, place);
    }
  }
}

/** A tree limits calls of `/check` if its root does. */
function isSelfPolicy(policy: Policy, checkPath: string): boolean {
  const { path, pathMatching } = policy.ancestors[0]?.match ?? policy.match;
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
      ...(["weight", "classes"] as const)
        .filter((field) => priorityPartsOf(field, value).some(isClaim))
        .map((field) => placeOf(each, field)),
    ];
  });
  if (places.length === 0) return;
  const accepted =
    `a key that verifies tokens, or JWT_JWKS_URL with the address of such keys, ` +
    `for the jwt:<claim> in ${places.join(", ")}`;
  report({ variable: "JWT_KEY", field: "", value: undefined, accepted });
}

const isClaim = ({ kind }: KeyPart): boolean => kind === "jwt";

const namedPolicy = v.object({
  name: v.fallback(v.string(), ""),
  limits: v.fallback(v.array(v.object({ name: v.string() })), []),
});

/** The names of an invalid policy and of its limits, as far as they are stated. */
function statedNames(written: unknown): string[] {
  const parsed = v.safeParse(namedPolicy, written);
  return parsed.success ? [parsed.output.name, ...parsed.output.limits.map(({ name }) => name)] : [];
}

interface WrittenEntry {
  readonly variable: string;
  readonly field: string;
  readonly value: unknown;
}

/** A policy and the place where it is written; `policy` is null if it is invalid. */
interface WrittenPolicy extends WrittenEntry {
  readonly policy: Policy | null;
}

interface Continuation extends WrittenEntry {
  readonly value: Readonly<Record<string, unknown>>;
}

const continuedFields = ["overrides", "allow", "deny"] as const;
const continuationFields = ["continues", ...continuedFields];

/** The number in `POLICIES_2`; 0 for `POLICIES`. */
const listNumber = (name: string): number => Number(name.slice("POLICIES_".length));

/** Those names among `POLICIES`, `POLICIES_2`, … that are set, in the order of their numbers. */
const policyLists = (env: Variables): string[] =>
  Object.keys(env)
    .filter((name) => isPolicyList(name) && isSet(env[name]))
    .toSorted((a, b) => listNumber(a) - listNumber(b));

function readPolicyLists(env: Variables, report: ReportProblem): WrittenPolicy[] {
  reportMisnamed(env, report);
  reportGaps(env, report);
  const entries = policyLists(env).flatMap((variable) => {
    const list = typedValue(env[variable]);
    if (Array.isArray(list) && list.length > 0) return entriesOf(variable, list);
    const accepted = `a list of one or more policies, as valid JSON if it is a text${jsonErrorNote(env[variable])}`;
    report({ variable, field: "", value: quotable(env[variable]), accepted });
    return [];
  });
  const continuations = entries.filter(isContinuation);
  const policies = entries.filter((entry) => !isContinuation(entry));
  reportContinuations(policies, continuations, report);
  const earlier = new Map<string, Parent | null>();
  return policies.map((entry) => {
    const name = nameOf(entry.value);
    const further = continuations.filter(({ value }) => value["continues"] === name);
    const read = readContinued(entry, further, report, earlier);
    if (typeof name === "string" && !earlier.has(name)) {
      earlier.set(name, read.policy === null ? null : asParent(read.policy));
    }
    return read;
  });
}

/** Hides values that seem to contain lists of keys, since keys may be credentials of customers. */
const quotable = (value: unknown): unknown => (/over|allow|deny/i.test(jsonOf(value)) ? hidden : value);

const entriesOf = (variable: string, list: readonly unknown[], field = ""): WrittenEntry[] =>
  // A copy has no holes, which `map` would skip.
  Array.from(list, (value, index) => ({ variable, field: `${field}[${index}]`, value }));

const isContinuation = (entry: WrittenEntry): entry is Continuation =>
  isRecord(entry.value) && Object.hasOwn(entry.value, "continues");

const nameOf = (policy: unknown): unknown => (isRecord(policy) ? policy["name"] : undefined);

/** A policy with the items of its continuations. A problem names the place where its item is written. */
function readContinued(
  { variable, field, value }: WrittenEntry,
  continuations: readonly Continuation[],
  report: ReportProblem,
  earlier: EarlierPolicies,
): WrittenPolicy {
  if (!isRecord(value) || continuations.length === 0) {
    return { variable, field, value, policy: readPolicy(variable, field, value, report, earlier) };
  }
  const whole: Record<string, unknown> = { ...value };
  const places = new Map<string, Pick<WrittenEntry, "variable" | "field">>();
  for (const name of continuedFields) {
    // A field that is not a list stays unchanged: `readPolicy` reports it.
    if (value[name] !== undefined && !Array.isArray(value[name])) continue;
    const items = [{ variable, field, value }, ...continuations].flatMap((source) => {
      const list = source.value[name];
      return Array.isArray(list) ? entriesOf(source.variable, list, joinPath(source.field, name)) : [];
    });
    if (items.length > 0) whole[name] = items.map((item) => item.value);
    for (const [index, item] of items.entries()) places.set(`${name}[${index}]`, item);
  }
  const reportItem: ReportProblem = (problem) => {
    const [, item = "", within = ""] = /^(\w+\[\d+\])\.?(.*)$/s.exec(problem.field) ?? [];
    const place = places.get(item);
    report({
      ...problem,
      variable: place?.variable ?? variable,
      field: place === undefined ? joinPath(field, problem.field) : joinPath(place.field, within),
    });
  };
  const policy = readPolicy("", "", whole, reportItem, earlier);
  return { variable, field, value: whole, policy };
}

/** Reports continuations of unknown policies, and fields that cannot be continued. */
function reportContinuations(
  policies: readonly WrittenEntry[],
  continuations: readonly Continuation[],
  report: ReportProblem,
): void {
  const names = policies.map(({ value }) => nameOf(value)).filter((name) => isSet(name));
  for (const { variable, field, value } of continuations) {
    const { continues } = value;
    if (!names.includes(continues)) {
      const accepted = `the name of a policy in POLICIES, POLICIES_2, …: ${names.join(", ")}`;
      report({ variable, field: joinPath(field, "continues"), value: continues, accepted });
    }
    for (const name of Object.keys(value)) {
      const isList = continuedFields.some((each) => each === name);
      if (name === "continues" || (isList && Array.isArray(value[name]))) continue;
      const accepted = isList ? "a list" : acceptedFields(name, continuationFields);
      report({ variable, field: joinPath(field, name), value: hidden, accepted });
    }
  }
}

/** Reports lists under misspelt names: such lists are not read, so their policies would silently not apply. */
function reportMisnamed(env: Variables, report: ReportProblem): void {
  for (const variable of Object.keys(env)) {
    if (!variable.startsWith("POLICIES") || isPolicyList(variable)) continue;
    const accepted = "nothing; policies go in POLICIES, POLICIES_2, POLICIES_3, …";
    report({ variable, field: "", value: hidden, accepted });
  }
}

/** Reports the first missing number, since that variable is probably lost or misspelt. */
function reportGaps(env: Variables, report: ReportProblem): void {
  const last = policyLists(env).at(-1) ?? "";
  for (let number = 2; number < listNumber(last); number++) {
    const variable = `POLICIES_${number}`;
    if (isSet(env[variable])) continue;
    const accepted = `a list of policies, because ${last} is set; the numbers must have no gaps`;
    report({ variable, field: "", value: undefined, accepted });
    return;
  }
}
