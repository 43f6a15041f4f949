/** The steps of an undo or a rollback in words. */
import type { AuditedRule } from "../api/answers.ts";
import type { UndoStep } from "../api/undo-plan.ts";
import { placeText, ruleText } from "../parts/rule-text.ts";
import { instantText } from "../parts/text.ts";

/** For example "api: mode dry-run, until 22 Nov 2026, 18:30:00". */
export const stateText = (rule: AuditedRule): string => {
  const { expiresAt } = rule;
  const end = expiresAt === null ? "without an end" : `until ${instantText(expiresAt)}`;
  return `${ruleText(rule)}, ${end}`;
};

export const stepPlace = ({ rule: { policy, keyId } }: UndoStep): string => placeText(policy, keyId);
