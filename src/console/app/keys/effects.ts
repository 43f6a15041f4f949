/** Sentences about what decides a key now, and after a change. */
import type { ExplainedStep, Explanation, FullLimit, Rule } from "../api/answers.ts";
import { durationText, limitsText, limitText } from "../parts/text.ts";
import type { Term } from "../api/rules.ts";
import { now } from "../clock.ts";
import { ruleText, termMs } from "../parts/rule-text.ts";
import { type KeyRuleKind, type KeyState, laterRule, outlastingLimits } from "./rules.ts";

/** "5 per 10 s, from the configuration". */
export const sourcedLimits = (limits: readonly FullLimit[], from: string): string =>
  `${limitsText(limits)}, from ${from}`;

/** The limits of the key without rules of its own. */
export const limitsWithoutRules = ({ limitsWithoutKeyRules, lines }: Explanation): string =>
  sourcedLimits(limitsWithoutKeyRules, lines.limitsWithoutKeyRulesFrom);

/** The rule or the limits that decide a key at an instant, without one of its rules. */
export function keyWithout(
  { rules, explanation }: Pick<KeyState, "rules" | "explanation">,
  without: Pick<Rule, "id"> | null,
  atMs: number,
): string {
  const later = laterRule(rules, without, atMs);
  if (later === null) return limitsWithoutRules(explanation);
  return `${ruleText(later)}, from the rule of ${later.actor}`;
}

const stepOf = (kind: KeyRuleKind): string => `key-rule-${kind}`;

/** The steps that come before a rule of this kind, and decide in its place. */
const earlierSteps = (kind: KeyRuleKind, steps: readonly ExplainedStep[]): readonly ExplainedStep[] =>
  steps.slice(
    0,
    steps.findIndex(({ step }) => step === stepOf(kind)),
  );

/** Why a rule of this kind would not decide, although it is in effect. */
export function obstacles(kind: KeyRuleKind, explanation: Explanation): readonly string[] {
  const { steps, mode } = explanation;
  const earlier = earlierSteps(kind, steps);
  const first = earlier.find(({ matches }) => matches === true);
  const isOpen = earlier.some(({ matches }) => matches === null);
  return [
    ...(first === undefined ? [] : [obstacleText(first.step, explanation)]),
    ...(mode === "dry-run" && kind !== "allow"
      ? ["The policy is in dry run: it denies nothing, and only counts what it would deny."]
      : []),
    ...(isOpen && first === undefined
      ? ["An entry of a list that is not known here may come first and decide instead."]
      : []),
  ];
}

function obstacleText(step: string, { bannedForMs }: Explanation): string {
  switch (step) {
    case "mode":
      return "The policy is off: it limits no key, whatever its rules say.";
    case "missing-key":
      return "A part of the key is missing, so the policy's onMissingKey decides first.";
    case "ban":
      return `The key is banned for ${durationText(bannedForMs)} more, and its requests are denied until then. “Reset usage” lifts the ban.`;
    case "key-rule-block":
      return "A rule blocks this key, and still does. Remove that rule to let the key in.";
    case "key-rule-allow":
      return "A rule allows this key without charge, so its limits do not matter.";
    default:
      return step.endsWith("deny")
        ? "An entry of a deny list comes first, and still denies this key."
        : "An entry of an allow list comes first, and still allows this key.";
  }
}

/** Warns that spends during a boost count afterwards. */
export function afterBoost(limits: readonly FullLimit[], lengthMs: number | null): readonly string[] {
  const outlasting = outlastingLimits(limits, lengthMs);
  if (outlasting.length === 0) return [];
  const named = outlasting.map(limitText).join(" and ");
  return [
    `What the key spends meanwhile counts afterwards, too: against ${named}. It may then be denied until that window has passed.`,
  ];
}

/** " for 10 min", or "" without an end. */
export function termText(term: Term): string {
  const lengthMs = termMs(term);
  return lengthMs === null ? "" : ` for ${durationText(lengthMs)}`;
}

export const replacementNotes = (replaced: Rule | null): readonly string[] =>
  replaced === null
    ? []
    : [`This replaces the rule of ${replaced.actor}: ${ruleText(replaced)}, ${endText(replaced)}.`];

export const endText = ({ expiresAt }: Rule): string =>
  expiresAt === null ? "without an end" : `which ends in ${durationText(Date.parse(expiresAt) - now())}`;
