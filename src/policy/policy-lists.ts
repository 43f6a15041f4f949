/**
 * Reads `POLICIES`, `POLICIES_2`, …: policies, and entries that continue the lists of a policy. A variable holds 5 KB,
 * which the overrides of one policy may exceed.
 */
import { type Policy, readPolicy } from "./policy.ts";
import {
  hidden,
  isNumbered,
  isSet,
  jsonErrorNote,
  numberedNames,
  type ReportProblem,
  typedValue,
  type Variables,
} from "./vars/variables.ts";
import { acceptedFields, isRecord, joinPath, jsonOf } from "../validation/problems.ts";

/** A policy and the place where it is written; `policy` is null if it is invalid. */
export interface WrittenPolicy {
  readonly variable: string;
  readonly field: string;
  readonly value: unknown;
  readonly policy: Policy | null;
}

interface ListEntry {
  readonly variable: string;
  readonly field: string;
  readonly value: unknown;
}

interface Continuation extends ListEntry {
  readonly value: Readonly<Record<string, unknown>>;
}

const continuedFields = ["overrides", "allow", "deny"] as const;
const continuationFields = ["continues", ...continuedFields];

export function readLists(env: Variables, report: ReportProblem): WrittenPolicy[] {
  reportMisnamed(env, report);
  reportGaps(env, report);
  const entries = numberedNames(env, "POLICIES").flatMap((variable) => {
    const list = typedValue(env[variable]);
    if (Array.isArray(list) && list.length > 0) return entriesOf(variable, list);
    const accepted = `a list of one or more policies, as valid JSON if it is a text${jsonErrorNote(env[variable])}`;
    report({ variable, field: "", value: quotable(env[variable]), accepted });
    return [];
  });
  const continuations = entries.filter(isContinuation);
  const policies = entries.filter((entry) => !isContinuation(entry));
  reportContinuations(policies, continuations, report);
  return policies.map((policy) => {
    const name = nameOf(policy.value);
    const further = continuations.filter(({ value }) => value["continues"] === name);
    return readContinued(policy, further, report);
  });
}

/** Hides values that seem to contain lists of keys, since keys may be credentials of customers. */
const quotable = (value: unknown): unknown => (/over|allow|deny/i.test(jsonOf(value)) ? hidden : value);

const entriesOf = (variable: string, list: readonly unknown[]): ListEntry[] =>
  // A copy has no holes, which `map` would skip.
  Array.from(list, (value, index) => ({ variable, field: `[${index}]`, value }));

const isContinuation = (entry: ListEntry): entry is Continuation =>
  isRecord(entry.value) && Object.hasOwn(entry.value, "continues");

const nameOf = (policy: unknown): unknown => (isRecord(policy) ? policy["name"] : undefined);

/** A policy with the items of its continuations. A problem names the place where its item is written. */
function readContinued(
  { variable, field, value }: ListEntry,
  continuations: readonly Continuation[],
  report: ReportProblem,
): WrittenPolicy {
  if (!isRecord(value) || continuations.length === 0) {
    return { variable, field, value, policy: readPolicy(variable, field, value, report) };
  }
  const whole: Record<string, unknown> = { ...value };
  const places = new Map<string, { readonly variable: string; readonly field: string }>();
  for (const name of continuedFields) {
    const sources = [{ variable, field, value }, ...continuations].flatMap((source) => {
      const list = source.value[name];
      return Array.isArray(list) ? [{ ...source, list: list as readonly unknown[] }] : [];
    });
    // A field that is not a list remains, and is a problem of the policy.
    if (sources.length === 0 || !(value[name] === undefined || Array.isArray(value[name]))) continue;
    const items = sources.flatMap((source) =>
      Array.from(source.list, (item, index) => ({
        item,
        place: { variable: source.variable, field: joinPath(source.field, `${name}[${index}]`) },
      })),
    );
    whole[name] = items.map(({ item }) => item);
    for (const [index, { place }] of items.entries()) places.set(`${name}[${index}]`, place);
  }
  const policy = readPolicy("", "", whole, (problem) => {
    const [, item = "", within = ""] = /^(\w+\[\d+\])\.?(.*)$/s.exec(problem.field) ?? [];
    const place = places.get(item);
    report({
      ...problem,
      variable: place?.variable ?? variable,
      field: place === undefined ? joinPath(field, problem.field) : joinPath(place.field, within),
    });
  });
  return { variable, field, value: whole, policy };
}

/** Reports continuations of unknown policies, and fields that cannot be continued. */
function reportContinuations(
  policies: readonly ListEntry[],
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

/** Reports lists under names that are not read, whose policies would silently not apply. */
function reportMisnamed(env: Variables, report: ReportProblem): void {
  for (const variable of Object.keys(env)) {
    if (!variable.startsWith("POLICIES") || isNumbered(variable, "POLICIES")) continue;
    const accepted = "nothing; policies go in POLICIES, POLICIES_2, POLICIES_3, …";
    report({ variable, field: "", value: hidden, accepted });
  }
}

/** Reports the first missing number, since that variable is probably lost or misspelt. */
function reportGaps(env: Variables, report: ReportProblem): void {
  const last = numberedNames(env, "POLICIES").at(-1) ?? "";
  const lastNumber = Number(last.slice("POLICIES_".length));
  for (let number = 2; number < lastNumber; number++) {
    const variable = `POLICIES_${number}`;
    if (isSet(env[variable])) continue;
    const accepted = `a list of policies, because ${last} is set; the numbers must have no gaps`;
    report({ variable, field: "", value: undefined, accepted });
    return;
  }
}
