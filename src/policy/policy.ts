/** Reads one policy: every field, its default, and the rules between fields. */
import * as v from "valibot";
import {
  acceptedName,
  acceptedNotation,
  acceptedStrategy,
  isQueue,
  type Limit,
  type LimitDefaults,
  limitFields,
  namePattern,
  readLimits,
  strategies,
  strategyNames,
  withMaxDelay,
} from "../strategies/index.ts";
import { isRecord } from "../validation/json.ts";
import {
  asText,
  type ConfigProblem,
  fields,
  hidden,
  joinPath,
  nearestName,
  problemsFromIssues,
  type ReportField,
  type ReportProblem,
} from "../validation/problems.ts";
import { costEntries } from "./cost.ts";
import { banSchema, onDenySchema } from "./denials.ts";
import { keyEntries, type KeyPart } from "./key.ts";
import { type Lists, type Override, readLists } from "./lists.ts";
import { matchFields, matchOf, matchSchema, pathMatchingSchema, reportSecondPathMatching } from "./match.ts";
import { consistencyOf, objectsOf, placementEntries, readShards, reportConsistencyConflicts } from "./placement.ts";
import type { PolicyRules, RuleEntry } from "./runtime-rules.ts";
import { choice, durationBetween, schemaOfNullable, type WrittenFields } from "./schemas.ts";
import { type Priorities, readPriorities, wholeLimit } from "./shares.ts";
import type { SubjectPattern } from "./subject-pattern.ts";
import { type Ancestor, ancestorsOf, type EarlierPolicies, readPlace, rootFields, type TreePlace } from "./within.ts";

/** Clients give up before a longer delay ends. */
export const longestDelayMs = 3_600_000;

export const policyEntries = {
  name: v.pipe(v.string(acceptedName), v.regex(namePattern, acceptedName)),
  match: v.optional(matchSchema),
  ...keyEntries,
  // `readPlace` validates it, since it names an earlier policy.
  within: v.optional(v.unknown()),
  // `readLimits` validates it, since each strategy has fields of its own.
  limits: schemaOfNullable((value) => value ?? null, acceptedNotation),
  strategy: v.optional(v.picklist(strategyNames, acceptedStrategy)),
  /** How an isolate decides without an answer of the object: with local limits, fail open, or fail closed. */
  onError: v.optional(choice(["local", "open", "closed"]), "local"),
  timeout: v.optional(durationBetween(10, 30_000, 'a duration from 10 ms to 30 s such as "500ms" or "1s"'), "1s"),
  ...costEntries,
  // `readLists` validates these, since their entries depend on the key.
  overrides: v.optional(v.unknown()),
  allow: v.optional(v.unknown()),
  deny: v.optional(v.unknown()),
  ban: v.optional(banSchema),
  dryRun: v.optional(v.boolean("true or false"), false),
  maxDelay: v.optional(durationBetween(1, longestDelayMs, 'a duration from 1 ms to 1 hour such as "5s"')),
  onDeny: v.optional(onDenySchema),
  ...placementEntries,
  denyCache: v.optional(v.boolean("true or false"), true),
  /** `confirmed`: an answer waits until its decision is stored. */
  durability: v.optional(choice(["relaxed", "confirmed"], '"relaxed" or "confirmed"'), "relaxed"),
  pathMatching: pathMatchingSchema,
  // `readPriorities` validates these, since they depend on the parent and on each other.
  guaranteed: v.optional(v.unknown()),
  weight: v.optional(v.unknown()),
  classes: v.optional(v.unknown()),
};

export const policyFields: readonly string[] = Object.keys(policyEntries);

const policySchema = fields(policyEntries);

type PolicyOutput = v.InferOutput<typeof policySchema>;

/** The settings that all levels of a tree share, as its root states them. */
const rootSettings = (output: PolicyOutput, shards: number | null) => ({
  addresses: { ipv6Prefix: output.ipv6Prefix, trustedProxies: output.trustedProxies ?? null },
  onError: output.onError,
  /** The longest wait for the object before `onError` applies. */
  timeoutMs: output.timeout,
  objects: objectsOf(output, shards),
  durability: output.durability,
  consistency: consistencyOf(output),
  /** Whether isolates use the deny cache. */
  isDenyCached: output.denyCache,
});

