/**
 * The fields `guaranteed`, `weight` and `classes`: what a key is guaranteed of its parent's limit, and which requests may
 * use only a part of the limits.
 */
import { acceptedWeight, compiledLimit, type Guarantee, isWeight, type Limit, shareOf } from "../strategies/index.ts";
import { isRecord } from "../validation/json.ts";
import { acceptedFields, asText, joinPath, type ReportField } from "../validation/problems.ts";
import { memoized } from "./caches.ts";
import type { KeyPart } from "./key.ts";
import { matchesCondition, type Subject } from "./lists.ts";
import type { Policy } from "./policy.ts";
import type { WrittenFields } from "./schemas.ts";
import { type Condition, readCondition, readRequestCondition } from "./subject-pattern.ts";
import type { Parent } from "./within.ts";

/** The share of a policy's keys in a limit of its parent. */
export interface PolicyShare {
  readonly parent: string;
  /** The index of the limit among the parent's. */
  readonly limit: number;
  readonly windowMs: number;
  readonly guaranteed: Guarantee;
}

export interface Priorities {
  /** Null without `guaranteed`. */
  readonly share: PolicyShare | null;
  /** The weight of a key in requests that meet none of `weights`. */
  readonly weight: number;
  /** The first condition that a request meets decides. */
  readonly weights: readonly { readonly when: Condition; readonly weight: number }[];
  /** The least percentage of those whose conditions a request meets applies. */
  readonly classes: readonly { readonly when: Condition; readonly upTo: number }[];
}

/** The percentage of every limit that requests of no class may use. */
export const wholeLimit = 100;
export const mostConditions = 16;

const acceptedWeights = `${acceptedWeight}; or a list of up to ${mostConditions} weights such as { when = "jwt:plan=pro", weight = 4 }`;

/** @param limits the policy's own limits */
export function readPriorities(
  written: WrittenFields,
  parent: Parent | null,
  limits: readonly Limit[],
  report: ReportField,
): Priorities {
  const { guaranteed, weight, classes, consistency } = written;
  if (weight !== undefined && guaranteed !== "fair") {
    report({ field: "weight", value: weight, accepted: 'nothing unless guaranteed is "fair"' });
  }
  if (classes !== undefined && consistency !== undefined && consistency !== "strict") {
    report({ field: "classes", value: classes, accepted: 'nothing unless consistency = "strict"' });
  }
  const isList = Array.isArray(weight);
  if (weight !== undefined && !isList && !isWeight(weight)) {
    report({ field: "weight", value: weight, accepted: acceptedWeights });
  }
  const weights = isList ? readConditional(weightList, weight, report) : [];
  const parts = classes === undefined ? [] : readConditional(classList, classes, report);
  return {
    share: guaranteed === undefined ? null : readShare(written, parent, limits, report),
    weight: isWeight(weight) ? weight : 1,
    weights: weights.map(({ when, value }) => ({ when, weight: value })),
    classes: parts.map(({ when, value }) => ({ when, upTo: value })),
  };
}

/** A field that is a list of conditions with a number each. */
interface ConditionalField {
  readonly field: "weight" | "classes";
  readonly accepted: string;
  readonly readWhen: typeof readCondition;
  /** The field of an item that has the number. */
  readonly name: "weight" | "upTo";
  readonly acceptedValue: string;
  readonly readValue: (value: unknown) => number | null;
}

const weightList: ConditionalField = {
  field: "weight",
  accepted: acceptedWeights,
  readWhen: readCondition,
  name: "weight",
  acceptedValue: acceptedWeight,
  readValue: (value) => (isWeight(value) ? value : null),
};

const classList: ConditionalField = {
  field: "classes",
  accepted: `a list of up to ${mostConditions} classes such as { when = "jwt:plan=free", upTo = "70%" }`,
  readWhen: readRequestCondition,
  name: "upTo",
  acceptedValue: 'a percentage from "1%" to "99%"',
  readValue: (value) => {
    const [, percent = ""] = /^([1-9]\d?)\s?%$/.exec(asText(value)) ?? [];
    return percent === "" ? null : Number(percent);
  },
};

