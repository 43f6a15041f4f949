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
import {
  type Consistency,
  consistencyFields,
  consistencyOf,
  reportConsistencyConflicts,
  objectFields,
  type ObjectSettings,
  readShards,
} from "./placement.ts";
import { acceptedCost, acceptedCount, type Cost, type Count, readCost, readCount } from "./cost.ts";
import { type Ban, banSchema, type DenialAnswer, onDenySchema } from "./denials.ts";
import { type Lists, type Override, readLists } from "./lists.ts";
import { acceptedKey, type AddressSettings, type KeyPart, type MissingKey, missingKeys, readKey } from "./key.ts";
import {
  type Match,
  matchFields,
  matchOf,
  matchSchema,
  pathMatchingSchema,
  reportSecondPathMatching,
} from "./match.ts";
import { durationBetween, schemaOfNullable } from "./schemas.ts";
import type { PolicyRules, RuleEntry } from "./runtime-rules.ts";
import type { SubjectPattern } from "./subject-pattern.ts";
import {
  hidden,
  type ReportProblem,
  asText,
  type ConfigProblem,
  type ReportField,
  didYouMeanField,
  fields,
  integerFrom,
  isRecord,
  joinPath,
  nearestName,
  problemsFromIssues,
} from "../validation/problems.ts";

/** How an isolate decides without an answer of the object: with local limits, fail open, or fail closed. */
export type FailureMode = "local" | "open" | "closed";

/** `confirmed`: an answer waits until its decision is stored. */
export type Durability = "relaxed" | "confirmed";

export interface Policy {
  readonly name: string;
  readonly match: Match;
  readonly key: readonly KeyPart[];
  readonly onMissingKey: MissingKey;
  readonly addresses: AddressSettings;
  /** Empty when the Worker's code states the limits of each request. */
  readonly limits: readonly Limit[];
  readonly lists: Lists;
  readonly cost: Cost;
  /** Null: every response counts. */
  readonly count: Count | null;
  readonly ban: Ban | null;
  /** Whether the policy decides and reports without denying. */
  readonly isDryRun: boolean;
  /** Null: problem details. */
  readonly onDeny: DenialAnswer | null;
  readonly onError: FailureMode;
  /** The longest wait for the object before `onError` applies. */
  readonly timeoutMs: number;
  readonly objects: ObjectSettings;
  readonly durability: Durability;
  readonly consistency: Consistency;
  /** Whether isolates use the deny cache. */
  readonly isDenyCached: boolean;
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
  readonly ruleLists: RuleLists;
}

/** The limits of a policy, and those of each override. */
export const limitLists = ({ limits, lists }: Pick<Policy, "limits" | "lists">): readonly (readonly Limit[])[] => [
  limits,
  ...lists.overrides.map((override) => override.limits),
];

/** The names of a policy and of its limits, which no other policy may have. */
export const namesOf = (policy: Policy): string[] => [
  policy.name,
  ...limitLists(policy).flatMap((list) => list.map(({ name }) => name)),
];

interface RuleLists {
  readonly overrides: readonly (Override & RuleEntry)[];
  readonly allow: readonly (SubjectPattern & RuleEntry)[];
  readonly deny: readonly (SubjectPattern & RuleEntry)[];
}

const shortestTimeoutMs = 10;
const longestTimeoutMs = 30_000;
/** Clients give up before a longer delay ends. */
const longestDelayMs = 3_600_000;

const acceptedMissingKey = 'one of "shared", "ip", "deny", "skip"';
const acceptedFailureMode = 'one of "local", "open", "closed"';
const acceptedDurability = '"relaxed" or "confirmed"';

const costFields = ["from", "max", "reserve"];
const countFields = ["status", "exceptStatus"];

export const policyEntries = {
  name: v.pipe(v.string(acceptedName), v.regex(namePattern, acceptedName)),
  match: v.optional(matchSchema),
  key: v.optional(schemaOfNullable(readKey, acceptedKey), "ip"),
  onMissingKey: v.optional(v.picklist(missingKeys, acceptedMissingKey), "shared"),
  ipv6Prefix: v.optional(integerFrom(32, 128), 64),
  trustedProxies: v.optional(integerFrom(1, 10)),
  // `readLimits` validates it, since each strategy has fields of its own.
  limits: schemaOfNullable((value) => value ?? null, acceptedNotation),
  strategy: v.optional(v.picklist(strategyNames, acceptedStrategy)),
  onError: v.optional(v.picklist(["local", "open", "closed"], acceptedFailureMode), "local"),
  timeout: v.optional(
    durationBetween(shortestTimeoutMs, longestTimeoutMs, 'a duration from 10 ms to 30 s such as "500ms" or "1s"'),
    "1s",
  ),
  cost: v.optional(
    schemaOfNullable(readCost, (value) => acceptedCost + didYouMeanField(value, costFields)),
    1,
  ),
  count: v.optional(schemaOfNullable(readCount, (value) => acceptedCount + didYouMeanField(value, countFields))),
  // `readLists` validates these, since their entries depend on the key.
  overrides: v.optional(v.unknown()),
  allow: v.optional(v.unknown()),
  deny: v.optional(v.unknown()),
  ban: v.optional(banSchema),
  dryRun: v.optional(v.boolean("true or false"), false),
  maxDelay: v.optional(durationBetween(1, longestDelayMs, 'a duration from 1 ms to 1 hour such as "5s"')),
  onDeny: v.optional(onDenySchema),
  ...objectFields,
  ...consistencyFields,
  denyCache: v.optional(v.boolean("true or false"), true),
  durability: v.optional(v.picklist(["relaxed", "confirmed"], acceptedDurability), "relaxed"),
  pathMatching: pathMatchingSchema,
};