export interface SharedSettings extends Readonly<ReturnType<typeof rootSettings>> {}

/**
 * @param output the fields that are validated independently of each other
 * @param key the whole key
 */
function settingsOf(
  output: PolicyOutput,
  { parent, key }: Pick<TreePlace, "parent"> & { readonly key: readonly KeyPart[] },
  limits: readonly Limit[],
  { lists, priorities }: { readonly lists: Lists; readonly priorities: Priorities },
  shared: SharedSettings,
) {
  const maxDelayMs = output.maxDelay ?? null;
  const overrides = lists.overrides.map(({ for: target, limits: own }) => ({
    for: target,
    limits: withMaxDelay(own, maxDelayMs),
  }));
  const delayedLists: Lists = { ...lists, overrides };
  return {
    name: output.name,
    /** The policies that the policy is within, the root first. */
    ancestors: parent === null ? noAncestors : ancestorsOf(parent),
    /** The policy's own conditions. Those of its ancestors must hold too. */
    match: matchOf(output.match, parent?.match.pathMatching ?? output.pathMatching),
    /** The whole key: the parts of the ancestors, then the policy's own. */
    key,
    /** Applies to the policy's own parts. */
    onMissingKey: output.onMissingKey,
    /** Empty when the Worker's code states the limits of each request. */
    limits: withMaxDelay(limits, maxDelayMs),
    lists: delayedLists,
    ...priorities,
    /** The percentage of every limit that a request may use. Less than 100 for a request of a class. */
    upTo: wholeLimit,
    cost: output.cost,
    /** Null: every response counts. */
    count: output.count ?? null,
    ban: output.ban ?? null,
    /** Whether the policy decides and reports without denying. */
    isDryRun: output.dryRun,
    /** Null: problem details. */
    onDeny: output.onDeny ?? null,
    ...shared,
  };
}

const noAncestors: readonly Ancestor[] = [];

/** A policy in effect: as it is configured, and as runtime rules change it. */
export interface Policy extends Readonly<ReturnType<typeof settingsOf>> {
  /** The policy as it is written, for runtime rules that replace some of its fields. */
  readonly written: unknown;
  /** The runtime rules that are applied; null without a control plane. */
  readonly rules: PolicyRules | null;
  /** Whether a runtime rule has switched the policy off. */
  readonly isOff: boolean;
  /** The runtime rule that gives the mode; null when the configuration does. */
  readonly modeRule: string | null;
  /** The runtime rule that gives `limits`; null when the configuration does. */
  readonly limitsRule: string | null;
  /** Entries of runtime rules. They take precedence over the lists in `lists`. */
  readonly ruleLists: {
    readonly overrides: readonly (Override & RuleEntry)[];
    readonly allow: readonly (SubjectPattern & RuleEntry)[];
    readonly deny: readonly (SubjectPattern & RuleEntry)[];
  };
}

const withoutRules = {
  rules: null,
  isOff: false,
  modeRule: null,
  limitsRule: null,
  ruleLists: { overrides: [], allow: [], deny: [] },
};

export type FailureMode = Policy["onError"];
/** Stated here, because the npm package declares it: an inferred type would name the schema library. */
export type Durability = "confirmed" | "relaxed";

/** The limits of a policy, and those of each override. */
export const limitLists = ({ limits, lists }: Pick<Policy, "limits" | "lists">): readonly (readonly Limit[])[] => [
  limits,
  ...lists.overrides.map((override) => override.limits),
];

/** The names of a policy and of its limits. No other policy may use any of them. */
export const namesOf = (policy: Policy): string[] => [
  policy.name,
  ...limitLists(policy).flatMap((list) => list.map(({ name }) => name)),
];

/**
 * The policy; null if it has problems, which are passed to `report`, or if it is within an invalid policy.
 * @param earlier the policies that it may be within
 */
