/** Plans of changes of one rule, and how the result of a change is recognized whose answer was lost. */
import type { AuditedRule } from "./answers.ts";
import type { NewRule, RuleContent } from "./rule-input.ts";
import { contentOf } from "./undo-plan.ts";

export type RulePlan =
  | { readonly kind: "create"; readonly rule: NewRule }
  | { readonly kind: "replace"; readonly before: AuditedRule; readonly content: RuleContent }
  | { readonly kind: "remove"; readonly before: AuditedRule };

/**
 * Whether a rule is what a change made of an earlier revision, whose answer was lost.
 * @param before null for a new rule
 */
export function isResultOf(
  before: Pick<AuditedRule, "id" | "revision"> | null,
  content: RuleContent,
  rule: AuditedRule,
): boolean {
  const { expiresAt, note = null } = content;
  const isEndless = content.for === undefined && expiresAt === undefined;
  return (
    (before === null || rule.id === before.id) &&
    rule.revision === (before?.revision ?? 0) + 1 &&
    (rule.expiresAt === null) === isEndless &&
    JSON.stringify([contentOf(rule), rule.note]) === JSON.stringify([contentOf(content), note])
  );
}
