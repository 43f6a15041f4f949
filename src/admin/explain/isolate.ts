/** The part of an explanation that the isolate knows: the key's id, and the steps that need no object. */
import { callerKeyValues, canonicalText } from "../../policy/key-text.ts";
import { type KeyPart, type KeyValue, partName } from "../../policy/key.ts";
import { type Override, type DecisionSource, listMatch, overrideFor, type Subject } from "../../policy/lists.ts";
import type { Policy } from "../../policy/policy.ts";
import type { SubjectPattern } from "../../policy/subject-pattern.ts";
import {
  type CallerAttributes,
  contradictedPart,
  missingParts,
  noAttributes,
  callerSubject,
} from "../../policy/resolve-key.ts";
import type { PartitionKeys } from "../../policy/partition-key.ts";
import { contradiction, invalidKey } from "../../http/check/operations.ts";
import type { Failure } from "../../http/wire/problems.ts";
import type { StepName, StepResult } from "../wire.ts";

/**
 * The steps of a decision, in the order of precedence: the first that matches decides. The last five give limits, by
 * which the key's usage then decides. The first of these five that matches gives the limits that are shown, even if an
 * earlier step decides.
 */
export const stepNames = [
  "mode",
  "policy-rule-deny",
  "policy-rule-allow",
  "configured-deny",
  "configured-allow",
  "missing-key",
  "ban",
  "key-rule-block",
  "key-rule-allow",
  "key-rule-limits",
  "policy-rule-overrides",
  "configured-overrides",
  "policy-rule-limits",
  "configured-limits",
] as const satisfies readonly StepName[];

/** The key by its parts, or by its id alone. */
export interface ExplainInput {
  readonly policy: string;
  /** One text for each part of the policy's key; null for a part that the request does not have. */
  readonly key?: readonly (string | null)[] | undefined;
  /** The partition key. */
  readonly id?: string | undefined;
  readonly tenant?: string | undefined;
  readonly attributes?: CallerAttributes | undefined;
}

export interface IsolateView {
  readonly id: string;
  /** With the limits of the override that applies to this key. */
  readonly policy: Policy;
  readonly isKeyKnown: boolean;
  /** The steps of the isolate. The steps of the key's object are absent. */
  readonly results: Partial<Record<StepName, StepResult>>;
  /** The attributes that entries compare and that the request does not state, by name; empty with the id alone. */
  readonly missingAttributes: readonly string[];
}

export async function isolateView(
  policy: Policy,
  input: ExplainInput,
  partitions: PartitionKeys,
): Promise<IsolateView | Failure> {
  const { id, key, tenant = null, attributes = noAttributes } = input;
  if (id !== undefined) {
    const results = resultsOf(policy, null, [], () => true);
    return { id, policy, isKeyKnown: false, results, missingAttributes: [] };
  }
  const values = callerKeyValues(policy, key);
  if (values === null) return invalidKey(policy);
  const contradicted = contradictedPart(policy, values, attributes);
  if (contradicted !== null) return contradiction(contradicted);
  const subject = callerSubject(policy, key, values, attributes);
  const missing = missingParts(policy.key, values);
  const charged = missing.length > 0 && policy.onMissingKey === "ip" ? addressKey : policy;
  const chargedValues = charged === policy ? values : [addressOf(policy, attributes)];
  const stated = new Set([...policy.key.map(partName), ...attributes.keys()]);
  const isMissing = (part: KeyPart): boolean => !stated.has(partName(part));
  const results = resultsOf(policy, subject, missing, isMissing);
  return {
    id: await partitions.partitionKey(charged.key, chargedValues, tenant),
    policy: { ...policy, limits: overrideFor(policy, subject)?.limits ?? policy.limits },
    isKeyKnown: true,
    results,
    missingAttributes: missingAttributes(policy, results, isMissing),
  };
}

/** The key that `onMissingKey = "ip"` charges. */
const addressKey = { key: [{ kind: "ip" }] } as const;

function addressOf(policy: Policy, attributes: CallerAttributes): KeyValue {
  const [text] = attributes.get("ip") ?? [];
  return text === undefined ? null : canonicalText({ kind: "ip" }, policy, text);
}

const none = { overrides: [], allow: [], deny: [] } as const;

type ListPlace = "ruleLists" | "lists";
type ListField = "overrides" | "allow" | "deny";

/** The parts beyond the policy's key that an entry compares. */
function comparedParts(entry: SubjectPattern | Override): readonly KeyPart[] {
  const compared = "for" in entry ? entry.for : entry;
  if (compared.kind === "address") return [{ kind: "ip" }];
  return compared.kind === "condition" ? [compared.condition.part] : [];
}

const listSteps: readonly (readonly [StepName, ListPlace, ListField])[] = [
  ["policy-rule-deny", "ruleLists", "deny"],
  ["policy-rule-allow", "ruleLists", "allow"],
  ["configured-deny", "lists", "deny"],
  ["configured-allow", "lists", "allow"],
  ["policy-rule-overrides", "ruleLists", "overrides"],
  ["configured-overrides", "lists", "overrides"],
];

/** The names of the parts that the steps that are not known would compare. */
function missingAttributes(
  policy: Policy,
  results: IsolateView["results"],
  isMissing: (part: KeyPart) => boolean,
): readonly string[] {
  const open = listSteps.filter(([step]) => results[step]?.matches === null);
  const parts = open.flatMap(([, place, field]) => policy[place][field].flatMap(comparedParts));
  return [...new Set(parts.filter(isMissing).map(partName))];
}

/**
 * @param subject null when only the id of the key is known
 * @param isMissing whether the request does not state a part, so that entries cannot be compared with it
 */
function resultsOf(
  policy: Policy,
  subject: Subject | null,
  missing: readonly unknown[],
  isMissing: (part: KeyPart) => boolean,
): IsolateView["results"] {
  const { isOff, modeRule, limitsRule, onMissingKey } = policy;
  /** The result of one list alone. */
  const listResult = (place: ListPlace, field: ListField): StepResult => {
    const list = policy[place][field];
    if (list.length === 0) return noMatch;
    if (subject === null) return unknown;
    const alone = {
      ...policy,
      ruleLists: none,
      keyRules: none,
      [place]: { ...none, [field]: list },
    };
    const found = field === "overrides" ? overrideFor(alone, subject) : listMatch(alone, subject);
    if (found?.source.field === field) return matchOf(found.source);
    return list.flatMap(comparedParts).some(isMissing) ? unknown : noMatch;
  };
  const endsRequest = onMissingKey === "deny" || onMissingKey === "skip";
  return {
    mode: isOff ? { ...matched, rule: modeRule } : noMatch,
    "policy-rule-deny": listResult("ruleLists", "deny"),
    "policy-rule-allow": listResult("ruleLists", "allow"),
    "configured-deny": listResult("lists", "deny"),
    "configured-allow": listResult("lists", "allow"),
    "missing-key": missing.length > 0 && endsRequest ? matched : noMatch,
    "policy-rule-overrides": listResult("ruleLists", "overrides"),
    "configured-overrides": listResult("lists", "overrides"),
    "policy-rule-limits": limitsRule === null ? noMatch : { ...matched, rule: limitsRule },
    "configured-limits": matched,
  };
}

const matched: StepResult = { matches: true, rule: null, entry: null };
export const noMatch: StepResult = { matches: false, rule: null, entry: null };
export const unknown: StepResult = { matches: null, rule: null, entry: null };

const matchOf = ({ rule, index }: DecisionSource): StepResult => ({
  matches: true,
  rule,
  entry: index,
});
