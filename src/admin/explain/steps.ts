/** The steps of a decision in the order of precedence: what each one compares, what it leads to, and its words. */
import type { KeyPart } from "../../policy/key.ts";
import { type Override, listMatch, overrideFor, type Subject } from "../../policy/lists.ts";
import type { Policy } from "../../policy/policy.ts";
import type { SubjectPattern } from "../../policy/subject-pattern.ts";
import type { ExplainedCharge } from "../../limiter/explanation.ts";
import type { KeyRule } from "../../limiter/protocol.ts";
import type { ExplainedStep, LimitsStep, StepName, StepResult } from "../wire.ts";

/** The facts that the steps of a key depend on. */
export interface StepFacts {
  readonly policy: Policy;
  /** Null when only the id of the key is known. */
  readonly subject: Subject | null;
  /** The result for a key that lacks a part; null if the key is charged. */
  readonly missing: "exempt" | "missing-key" | null;
  /** Whether the request to explain does not state a part, so that entries cannot be compared with that part. */
  readonly isMissing: (part: KeyPart) => boolean;
  /** Null when the object of the key did not answer. */
  readonly charge: ExplainedCharge | null;
}

interface Step {
  /** The step, as the list of steps names it. */
  readonly title: string;
  /** Why the step decides; for a step that gives limits, their source. */
  readonly cause: string;
  /** The effect on a request when the step decides. `usage`: the key's usage allows or denies the request. */
  readonly effect: "off" | "deny" | "allow" | "missing-key" | "usage";
  readonly result: (facts: StepFacts) => StepResult;
  /** The parts beyond the policy's key that the entries of the step compare; undefined for a step without entries. */
  readonly comparedParts?: (policy: Policy) => readonly KeyPart[];
}

/**
 * The first step that matches decides. The last five give limits, by which the key's usage then decides. The first of these
 * five that matches gives the limits that are shown, even if an earlier step decides.
 */
export const stepsByName: Readonly<Record<StepName, Step>> = {
  mode: {
    title: "The policy is off",
    cause: "the policy is off",
    effect: "off",
    result: ({ policy: { isOff, modeRule } }) => (isOff ? matchOf(modeRule) : noMatch),
  },
  "policy-rule-deny": {
    title: "Deny entries of policy rules",
    cause: "the key matches a deny entry of a policy rule",
    effect: "deny",
    ...listStep("ruleLists", "deny"),
  },
  "policy-rule-allow": {
    title: "Allow entries of policy rules",
    cause: "the key matches an allow entry of a policy rule",
    effect: "allow",
    ...listStep("ruleLists", "allow"),
  },
  "configured-deny": {
    title: "Deny list of the configuration",
    cause: "the key is on the deny list of the configuration",
    effect: "deny",
    ...listStep("lists", "deny"),
  },
  "configured-allow": {
    title: "Allow list of the configuration",
    cause: "the key is on the allow list of the configuration",
    effect: "allow",
    ...listStep("lists", "allow"),
  },
  "missing-key": {
    title: "A part of the key is missing",
    cause: "a part of the key is missing, and onMissingKey applies",
    effect: "missing-key",
    result: ({ missing }) => (missing === null ? noMatch : matchOf(null)),
  },
  ban: {
    title: "Ban after repeated denials",
    cause: "the key is banned",
    effect: "usage",
    result: ({ charge }) => (charge === null ? unknown : { ...noMatch, matches: charge.bannedForMs > 0 }),
  },
  "key-rule-block": {
    title: "Rule that blocks the key",
    cause: "a rule blocks the key",
    effect: "deny",
    result: keyRuleResult("block"),
  },
  "key-rule-allow": {
    title: "Rule that allows the key without charge",
    cause: "a rule allows the key",
    effect: "allow",
    result: keyRuleResult("allow"),
  },
  "key-rule-limits": {
    title: "Limits of a rule of the key",
    cause: "a rule of the key",
    effect: "usage",
    result: keyRuleResult("limits"),
  },
  "policy-rule-overrides": {
    title: "Overrides of policy rules",
    cause: "an override of a policy rule",
    effect: "usage",
    ...listStep("ruleLists", "overrides"),
  },
  "configured-overrides": {
    title: "Overrides of the configuration",
    cause: "an override of the configuration",
    effect: "usage",
    ...listStep("lists", "overrides"),
  },
  "policy-rule-limits": {
    title: "Limits of a policy rule",
    cause: "a policy rule",
    effect: "usage",
    result: ({ policy: { limitsRule } }) => (limitsRule === null ? noMatch : matchOf(limitsRule)),
  },
  "configured-limits": {
    title: "Limits of the configuration",
    cause: "the configuration",
    effect: "usage",
    result: () => matchOf(null),
  },
};

// The keys are those of the table.
// oxlint-disable-next-line typescript/no-unsafe-type-assertion
export const stepNames = Object.keys(stepsByName) as StepName[];

const noMatch: StepResult = { matches: false, rule: null, entry: null };
const unknown: StepResult = { matches: null, rule: null, entry: null };

const matchOf = (rule: string | null, entry: number | null = null): StepResult => ({ matches: true, rule, entry });

function keyRuleResult(kind: KeyRule["kind"]): Step["result"] {
  return ({ charge }) => {
    if (charge === null) return unknown;
    const rule = charge.keyRules.find((each) => each.kind === kind);
    return rule === undefined ? noMatch : matchOf(rule.id);
  };
}

const none = { overrides: [], allow: [], deny: [] } as const;

function listStep(
  place: "ruleLists" | "lists",
  field: "overrides" | "allow" | "deny",
): Required<Pick<Step, "result" | "comparedParts">> {
  const comparedParts = (policy: Policy): KeyPart[] => policy[place][field].flatMap(partsComparedBy);
  const result: Step["result"] = ({ policy, subject, isMissing }) => {
    const list = policy[place][field];
    if (list.length === 0) return noMatch;
    if (subject === null) return unknown;
    const alone: Policy = { ...policy, ruleLists: none, lists: none, [place]: { ...none, [field]: list } };
    const found = field === "overrides" ? overrideFor(alone, subject) : listMatch(alone, subject);
    if (found?.source.field === field) return matchOf(found.source.rule, found.source.index);
    return comparedParts(policy).some(isMissing) ? unknown : noMatch;
  };
  return { result, comparedParts };
}

function partsComparedBy(entry: SubjectPattern | Override): readonly KeyPart[] {
  const compared = "for" in entry ? entry.for : entry;
  if (compared.kind === "address") return [{ kind: "ip" }];
  return compared.kind === "condition" ? [compared.condition.part] : [];
}

export const isLimitsStep = (step: StepName): step is LimitsStep => /-(?:limits|overrides)$/.test(step);

/** The step that gives the limits. The configured limits always match. */
export function limitsStepOf(steps: readonly ExplainedStep[]): LimitsStep {
  const matching = steps.filter(({ matches }) => matches === true);
  return matching.map(({ step }) => step).find(isLimitsStep) ?? "configured-limits";
}
