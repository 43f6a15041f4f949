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
const acceptedClasses = `a list of up to ${mostConditions} classes such as { when = "jwt:plan=free", upTo = "70%" }`;
const acceptedPercentage = 'a percentage from "1%" to "99%"';

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
  return {
    share: guaranteed === undefined ? null : readShare(written, parent, limits, report),
    weight: isWeight(weight) ? weight : 1,
    weights: isList
      ? readConditions({ field: "weight", list: weight, accepted: acceptedWeights }, report, (item, reportItem) => {
          const when = readWhen(readCondition(item["when"]), item, reportItem);
          const own = item["weight"];
          if (!isWeight(own)) reportItem({ field: "weight", value: own, accepted: acceptedWeight });
          return when === null || !isWeight(own) ? null : { when, weight: own };
        })
      : [],
    classes:
      classes === undefined
        ? []
        : readConditions({ field: "classes", list: classes, accepted: acceptedClasses }, report, (item, reportItem) => {
            const when = readWhen(readRequestCondition(item["when"]), item, reportItem);
            const [, percent = ""] = /^([1-9]\d?)\s?%$/.exec(asText(item["upTo"])) ?? [];
            if (percent === "") reportItem({ field: "upTo", value: item["upTo"], accepted: acceptedPercentage });
            return when === null || percent === "" ? null : { when, upTo: Number(percent) };
          }),
  };
}

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

function readConditions<Item>(
  { field, list, accepted }: { readonly field: string; readonly list: unknown; readonly accepted: string },
  report: ReportField,
  read: (item: WrittenFields, report: ReportField) => Item | null,
): Item[] {
  if (!Array.isArray(list) || list.length > mostConditions) {
    report({ field, value: list, accepted });
    return [];
  }
  const known = field === "weight" ? ["when", "weight"] : ["when", "upTo"];
  const items: unknown[] = Array.from(list);
  return items.flatMap((item, index): Item[] => {
    const reportItem: ReportField = (problem) =>
      report({ ...problem, field: joinPath(`${field}[${index}]`, problem.field) });
    if (!isRecord(item)) {
      reportItem({ field: "", value: item, accepted });
      return [];
    }
    for (const name of Object.keys(item)) {
      if (known.includes(name)) continue;
      reportItem({ field: name, value: item[name], accepted: acceptedFields(name, known) });
    }
    const value = read(item, reportItem);
    return value === null ? [] : [value];
  });
}

function readWhen(condition: ReturnType<typeof readCondition>, { when }: WrittenFields, report: ReportField) {
  if ("value" in condition) return condition.value;
  report({ field: "when", value: when, accepted: condition.accepted });
  return null;
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
    possible === null && when.part.kind === "jwt" ? true : matchesCondition(when, possible ?? subject);
  const weight = weights.find(({ when }) => matchesCondition(when, subject))?.weight ?? policy.weight;
  const upTo = classes.reduce((least, each) => (each.upTo < least && isOf(each.when) ? each.upTo : least), wholeLimit);
  if (weight === policy.weight && upTo === policy.upTo) return policy;
  const variants = variantsOf(policy);
  const name = `${weight} ${upTo}`;
  const variant = variants.get(name) ?? { ...policy, weight, upTo };
  variants.set(name, variant);
  return variant;
}