export const policyFields: readonly string[] = Object.keys(policyEntries);

const policySchema = fields(policyEntries);

/** The policy; null if it has problems, which are passed to `report`. */
export function readPolicy(variable: string, field: string, value: unknown, report: ReportProblem): Policy | null {
  const parsed = v.safeParse(policySchema, value);
  const problems = problemsFromIssues("", "", parsed.issues ?? [])
    .map(unknownFieldProblem)
    .map((problem) => ({ ...problem, variable, field: joinPath(field, problem.field) }));
  const reportWithin = (problem: Omit<ConfigProblem, "variable">): void => {
    problems.push({ ...problem, variable, field: joinPath(field, problem.field) });
  };
  const defaults = limitDefaults(value);
  const limits = limitsOf(value, defaults, reportWithin);
  const lists = readLists(value, defaults, reportWithin);
  const shards = readShards(value, reportWithin);
  const all = [limits, ...lists.overrides.map((override) => override.limits)];
  // If one of these fields is invalid, the policy may be meant to have a queue.
  const queueFields = ["limits", "strategy", "overrides", "maxDelay"].map((name) => joinPath(field, name));
  const mayMeanQueue = problems.some((problem) => queueFields.some((place) => problem.field.startsWith(place)));
  const mayHaveQueue = mayMeanQueue || statesNoLimits(value) || all.flat().some(isQueue);
  if (!mayHaveQueue) reportMaxDelay(value, reportWithin);
  reportConsistencyConflicts(value, all.flat(), reportWithin);
  reportSecondPathMatching(value, reportWithin);
  for (const problem of problems) report(problem);
  if (!parsed.success || problems.length > 0) return null;
  return { ...policyFrom(parsed.output, limits, lists, shards), written: value };
}

/** @param output the fields that are validated independently of each other */
function policyFrom(
  output: v.InferOutput<typeof policySchema>,
  limits: readonly Limit[],
  lists: Lists,
  shards: ObjectSettings["shards"],
): Omit<Policy, "written"> {
  const maxDelayMs = output.maxDelay ?? null;
  return {
    name: output.name,
    match: matchOf(output.match, output.pathMatching),
    key: output.key,
    onMissingKey: output.onMissingKey,
    addresses: { ipv6Prefix: output.ipv6Prefix, trustedProxies: output.trustedProxies ?? null },
    limits: withMaxDelay(limits, maxDelayMs),
    lists: {
      ...lists,
      overrides: lists.overrides.map((override) => ({
        ...override,
        limits: withMaxDelay(override.limits, maxDelayMs),
      })),
    },
    cost: output.cost,
    count: output.count ?? null,
    ban: output.ban ?? null,
    isDryRun: output.dryRun,
    onDeny: output.onDeny ?? null,
    onError: output.onError,
    timeoutMs: output.timeout,
    objects: {
      shards,
      locationHint: output.locationHint ?? null,
      jurisdiction: output.jurisdiction ?? null,
    },
    durability: output.durability,
    consistency: consistencyOf(output),
    isDenyCached: output.denyCache,
    rules: null,
    isOff: false,
    modeRule: null,
    limitsRule: null,
    ruleLists: { overrides: [], allow: [], deny: [] },
  };
}

const keyFields = ["key", "overrides", "allow", "deny"];

/** Adds where an unknown field belongs, and hides a value that may be a list of keys. */
function unknownFieldProblem(problem: ConfigProblem): ConfigProblem {
  const { field, value, accepted } = problem;
  if (field === "" || /[.[]/.test(field) || policyFields.includes(field)) return problem;
  const near = nearestName(field, [...policyFields, ...matchFields, ...limitFields]);
  const mayBeKeys = near === null ? typeof value === "object" && value !== null : keyFields.includes(near);
  return {
    ...problem,
    value: mayBeKeys ? hidden : value,
    accepted:
      accepted +
      (matchFields.includes(field) ? `; ${field} is a field of match` : "") +
      (limitFields.includes(field) ? `; ${field} is a field of a limit` : ""),
  };
}

/** Reports a `maxDelay` without a queue, where it would have no effect. */
function reportMaxDelay(policy: unknown, report: ReportField): void {
  const value = isRecord(policy) ? policy["maxDelay"] : undefined;
  if (value === undefined) return;
  const accepted = 'nothing without a leaky-bucket limit in mode "queue"';
  report({ field: "maxDelay", value, accepted });
}

/** The name and strategy that the policy's limits inherit, if these fields are valid. */
function limitDefaults(value: unknown): LimitDefaults {
  const { name, strategy } = isRecord(value) ? value : {};
  return {
    ...(strategies.has(asText(strategy)) && { strategy: asText(strategy) }),
    ...(namePattern.test(asText(name)) && { policy: asText(name) }),
  };
}

/** Whether a function of the Worker's code gives the limits of each request. */
const statesNoLimits = (policy: unknown): boolean => isRecord(policy) && typeof policy["limits"] === "function";

function limitsOf(value: unknown, defaults: LimitDefaults, report: ReportField): Limit[] {
  const limits = isRecord(value) ? value["limits"] : undefined;
  if (limits === undefined || limits === null || statesNoLimits(value)) return [];
  return readLimits(limits, defaults, (problem) => report({ ...problem, field: joinPath("limits", problem.field) }));
}
