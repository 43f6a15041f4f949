/** The steps of a decision and their results in words. */
import type { ExplainedStep, Explanation } from "../api/answers.ts";
import { waitText } from "../parts/text.ts";

/** Each step of a decision, as a list of them names it. */
const stepTitles: Readonly<Record<string, string>> = {
  mode: "The policy is off",
  "policy-rule-deny": "Deny entries of policy rules",
  "policy-rule-allow": "Allow entries of policy rules",
  "configured-deny": "Deny list of the configuration",
  "configured-allow": "Allow list of the configuration",
  "missing-key": "A part of the key is missing",
  ban: "Ban after repeated denials",
  "key-rule-block": "Rule that blocks the key",
  "key-rule-allow": "Rule that allows the key without charge",
  "key-rule-limits": "Limits of a rule of the key",
  "policy-rule-overrides": "Overrides of policy rules",
  "configured-overrides": "Overrides of the configuration",
  "policy-rule-limits": "Limits of a policy rule",
  "configured-limits": "Limits of the configuration",
};

export const stepTitle = (step: string): string => stepTitles[step] ?? step;

/** The result of a step, such as "decides (rule by ops: abuse)". */
export function stepResult(step: ExplainedStep, explanation: Explanation): string {
  const { matches, decides } = step;
  if (matches === null) return `not known, because ${unknownText(step, explanation)}`;
  if (!matches) return "no match";
  const source = sourceText(step, explanation);
  return `${decides ? "decides" : "matches, but an earlier step decides"}${source}`;
}

/** The results of these steps come from the object of the key. */
const objectSteps = /^(?:ban$|key-rule-)/;

/** Whether entries of lists or overrides could not be compared with the key. */
export const hasOpenEntries = ({ steps }: Pick<Explanation, "steps">): boolean =>
  steps.some(({ step, matches }) => matches === null && !objectSteps.test(step));

function unknownText({ step }: ExplainedStep, { isKeyKnown }: Explanation): string {
  if (objectSteps.test(step)) return "the object of the key does not answer";
  return isKeyKnown ? "its entries compare an attribute that is not given" : "only the id of the key is given";
}

/** The author and the note of the rule, or its id while the control plane does not answer. */
function sourceText({ rule, entry }: ExplainedStep, { keyRules, policyRules }: Explanation): string {
  const known = [...keyRules, ...policyRules].find(({ id }) => id === rule);
  const { actor = null, note = null } = known ?? {};
  const named = actor === null ? `rule ${rule}` : `rule by ${actor}${note === null ? "" : `: ${note}`}`;
  const parts = [...(rule === null ? [] : [named]), ...(entry === null ? [] : [`entry ${entry + 1}`])];
  return parts.length === 0 ? "" : ` (${parts.join(", ")})`;
}

/** When the outcome may change. That of an allowed request depends only on the ends of rules. */
export function nextChangeText({
  allowed,
  reason,
  nextChangeInMs,
}: Pick<Explanation, "allowed" | "reason" | "nextChangeInMs">): string {
  if (nextChangeInMs === null) return "Without further requests, nothing changes.";
  const wait = waitText(nextChangeInMs);
  return allowed && reason !== "dry-run"
    ? `A rule behind this ends in ${wait}.`
    : `Without further requests, this changes in ${wait}.`;
}