function readShare(
  { name, guaranteed, within }: WrittenFields,
  parent: Parent | null,
  limits: readonly Limit[],
  report: ReportField,
): PolicyShare | null {
  const reportShare = (accepted: string): void => report({ field: "guaranteed", value: guaranteed, accepted });
  if (parent === null) {
    // An invalid parent is a problem already.
    if (within === undefined) reportShare("nothing without within");
    return null;
  }
  const share = shareOf({ limits }, guaranteed, parent, reportShare);
  if (share === null) return null;
  const { index, guarantee, limit } = share;
  const taken = parent.sharedLimits.get(index);
  if (taken !== undefined) {
    reportShare(`nothing: the policy "${taken}" shares the limit "${limit.name}" of "${parent.name}"`);
    return null;
  }
  // An override must not change which limit is shared.
  const isElsewhere = (list: readonly Limit[]): boolean => list[index]?.windowMs !== limit.windowMs;
  if (parent.overrides.some((override) => isElsewhere(override.limits))) {
    reportShare(`overrides of "${parent.name}" that have the window of "${limit.name}" at the same place`);
    return null;
  }
  parent.sharedLimits.set(index, asText(name));
  return { parent: parent.name, limit: index, windowMs: limit.windowMs, guaranteed: guarantee };
}

function readConditional(
  { field, accepted, readWhen, name, acceptedValue, readValue }: ConditionalField,
  list: unknown,
  report: ReportField,
): { readonly when: Condition; readonly value: number }[] {
  if (!Array.isArray(list) || list.length > mostConditions) {
    report({ field, value: list, accepted });
    return [];
  }
  const known = ["when", name];
  const items: unknown[] = Array.from(list);
  return items.flatMap((item, index) => {
    const reportAt = (within: string, value: unknown, expected: string): void =>
      report({ field: joinPath(`${field}[${index}]`, within), value, accepted: expected });
    if (!isRecord(item)) {
      reportAt("", item, accepted);
      return [];
    }
    for (const other of Object.keys(item)) {
      if (!known.includes(other)) reportAt(other, item[other], acceptedFields(other, known));
    }
    const when = readWhen(item["when"]);
    if ("accepted" in when) reportAt("when", item["when"], when.accepted);
    const value = readValue(item[name]);
    if (value === null) reportAt(name, item[name], acceptedValue);
    return "accepted" in when || value === null ? [] : [{ when: when.value, value }];
  });
}

/** The percentage of a class that may use no unit of a limit; null if each class may use at least one. */
export function emptyClass({ limits, classes }: Pick<Policy, "limits" | "classes">): number | null {
  const isEmpty = (upTo: number): boolean =>
    limits.some((limit) => Math.floor((compiledLimit(limit).capacity * upTo) / wholeLimit) === 0);
  return classes.find(({ upTo }) => isEmpty(upTo))?.upTo ?? null;
}

/** The key parts that the conditions read. */
export const priorityParts = ({ weights, classes }: Pick<Priorities, "weights" | "classes">): KeyPart[] =>
  [...weights, ...classes].map(({ when }) => when.part);

/** Like `priorityParts`, for a written policy that may be invalid. */
export function priorityPartsOf(field: "weight" | "classes", policy: WrittenFields): KeyPart[] {
  const list = policy[field];
  const items: unknown[] = Array.isArray(list) ? list : [];
  return items.flatMap((item) => {
    const condition = readRequestCondition(isRecord(item) ? item["when"] : undefined);
    return "value" in condition ? [condition.value.part] : [];
  });
}

/**
 * One policy object for each weight and class, because derived values are cached by policy object. There are few: the
 * conditions are.
 */
const variantsOf = memoized<Policy, Map<string, Policy>>(() => new Map());

/**
 * The policy with the weight and the class of a request.
 * @param possible the subject with all claims that an origin may read, so that a client cannot leave its class by sending
 * several tokens. Null if there are too many to verify: each condition on a claim then holds.
 */
export function prioritized(policy: Policy, subject: Subject, possible: Subject | null = subject): Policy {
  const { weights, classes } = policy;
  if (weights.length === 0 && classes.length === 0) return policy;
  const isOf = (when: Condition): boolean =>
    (possible === null && when.part.kind === "jwt") || matchesCondition(when, possible ?? subject);
  const weight = weights.find(({ when }) => matchesCondition(when, subject))?.weight ?? policy.weight;
  const upTo = classes.reduce((least, each) => (each.upTo < least && isOf(each.when) ? each.upTo : least), wholeLimit);
  if (weight === policy.weight && upTo === policy.upTo) return policy;
  const variants = variantsOf(policy);
  const name = `${weight} ${upTo}`;
  const variant = variants.get(name) ?? { ...policy, weight, upTo };
  variants.set(name, variant);
  return variant;
}