export function readPolicy(
  variable: string,
  field: string,
  value: unknown,
  report: ReportProblem,
  earlier: EarlierPolicies = new Map(),
): Policy | null {
  const whole = isRecord(value) ? value : {};
  const problems: ConfigProblem[] = [];
  const reportWithin = (problem: Omit<ConfigProblem, "variable">): void => {
    problems.push({ ...problem, variable, field: joinPath(field, problem.field) });
  };
  const place = readPlace(whole, earlier, reportWithin);
  const written = place.isChild ? withoutRootFields(whole) : whole;
  const parsed = v.safeParse(policySchema, isRecord(value) ? written : value);
  for (const problem of problemsFromIssues("", "", parsed.issues ?? [])) reportWithin(unknownFieldProblem(problem));
  const defaults = limitDefaults(written);
  const limits = limitsOf(written, defaults, reportWithin);
  const lists = readLists(written, place, defaults, reportWithin);
  const priorities = readPriorities(written, place.parent, limits, reportWithin);
  const shards = readShards(written, reportWithin);
  const all = limitLists({ limits, lists }).flat();
  // If one of these fields is invalid, the policy may be meant to have a queue.
  const queueFields = ["limits", "strategy", "overrides", "maxDelay"].map((name) => joinPath(field, name));
  const mayMeanQueue = problems.some((problem) => queueFields.some((start) => problem.field.startsWith(start)));
  const { maxDelay } = written;
  if (maxDelay !== undefined && !mayMeanQueue && !statesNoLimits(written) && !all.some(isQueue)) {
    // Without a queue, `maxDelay` would have no effect.
    const accepted = 'nothing without a leaky-bucket limit in mode "queue"';
    reportWithin({ field: "maxDelay", value: maxDelay, accepted });
  }
  reportConsistencyConflicts(written, all, reportWithin);
  reportSecondPathMatching(written, reportWithin);
  for (const problem of problems) report(problem);
  const { parent, key } = place;
  if (!parsed.success || key === null || problems.length > 0) return null;
  const shared = parent?.shared ?? rootSettings(parsed.output, shards);
  return {
    ...settingsOf(parsed.output, { parent, key }, limits, { lists, priorities }, shared),
    ...withoutRules,
    written: value,
  };
}

const withoutRootFields = (written: WrittenFields): WrittenFields =>
  Object.fromEntries(Object.entries(written).filter(([name]) => !rootFields.includes(name)));

const fieldsWithKeys = ["key", "overrides", "allow", "deny"];

/** Adds to a problem where its unknown field belongs, and hides a value that may be a list of keys. */
function unknownFieldProblem(problem: ConfigProblem): ConfigProblem {
  const { field, value, accepted } = problem;
  if (field === "" || /[.[]/.test(field) || policyFields.includes(field)) return problem;
  const near = nearestName(field, [...policyFields, ...matchFields, ...limitFields]);
  const mayBeKeys = near === null ? typeof value === "object" && value !== null : fieldsWithKeys.includes(near);
  return {
    ...problem,
    value: mayBeKeys ? hidden : value,
    accepted:
      accepted +
      (matchFields.includes(field) ? `; ${field} is a field of match` : "") +
      (limitFields.includes(field) ? `; ${field} is a field of a limit` : ""),
  };
}

/** The name and strategy that the policy's limits inherit, if these fields are valid. */
function limitDefaults({ name, strategy }: WrittenFields): LimitDefaults {
  return {
    ...(strategies.has(asText(strategy)) && { strategy: asText(strategy) }),
    ...(namePattern.test(asText(name)) && { policy: asText(name) }),
  };
}

/** Whether a function of the Worker's code gives the limits of each request. */
const statesNoLimits = ({ limits }: WrittenFields): boolean => typeof limits === "function";

function limitsOf({ limits }: WrittenFields, defaults: LimitDefaults, report: ReportField): Limit[] {
  if (limits === undefined || limits === null || typeof limits === "function") return [];
  return readLimits(limits, defaults, (problem) => report({ ...problem, field: joinPath("limits", problem.field) }));
}
